//! Large sessions that are deleted: what they had is removed in slices, so that no transition waits for it.

use crate::support::work::{creation, key, transition};
use bytes::Bytes;
use cairn_memory::port::*;
use cairn_memory::sqlite::{SqliteOptions, SqliteStore};
use rusqlite::Connection;
use std::path::Path;
use std::time::{Duration, Instant};

const BLOBS: usize = 32;

/// Events and blobs that the file has, whosever they are.
fn rows(path: &Path) -> [usize; 2] {
    let conn = Connection::open(path).unwrap();
    let count = |table: &str| {
        let sql = format!("SELECT count(*) FROM {table}");
        let count: i64 = conn.query_row(&sql, [], |row| row.get(0)).unwrap();
        usize::try_from(count).unwrap()
    };
    ["journal", "blob"].map(count)
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(30), "not so: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A session with 32 blobs of 256 KiB.
async fn large(store: &SqliteStore, session: &str) {
    store.create(creation(session, Some("one"))).await.unwrap();
    store.commit(transition(session, "one", 0)).await.unwrap();
    for number in 0..BLOBS {
        let byte = u8::try_from(number).unwrap();
        let blob = Bytes::from(vec![byte; 256 * 1024]);
        store
            .put_blob(&key(session), blob, BlobUse::Event)
            .await
            .unwrap();
    }
}

/// The store is closed right after the deletion: so nothing is removed by then but what the deletion
/// itself removed.
#[tokio::test]
async fn a_deletion_does_not_wait_for_what_it_removes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cairn.db");
    let open = || SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    let store = open();
    large(&store, "large").await;
    store.create(creation("other", Some("one"))).await.unwrap();
    let large = key("large");
    let (deleted, ()) = tokio::join!(store.delete(&large), store.close());
    assert_eq!(deleted, Ok(true));
    drop(store);
    let [_, blobs] = rows(&path);
    assert_ne!(blobs, 0);

    // The next process goes on with it, and serves meanwhile.
    let store = open();
    let ended = || StoreError::Terminal(End::Deleted);
    assert_eq!(store.read(&large, 0, 10).await, Err(ended()));
    let created = store.create(creation("large", None)).await;
    assert_eq!(created, Err(ended()));
    store.commit(transition("other", "one", 0)).await.unwrap();
    until("all is removed", || rows(&path) == [2, 0]);
    assert_eq!(store.read(&large, 0, 10).await, Err(ended()));
    assert_eq!(store.read(&key("other"), 0, 10).await.unwrap().last_seq, 2);
}

/// Where a file may not grow, room is made before a write is refused.
#[tokio::test]
async fn a_store_that_is_full_has_room_right_after_a_deletion() {
    let options = SqliteOptions {
        // 12 MiB: there is room for one session, and not for two.
        max_pages: Some(3_000),
        ..SqliteOptions::default()
    };
    let store = SqliteStore::in_memory(options).unwrap();
    for round in 0..3 {
        let session = format!("s{round}");
        large(&store, &session).await;
        assert_eq!(store.delete(&key(&session)).await, Ok(true));
    }
}
