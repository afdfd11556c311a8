//! A clock that is wrong for a moment, and clocks of several servers that differ.

use crate::support::work::{claim, creation, key, transition};
use cairn_memory::port::*;
use cairn_memory::redis::{Durability, RedisConfig, RedisMode, RedisOptions, RedisStore};
use cairn_rpc::{BootClock, Clock, Monotonic};
use cairn_testkit::{RedisCluster, RedisServer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const START: u64 = 1_800_000_000_000;

#[derive(Debug)]
struct Settable(AtomicU64);

impl Clock for Settable {
    fn unix_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Monotonic for Settable {
    fn now(&self) -> Duration {
        BootClock.now()
    }
}

#[tokio::test]
async fn a_wrong_reading_of_the_clock_lasts_until_the_next() {
    let hour = 3_600_000;
    for wrong in [START + hour, START - hour] {
        let server = RedisServer::start();
        let clock = Arc::new(Settable(AtomicU64::new(START)));
        let options = RedisOptions {
            clock: Some(clock.clone()),
            ..RedisOptions::default()
        };
        let config = RedisConfig::standalone(server.url());
        let store = RedisStore::open(&config, options).await.unwrap();
        let set = |time| clock.0.store(time, Ordering::Relaxed);
        store.create(creation("a", Some("one"))).await.unwrap();
        set(wrong);
        assert_eq!(store.now().await, Ok(wrong.cast_signed()));
        set(START + 1000);
        let now = START.cast_signed() + 1000;
        assert_eq!(store.now().await, Ok(now));
        // The owner is not fenced: by the time that it is given its lease has only begun.
        let committed = store.commit(transition("a", "one", 0)).await.unwrap();
        let ends = Some(now + 10_000);
        assert_eq!(
            (committed.now_unix_ms, committed.lease_until_unix_ms),
            (now, ends)
        );
        let release = ReleaseRequest {
            key: key("a"),
            owner: "one".to_owned(),
            epoch: 1,
            delay_ms: 0,
        };
        store.release(release).await.unwrap();
        let claims = store.claim(claim("two")).await.unwrap();
        assert_eq!(claims.claims[0].key, key("a"));
        assert_eq!(claims.claims[0].lease.until_unix_ms, now + 10_000);
        assert_eq!(claims.now_unix_ms, now);
    }
}

/// A third of the lease that is asked for is more than that.
const AHEAD: Duration = Duration::from_secs(20);

/// Waits until what keeps the store from its work is so.
async fn becomes(store: &RedisStore, what: impl Fn(&str) -> bool) {
    let mut outages = store.outages();
    let known = outages.wait_for(|outages| what(&outages.join("; ")));
    let known = tokio::time::timeout(Duration::from_secs(60), known).await;
    known.unwrap().unwrap();
}

/// The time is that of most servers, also where leases are renewed at all of them.
async fn most_servers_decide(cluster: &RedisCluster, store: &RedisStore) {
    let time = cluster.servers[0].ask(&["TIME"]);
    let seconds = time.lines().find_map(|line| line.parse::<i64>().ok());
    let soon = (seconds.unwrap() + 10) * 1000;
    assert!(store.now().await.unwrap() < soon);
    let owned = |number: u32| {
        let created = creation(&format!("owned-{number}"), Some("one"));
        let key = created.key.clone();
        async move {
            let lease = store.create(created).await.unwrap().lease.unwrap();
            OwnedSession {
                key,
                epoch: lease.epoch,
            }
        }
    };
    let request = RenewRequest {
        owner: "one".to_owned(),
        lease_ms: 15_000,
        sessions: futures::future::join_all((0..32).map(owned)).await,
    };
    let renewed = store.renew(request).await.unwrap();
    let is_whole = renewed.lost.is_empty() && renewed.unanswered.is_empty();
    assert!(is_whole, "{renewed:?}");
    assert!(renewed.now_unix_ms < soon);
    let lasts = renewed.lease_until_unix_ms - renewed.now_unix_ms;
    assert!((10_000..=15_000).contains(&lasts), "{lasts}");
}

/// Leases by the clocks of the others would be over for their owners before they began.
#[tokio::test]
async fn nothing_is_claimed_as_long_as_the_clocks_of_a_cluster_differ() {
    let mut cluster = RedisCluster::start();
    cluster.servers[2].start_again_ahead(AHEAD);
    cluster.wait_until_whole();
    let config = RedisConfig {
        urls: cluster.urls().into_iter().map(Into::into).collect(),
        mode: RedisMode::Cluster,
        ..RedisConfig::standalone("")
    };
    let ahead = format!(
        "the clock of redis at 127.0.0.1:{} is ",
        cluster.servers[2].port()
    );
    let store = RedisStore::open(&config, RedisOptions::default())
        .await
        .unwrap();
    for session in ["a", "b", "c", "d"] {
        let created = Create {
            last_command_seq: 1,
            ..creation(session, None)
        };
        store.create(created).await.unwrap();
    }
    // More often than a session may be claimed without progress.
    for _ in 0..6 {
        let refused = store.claim(claim("one")).await;
        let Err(StoreError::Unavailable { reason }) = refused else {
            panic!("{refused:?}");
        };
        assert!(reason.contains(&ahead), "{reason}");
    }
    becomes(&store, |why| why.contains(&ahead)).await;
    most_servers_decide(&cluster, &store).await;
    let Ok(Durability::Degraded { reasons }) = RedisStore::examine(&config).await else {
        panic!("nothing is found");
    };
    assert!(reasons.join("; ").contains(&ahead), "{reasons:?}");

    cluster.servers[2].start_again_ahead(Duration::ZERO);
    cluster.wait_until_whole();
    becomes(&store, str::is_empty).await;
    let examined = RedisStore::examine(&config).await;
    assert_eq!(examined.unwrap(), Durability::Durable);
    // The same process claims at once.
    let claims = store.claim(claim("two")).await.unwrap().claims;
    assert!(!claims.is_empty());
}
