//! Servers that come back with less than they had acknowledged: everybody who knew of it is told.

mod accepted;
mod documents;
mod in_place;
mod past;
mod refused;

use crate::support::work::{claim, creation, key, transition};
use bytes::Bytes;
use cairn_memory::port::*;
use cairn_memory::redis::{RedisConfig, RedisMode, RedisOptions, RedisStore};
use cairn_rpc::Principal;
use cairn_testkit::{RedisSentinel, RedisServer, TestStore};
use futures::StreamExt as _;
use std::time::{Duration, Instant};

async fn open(config: &RedisConfig) -> RedisStore {
    RedisStore::open(config, RedisOptions::default())
        .await
        .unwrap()
}

fn watched_over(servers: &RedisSentinel) -> RedisConfig {
    RedisConfig {
        mode: RedisMode::Sentinel,
        master: Some(RedisSentinel::MASTER.to_owned()),
        ..RedisConfig::standalone(servers.url())
    }
}

fn found(servers: &TestStore) -> RedisConfig {
    serde_json::from_value(servers.config()["redis"].take()).unwrap()
}

pub(super) fn command(session: &str) -> AppendCommand {
    AppendCommand {
        repeat_only: false,
        lease: None,
        operation_id: String::new(),
        needs: Level::FIRST,
        level: Level::FIRST,
        key: key(session),
        request: RequestId {
            id: "command".to_owned(),
            digest: Bytes::from("digest"),
        },
        event: Bytes::from("command"),
    }
}

/// A client sets a key of session memory.
async fn remember(store: &RedisStore, session: &SessionKey, value: &str) -> StoreResult<u64> {
    let set = MemoryWrite::set("key", value);
    store.write_memory(session, set, &Principal::token()).await
}

/// Asks again until a server answers.
pub(super) async fn answered<T, F: Future<Output = StoreResult<T>>>(
    ask: impl Fn() -> F,
) -> StoreResult<T> {
    let start = Instant::now();
    loop {
        match ask().await {
            Err(StoreError::Unavailable { .. } | StoreError::Unknown { .. }) => {
                assert!(start.elapsed() < RedisSentinel::PATIENCE, "no failover");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            answer => return answer,
        }
    }
}

pub(super) async fn quarantine(store: &RedisStore) -> Vec<String> {
    let all = ListQuery::newest(100);
    let listed = answered(|| store.list("space", &all)).await.unwrap();
    let aside = listed
        .sessions
        .into_iter()
        .filter(|it| it.quarantined == Some(Quarantine::WritesLost));
    let mut aside: Vec<_> = aside.map(|it| it.session).collect();
    aside.sort();
    aside
}

/// Follows a session from its beginning up to what there is.
pub(super) async fn caught_up(store: &RedisStore, session: &str) -> EventStream {
    let mut events = store.follow(&key(session), 0).await.unwrap();
    while !events.next().await.unwrap().unwrap().is_empty() {}
    events
}

/// Whoever has seen so many events learns how many of them there are, and follows again until a server answers.
async fn is_told(
    store: &RedisStore,
    session: &str,
    mut follower: EventStream,
    known: u64,
    stored: u64,
) {
    let key = key(session);
    let told = loop {
        match follower.next().await {
            Some(Err(StoreError::Unavailable { .. } | StoreError::Unknown { .. })) => {
                let again = || store.follow(&key, known);
                match answered(again).await {
                    Ok(stream) => follower = stream,
                    Err(error) => break Some(Err(error)),
                }
            }
            told => break told,
        }
    };
    let lost = StoreError::WentBack { known, stored };
    assert_eq!(told, Some(Err(lost)));
}

#[tokio::test]
async fn a_failover_that_loses_acknowledged_writes_is_told_to_all_who_knew_of_them() {
    is_told_to_all(TestStore::sentinel()).await;
}

#[tokio::test]
async fn a_failover_in_a_cluster_that_loses_writes_is_told_to_all_who_knew_of_them() {
    is_told_to_all(TestStore::cluster_with_replicas()).await;
}

/// One master of a cluster has all of these sessions.
async fn is_told_to_all(mut servers: TestStore) {
    let config = found(&servers);
    let (store, elsewhere) = (open(&config).await, open(&config).await);
    for session in ["owned", "followed", "idle", "deleted", "untouched"] {
        store.create(creation(session, Some("one"))).await.unwrap();
        let first = store.commit(transition(session, "one", 0)).await;
        assert_eq!(first.unwrap().first_seq, 2);
    }
    servers.wait_until_replicated();
    servers.cut_off_replica("space/owned");
    for session in ["owned", "followed"] {
        store.commit(transition(session, "one", 1)).await.unwrap();
    }
    assert_eq!(store.append_command(command("idle")).await.unwrap().seq, 3);
    assert!(store.delete(&key("deleted")).await.unwrap());
    store.create(creation("late", None)).await.unwrap();
    // Another process knows of it only because somebody follows there.
    let followers = [
        (&store, caught_up(&store, "followed").await),
        (&elsewhere, caught_up(&elsewhere, "followed").await),
    ];
    assert_eq!(*store.losses().borrow(), 0);
    servers.kill_master("space/owned");

    let third = answered(|| store.commit(transition("owned", "one", 2))).await;
    let behind = StoreError::WentBack {
        known: 2,
        stored: 1,
    };
    assert_eq!(third, Err(behind));
    for (store, follower) in followers {
        is_told(store, "followed", follower, 3, 2).await;
    }
    assert_eq!(*store.losses().borrow(), 5);
    assert_eq!(*elsewhere.losses().borrow(), 1);
    let gone = store.read(&key("late"), 0, 10).await;
    assert_eq!(gone, Err(StoreError::NotFound));
    // Nobody continues from the older state before somebody has looked at it.
    let want = ["deleted", "followed", "idle", "owned"];
    assert_eq!(quarantine(&store).await, want);
    assert!(
        store
            .append_command(command("idle"))
            .await
            .unwrap()
            .quarantined
    );
    let claims = store.claim(claim("two")).await.unwrap().claims;
    assert_eq!(claims, []);
    // What lost nothing continues.
    let second = store.commit(transition("untouched", "one", 1)).await;
    assert_eq!(second.unwrap().first_seq, 3);
    // An operator lets it go on from where it is.
    let idle = key("idle");
    let unaware = store.release_quarantine(&idle, false).await;
    assert_eq!(unaware, Err(StoreError::WritesLost));
    store.release_quarantine(&idle, true).await.unwrap();
    let claims = store.claim(claim("two")).await.unwrap().claims;
    assert_eq!(claims[0].key, key("idle"));
    assert_eq!(*store.losses().borrow(), 5);
}

#[tokio::test]
async fn a_server_that_comes_back_with_all_is_nothing_to_tell_of() {
    let mut server = RedisServer::start();
    let config = RedisConfig::standalone(server.url());
    let (store, elsewhere) = (open(&config).await, open(&config).await);
    store.create(creation("a", Some("one"))).await.unwrap();
    store.create(creation("b", None)).await.unwrap();
    store.create(creation("c", None)).await.unwrap();
    store.delete(&key("b")).await.unwrap();
    let mut follower = caught_up(&store, "a").await;
    for version in 0..5 {
        server.start_again();
        let next = answered(|| store.commit(transition("a", "one", version))).await;
        assert_eq!(next.unwrap().first_seq, 2 + version);
        let seen = follower.next().await.unwrap().unwrap();
        assert_eq!(seen[0].seq, 2 + version);
        // What is sent again may be different each time, and only the first is stored: who has seen
        // only the repeat does not know what is.
        let again = Commit {
            events: vec![Bytes::from(format!("again {version}"))],
            ..transition("a", "one", version)
        };
        let again = answered(|| elsewhere.commit(again.clone())).await;
        assert!(again.unwrap().duplicate);
        let again = AppendCommand {
            event: Bytes::from(format!("command {version}")),
            ..command("c")
        };
        let first = store.append_command(command("c")).await.unwrap();
        let again = elsewhere.append_command(again).await.unwrap();
        assert_eq!((first.duplicate, first.seq), (version > 0, 2));
        assert_eq!((again.duplicate, again.seq), (true, 2));
        // The store adds the time to these.
        if version == 4 {
            assert_eq!(remember(&store, &key("c"), "value").await, Ok(3));
        }
    }
    server.start_again();
    for store in [&store, &elsewhere] {
        answered(|| store.now()).await.unwrap();
        assert_eq!(*store.losses().borrow(), 0);
    }
    assert_eq!(quarantine(&store).await, [""; 0]);
}
