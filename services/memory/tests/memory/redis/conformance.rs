//! The conformance suite on Redis: on one server, on a cluster, and through gRPC.

use crate::support::remote::RemoteStore;
use cairn_memory::Memory;
use cairn_memory::conformance::{Subject, limits};
use cairn_memory::port::Store;
use cairn_memory::redis::{RedisConfig, RedisMode, RedisOptions, RedisStore};
use cairn_rpc::{Exposure, ManualClock, ServerBuilder};
use cairn_testkit::{RedisCluster, RedisServer};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A store at `config` with a clock of its own.
async fn open(config: RedisConfig) -> (Arc<ManualClock>, RedisStore) {
    let clock = Arc::new(ManualClock::at(1_800_000_000_000));
    let options = RedisOptions {
        limits: limits(),
        clock: Some(clock.clone()),
        ..RedisOptions::default()
    };
    (clock, RedisStore::open(&config, options).await.unwrap())
}

/// A subject whose time passes on `clock`; `kept` lives as long as it does.
fn subject(
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    kept: impl Send + Sync + 'static,
) -> Subject {
    let pass = move |ms| {
        let _ = &kept;
        clock.advance(Duration::from_millis(ms));
        let done: futures::future::BoxFuture<'static, ()> = Box::pin(async {});
        done
    };
    Subject {
        store,
        pass: Box::new(pass),
    }
}

/// The settings of a server that subjects share, each with keys of its own.
fn part_of(server: &RedisServer) -> RedisConfig {
    static SUBJECTS: AtomicU32 = AtomicU32::new(0);
    let number = SUBJECTS.fetch_add(1, Ordering::Relaxed);
    RedisConfig {
        prefix: format!("subject-{number}"),
        ..RedisConfig::standalone(server.url())
    }
}

mod standalone {
    use super::{Arc, OnceLock, RedisServer};

    static REDIS: OnceLock<RedisServer> = OnceLock::new();

    async fn make() -> super::Subject {
        let redis = REDIS.get_or_init(RedisServer::start);
        let (clock, store) = super::open(super::part_of(redis)).await;
        super::subject(Arc::new(store), clock, ())
    }

    cairn_memory::conformance!(together make);
}

mod on_a_cluster {
    use super::{Arc, OnceLock, RedisCluster, RedisConfig, RedisMode};

    static CLUSTER: OnceLock<RedisCluster> = OnceLock::new();

    async fn make() -> super::Subject {
        let cluster = CLUSTER.get_or_init(RedisCluster::start);
        let config = RedisConfig {
            urls: cluster.urls().into_iter().map(Into::into).collect(),
            mode: RedisMode::Cluster,
            ..super::part_of(&cluster.servers[0])
        };
        let (clock, store) = super::open(config).await;
        super::subject(Arc::new(store), clock, ())
    }

    cairn_memory::conformance!(together make);
}

mod through_grpc {
    use super::{Arc, Exposure, Memory, OnceLock, RedisServer, RemoteStore, ServerBuilder};

    static REDIS: OnceLock<RedisServer> = OnceLock::new();

    async fn make() -> super::Subject {
        let redis = REDIS.get_or_init(RedisServer::start);
        let (clock, store) = super::open(super::part_of(redis)).await;
        let memory = Memory::over(Arc::new(store));
        let builder = memory.register_internal(ServerBuilder::new(Exposure::Internal));
        let server = builder.build().await.unwrap();
        let remote = RemoteStore::new(server.link(), memory.store().clone());
        super::subject(Arc::new(remote), clock, server)
    }

    cairn_memory::conformance!(together make);
}
