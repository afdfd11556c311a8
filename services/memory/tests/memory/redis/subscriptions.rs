//! What a process is subscribed to: what it follows, and nothing else.

use super::lost_writes::{answered, caught_up};
use crate::support::work::{creation, key};
use cairn_memory::port::*;
use cairn_memory::redis::{RedisConfig, RedisOptions, RedisStore};
use cairn_testkit::RedisServer;
use std::time::{Duration, Instant};

/// Waits until as many channels of followed sessions are subscribed.
async fn until_subscribed(server: &RedisServer, count: usize) {
    let start = Instant::now();
    let channels = || server.ask(&["PUBSUB", "SHARDCHANNELS", "*:h:*"]);
    while channels().matches("cairn:").count() != count {
        let channels = channels();
        assert!(start.elapsed() < Duration::from_secs(30), "{channels:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn watches_that_are_retried_while_a_server_is_away_leave_nothing_to_do() {
    let mut server = RedisServer::start();
    let config = RedisConfig::standalone(server.url());
    let store = RedisStore::open(&config, RedisOptions::default()).await;
    let store = store.unwrap();
    for session in ["a", "b"] {
        store.create(creation(session, None)).await.unwrap();
    }
    server.kill();
    for number in 0..100 {
        let followed = store.follow(&key(&format!("s{number}")), 0).await;
        assert!(followed.is_err());
    }
    server.start_again();
    answered(|| store.now()).await.unwrap();
    let _a = caught_up(&store, "a").await;
    until_subscribed(&server, 1).await;
    let b = caught_up(&store, "b").await;
    until_subscribed(&server, 2).await;
    let commands = server.ask(&["INFO", "commandstats"]);
    assert!(!commands.contains("cmdstat_sunsubscribe"), "{commands}");
    // Who follows no more gives its channel up.
    drop(b);
    until_subscribed(&server, 1).await;
}
