//! A cluster: hints between processes, slots that move, and a server that is gone for a while, or for
//! good.

mod away;
mod failover;
mod moving;

use crate::support::work::{claim, creation, key, transition};
use cairn_memory::port::*;
use cairn_memory::redis::{RedisConfig, RedisMode, RedisOptions, RedisStore};
use cairn_testkit::{RedisCluster, RedisServer};
use futures::StreamExt as _;
use std::time::{Duration, Instant};

/// The slot of `space/a`, by the tag p061, and one of its keys' servers.
const TAG: &str = "{p061}";

async fn open(cluster: &RedisCluster) -> RedisStore {
    let config = RedisConfig {
        urls: vec![cluster.servers[0].url().into()],
        mode: RedisMode::Cluster,
        ..RedisConfig::standalone("")
    };
    let store = RedisStore::open(&config, RedisOptions::default()).await;
    store.unwrap()
}

/// The places of the server that has the session `a`, and of another.
fn source_and_target(cluster: &RedisCluster) -> (usize, usize) {
    let has = |server: &RedisServer| server.ask(&["DBSIZE"]) != ":0\r\n";
    let source = cluster.servers.iter().position(|server| {
        has(server)
            && !server
                .ask(&["EXISTS", "cairn:{p061}:s:space/a"])
                .starts_with('-')
    });
    let source = source.unwrap();
    (source, (source + 1) % cluster.servers.len())
}

/// A slot on its way from one server to another, as `redis-cli --cluster reshard` moves it.
struct Move {
    source: usize,
    target: usize,
    slot: String,
}

impl Move {
    /// Moves the keys of the slot of session `a`.
    fn begin(cluster: &RedisCluster) -> Self {
        let (source, target) = source_and_target(cluster);
        let [from, to] = [source, target].map(|place| &cluster.servers[place]);
        let slot = from.ask(&["CLUSTER", "KEYSLOT", TAG]);
        let slot = slot.trim().trim_start_matches(':').to_owned();
        let moving = Self {
            source,
            target,
            slot,
        };
        moving.set(to, &["IMPORTING", &from.id()]);
        moving.set(from, &["MIGRATING", &to.id()]);
        let keys = from.ask(&["CLUSTER", "GETKEYSINSLOT", &moving.slot, "1000"]);
        let port = to.port().to_string();
        for key in keys.lines().filter(|line| line.contains(TAG)) {
            let moved = from.ask(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
            assert_eq!(moved, "+OK\r\n", "{key}");
        }
        moving
    }

    /// Tells both whose the slot is.
    fn end(self, cluster: &RedisCluster) {
        let [from, to] = [self.source, self.target].map(|place| &cluster.servers[place]);
        let owner = to.id();
        self.set(to, &["NODE", &owner]);
        self.set(from, &["NODE", &owner]);
    }

    /// The slot stays where it was, without what has been moved.
    fn give_up(self, cluster: &RedisCluster) {
        for place in [self.source, self.target] {
            self.set(&cluster.servers[place], &["STABLE"]);
        }
    }

    fn set(&self, server: &RedisServer, how: &[&str]) {
        let words = [&["CLUSTER", "SETSLOT", self.slot.as_str()], how].concat();
        assert_eq!(server.ask(&words), "+OK\r\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_on_a_cluster_follows_its_slots_and_does_without_a_server() {
    let mut cluster = RedisCluster::start();
    let (here, there) = (open(&cluster).await, open(&cluster).await);
    here.create(creation("a", Some("one"))).await.unwrap();
    let mut events = there.follow(&key("a"), 1).await.unwrap();
    assert_eq!(events.next().await, Some(Ok(Vec::new())));

    let mut late = Vec::new();
    for version in 0..10 {
        if version == 5 {
            queue(&here, "m", 12).await;
            let moving = Move::begin(&cluster);
            let amid = here.commit(transition("a", "one", version)).await;
            let Err(StoreError::Unavailable { reason }) = amid else {
                panic!("{amid:?}");
            };
            assert!(reason.contains("on its way"), "{reason}");
            claims_others(&there).await;
            moving.end(&cluster);
        }
        let start = Instant::now();
        here.commit(transition("a", "one", version)).await.unwrap();
        let batch = events.next().await.unwrap().unwrap();
        assert_eq!(batch[0].seq, 2 + version);
        // The first event, and the first after the move, may be found by looking.
        let took = start.elapsed();
        if !matches!(version, 0 | 5) && took >= Duration::from_millis(800) {
            late.push((version, took));
        }
    }
    // A follower that only looks finds all four of a half late; a busy machine makes few of them late.
    let before = late.iter().filter(|(version, _)| *version < 5).count();
    assert!(before <= 2 && late.len() - before <= 2, "{late:?}");

    // What other servers have is claimed while one is gone.
    queue(&here, "s", 30).await;
    let renewal = renewal(&here).await;
    cluster.servers[2].freeze();
    count_is_partial(&there).await;
    cluster.servers[2].kill();
    count_is_partial(&there).await;
    let all = ClaimRequest {
        max_sessions: 100,
        ..claim("three")
    };
    let first = there.claim(all.clone()).await.unwrap().claims.len();
    assert!((1..30).contains(&first), "{first}");
    let unanswered = renews_elsewhere(&here, &renewal).await;
    cluster.servers[2].start_again();
    let (mut claimed, start) = (first, Instant::now());
    while claimed < 30 {
        assert!(start.elapsed() < Duration::from_secs(30), "{claimed}");
        claimed += there.claim(all.clone()).await.unwrap().claims.len();
    }
    assert_eq!(claimed, 30);
    let sessions = unanswered;
    renew_all(
        &here,
        RenewRequest {
            sessions,
            ..renewal
        },
    )
    .await;
}

/// The count does not wait for the frozen server, whose silence ends a connection after five seconds.
async fn count_is_partial(store: &RedisStore) {
    let limit = Duration::from_secs(4);
    let Ok(counted) = tokio::time::timeout(limit, store.queued(Level::FIRST)).await else {
        panic!("the count waits for a frozen server");
    };
    let counted = counted.unwrap();
    assert!((1..30).contains(&counted), "{counted}");
}

/// Nobody else's session waits for a move, wherever it is.
async fn claims_others(store: &RedisStore) {
    let others = ClaimRequest {
        max_sessions: 100,
        lease_ms: 600_000,
        ..claim("four")
    };
    let claims = store.claim(others).await.unwrap().claims;
    assert_eq!(claims.len(), 12, "{claims:?}");
}

/// Makes sessions that can be claimed.
async fn queue(store: &RedisStore, prefix: &str, count: usize) {
    for number in 0..count {
        let session = format!("{prefix}{number}");
        store.create(creation(&session, Some("two"))).await.unwrap();
        let release = ReleaseRequest {
            key: key(&session),
            owner: "two".to_owned(),
            epoch: 1,
            delay_ms: 0,
        };
        store.release(release).await.unwrap();
    }
}

/// Sessions on all servers with an owner for a long time, and how their leases are renewed.
async fn renewal(store: &RedisStore) -> RenewRequest {
    let mut sessions = Vec::new();
    for number in 0..12 {
        let session = format!("r{number}");
        let create = creation(&session, Some("five"));
        store.create(create).await.unwrap();
        let (key, epoch) = (key(&session), 1);
        sessions.push(OwnedSession { key, epoch });
    }
    let renewal = RenewRequest {
        owner: "five".to_owned(),
        sessions,
        lease_ms: 600_000,
    };
    renew_all(store, renewal.clone()).await;
    renewal
}

async fn renew_all(store: &RedisStore, renewal: RenewRequest) {
    let renewed = store.renew(renewal).await.unwrap();
    assert_eq!((renewed.lost, renewed.unanswered), (vec![], vec![]));
}

/// Leases on servers that answer are renewed. Gives the sessions of those that do not.
async fn renews_elsewhere(store: &RedisStore, renewal: &RenewRequest) -> Vec<OwnedSession> {
    let renewed = store.renew(renewal.clone()).await.unwrap();
    assert_eq!(renewed.lost, vec![]);
    assert!(
        (1..12).contains(&renewed.unanswered.len()),
        "{:?}",
        renewed.unanswered
    );
    assert!(renewed.lease_until_unix_ms > renewed.now_unix_ms + 500_000);
    let is_away = |owned: &&OwnedSession| renewed.unanswered.contains(&owned.key);
    let away: Vec<_> = renewal.sessions.iter().filter(is_away).cloned().collect();
    let none = RenewRequest {
        sessions: away.clone(),
        ..renewal.clone()
    };
    let refused = store.renew(none).await;
    assert!(
        matches!(refused, Err(StoreError::Unavailable { .. })),
        "{refused:?}"
    );
    away
}
