//! Session memory that versions before wrote, which knew keys and values alone.

use crate::support::work::{creation, key};
use cairn_memory::port::*;
use cairn_memory::redis::{RedisConfig, RedisOptions, RedisStore};
use cairn_rpc::Principal;
use cairn_testkit::RedisServer;

/// Does a command of such a version to the only session memory of a server.
fn before(server: &RedisServer, command: &str, words: &[&str]) {
    let keys = server.ask(&["KEYS", "cairn:*:s:space/a:m"]);
    let hash = keys.lines().last().unwrap();
    let answer = server.ask(&[&[command, hash][..], words].concat());
    assert!(!answer.starts_with('-'), "{answer}");
}

fn untimed(key: &str, value: &str) -> MemoryEntry {
    MemoryEntry {
        key: key.to_owned(),
        value: value.to_owned(),
        ..MemoryEntry::default()
    }
}

#[tokio::test]
async fn entries_without_times_are_read_and_get_times() {
    let server = RedisServer::start();
    let config = RedisConfig::standalone(server.url());
    let store = RedisStore::open(&config, RedisOptions::default()).await;
    let (store, a) = (store.unwrap(), key("a"));
    let set = async |key: &str, value: &str| {
        let set = MemoryWrite::set(key, value);
        let written = store.write_memory(&a, set, &Principal::token()).await;
        written.unwrap();
        store.get_memory(&a, key).await.unwrap().unwrap()
    };
    store.create(creation("a", None)).await.unwrap();
    let first = set("removed", "1").await;
    before(&server, "HSET", &["old", "1"]);
    before(&server, "HDEL", &["removed"]);
    let old = store.get_memory(&a, "old").await;
    assert_eq!(old, Ok(Some(untimed("old", "1"))));
    assert_eq!(store.get_memory(&a, "removed").await, Ok(None));
    let list = store.list_memory(&a).await.unwrap();
    assert_eq!(list.entries, [untimed("old", "1")]);

    let changed = set("old", "2").await;
    assert_eq!(changed.created_unix_ms, None);
    assert!(changed.updated_unix_ms >= first.updated_unix_ms);
    // It was absent.
    let again = set("removed", "2").await;
    assert_eq!(again.created_unix_ms, again.updated_unix_ms);
    let list = store.list_memory(&a).await.unwrap();
    assert_eq!(list.entries, [changed, again]);
}
