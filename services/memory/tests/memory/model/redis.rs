//! The same over Redis.

use super::place::Place;
use super::{check, documents, ops, proptest};
use cairn_memory::redis::{RedisConfig, RedisMode};
use cairn_testkit::{RedisCluster, RedisServer};
use proptest::prelude::ProptestConfig;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

static SERVER: OnceLock<RedisServer> = OnceLock::new();
static CLUSTER: OnceLock<RedisCluster> = OnceLock::new();
static CASES: AtomicU32 = AtomicU32::new(0);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_store_on_redis_is_as_the_reference_and_stays_so_when_it_is_opened_anew(ops in ops()) {
        let server = SERVER.get_or_init(RedisServer::start);
        check(Place::Redis(of_case(RedisConfig::standalone(server.url()))), ops);
    }

    #[test]
    fn a_store_on_a_cluster_is_as_the_reference(ops in ops()) {
        let cluster = CLUSTER.get_or_init(RedisCluster::start);
        let config = RedisConfig {
            urls: cluster.urls().into_iter().map(Into::into).collect(),
            mode: RedisMode::Cluster,
            ..RedisConfig::standalone("")
        };
        check(Place::Redis(of_case(config)), ops);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn documents_on_redis_are_as_the_reference(acts in documents::acts()) {
        let server = SERVER.get_or_init(RedisServer::start);
        documents::check(Place::Redis(of_case(RedisConfig::standalone(server.url()))), acts);
    }
}

/// Each case has a store of its own.
fn of_case(config: RedisConfig) -> RedisConfig {
    let number = CASES.fetch_add(1, Ordering::Relaxed);
    RedisConfig {
        prefix: format!("case-{number}"),
        ..config
    }
}
