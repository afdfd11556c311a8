//! The memory service: journals, leases, session memory, blobs, documents.
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
//! | [`archive`] | a session as a file: the format of the archive, and its reader |
//! | `memory_event` | the events of changes of session memory by clients |
//! | `metadata` | the metadata of session memory, as stores keep it |
//! | `documents` | the rules of documents |
//! | `checksum` | checksums of what is stored |
//! | `retention` | which checkpoints of a session are kept |
//! | `turns` | whose turn it is among the sessions that are due |
//! | [`grpc`] | the services: convert, call, convert |
//! | [`config`], [`error`] | what can be configured; how results become errors |
//! | `fail_point` | what is called around commits, for tests of crashes (debug builds) |
//! | `sabotage` | checks that can be taken out, for tests of the tests (debug builds) |
//! | `conformance` | the tests that every backend passes (feature `conformance`) |

mod apart;
pub mod archive;
mod aside;
mod checksum;
pub mod config;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod documents;
pub mod error;
#[cfg(debug_assertions)]
pub mod fail_point;
mod fingerprint;
pub mod grpc;
mod hub;
pub mod janitor;
mod memory_event;
mod metadata;
mod open;
pub mod port;
pub mod redis;
mod retention;
#[cfg(debug_assertions)]
pub mod sabotage;
pub mod sqlite;
mod turns;

pub use config::{Config, StoreConfig};
pub use error::BuildError;
pub use grpc::Memory;
pub use open::{Opened, build, open};
pub use redis::Durability;

use cairn_rpc::{Clock, SystemClock};
use std::fmt;
use std::sync::Arc;

/// What the service is given by the process that it runs in.
#[derive(Clone)]
pub struct Deps {
    /// The time of the embedded store; others have their own.
    pub clock: Arc<dyn Clock>,
    /// Owners that run in this process together with their tools, and die with it.
    pub local_owners: Vec<String>,
    /// A fail point around commits.
    #[cfg(debug_assertions)]
    pub commit_hook: Option<fail_point::CommitHook>,
    /// Checks that the store does without.
    #[cfg(debug_assertions)]
    pub sabotage: sabotage::Sabotage,
}

impl Default for Deps {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            local_owners: Vec::new(),
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
