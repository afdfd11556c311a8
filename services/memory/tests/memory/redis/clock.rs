//! A clock that is set back, as by a failover to a server whose clock is late.

use crate::support::work::{claim, creation, key};
use cairn_memory::port::*;
use cairn_memory::redis::{RedisConfig, RedisOptions, RedisStore};
use cairn_rpc::Clock;
use cairn_testkit::RedisServer;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const START: u64 = 1_800_000_000_000;

#[derive(Debug)]
struct Settable(AtomicU64);

impl Clock for Settable {
    fn unix_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn instant(&self) -> Instant {
        Instant::now()
    }
}

#[tokio::test]
async fn nothing_is_claimed_by_a_clock_that_was_set_back() {
    let server = RedisServer::start();
    let clock = Arc::new(Settable(AtomicU64::new(START)));
    let options = RedisOptions {
        clock: Some(clock.clone()),
        ..RedisOptions::default()
    };
    let config = RedisConfig::standalone(server.url());
    let store = RedisStore::open(&config, options).await.unwrap();
    let set = |time| clock.0.store(time, Ordering::Relaxed);
    store.create(creation("a", Some("one"))).await.unwrap();
    set(START + 15_000);
    assert_eq!(store.now().await, Ok(15_000 + START.cast_signed()));
    set(START - 5_000);
    let release = ReleaseRequest {
        key: key("a"),
        owner: "one".to_owned(),
        epoch: 1,
        delay_ms: 0,
    };
    store.release(release).await.unwrap();

    // More often than a session may be claimed without progress.
    for _ in 0..6 {
        let refused = store.claim(claim("two")).await;
        let Err(StoreError::Unavailable { reason }) = refused else {
            panic!("{refused:?}");
        };
        assert!(reason.contains("20000 ms behind"), "{reason}");
    }
    // Who asks only for news is not concerned.
    let news = ClaimRequest {
        max_sessions: 0,
        ..claim("two")
    };
    assert_eq!(store.claim(news).await.unwrap().claims, vec![]);

    // A little may always be missing.
    set(START + 13_000);
    let claims = store.claim(claim("two")).await.unwrap();
    assert_eq!(claims.claims.len(), 1);
    assert_eq!(claims.claims[0].key, key("a"));
    assert!(claims.claims[0].lease.until_unix_ms > claims.now_unix_ms);
}
