//! Two stores with one prefix in two databases of a server, which shares all channels among these.

use super::lost_writes::caught_up;
use crate::support::work::{creation, key, transition};
use bytes::Bytes;
use cairn_memory::port::*;
use cairn_memory::redis::{RedisConfig, RedisOptions, RedisStore};
use cairn_testkit::RedisServer;
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
