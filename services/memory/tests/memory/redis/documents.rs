//! Documents on servers of Redis: notices between processes, servers that are killed, and servers that keep
//! their history to themselves. Failovers that lose documents are among `lost_writes`.

use super::lost_writes::answered;
use crate::documents::{
    agents, few, operations_are_forgotten, position, refusal, shown, tombstones_are_bounded, write,
};
use cairn_memory::port::*;
use cairn_memory::redis::{RedisConfig, RedisOptions, RedisStore};
use cairn_testkit::RedisServer;
use futures::StreamExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Below the second after which each store looks by itself.
const SOON: Duration = Duration::from_millis(800);

async fn open(url: String) -> RedisStore {
    let config = RedisConfig::standalone(url);
    let store = RedisStore::open(&config, RedisOptions::default()).await;
    store.unwrap()
}

/// Opens a store as a user with these rights alone.
async fn open_as(server: &RedisServer, rights: &[&str]) -> RedisStore {
    let user = [
        "ACL", "SETUSER", "some", "on", ">secret", "~*", "&*", "+@all",
    ];
    assert_eq!(server.ask(&[&user[..], rights].concat()), "+OK\r\n");
    open(format!("redis://some:secret@127.0.0.1:{}", server.port())).await
}

/// The versions of the next batch.
async fn next(changes: &mut DocumentStream) -> Vec<u64> {
    let batch = tokio::time::timeout(Duration::from_secs(30), changes.next()).await;
    let batch = batch.unwrap().unwrap().unwrap();
    batch.documents.iter().map(|it| it.version).collect()
}

#[tokio::test]
async fn old_tombstones_give_way_where_there_are_too_many() {
    let server = RedisServer::start();
    let options = RedisOptions {
        limits: few(),
        ..RedisOptions::default()
    };
    let store = RedisStore::open(&RedisConfig::standalone(server.url()), options).await;
    tombstones_are_bounded(&store.unwrap()).await;
}

#[tokio::test]
async fn a_retry_is_a_new_write_after_a_thousand_others() {
    let server = RedisServer::start();
    operations_are_forgotten(&open(server.url()).await).await;
    // What is forgotten takes no room.
    let keys = server.ask(&["KEYS", "cairn:*:d:space/agent:?"]);
    let is_one = |line: &&str| line.ends_with(":o") || line.ends_with(":r");
    let remembered: Vec<_> = keys.lines().filter(is_one).collect();
    assert_eq!(remembered.len(), 2, "{keys}");
    for key in remembered {
        assert_eq!(server.ask(&["HLEN", key]), ":1000\r\n", "{key}");
    }
}

#[tokio::test]
async fn a_watcher_hears_of_documents_that_another_process_writes() {
    let server = RedisServer::start();
    let (here, there) = (open(server.url()).await, open(server.url()).await);
    let mut changes = there.watch_documents(&agents(), None).await.unwrap();
    assert_eq!(next(&mut changes).await, [0; 0]);
    let mut late = Vec::new();
    for number in 1..=20 {
        let operation = format!("put-{number}");
        let put = write("a", Some("value"), &operation);
        here.write_document(put).await.unwrap();
        let start = Instant::now();
        assert_eq!(next(&mut changes).await, [number]);
        late.extend((start.elapsed() >= SOON).then_some(number));
    }
    assert!(late.len() < 10, "{late:?}");
}

#[tokio::test]
async fn no_document_is_missed_without_any_hints() {
    let server = RedisServer::start();
    let here = open(server.url()).await;
    let deaf = open_as(&server, &["-ssubscribe"]).await;
    let mut changes = deaf.watch_documents(&agents(), None).await.unwrap();
    assert_eq!(next(&mut changes).await, [0; 0]);
    here.write_document(write("a", Some("1"), "put"))
        .await
        .unwrap();
    assert_eq!(next(&mut changes).await, [1]);
}

/// The id of the store stands for that of the history.
#[tokio::test]
async fn documents_are_watched_at_a_server_that_does_not_say_whose_writes_it_has() {
    let server = RedisServer::start();
    let store = open_as(&server, &["-info"]).await;
    let mut changes = store.watch_documents(&agents(), None).await.unwrap();
    assert_eq!(next(&mut changes).await, [0; 0]);
    store
        .write_document(write("a", Some("1"), "put"))
        .await
        .unwrap();
    assert_eq!(next(&mut changes).await, [1]);
    let known = position(&store).await;
    assert_eq!(known.incarnation, store.id());
    assert_eq!(refusal(&store, &known).await, None);
    let beyond = Position {
        counter: 2,
        ..known
    };
    assert_eq!(refusal(&store, &beyond).await, Some(StoreError::Relist));
}

#[tokio::test]
async fn documents_of_another_format_are_left_alone() {
    let server = RedisServer::start();
    let store = open(server.url()).await;
    store
        .write_document(write("a", Some("1"), "put"))
        .await
        .unwrap();
    let keys = server.ask(&["KEYS", "cairn:*:d:space/agent"]);
    let key = keys.lines().last().unwrap().to_owned();
    server.ask(&["HSET", &key, "f", "9"]);
    let newer = || StoreError::Newer {
        found: "9".to_owned(),
    };
    let found = store.get_document(&agents(), "a").await;
    assert_eq!(found, Err(newer()));
    let listed = store.list_documents(&agents(), 0, 10).await;
    assert_eq!(listed, Err(newer()));
    assert_eq!(
        store.watch_documents(&agents(), None).await.err(),
        Some(newer())
    );
    let written = store.write_document(write("a", Some("2"), "again")).await;
    assert_eq!(written, Err(newer()));
    assert_eq!(store.purge_documents(10).await, Ok(0));
    server.ask(&["HSET", &key, "f", "1"]);
    assert_eq!(shown(&store).await, "1:a=1");
}

#[tokio::test]
async fn a_document_can_be_deleted_on_a_server_without_memory() {
    let server = RedisServer::start();
    let store = open(server.url()).await;
    store
        .write_document(write("a", Some("1"), "put"))
        .await
        .unwrap();
    server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = store.write_document(write("b", Some("1"), "b")).await;
    assert!(
        matches!(refused, Err(StoreError::Unavailable { .. })),
        "{refused:?}"
    );
    let deleted = store.write_document(write("a", None, "delete")).await;
    assert_eq!(deleted.unwrap().version, 2);
    assert_eq!(shown(&store).await, "2:-a");
}

#[tokio::test]
async fn bytes_that_change_on_the_server_are_reported() {
    let server = RedisServer::start();
    let store = open(server.url()).await;
    for id in ["a", "b"] {
        store
            .write_document(write(id, Some("value"), id))
            .await
            .unwrap();
    }
    let keys = server.ask(&["KEYS", "cairn:*:d:space/agent:v"]);
    let key = keys.lines().last().unwrap().to_owned();
    let swap = "local k, a = KEYS[1], redis.call('HGET', KEYS[1], 'a') \
        return redis.call('HSET', k, 'b', a)";
    server.ask(&["EVAL", swap, "1", &key]);
    let damaged = StoreError::Damaged(Stored::Document("b".to_owned()));
    assert_eq!(
        store.get_document(&agents(), "b").await,
        Err(damaged.clone())
    );
    assert_eq!(store.list_documents(&agents(), 0, 10).await, Err(damaged));
    assert!(store.get_document(&agents(), "a").await.is_ok());
}

/// Puts documents until it is told to stop, and asks again whatever got no answer. Answers how many.
async fn put_on(store: Arc<RedisStore>, stop: Arc<AtomicBool>) -> u64 {
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let (id, operation) = (format!("d{}", count % 5), format!("put-{count}"));
        let put = write(&id, Some(&operation), &operation);
        let written = answered(|| store.write_document(put.clone()))
            .await
            .unwrap();
        count += 1;
        // Each happened once.
        assert_eq!(written.version, count);
    }
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_loses_and_doubles_no_document() {
    let mut server = RedisServer::start();
    let store = Arc::new(open(server.url()).await);
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(put_on(store.clone(), stop.clone()));
    let collection = agents();
    let counter = async || {
        let head = answered(|| store.document_head(&collection)).await;
        head.unwrap().counter
    };
    for _ in 0..5 {
        let before = counter().await;
        while counter().await < before + 20 {
            tokio::task::yield_now().await;
        }
        server.kill();
        server.start_again();
    }
    stop.store(true, Ordering::Relaxed);
    let count = writer.await.unwrap();
    assert_eq!(counter().await, count);
    let page = store.list_documents(&agents(), 0, 10).await.unwrap();
    let versions: Vec<_> = page.documents.iter().map(|it| it.version).collect();
    let want: Vec<_> = (count - 4..=count).collect();
    assert_eq!(versions, want);
}
