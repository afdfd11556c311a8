//! A server that loses something while its connections stay: it takes another's state and is a master
//! again.

use super::{open, quarantine};
use crate::documents::{agents, position, refusal, write};
use crate::support::work::{creation, key, transition};
use cairn_memory::port::*;
use cairn_memory::redis::RedisConfig;
use cairn_testkit::RedisServer;
use std::time::{Duration, Instant};

async fn until_linked(server: &RedisServer) {
    let start = Instant::now();
    while !server
        .ask(&["INFO", "replication"])
        .contains("master_link_status:up")
    {
        assert!(start.elapsed() < Duration::from_secs(30), "no link");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn follow(server: &RedisServer, other: &RedisServer) {
    let told = server.ask(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]);
    assert_eq!(told, "+OK\r\n");
}

#[tokio::test]
async fn a_server_that_was_a_replica_meanwhile_is_held_against_what_is_known() {
    let (server, other) = (RedisServer::start(), RedisServer::start());
    for server in [&server, &other] {
        server.ask(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
    }
    let store = open(&RedisConfig::standalone(server.url())).await;
    store.create(creation("a", Some("one"))).await.unwrap();
    let put = async |id: &str| {
        store
            .write_document(write(id, Some("1"), id))
            .await
            .unwrap()
    };
    assert_eq!(put("kept").await.version, 1);
    follow(&other, &server);
    until_linked(&other).await;
    assert_eq!(server.ask(&["WAIT", "1", "10000"]), ":1\r\n");
    other.ask(&["REPLICAOF", "NO", "ONE"]);
    store.commit(transition("a", "one", 0)).await.unwrap();
    assert_eq!(put("lost").await.version, 2);
    let known = position(&store).await;

    follow(&server, &other);
    until_linked(&server).await;
    server.ask(&["REPLICAOF", "NO", "ONE"]);
    // Nobody asks the server anything but this, and it answers over the same connection.
    let start = Instant::now();
    while store
        .read(&key("a"), 0, 10)
        .await
        .unwrap()
        .quarantined
        .is_none()
    {
        assert!(start.elapsed() < Duration::from_secs(10), "nobody is told");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(quarantine(&store).await, ["a"]);
    assert_eq!(*store.losses().borrow(), 1);
    // The same holds for documents, also once others stand in their place.
    for counter in [1, 2] {
        let head = store.document_head(&agents()).await.unwrap();
        assert_eq!(head.counter, counter);
        assert_eq!(refusal(&store, &known).await, Some(StoreError::Relist));
        put("other").await;
    }
}
