//! How a store is opened.

use crate::port::Limits;
use cairn_rpc::{Clock, SystemClock};
use std::fmt;
use std::sync::Arc;

/// How a store is opened. The default suits production.
#[derive(Clone)]
pub struct SqliteOptions {
    /// How large things may get.
    pub limits: Limits,
    /// The store's time.
    pub clock: Arc<dyn Clock>,
    /// Owners that run, tools included, in the process that opens the store, and so die with it.
    /// Their leases end when the store is opened anew; those of all others run on.
    pub local_owners: Vec<String>,
    /// Most pages of 4 KiB that the file may have; beyond that the disk counts as full.
    pub max_pages: Option<u32>,
    /// Most reads at the same time.
    pub readers: usize,
    /// Opens a store without its write-ahead log, or with a damaged one, as far as it is there. What was
    /// acknowledged and lies in the rest of the log is lost then. Ignored when opening for reading.
    pub accept_loss: bool,
    /// Called around each SQL COMMIT that makes an owner's transition, a creation or a command
    /// durable.
    #[cfg(debug_assertions)]
    pub commit_hook: Option<crate::fail_point::CommitHook>,
    /// Checks that the store does without.
    #[cfg(debug_assertions)]
    pub sabotage: crate::sabotage::Sabotage,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            clock: Arc::new(SystemClock),
            local_owners: Vec::new(),
            max_pages: None,
            readers: 4,
            accept_loss: false,
            #[cfg(debug_assertions)]
            commit_hook: None,
            #[cfg(debug_assertions)]
            sabotage: crate::sabotage::Sabotage::default(),
        }
    }
}

impl fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteOptions")
            .field("limits", &self.limits)
            .field("local_owners", &self.local_owners)
            .field("max_pages", &self.max_pages)
            .field("readers", &self.readers)
            .field("accept_loss", &self.accept_loss)
            .finish_non_exhaustive()
    }
}
