//! Two stores with one prefix in two databases of a server, which shares all channels among these.

use super::lost_writes::{answered, caught_up, quarantine};
use crate::support::work::{claim, creation, key, transition};
use bytes::Bytes;
use cairn_memory::port::*;
use cairn_memory::redis::{RedisConfig, RedisOptions, RedisStore};
use cairn_testkit::{RedisServer, eventually_async};
use futures::StreamExt as _;

async fn open(server: &RedisServer, database: u8) -> RedisStore {
    let config = RedisConfig::standalone(format!("{}/{database}", server.url()));
    let store = RedisStore::open(&config, RedisOptions::default()).await;
    store.unwrap()
}

#[tokio::test]
async fn text_and_deletions_stay_in_their_database() {
    let server = RedisServer::start();
    let (zero, one) = (open(&server, 0).await, open(&server, 1).await);
    assert_ne!(zero.id(), one.id());
    for store in [&zero, &one] {
        store.create(creation("a", Some("one"))).await.unwrap();
    }
    // Another process of the first store, which hears of all over the server.
    let listener = open(&server, 0).await;
    let mut events = caught_up(&listener, "a").await;
    // Once this is subscribed, so is the follower.
    let mut text = listener.deltas(&key("a")).await.unwrap();

    let delta = |text: &'static str| Bytes::from_static(text.as_bytes());
    one.publish_delta(&key("a"), delta("foreign"))
        .await
        .unwrap();
    zero.publish_delta(&key("a"), delta("own")).await.unwrap();
    assert_eq!(text.next().await, Some(delta("own")));

    assert!(one.delete(&key("a")).await.unwrap());
    zero.commit(transition("a", "one", 0)).await.unwrap();
    let next = events.next().await.expect("the session is there").unwrap();
    assert_eq!(next[0].seq, 2);
}

/// How far a session of the other store has come says nothing of this store's session of that name.
#[tokio::test]
async fn progress_in_another_database_quarantines_nothing() {
    let mut server = RedisServer::start();
    let (zero, one) = (open(&server, 0).await, open(&server, 1).await);
    zero.claim(claim("zero")).await.unwrap();
    zero.create(creation("a", Some("one"))).await.unwrap();
    let listening = ["PUBSUB", "SHARDCHANNELS", "cairn:{p061}:k*"];
    let is_heard = async || (server.ask(&listening) != "*0\r\n").then_some(());
    eventually_async("a subscriber", is_heard).await;
    one.claim(claim("one")).await.unwrap();
    one.create(creation("a", Some("one"))).await.unwrap();
    for version in 0..5 {
        one.commit(transition("a", "one", version)).await.unwrap();
    }
    // All that it was answered is published then.
    one.close().await;
    // A server that comes back is compared with all that was acknowledged.
    server.start_again();
    let next = answered(|| zero.commit(transition("a", "one", 0))).await;
    assert_eq!(next.unwrap().first_seq, 2);
    assert_eq!(quarantine(&zero).await, [""; 0]);
    assert_eq!(*zero.losses().borrow(), 0);
}
