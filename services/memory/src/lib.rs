//! The memory service: journals, leases, session memory, blobs.
//!
//! It owns all durable state and is the only one that knows where that is. What an event says is
//! nothing to it, but for changes of session memory by clients, which it records itself.
//!
//! | module | what |
//! |---|---|
//! | [`port`] | the contract between the service and where it stores things |
//! | [`sqlite`] | the embedded backend: one file, one writer's thread, group commit |
//! | `hub` | hints inside the process: followers, long polls |
//! | [`grpc`] | the services: convert, call, convert |
//! | [`config`], [`error`] | what can be configured; how results become errors |
//! | `conformance` | the tests that every backend passes (feature `conformance`) |

pub mod config;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod error;
pub mod grpc;
mod hub;
pub mod port;
pub mod sqlite;

pub use config::{Config, StoreConfig};
pub use error::BuildError;
pub use grpc::Memory;

use cairn_rpc::{Clock, SystemClock};
use sqlite::{SqliteOptions, SqliteStore};
use std::fmt;
use std::sync::Arc;

/// What the service is given by the process that it runs in.
#[derive(Clone)]
pub struct Deps {
    /// The store's time.
    pub clock: Arc<dyn Clock>,
    /// Owners that run in this process together with their tools, and die with it.
    pub local_owners: Vec<String>,
    /// A fail point around commits.
    #[cfg(debug_assertions)]
    pub commit_hook: Option<sqlite::CommitHook>,
}

impl Default for Deps {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            local_owners: Vec::new(),
            #[cfg(debug_assertions)]
            commit_hook: None,
        }
    }
}

impl fmt::Debug for Deps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deps")
            .field("local_owners", &self.local_owners)
            .finish_non_exhaustive()
    }
}

/// Opens the store and makes the service. Blocks while the store is opened.
///
/// # Errors
/// A limit that makes no sense; a store that cannot be opened, see [`sqlite::OpenError`].
pub fn build(config: Config, deps: Deps) -> Result<Memory, BuildError> {
    config.check()?;
    let options = SqliteOptions {
        limits: config.limits,
        clock: deps.clock,
        local_owners: deps.local_owners,
        max_pages: config.max_pages,
        readers: config.readers,
        #[cfg(debug_assertions)]
        commit_hook: deps.commit_hook,
    };
    let store = match config.store {
        StoreConfig::Sqlite { path } => SqliteStore::open(path, options)?,
        StoreConfig::Memory => SqliteStore::in_memory(options)?,
    };
    Ok(Memory::over(Arc::new(store)))
}
