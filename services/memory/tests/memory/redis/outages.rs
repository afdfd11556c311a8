//! Servers that take no writes: whoever asks is told, and why.

use crate::support::work::{creation, key};
use cairn_memory::port::*;
use cairn_memory::redis::{OpenError, RedisConfig, RedisMode, RedisOptions, RedisStore};
use cairn_testkit::{RedisSentinel, RedisServer};
use std::time::Duration;

async fn open(server: &RedisServer) -> RedisStore {
    let config = RedisConfig::standalone(server.url());
    let store = RedisStore::open(&config, RedisOptions::default()).await;
    store.unwrap()
}

/// Waits until what keeps the store from taking writes is so.
async fn becomes(store: &RedisStore, what: impl Fn(&str) -> bool) {
    let mut outages = store.outages();
    let known = outages.wait_for(|outages| what(&outages.join("; ")));
    let known = tokio::time::timeout(Duration::from_secs(60), known).await;
    known.unwrap().unwrap();
}

#[tokio::test]
async fn servers_that_are_away_or_full_are_known_to_be_until_they_are_back() {
    let mut server = RedisServer::start();
    let store = open(&server).await;
    store.create(creation("a", None)).await.unwrap();
    assert_eq!(*store.outages().borrow(), [""; 0]);

    server.kill();
    assert!(store.create(creation("b", None)).await.is_err());
    becomes(&store, |why| why.contains("cannot be reached")).await;
    server.start_again();
    becomes(&store, str::is_empty).await;

    server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let config = RedisConfig::standalone(server.url());
    let examined = RedisStore::examine(&config).await.unwrap_err().to_string();
    assert!(examined.contains("its maxmemory is 1"), "{examined}");
    assert!(store.create(creation("b", None)).await.is_err());
    becomes(&store, |why| why.contains("its maxmemory is 1")).await;
    // It can still be read, also by who comes anew.
    assert!(open(&server).await.read(&key("a"), 0, 1).await.is_ok());
    server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    becomes(&store, str::is_empty).await;
    store.create(creation("b", None)).await.unwrap();
}

#[tokio::test]
async fn a_replica_or_a_sentinel_is_not_taken_for_the_store() {
    let servers = RedisSentinel::start();
    let config = RedisConfig {
        mode: RedisMode::Sentinel,
        master: Some(RedisSentinel::MASTER.to_owned()),
        ..RedisConfig::standalone(servers.url())
    };
    // The replica has all that there is to a store.
    let store = RedisStore::open(&config, RedisOptions::default()).await;
    store.unwrap().create(creation("a", None)).await.unwrap();
    servers.wait_until_replicated();
    for (url, why) in [
        (servers.replica.url(), "it is a replica"),
        (servers.url(), "it is a sentinel"),
    ] {
        let config = RedisConfig::standalone(url);
        let opened = RedisStore::open(&config, RedisOptions::default()).await;
        let examined = RedisStore::examine(&config).await;
        for refused in [opened.map(|_| ()), examined.map(|_| ())] {
            let Err(OpenError::Unavailable(error)) = refused else {
                panic!("{why}: {refused:?}");
            };
            assert!(error.to_string().contains(why), "{error}");
        }
    }
    let unknown = RedisConfig {
        master: Some("nobody".to_owned()),
        ..config
    };
    let refused = RedisStore::examine(&unknown).await;
    let Err(OpenError::Unavailable(error)) = refused else {
        panic!("{refused:?}");
    };
    let why = error.to_string();
    assert!(
        why.ends_with("does not know a master called nobody"),
        "{why}"
    );
}
