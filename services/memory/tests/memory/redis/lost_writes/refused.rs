//! A server that has lost something and takes no writes: it is told at once, and what is lost is set
//! aside when that is possible.

use super::{answered, caught_up, is_told, open, quarantine, watched_over};
use crate::support::work::{creation, key, transition};
use bytes::Bytes;
use cairn_memory::port::*;
use cairn_testkit::{RedisSentinel, RedisServer};
use futures::StreamExt as _;
use std::time::{Duration, Instant};

/// How often a server was asked to set a session aside: all scripts that failed.
fn refusals(server: &RedisServer) -> u64 {
    let told = server.ask(&["INFO", "errorstats"]);
    let line = told
        .lines()
        .find_map(|it| it.strip_prefix("errorstat_NOREPLICAS:count="));
    line.map_or(0, |count| count.trim().parse().unwrap())
}

/// It would take writes only with a replica near, and there is none any more.
#[tokio::test]
async fn a_loss_is_told_once_while_the_server_takes_no_writes_and_set_aside_later() {
    let mut servers = RedisSentinel::start();
    let store = open(&watched_over(&servers)).await;
    for session in ["a", "untouched"] {
        store.create(creation(session, Some("one"))).await.unwrap();
    }
    servers.wait_until_replicated();
    let least = |count| {
        let set = ["CONFIG", "SET", "min-replicas-to-write", count];
        servers.replica.ask(&set)
    };
    least("1");
    servers.cut_off_replica();
    store.commit(transition("a", "one", 0)).await.unwrap();
    let follower = caught_up(&store, "a").await;
    servers.master.kill();
    servers.wait_until_promoted();

    // Each answer comes from the older state, and whoever had seen more is told.
    let (a, untouched) = (key("a"), key("untouched"));
    let read = answered(|| store.read(&a, 0, 10)).await.unwrap();
    assert_eq!(read.last_seq, 1);
    // Or a copy would go on from it.
    assert_eq!(read.quarantined, Some(Quarantine::WritesLost));
    is_told(&store, "a", follower, 2, 1).await;
    assert_eq!(*store.losses().borrow(), 1);
    let listed = store.list("space", &ListQuery::newest(100)).await.unwrap();
    assert_eq!(listed.sessions.len(), 2);
    assert_eq!(quarantine(&store).await, ["a"]);
    answered(|| store.read(&untouched, 0, 10)).await.unwrap();
    // It is tried again and again, in silence; nothing gets past it.
    let (tried, start) = (refusals(&servers.replica), Instant::now());
    while refusals(&servers.replica) < tried + 3 {
        let written = store.commit(transition("a", "one", 0)).await;
        let Err(StoreError::Unavailable { reason }) = written else {
            panic!("{written:?}");
        };
        assert!(
            reason.contains("has lost acknowledged writes"),
            "{reason:?}"
        );
        assert!(start.elapsed() < Duration::from_secs(60), "it is not tried");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(*store.losses().borrow(), 1);

    least("0");
    let first = answered(|| store.commit(transition("untouched", "one", 0))).await;
    assert_eq!(first.unwrap().first_seq, 2);
    let again = answered(|| store.commit(transition("a", "one", 1))).await;
    let behind = StoreError::WentBack {
        known: 1,
        stored: 0,
    };
    assert_eq!(again, Err(behind));
    assert_eq!(quarantine(&store).await, ["a"]);
    assert_eq!(*store.losses().borrow(), 1);
}

/// A process that knows nothing of the loss writes past it as soon as that is possible, and the one that
/// knows sees what it has written.
#[tokio::test]
async fn what_is_written_past_a_loss_that_could_not_be_marked_does_not_hide_it() {
    let mut servers = RedisSentinel::start();
    let config = watched_over(&servers);
    let (store, elsewhere) = (open(&config).await, open(&config).await);
    let a = key("a");
    store.create(creation("a", Some("one"))).await.unwrap();
    servers.wait_until_replicated();
    let least = |count| {
        let set = ["CONFIG", "SET", "min-replicas-to-write", count];
        servers.replica.ask(&set)
    };
    least("1");
    servers.cut_off_replica();
    store.commit(transition("a", "one", 0)).await.unwrap();
    servers.master.kill();
    servers.wait_until_promoted();
    let read = answered(|| store.read(&a, 0, 10)).await.unwrap();
    assert_eq!(read.quarantined, Some(Quarantine::WritesLost));
    let mut follower = caught_up(&store, "a").await;
    answered(|| elsewhere.read(&a, 0, 10)).await.unwrap();

    // Just after the server was looked at in vain, so that the next look comes later.
    let tried = refusals(&servers.replica);
    while refusals(&servers.replica) == tried {
        store.commit(transition("a", "one", 0)).await.unwrap_err();
    }
    least("0");
    for version in 0..2 {
        let other = Commit {
            events: vec![Bytes::from("other")],
            ..transition("a", "one", version)
        };
        elsewhere.commit(other).await.unwrap();
    }
    let mut seen = 1;
    while seen < 3 {
        let batch = follower.next().await.unwrap().unwrap();
        seen = batch.last().map_or(seen, |event| event.seq);
    }
    let start = Instant::now();
    while quarantine(&elsewhere).await != ["a"] {
        assert!(start.elapsed() < Duration::from_secs(20), "it is forgotten");
        answered(|| store.read(&a, 0, 10)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What marks a session takes no memory at first.
#[tokio::test]
async fn a_session_that_lost_writes_is_set_aside_on_a_server_that_is_full() {
    let mut servers = RedisSentinel::start();
    let store = open(&watched_over(&servers)).await;
    let a = key("a");
    store.create(creation("a", Some("one"))).await.unwrap();
    servers.wait_until_replicated();
    servers.cut_off_replica();
    store.commit(transition("a", "one", 0)).await.unwrap();
    servers.replica.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    servers.master.kill();
    servers.wait_until_promoted();
    let read = answered(|| store.read(&a, 0, 10)).await.unwrap();
    assert_eq!(read.quarantined, Some(Quarantine::WritesLost));
    // Also for whoever knows nothing of it.
    let fresh = open(&watched_over(&servers)).await;
    assert_eq!(quarantine(&fresh).await, ["a"]);
}
