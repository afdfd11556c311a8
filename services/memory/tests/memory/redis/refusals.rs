//! What a server refuses was not written, and is told with what to do about it.

use crate::documents::agents;
use crate::support::work::{claim, creation, key, transition};
use cairn_memory::port::*;
use cairn_memory::redis::{Formats, RedisConfig, RedisOptions, RedisStore};
use cairn_rpc::Principal;
use cairn_testkit::RedisServer;
use std::time::{Duration, Instant};

async fn start() -> (RedisServer, RedisStore) {
    let server = RedisServer::start();
    let config = RedisConfig::standalone(server.url());
    let store = RedisStore::open(&config, RedisOptions::default())
        .await
        .unwrap();
    (server, store)
}

fn reason<T: std::fmt::Debug>(outcome: StoreResult<T>) -> String {
    match outcome {
        Err(StoreError::Unavailable { reason }) => reason,
        outcome => panic!("{outcome:?}"),
    }
}

#[tokio::test]
async fn a_server_without_memory_writes_nothing_and_still_reads() {
    let (server, store) = start().await;
    store.create(creation("a", Some("one"))).await.unwrap();
    server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let told = reason(store.commit(transition("a", "one", 0)).await);
    assert!(told.contains("maxmemory"), "{told}");
    let told = reason(store.create(creation("b", None)).await);
    assert!(told.contains("OOM"), "{told}");
    assert_eq!(store.read(&key("a"), 0, 10).await.unwrap().last_seq, 1);
    // Making room needs none.
    store.delete(&key("a")).await.unwrap();
    server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(
        store.read(&key("b"), 0, 10).await,
        Err(StoreError::NotFound)
    );
    let created = store.create(creation("b", None)).await.unwrap();
    assert!(!created.duplicate);
}

/// Or retention would never make room where it is needed.
#[tokio::test]
async fn what_may_go_is_found_on_a_server_without_memory() {
    let (server, store) = start().await;
    for (session, time_to_live_ms) in [("short", Some(1)), ("long", Some(600_000))] {
        let create = Create {
            time_to_live_ms,
            ..creation(session, None)
        };
        store.create(create).await.unwrap();
    }
    server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    // Also again, as long as nobody has deleted it.
    for _ in 0..2 {
        let start = Instant::now();
        let mut idle = Vec::new();
        while idle.is_empty() {
            assert!(start.elapsed() < Duration::from_secs(30), "nothing may go");
            idle = store.idle(None, 10).await.unwrap();
        }
        let keys: Vec<_> = idle.into_iter().map(|it| it.key).collect();
        assert_eq!(keys, [key("short")]);
    }
    store.delete(&key("short")).await.unwrap();
    assert_eq!(store.idle(None, 10).await.unwrap(), []);
}

/// What a server has that was made a replica, may lack what its master had acknowledged.
#[tokio::test]
async fn a_replica_is_not_read_from() {
    let (server, store) = start().await;
    let a = key("a");
    store.create(creation("a", Some("one"))).await.unwrap();
    let blob = store
        .put_blob(&a, "blob".into(), BlobUse::Event)
        .await
        .unwrap();
    server.ask(&["REPLICAOF", "127.0.0.1", "1"]);
    let start = Instant::now();
    while store.read(&a, 0, 10).await.is_ok() {
        assert!(start.elapsed() < Duration::from_secs(30), "it is read");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let page = ListQuery::newest(10);
    for told in [
        reason(store.read(&a, 0, 10).await),
        reason(store.list("space", &page).await),
        reason(store.checkpoint(&a, 10).await),
        reason(store.get_blob(&a, &blob).await),
        reason(store.get_memory(&a, "key").await),
        reason(store.list_memory(&a).await),
        reason(store.transcript(&a, 0).await),
        reason(store.follow(&a, 0).await.map(|_| ())),
        reason(store.idle(None, 10).await),
        reason(store.claim(claim("two")).await),
        reason(store.waiting(10).await),
        reason(store.get_document(&agents(), "a").await),
        reason(store.list_documents(&agents(), 0, 10).await),
        reason(store.watch_documents(&agents(), None).await.map(|_| ())),
    ] {
        assert!(told.contains("is a replica"), "{told}");
    }
    server.ask(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(store.read(&a, 0, 10).await.unwrap().last_seq, 1);
}

/// It may be one for long, and whoever asks again is not to wait for it.
#[tokio::test]
async fn a_replica_is_told_as_one_each_time() {
    let (server, store) = start().await;
    store.create(creation("a", Some("one"))).await.unwrap();
    server.ask(&["REPLICAOF", "127.0.0.1", "1"]);
    for _ in 0..3 {
        let commit = store.commit(transition("a", "one", 0));
        let refused = tokio::time::timeout(Duration::from_secs(10), commit).await;
        let told = reason(refused.expect("an answer"));
        assert!(
            told.contains("is a replica: name the master, or the sentinels"),
            "{told}"
        );
        let read = tokio::time::timeout(Duration::from_secs(10), store.now()).await;
        read.expect("an answer").unwrap();
    }
    server.ask(&["REPLICAOF", "NO", "ONE"]);
    let committed = store.commit(transition("a", "one", 0)).await.unwrap();
    assert!(!committed.duplicate);
}

#[tokio::test]
async fn a_session_of_another_format_is_left_alone() {
    let (server, store) = start().await;
    store.create(creation("a", Some("one"))).await.unwrap();
    let release = ReleaseRequest {
        key: key("a"),
        owner: "one".to_owned(),
        epoch: 1,
        delay_ms: 0,
    };
    store.release(release).await.unwrap();
    server.ask(&["HSET", "cairn:{p061}:s:space/a", "f", "9"]);
    let a = key("a");
    let newer = || StoreError::Newer {
        found: "9".to_owned(),
    };
    assert_eq!(store.read(&a, 0, 1).await, Err(newer()));
    assert_eq!(store.create(creation("a", None)).await, Err(newer()));
    let committed = store.commit(transition("a", "one", 0)).await;
    assert_eq!(committed, Err(newer()));
    let cleared = store
        .write_memory(&a, MemoryWrite::Clear, &Principal::token())
        .await;
    assert_eq!(cleared, Err(newer()));
    assert_eq!(store.delete(&a).await, Err(newer()));
    assert_eq!(store.wake(&a).await, Err(newer()));
    assert!(store.claim(claim("two")).await.unwrap().claims.is_empty());
    assert_eq!(store.queued(Level::FIRST).await, Ok(1));
    server.ask(&["HSET", "cairn:{p061}:s:space/a", "f", "1"]);
    assert_eq!(store.claim(claim("two")).await.unwrap().claims[0].key, a);
}

/// Programs of two versions work on one store while one replaces the other.
#[tokio::test]
async fn a_program_works_on_every_format_of_its_range() {
    let server = RedisServer::start();
    let config = RedisConfig::standalone(server.url());
    let open = async |oldest, newest| {
        let options = RedisOptions {
            formats: Formats { oldest, newest },
            ..RedisOptions::default()
        };
        RedisStore::open(&config, options).await
    };
    let (old, new) = (open(1, 1).await.unwrap(), open(1, 2).await.unwrap());
    for (session, writer) in [("a", &old), ("b", &new)] {
        writer.create(creation(session, Some("one"))).await.unwrap();
    }
    let found = |format: &str| StoreError::Newer {
        found: format.to_owned(),
    };
    // A session keeps its format, whoever works on it.
    for version in 0..2 {
        new.commit(transition("a", "one", version)).await.unwrap();
    }
    old.commit(transition("a", "one", 2)).await.unwrap();
    assert_eq!(new.read(&key("a"), 0, 9).await.unwrap().last_seq, 4);
    assert_eq!(new.get_memory(&key("a"), "key").await, Ok(None));
    new.commit(transition("b", "one", 0)).await.unwrap();
    // The old program leaves alone what it does not know.
    let b = key("b");
    assert_eq!(old.read(&b, 0, 9).await, Err(found("2")));
    assert_eq!(old.get_memory(&b, "key").await, Err(found("2")));
    let committed = old.commit(transition("b", "one", 1)).await;
    assert_eq!(committed, Err(found("2")));
    assert_eq!(old.delete(&b).await, Err(found("2")));
    for session in ["a", "b"] {
        let release = ReleaseRequest {
            key: key(session),
            owner: "one".to_owned(),
            epoch: 1,
            delay_ms: 0,
        };
        new.release(release).await.unwrap();
    }
    let claims = old.claim(claim("two")).await.unwrap().claims;
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0].key, key("a"));
    let claims = new.claim(claim("two")).await.unwrap().claims;
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0].key, b);
    assert!(new.delete(&key("a")).await.unwrap());
    // A range may end before what there is, or begin after it.
    for (oldest, newest, knows) in [(2, 3, "knows formats 2 to 3"), (2, 2, "knows format 2")] {
        let refused = open(oldest, newest).await.unwrap_err().to_string();
        assert!(refused.contains("format \"1\""), "{refused}");
        assert!(refused.contains(knows), "{refused}");
    }
}
