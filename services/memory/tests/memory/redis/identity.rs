//! Servers that come to hold another store than the one that was opened: it is not worked on.

use crate::support::work::{claim, creation, key, transition};
use cairn_memory::port::*;
use cairn_memory::redis::{RedisConfig, RedisMode, RedisOptions, RedisStore};
use cairn_testkit::{RedisCluster, RedisServer};
use std::time::{Duration, Instant};

const META: &str = "cairn:{p000}:meta";

async fn open(config: &RedisConfig) -> RedisStore {
    let store = RedisStore::open(config, RedisOptions::default()).await;
    store.unwrap()
}

fn config_of(cluster: &RedisCluster) -> RedisConfig {
    RedisConfig {
        urls: cluster.urls().into_iter().map(Into::into).collect(),
        mode: RedisMode::Cluster,
        ..RedisConfig::standalone("")
    }
}

/// Waits until the store refuses what it is asked for this reason.
async fn is_refused(store: &RedisStore) {
    let start = Instant::now();
    loop {
        if let Err(error) = store.now().await
            && is_other_store(&error)
        {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "it is worked on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn is_other_store(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable { reason } if reason.contains("another store"))
}

/// No operation on any session happens, and the outage says why.
async fn nothing_is_done(store: &RedisStore, sessions: &[String]) {
    for session in sessions {
        let read = store.read(&key(session), 0, 10).await;
        assert!(is_other_store(&read.unwrap_err()), "{session}");
        let created = store
            .create(creation(&format!("new-{session}"), None))
            .await;
        assert!(is_other_store(&created.unwrap_err()), "{session}");
        let committed = store.commit(transition(session, "one", 0)).await;
        assert!(is_other_store(&committed.unwrap_err()), "{session}");
    }
    assert!(is_other_store(
        &store.claim(claim("one")).await.unwrap_err()
    ));
    let listed = store.list("space", &ListQuery::newest(10)).await;
    assert!(is_other_store(&listed.unwrap_err()));
    let mut outages = store.outages();
    let known = outages.wait_for(|it| it.iter().any(|why| why.contains("another store")));
    let known = tokio::time::timeout(Duration::from_secs(30), known).await;
    known.unwrap().unwrap();
}

#[tokio::test]
async fn a_server_with_another_store_is_not_worked_on() {
    let empty: &[&[&str]] = &[&["FLUSHALL"]];
    let other: &[&[&str]] = &[&["HSET", META, "id", "other"]];
    let lost: &[&[&str]] = &[&["DEL", META]];
    for (commands, starts_again) in [
        (empty, true),
        (empty, false),
        (other, true),
        (other, false),
        (lost, false),
    ] {
        let mut server = RedisServer::start();
        let config = RedisConfig::standalone(server.url());
        let store = open(&config).await;
        store.create(creation("a", Some("one"))).await.unwrap();
        for command in commands {
            server.ask(command);
        }
        if starts_again {
            server.start_again();
        }
        is_refused(&store).await;
        let keys = server.ask(&["DBSIZE"]);
        nothing_is_done(&store, &["a".to_owned()]).await;
        assert_eq!(server.ask(&["DBSIZE"]), keys, "{commands:?}");
        assert_eq!(*store.losses().borrow(), 1, "{commands:?}");
        // A process that starts now works with what is there, the other one does not.
        let anew = open(&config).await;
        anew.create(creation("b", None)).await.unwrap();
        is_refused(&store).await;
        // Nor when the id is back: what was there meanwhile is not known.
        server.ask(&["HSET", META, "id", store.id()]);
        nothing_is_done(&store, &["a".to_owned()]).await;
    }
}

#[tokio::test]
async fn a_cluster_whose_first_partition_has_another_store_is_not_worked_on_anywhere() {
    let cluster = RedisCluster::start();
    let store = open(&config_of(&cluster)).await;
    let sessions: Vec<_> = (0..12).map(|number| format!("s{number}")).collect();
    for session in &sessions {
        let created = store.create(creation(session, Some("one"))).await;
        created.unwrap();
    }
    for server in &cluster.servers {
        // The others say where it is.
        server.ask(&["HSET", META, "id", "other"]);
    }
    is_refused(&store).await;
    nothing_is_done(&store, &sessions).await;
}
