//! The conformance suite on Redis: on one server, on a cluster, and through gRPC.

use crate::support::remote::RemoteStore;
use cairn_memory::Memory;
use cairn_memory::conformance::{Subject, limits};
use cairn_memory::port::Store;
use cairn_memory::redis::{RedisConfig, RedisMode, RedisOptions, RedisStore};
use cairn_rpc::{Exposure, ManualClock, ServerBuilder};
use cairn_testkit::{RedisCluster, RedisServer};
use std::sync::Arc;
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

mod standalone {
    use super::{Arc, RedisConfig, RedisServer};

    async fn make() -> super::Subject {
        let server = RedisServer::start();
        let (clock, store) = super::open(RedisConfig::standalone(server.url())).await;
        super::subject(Arc::new(store), clock, server)
    }

    cairn_memory::conformance!(make);
}

mod on_a_cluster {
    use super::{Arc, RedisCluster, RedisConfig, RedisMode};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    static CLUSTER: OnceLock<RedisCluster> = OnceLock::new();
    static SUBJECTS: AtomicU32 = AtomicU32::new(0);

    async fn make() -> super::Subject {
        let cluster = CLUSTER.get_or_init(RedisCluster::start);
        let number = SUBJECTS.fetch_add(1, Ordering::Relaxed);
        let config = RedisConfig {
            urls: cluster.urls().into_iter().map(Into::into).collect(),
            mode: RedisMode::Cluster,
            prefix: format!("subject-{number}"),
            ..RedisConfig::standalone("")
        };
        let (clock, store) = super::open(config).await;
        super::subject(Arc::new(store), clock, ())
    }

    cairn_memory::conformance!(together make);
}

mod through_grpc {
    use super::{Arc, Exposure, Memory, RedisConfig, RedisServer, RemoteStore, ServerBuilder};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    static REDIS: OnceLock<RedisServer> = OnceLock::new();
    static SUBJECTS: AtomicU32 = AtomicU32::new(0);

    async fn make() -> super::Subject {
        let redis = REDIS.get_or_init(RedisServer::start);
        let number = SUBJECTS.fetch_add(1, Ordering::Relaxed);
        let config = RedisConfig {
            prefix: format!("subject-{number}"),
            ..RedisConfig::standalone(redis.url())
        };
        let (clock, store) = super::open(config).await;
        let memory = Memory::over(Arc::new(store));
        let builder = memory.register_internal(ServerBuilder::new(Exposure::Internal));
        let server = builder.build().await.unwrap();
        let remote = RemoteStore::new(server.link(), memory.store().clone());
        super::subject(Arc::new(remote), clock, server)
    }

    cairn_memory::conformance!(together make);
}
