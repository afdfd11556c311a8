//! Checks that are taken out are out, in both stores, so that tests of tests prove something.

#![cfg(debug_assertions)]

use crate::support::work::{creation, key, transition};
use cairn_memory::port::*;
use cairn_memory::redis::{RedisConfig, RedisOptions, RedisStore};
use cairn_memory::sabotage::Sabotage;
use cairn_memory::sqlite::{SqliteOptions, SqliteStore};
use cairn_testkit::RedisServer;
use std::sync::Arc;

async fn both(server: &RedisServer, sabotage: Sabotage) -> [Arc<dyn Store>; 2] {
    let options = RedisOptions {
        sabotage,
        ..RedisOptions::default()
    };
    let config = RedisConfig::standalone(server.url());
    let redis = RedisStore::open(&config, options).await.unwrap();
    let options = SqliteOptions {
        sabotage,
        ..SqliteOptions::default()
    };
    let sqlite = SqliteStore::in_memory(options).unwrap();
    [Arc::new(redis), Arc::new(sqlite)]
}

#[tokio::test]
async fn without_fencing_anybody_writes() {
    let server = RedisServer::start();
    let fencing = Sabotage {
        fencing: true,
        ..Sabotage::default()
    };
    for store in both(&server, fencing).await {
        store.create(creation("a", Some("one"))).await.unwrap();
        store.commit(transition("a", "one", 0)).await.unwrap();
        let stale = Commit {
            epoch: 7,
            seen_seq: 1,
            operation_id: "another".to_owned(),
            ..transition("a", "two", 0)
        };
        assert_eq!(store.commit(stale).await.unwrap().first_seq, 3);
        let page = store.read(&key("a"), 0, 10).await.unwrap();
        assert_eq!((page.version, page.last_seq), (2, 3));
    }
}

#[tokio::test]
async fn without_the_look_for_duplicates_what_is_sent_again_is_made_again() {
    let server = RedisServer::start();
    let duplicates = Sabotage {
        duplicates: true,
        ..Sabotage::default()
    };
    for store in both(&server, duplicates).await {
        store.create(creation("a", Some("one"))).await.unwrap();
        for first_seq in [2, 3] {
            let committed = store.commit(transition("a", "one", 0)).await.unwrap();
            assert_eq!(
                (committed.duplicate, committed.first_seq),
                (false, first_seq)
            );
        }
        let fenced = store.commit(transition("a", "two", 1)).await;
        assert_eq!(fenced, Err(StoreError::Fenced));
    }
}
