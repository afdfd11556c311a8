//! The memory service: journals, leases, session memory, blobs.
//!
//! It owns all durable state and is the only one that knows where that is. What an event says is
//! nothing to it, but for changes of session memory by clients, which it records itself.
//!
//! | module | what |
//! |---|---|
//! | [`port`] | the contract between the service and where it stores things |
//! | [`sqlite`] | the embedded backend: one file, one writer's thread, group commit |
//! | [`redis`] | the shared backend: one server, with sentinels, or a cluster |
//! | `hub` | hints inside the process: followers, long polls |
//! | [`janitor`] | the end of sessions whose time has come: archived, deleted |
//! | `turns` | whose turn it is among the sessions that are due |
//! | [`grpc`] | the services: convert, call, convert |
//! | [`config`], [`error`] | what can be configured; how results become errors |
//! | `sabotage` | checks that can be taken out, for tests of the tests (debug builds) |
//! | `conformance` | the tests that every backend passes (feature `conformance`) |

mod apart;
pub mod config;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod error;
pub mod grpc;
mod hub;
pub mod janitor;
pub mod port;
pub mod redis;
#[cfg(debug_assertions)]
pub mod sabotage;
pub mod sqlite;
mod turns;

pub use config::{Config, StoreConfig};
pub use error::BuildError;
pub use grpc::Memory;
pub use redis::Durability;

use cairn_rpc::{Clock, SystemClock};
use janitor::{Archive, ArchiveLine, Janitor};
use port::Store;
use redis::{RedisOptions, RedisStore};
use sqlite::{SqliteOptions, SqliteStore};
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;

/// What the service is given by the process that it runs in.
#[derive(Clone)]
pub struct Deps {
    /// The time of the embedded store; others have their own.
    pub clock: Arc<dyn Clock>,
    /// Owners that run in this process together with their tools, and die with it.
    pub local_owners: Vec<String>,
    /// How events are written to an archive; needed for one.
    pub archive_line: Option<ArchiveLine>,
    /// A fail point around commits.
    #[cfg(debug_assertions)]
    pub commit_hook: Option<sqlite::CommitHook>,
    /// Checks that the store does without.
    #[cfg(debug_assertions)]
    pub sabotage: sabotage::Sabotage,
}

impl Default for Deps {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            local_owners: Vec::new(),
            archive_line: None,
            #[cfg(debug_assertions)]
            commit_hook: None,
            #[cfg(debug_assertions)]
            sabotage: sabotage::Sabotage::default(),
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

/// The service with what was found out about its store.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The service.
    pub memory: Memory,
    /// Whether the store keeps what it answered.
    pub durability: Durability,
    /// How many losses of acknowledged writes have been found since, if the store can have any.
    pub losses: Option<watch::Receiver<u64>>,
}

/// Opens the store and makes the service. Blocks while the store is opened.
///
/// # Errors
/// A limit that makes no sense; an archive that cannot be written; a store that cannot be opened, see [`sqlite::OpenError`] and
/// [`redis::OpenError`].
pub fn build(config: Config, deps: Deps) -> Result<Memory, BuildError> {
    Ok(open(config, deps)?.memory)
}

/// The same, and tells how durable the store is.
///
/// # Errors
/// As [`build`].
pub fn open(config: Config, deps: Deps) -> Result<Opened, BuildError> {
    config.check()?;
    let (limits, store) = (config.limits.clone(), config.store.clone());
    let retain = config.retain;
    // Before the store, which is made if there is none.
    let archive = match (config.archive, deps.archive_line) {
        (None, _) => None,
        (Some(folder), Some(line)) => Some(Archive::open(folder, line)?),
        (Some(_), None) => return Err(BuildError::NoArchiveLine),
    };
    let embedded = || SqliteOptions {
        limits: config.limits,
        clock: deps.clock,
        local_owners: deps.local_owners,
        max_pages: config.max_pages,
        readers: config.readers,
        #[cfg(debug_assertions)]
        commit_hook: deps.commit_hook,
        #[cfg(debug_assertions)]
        sabotage: deps.sabotage,
    };
    let (mut durability, mut losses) = (Durability::Durable, None);
    let store: Arc<dyn Store> = match store {
        StoreConfig::Sqlite { path } => Arc::new(SqliteStore::open(path, embedded())?),
        StoreConfig::Memory => {
            let reasons = vec!["the store is in memory: it ends with the process".to_owned()];
            durability = Durability::Degraded { reasons };
            Arc::new(SqliteStore::in_memory(embedded())?)
        }
        StoreConfig::Redis(config) => {
            let options = RedisOptions {
                limits,
                #[cfg(debug_assertions)]
                sabotage: deps.sabotage,
                ..RedisOptions::default()
            };
            let store = RedisStore::open_blocking(&config, options)?;
            durability = store.durability().clone();
            losses = Some(store.losses());
            Arc::new(store)
        }
    };
    let janitor = Janitor::new(store.clone(), retain, archive);
    let memory = Memory::over(store).with_janitor(janitor);
    Ok(Opened {
        memory,
        durability,
        losses,
    })
}
