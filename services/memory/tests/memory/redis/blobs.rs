//! Events with large blobs on a server.

use crate::blobs::large_blobs_are_copied_in_several_calls;
use cairn_memory::redis::{RedisConfig, RedisOptions, RedisStore};
use cairn_testkit::RedisServer;

#[tokio::test]
async fn an_event_with_large_blobs_is_copied_in_several_calls() {
    let server = RedisServer::start();
    let config = RedisConfig::standalone(server.url());
    let store = RedisStore::open(&config, RedisOptions::default()).await;
    large_blobs_are_copied_in_several_calls(&store.unwrap()).await;
}
