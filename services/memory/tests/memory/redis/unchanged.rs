//! Session memory that does not change is not read whole again and again, and is never old.

use crate::support::work::{creation, key};
use cairn_memory::port::*;
use cairn_memory::redis::{RedisConfig, RedisOptions, RedisStore};
use cairn_rpc::Principal;
use cairn_testkit::RedisServer;

async fn open(server: &RedisServer) -> RedisStore {
    let config = RedisConfig::standalone(server.url());
    RedisStore::open(&config, RedisOptions::default())
        .await
        .unwrap()
}

fn set(value: &str) -> MemoryWrite {
    MemoryWrite::set("key", value)
}

/// How often session memory was read whole.
fn whole_reads(server: &RedisServer) -> u64 {
    let statistics = server.ask(&["INFO", "commandstats"]);
    let line = statistics.lines().find(|it| it.contains("hgetall"));
    let calls = line.and_then(|it| it.split(['=', ',']).nth(1));
    calls.map_or(0, |calls| calls.parse().unwrap())
}

async fn values(store: &RedisStore, session: &str) -> Vec<String> {
    let list = store.list_memory(&key(session)).await.unwrap();
    list.entries.into_iter().map(|entry| entry.value).collect()
}

#[tokio::test]
async fn what_was_the_same_twice_is_not_read_whole_until_it_changes() {
    let server = RedisServer::start();
    let (here, there) = (open(&server).await, open(&server).await);
    here.create(creation("a", None)).await.unwrap();
    for (round, value) in (1..).zip(["one", "two", "three"]) {
        // The other process knows nothing of who reads.
        there
            .write_memory(&key("a"), set(value), &Principal::token())
            .await
            .unwrap();
        for _ in 0..6 {
            assert_eq!(values(&here, "a").await, [value]);
        }
        assert_eq!(whole_reads(&server), 2 * round);
    }
}

#[tokio::test]
async fn another_session_of_the_same_name_and_length_has_its_own() {
    let server = RedisServer::start();
    let (here, there) = (open(&server).await, open(&server).await);
    let make = async |value| {
        there.create(creation("a", None)).await.unwrap();
        there
            .write_memory(&key("a"), set(value), &Principal::token())
            .await
            .unwrap();
    };
    make("one").await;
    for _ in 0..3 {
        assert_eq!(values(&here, "a").await, ["one"]);
    }
    there.delete(&key("a")).await.unwrap();
    let gone = here.list_memory(&key("a")).await;
    assert_eq!(gone, Err(StoreError::Terminal(End::Deleted)));
    // As if the mark of the end had had its time.
    let mark = server.ask(&["KEYS", "cairn:*:s:space/a"]);
    server.ask(&["DEL", mark.lines().last().unwrap()]);
    let gone = here.list_memory(&key("a")).await;
    assert_eq!(gone, Err(StoreError::NotFound));
    make("two").await;
    assert_eq!(values(&here, "a").await, ["two"]);
}
