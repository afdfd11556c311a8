//! Settings that change while a store is open, and those of servers that may take over.

mod told;

use cairn_memory::port::*;
use cairn_memory::redis::{
    Durability, OpenError, RedisConfig, RedisMode, RedisOptions, RedisStore,
};
use cairn_testkit::{RedisCluster, RedisSentinel, RedisServer, free_port};
use std::time::{Duration, Instant};

/// Longer than any test takes.
const NEVER: Duration = Duration::from_secs(3600);

async fn open(config: &RedisConfig, look_again: Duration) -> RedisStore {
    let options = RedisOptions {
        look_again,
        ..RedisOptions::default()
    };
    RedisStore::open(config, options).await.unwrap()
}

fn strict(config: RedisConfig) -> RedisConfig {
    RedisConfig {
        require_durable: true,
        ..config
    }
}

fn watched_over(servers: &RedisSentinel) -> RedisConfig {
    RedisConfig {
        mode: RedisMode::Sentinel,
        master: Some(RedisSentinel::MASTER.to_owned()),
        ..RedisConfig::standalone(servers.url())
    }
}

fn reasons(durability: &Durability) -> &[String] {
    match durability {
        Durability::Durable => &[],
        Durability::Degraded { reasons } => reasons,
    }
}

/// Waits until the store is known to be so.
async fn becomes(store: &RedisStore, what: impl Fn(&[String]) -> bool) {
    let mut durability = store.durability();
    let known = durability.wait_for(|known| what(reasons(known)));
    let known = tokio::time::timeout(Duration::from_secs(60), known).await;
    known.unwrap().unwrap();
}

/// Waits until the master knows of its replica.
fn has_replica(master: &RedisServer) {
    let start = Instant::now();
    while !master
        .ask(&["INFO", "replication"])
        .contains("state=online")
    {
        assert!(start.elapsed() < Duration::from_secs(20), "no replica");
        std::thread::yield_now();
    }
}

fn replica_of(master: &RedisServer, settings: &[(&str, &str)]) -> RedisServer {
    let at = format!("127.0.0.1 {}", master.port());
    let replica = RedisServer::with(&[&[("replicaof", &*at)], settings].concat());
    has_replica(master);
    replica
}

#[tokio::test]
async fn settings_that_are_changed_at_a_running_server_are_noticed() {
    let server = RedisServer::start();
    let config = RedisConfig::standalone(server.url());
    let soon = Duration::from_millis(10);
    let store = open(&config, soon).await;
    let careful = open(&strict(config), soon).await;
    for store in [&store, &careful] {
        store.now().await.unwrap();
        assert_eq!(*store.durability().borrow(), Durability::Durable);
        assert!(!store.refuses_new());
    }
    server.ask(&["CONFIG", "SET", "appendfsync", "everysec"]);
    for store in [&store, &careful] {
        becomes(store, |reasons| {
            reasons.len() == 1 && reasons[0].contains("appendfsync is everysec")
        })
        .await;
    }
    // What is not durable is told; nothing new is begun only where that was asked for.
    assert!(!store.refuses_new());
    assert!(careful.refuses_new());
    careful.now().await.unwrap();
    server.ask(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    becomes(&careful, |reasons| reasons.len() == 2).await;
    server.ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    server.ask(&["CONFIG", "SET", "appendfsync", "always"]);
    for store in [&store, &careful] {
        becomes(store, <[String]>::is_empty).await;
        assert!(!store.refuses_new());
    }
}

/// A server that is away when the others are looked at is not left to the next look that comes by
/// itself.
#[tokio::test]
async fn a_server_that_did_not_answer_is_looked_at_again_soon() {
    let mut cluster = RedisCluster::start();
    let config = RedisConfig {
        urls: cluster.urls().into_iter().map(Into::into).collect(),
        mode: RedisMode::Cluster,
        ..RedisConfig::standalone("")
    };
    let store = open(&config, NEVER).await;
    cluster.servers[2].kill();
    let _ = store.now().await;
    // That two servers are met for the first time are two reasons to look, and each change takes
    // another look.
    for (place, changed) in [(0, 1), (1, 2), (2, 3)] {
        if place == 2 {
            cluster.servers[2].start_again();
        }
        cluster.servers[place].ask(&["CONFIG", "SET", "appendfsync", "everysec"]);
        becomes(&store, |reasons| reasons.len() == changed).await;
    }
}

#[tokio::test]
async fn a_failover_to_a_server_that_keeps_nothing_is_noticed() {
    let mut servers = RedisSentinel::start();
    let store = open(&strict(watched_over(&servers)), NEVER).await;
    store.now().await.unwrap();
    servers.replica.ask(&["CONFIG", "SET", "appendonly", "no"]);
    // The identity of the store, which opening it wrote, is acknowledged without the replica.
    servers.wait_until_replicated();
    servers.master.kill();
    let start = Instant::now();
    let place = format!("127.0.0.1:{}", servers.replica.port());
    while let Err(error) = store.now().await {
        let waited = start.elapsed();
        assert!(waited < RedisSentinel::PATIENCE, "no failover: {error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let told = format!("redis at {place}: appendonly is no");
    becomes(&store, |reasons| {
        reasons.iter().any(|reason| reason.starts_with(&told))
    })
    .await;
    assert!(store.refuses_new());
}

#[tokio::test]
async fn a_replica_that_keeps_nothing_is_named_when_the_store_is_opened() {
    let master = RedisServer::start();
    let replica = replica_of(&master, &[("appendonly", "no")]);
    let config = RedisConfig::standalone(master.url());
    let told = open(&config, NEVER).await.durability().borrow().clone();
    let want = format!(
        "redis at 127.0.0.1:{}, a replica: appendonly is no",
        replica.port()
    );
    assert_eq!(reasons(&told).len(), 1, "{told}");
    assert!(reasons(&told)[0].starts_with(&want), "{told}");
    assert_eq!(RedisStore::examine(&config).await.unwrap(), told);
    let refused = RedisStore::open(&strict(config.clone()), RedisOptions::default()).await;
    assert!(matches!(refused, Err(OpenError::NotDurable { .. })));
    // One that never takes over may be as it likes.
    replica.ask(&["CONFIG", "SET", "replica-priority", "0"]);
    let store = open(&strict(config), NEVER).await;
    assert_eq!(*store.durability().borrow(), Durability::Durable);
}

#[tokio::test]
async fn a_replica_that_tells_nothing_does_not_keep_a_store_from_being_opened() {
    let master = RedisServer::start();
    let _silent = replica_of(&master, &[("requirepass", "another")]);
    let store = open(&strict(RedisConfig::standalone(master.url())), NEVER).await;
    assert_eq!(*store.durability().borrow(), Durability::Durable);
}

/// The master does not know of a replica that is away from it; a sentinel may make it a master.
#[tokio::test]
async fn replicas_that_only_sentinels_know_of_are_asked() {
    let servers = RedisSentinel::start();
    servers.replica.ask(&["CONFIG", "SET", "appendonly", "no"]);
    servers.cut_off_replica();
    let store = open(&watched_over(&servers), NEVER).await;
    let told = store.durability().borrow().clone();
    assert!(
        told.to_string().contains("a replica: appendonly is no"),
        "{told}"
    );
}

/// Waits until a server says that.
fn says(server: &RedisServer, words: &[&str], what: &str) {
    let start = Instant::now();
    while !server.ask(words).contains(what) {
        assert!(start.elapsed() < Duration::from_secs(20), "never {what}");
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn the_replicas_of_a_cluster_are_asked() {
    let cluster = RedisCluster::start();
    let bus = free_port().to_string();
    let replica = RedisServer::with(&[
        ("cluster-enabled", "yes"),
        ("cluster-port", &bus),
        ("appendonly", "no"),
    ]);
    let master = &cluster.servers[0];
    let port = replica.port().to_string();
    master.ask(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
    let id = master.ask(&["CLUSTER", "MYID"]);
    let id = id.lines().last().unwrap().to_owned();
    says(&replica, &["CLUSTER", "REPLICATE", &id], "+OK");
    // The first of the servers that is asked for slots answers for all.
    for server in &cluster.servers {
        says(server, &["CLUSTER", "SLOTS"], &format!(":{port}\r"));
    }
    let config = RedisConfig {
        urls: cluster.urls().into_iter().map(Into::into).collect(),
        mode: RedisMode::Cluster,
        ..RedisConfig::standalone(master.url())
    };
    let told = RedisStore::examine(&config).await.unwrap();
    let want = format!("redis at 127.0.0.1:{port}, a replica: appendonly is no");
    assert_eq!(reasons(&told).len(), 1, "{told}");
    assert!(reasons(&told)[0].starts_with(&want), "{told}");
    replica.ask(&["CONFIG", "SET", "cluster-replica-no-failover", "yes"]);
    let told = RedisStore::examine(&config).await.unwrap();
    assert_eq!(told, Durability::Durable);
}
