//! The same over Redis.

use super::place::Place;
use super::{check, ops, proptest};
use cairn_memory::redis::RedisConfig;
use cairn_testkit::RedisServer;
use proptest::prelude::ProptestConfig;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

static SERVER: OnceLock<RedisServer> = OnceLock::new();
static CASES: AtomicU32 = AtomicU32::new(0);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_store_on_redis_is_as_the_reference_and_stays_so_when_it_is_opened_anew(ops in ops()) {
        let server = SERVER.get_or_init(RedisServer::start);
        let number = CASES.fetch_add(1, Ordering::Relaxed);
        let config = RedisConfig {
            prefix: format!("case-{number}"),
            ..RedisConfig::standalone(server.url())
        };
        check(Place::Redis(config), ops);
    }
}
