//! A clock that is set back, as by a failover to a server whose clock is late, and clocks of several
//! servers that differ.

use crate::support::work::{claim, creation, key};
use cairn_memory::port::*;
use cairn_memory::redis::{Durability, RedisConfig, RedisMode, RedisOptions, RedisStore};
use cairn_rpc::Clock;
use cairn_testkit::{RedisCluster, RedisServer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const START: u64 = 1_800_000_000_000;

#[derive(Debug)]
struct Settable(AtomicU64);

impl Clock for Settable {
    fn unix_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn instant(&self) -> Instant {
        Instant::now()
    }
}

#[tokio::test]
async fn nothing_is_claimed_by_a_clock_that_was_set_back() {
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
    set(START + 15_000);
    assert_eq!(store.now().await, Ok(15_000 + START.cast_signed()));
    set(START - 5_000);
    let release = ReleaseRequest {
        key: key("a"),
        owner: "one".to_owned(),
        epoch: 1,
        delay_ms: 0,
    };
    store.release(release).await.unwrap();

    // More often than a session may be claimed without progress.
    for _ in 0..6 {
        let refused = store.claim(claim("two")).await;
        let Err(StoreError::Unavailable { reason }) = refused else {
            panic!("{refused:?}");
        };
        assert!(reason.contains("20000 ms behind"), "{reason}");
    }
    // Who asks only for news is not concerned.
    let news = ClaimRequest {
        max_sessions: 0,
        ..claim("two")
    };
    assert_eq!(store.claim(news).await.unwrap().claims, vec![]);

    // A little may always be missing.
    set(START + 13_000);
    let claims = store.claim(claim("two")).await.unwrap();
    assert_eq!(claims.claims.len(), 1);
    assert_eq!(claims.claims[0].key, key("a"));
    assert!(claims.claims[0].lease.until_unix_ms > claims.now_unix_ms);
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
    let Ok(Durability::Degraded { reasons }) = RedisStore::examine(&config).await else {
        panic!("nothing is found");
    };
    assert!(reasons.join("; ").contains(&ahead), "{reasons:?}");

    cluster.servers[2].start_again_ahead(Duration::ZERO);
    cluster.wait_until_whole();
    becomes(&store, str::is_empty).await;
    let examined = RedisStore::examine(&config).await;
    assert_eq!(examined.unwrap(), Durability::Durable);
    // What was told by the wrong clock holds until the others have caught up, for who was told.
    let other = RedisStore::open(&config, RedisOptions::default()).await;
    let claims = other.unwrap().claim(claim("two")).await.unwrap().claims;
    assert!(!claims.is_empty());
}
