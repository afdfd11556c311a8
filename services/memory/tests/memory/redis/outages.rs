//! Servers that take no writes: whoever asks is told, and why.

use crate::support::work::{creation, key};
use cairn_memory::port::*;
use cairn_memory::redis::{OpenError, RedisConfig, RedisMode, RedisOptions, RedisStore};
use cairn_testkit::{RedisSentinel, RedisServer};
use std::time::{Duration, Instant};

/// Only what happens makes it look.
async fn open(config: &RedisConfig) -> RedisStore {
    let options = RedisOptions {
        look_again: Duration::from_secs(3600),
        ..RedisOptions::default()
    };
    RedisStore::open(config, options).await.unwrap()
}

fn watched_over(servers: &RedisSentinel) -> RedisConfig {
    RedisConfig {
        mode: RedisMode::Sentinel,
        master: Some(RedisSentinel::MASTER.to_owned()),
        ..RedisConfig::standalone(servers.url())
    }
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
    let config = RedisConfig::standalone(server.url());
    let store = open(&config).await;
    store.create(creation("a", None)).await.unwrap();
    assert_eq!(*store.outages().borrow(), [""; 0]);

    server.kill();
    assert!(store.create(creation("b", None)).await.is_err());
    becomes(&store, |why| why.contains("cannot be reached")).await;
    server.start_again();
    becomes(&store, str::is_empty).await;

    for (setting, wrong, right, why) in [
        ("maxmemory", "1", "0", "its maxmemory is 1"),
        (
            "min-replicas-to-write",
            "1",
            "0",
            "its min-replicas-to-write is 1",
        ),
    ] {
        server.ask(&["CONFIG", "SET", setting, wrong]);
        let Err(OpenError::Unavailable(examined)) = RedisStore::examine(&config).await else {
            panic!("it is taken for one that takes writes");
        };
        assert!(examined.to_string().contains(why), "{examined}");
        assert!(store.create(creation("b", None)).await.is_err());
        becomes(&store, |outage| outage.contains(why)).await;
        // It can still be read, also by who comes anew.
        assert!(open(&config).await.read(&key("a"), 0, 1).await.is_ok());
        server.ask(&["CONFIG", "SET", setting, right]);
        becomes(&store, str::is_empty).await;
    }
    store.create(creation("b", None)).await.unwrap();
}

#[tokio::test]
async fn a_replica_or_a_sentinel_is_not_taken_for_the_store() {
    let servers = RedisSentinel::start();
    let config = watched_over(&servers);
    // The replica has all that there is to a store.
    let store = open(&config).await;
    store.create(creation("a", None)).await.unwrap();
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

/// Nobody writes meanwhile, so that no write finds out.
#[tokio::test]
async fn a_master_that_is_made_a_replica_is_not_read_on_from() {
    let servers = RedisSentinel::start();
    let store = open(&watched_over(&servers)).await;
    store.create(creation("a", None)).await.unwrap();
    servers.wait_until_replicated();
    servers.begin_failover();
    servers.wait_until_promoted();
    let start = Instant::now();
    // A sentinel ends the connections of whom it makes a replica.
    let role = || servers.master.try_ask(&["ROLE"]).unwrap_or_default();
    while !role().contains("slave") {
        assert!(start.elapsed() < RedisSentinel::PATIENCE, "no failover");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Whoever reads finds the one and looks for the other.
    let mut outages = store.outages();
    let found = outages.wait_for(|outages| outages.is_empty());
    while store.read(&key("a"), 0, 1).await.is_err() {
        assert!(start.elapsed() < Duration::from_secs(60), "it is not read");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::timeout(Duration::from_secs(60), found)
        .await
        .unwrap()
        .unwrap();
    let before = servers.replica.ask(&["INFO", "commandstats"]);
    store.read(&key("a"), 0, 1).await.unwrap();
    let after = servers.replica.ask(&["INFO", "commandstats"]);
    let calls = |told: &str| {
        let line = told.lines().find(|it| it.starts_with("cmdstat_evalsha:"));
        line.map(str::to_owned)
    };
    assert_ne!(calls(&before), calls(&after), "the old master is read");
}
