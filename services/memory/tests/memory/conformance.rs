//! The conformance suite on the embedded store: on disk, in memory, and through gRPC.

use crate::support::remote::RemoteStore;
use cairn_memory::Memory;
use cairn_memory::conformance::{Subject, limits};
use cairn_memory::port::Store;
use cairn_memory::sqlite::{SqliteOptions, SqliteStore};
use cairn_rpc::{Exposure, ManualClock, ServerBuilder};
use std::sync::Arc;
use std::time::Duration;

fn clock() -> (Arc<ManualClock>, SqliteOptions) {
    let clock = Arc::new(ManualClock::at(1_800_000_000_000));
    let options = SqliteOptions {
        limits: limits(),
        clock: clock.clone(),
        ..SqliteOptions::default()
    };
    (clock, options)
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

mod on_disk {
    async fn make() -> super::Subject {
        let folder = tempfile::tempdir().unwrap();
        let (clock, options) = super::clock();
        let store = super::SqliteStore::open(folder.path().join("cairn.db"), options).unwrap();
        super::subject(super::Arc::new(store), clock, folder)
    }

    cairn_memory::conformance!(make);
}

mod in_memory {
    async fn make() -> super::Subject {
        let (clock, options) = super::clock();
        let store = super::SqliteStore::in_memory(options).unwrap();
        super::subject(super::Arc::new(store), clock, ())
    }

    cairn_memory::conformance!(make);
}

mod through_grpc {
    use super::{Exposure, Memory, RemoteStore, ServerBuilder};

    async fn make() -> super::Subject {
        let (clock, options) = super::clock();
        let store = super::SqliteStore::in_memory(options).unwrap();
        let memory = Memory::over(super::Arc::new(store));
        let builder = memory.register_internal(ServerBuilder::new(Exposure::Internal));
        let server = builder.build().await.unwrap();
        let remote = RemoteStore::new(server.link(), memory.store().clone());
        super::subject(super::Arc::new(remote), clock, server)
    }

    cairn_memory::conformance!(make);
}
