//! Sentinels: the store continues at the replica when the master is gone.

use crate::support::work::{creation, key, transition};
use cairn_memory::port::*;
use cairn_memory::redis::{RedisConfig, RedisMode, RedisOptions, RedisStore};
use cairn_testkit::RedisSentinel;
use std::time::{Duration, Instant};

async fn open(servers: &RedisSentinel) -> RedisStore {
    let config = RedisConfig {
        mode: RedisMode::Sentinel,
        master: Some(RedisSentinel::MASTER.to_owned()),
        ..RedisConfig::standalone(servers.url())
    };
    let store = RedisStore::open(&config, RedisOptions::default()).await;
    store.unwrap()
}

/// Commits as soon as somebody takes it.
async fn after_failover(store: &RedisStore, commit: Commit) -> Committed {
    let start = Instant::now();
    loop {
        match store.commit(commit.clone()).await {
            Ok(committed) => return committed,
            Err(StoreError::Unavailable { .. } | StoreError::Unknown { .. }) => {
                assert!(start.elapsed() < RedisSentinel::PATIENCE, "no failover");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Whoever named one sentinel did not mean that all depends on it.
#[tokio::test]
async fn a_failover_is_followed_although_the_sentinel_that_was_named_is_gone() {
    let mut servers = RedisSentinel::with_sentinels(3);
    let store = open(&servers).await;
    store.create(creation("a", Some("one"))).await.unwrap();
    servers.wait_until_replicated();
    servers.kill_sentinel();
    servers.master.kill();
    let committed = after_failover(&store, transition("a", "one", 0)).await;
    assert_eq!((committed.duplicate, committed.first_seq), (false, 2));
    assert!(servers.replica.ask(&["ROLE"]).contains("master"));
}

#[tokio::test]
async fn the_store_goes_on_at_the_replica_when_the_master_is_killed() {
    let mut servers = RedisSentinel::start();
    let store = open(&servers).await;
    store.create(creation("a", Some("one"))).await.unwrap();
    store.commit(transition("a", "one", 0)).await.unwrap();
    // What the replica has not got yet is lost with the master.
    servers.wait_until_replicated();
    servers.master.kill();
    let committed = after_failover(&store, transition("a", "one", 1)).await;
    assert_eq!((committed.duplicate, committed.first_seq), (false, 3));
    let page = store.read(&key("a"), 0, 10).await.unwrap();
    assert_eq!((page.last_seq, page.version), (3, 2));
    assert!(servers.replica.ask(&["ROLE"]).contains("master"));
    // Nothing was lost, so nothing is told.
    assert_eq!(*store.losses().borrow(), 0);
    assert_eq!(page.quarantined, None);
}
