//! A server without a replica that is away: the others are asked and listened to as before.

use super::open;
use crate::support::work::claim;
use cairn_memory::port::*;
use cairn_testkit::{RedisCluster, RedisServer};
use std::time::{Duration, Instant};

/// The ids of the connections that are subscribed to channels of slots.
fn subscribers(server: &RedisServer) -> Vec<String> {
    let clients = server.ask(&["CLIENT", "LIST"]);
    let subscribed = clients
        .lines()
        .filter(|line| line.contains(" ssub=") && !line.contains(" ssub=0 "));
    let ids = subscribed.filter_map(|line| line.split("id=").nth(1)?.split(' ').next());
    let mut ids: Vec<_> = ids.map(str::to_owned).collect();
    ids.sort();
    ids
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(30), "not so: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Takes about ten seconds, most of them for the cluster.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_ends_no_subscription_at_the_others() {
    let mut cluster = RedisCluster::with_replicas();
    let (one, other) = (open(&cluster).await, open(&cluster).await);
    for (store, owner) in [(&one, "one"), (&other, "two")] {
        store.claim(claim(owner)).await.unwrap();
    }
    for server in &cluster.servers {
        let is_subscribed = || subscribers(server).len() == 2;
        until("both are subscribed", is_subscribed).await;
    }
    cluster.replicas[2].kill();
    cluster.servers[2].kill();
    let others = || -> Vec<_> { cluster.servers[..2].iter().map(subscribers).collect() };
    let before = others();
    // Longer than the longest pause before a server is tried again.
    let watched = Instant::now();
    while watched.elapsed() < Duration::from_secs(3) {
        for (store, owner) in [(&one, "one"), (&other, "two")] {
            store.claim(claim(owner)).await.unwrap();
        }
        assert_eq!(others(), before, "after {:?}", watched.elapsed());
    }
    // It is listened to again once it is back.
    cluster.servers[2].start_again();
    let is_subscribed = || subscribers(&cluster.servers[2]).len() == 2;
    until("both are subscribed anew", is_subscribed).await;
}
