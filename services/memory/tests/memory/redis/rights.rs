//! A user without rights to channels: hints are lost, and all else works.

use cairn_memory::conformance::{self, Subject};
use cairn_memory::port::Store as _;
use cairn_memory::redis::{Durability, OpenError, RedisConfig, RedisOptions, RedisStore};
use cairn_rpc::ManualClock;
use cairn_testkit::RedisServer;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;

/// A server, and how its user without channels opens a store there.
fn quiet() -> (RedisServer, RedisConfig) {
    let server = RedisServer::start();
    let user = "ACL SETUSER quiet on >secret ~* +@all resetchannels";
    let user: Vec<_> = user.split(' ').collect();
    assert_eq!(server.ask(&user), "+OK\r\n");
    let url = format!("redis://quiet:secret@127.0.0.1:{}", server.port());
    (server, RedisConfig::standalone(url))
}

/// One for each script that publishes.
#[tokio::test]
async fn what_is_written_is_answered_as_written_without_rights_to_channels() {
    let (_server, config) = quiet();
    let mut number = 0;
    let mut subject = async || {
        number += 1;
        let clock = Arc::new(ManualClock::at(1_800_000_000_000));
        let options = RedisOptions {
            limits: conformance::limits(),
            clock: Some(clock.clone()),
            ..RedisOptions::default()
        };
        let config = RedisConfig {
            prefix: format!("subject-{number}"),
            ..config.clone()
        };
        let store = RedisStore::open(&config, options).await.unwrap();
        let pass = move |ms| -> BoxFuture<'static, ()> {
            clock.advance(Duration::from_millis(ms));
            Box::pin(async {})
        };
        Subject {
            store: Arc::new(store),
            pass: Box::new(pass),
        }
    };
    conformance::creation_with_an_unhandled_command_queues_the_session(&subject().await).await;
    conformance::a_commit_appends_contiguously(&subject().await).await;
    conformance::clean_ends_are_not_counted(&subject().await).await;
    conformance::a_command_wakes_a_parked_session(&subject().await).await;
    conformance::a_released_session_is_claimable_at_once(&subject().await).await;
    conformance::each_change_of_memory_is_an_event(&subject().await).await;
    conformance::a_session_set_aside_is_released_by_hand(&subject().await).await;
    conformance::a_child_is_a_session_of_its_own(&subject().await).await;
    conformance::deleting_removes_everything(&subject().await).await;
    conformance::documents_are_put_read_and_replaced(&subject().await).await;
}

#[tokio::test]
async fn missing_rights_to_channels_are_reported_with_what_to_do() {
    let (server, config) = quiet();
    let options = RedisOptions {
        look_again: Duration::from_millis(10),
        ..RedisOptions::default()
    };
    let store = RedisStore::open(&config, options).await.unwrap();
    let reported = store.durability().borrow().clone();
    let text = reported.to_string();
    for part in ["may not publish", "+spublish", "&cairn:*"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(RedisStore::examine(&config).await.unwrap(), reported);
    let strict = RedisConfig {
        require_durable: true,
        ..config.clone()
    };
    let refused = RedisStore::open(&strict, RedisOptions::default()).await;
    assert!(matches!(refused, Err(OpenError::NotDurable { .. })));

    let given = server.ask(&["ACL", "SETUSER", "quiet", "&cairn:*"]);
    assert_eq!(given, "+OK\r\n");
    store.now().await.unwrap();
    let mut durability = store.durability();
    let durable = durability.wait_for(|it| *it == Durability::Durable);
    let durable = tokio::time::timeout(Duration::from_secs(60), durable).await;
    durable.expect("to be noticed").unwrap();
    let found = RedisStore::examine(&config).await.unwrap();
    assert_eq!(found, Durability::Durable);
}
