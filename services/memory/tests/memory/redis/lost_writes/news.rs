//! A process of memory that ends together with the server that had answered it.

use super::{answered, open, set_aside, watched_over};
use crate::support::work::{claim, creation, key, transition};
use cairn_memory::port::*;
use cairn_testkit::{RedisSentinel, RedisServer};
use std::time::{Duration, Instant};

/// Both listen to what the other was answered about the session `a`.
async fn until_both_listen(server: &RedisServer) {
    let start = Instant::now();
    let asked = ["PUBSUB", "SHARDNUMSUB", "cairn:{p061}:k"];
    while !server.ask(&asked).contains(":2\r\n") {
        assert!(start.elapsed() < Duration::from_secs(30), "nobody listens");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_process_was_answered_the_others_know_when_it_ends() {
    let mut servers = RedisSentinel::start();
    let config = watched_over(&servers);
    let (one, other) = (open(&config).await, open(&config).await);
    one.claim(claim("one")).await.unwrap();
    other.claim(claim("two")).await.unwrap();
    one.create(creation("a", Some("one"))).await.unwrap();
    servers.wait_until_replicated();
    until_both_listen(&servers.master).await;
    servers.cut_off_replica();
    one.commit(transition("a", "one", 0)).await.unwrap();
    // Others hear of it some milliseconds after the answer, which nobody is told.
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(one);
    servers.master.kill();
    servers.wait_until_promoted();

    let a = key("a");
    let read = answered(|| other.read(&a, 0, 10)).await.unwrap();
    assert_eq!(read.last_seq, 1);
    assert_eq!(read.quarantined, Some(Quarantine::WritesLost));
    assert_eq!(set_aside(&other).await, ["a"]);
    assert_eq!(*other.losses().borrow(), 1);
}
