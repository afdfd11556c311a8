//! The store's time, as this process tells it.

use super::options::RedisOptions;
use super::script::Clock;
use std::fmt;
#[cfg(any(test, feature = "conformance"))]
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The time of the servers. Their clocks may differ a little, or be set: what is told never runs
/// backwards.
pub(super) struct Time {
    latest: AtomicI64,
    #[cfg(any(test, feature = "conformance"))]
    given: Option<Arc<dyn cairn_rpc::Clock>>,
}

impl Time {
    #[cfg_attr(
        not(any(test, feature = "conformance")),
        allow(unused_variables, reason = "only tests give a time")
    )]
    pub(super) fn new(options: &RedisOptions) -> Self {
        Self {
            latest: AtomicI64::new(0),
            #[cfg(any(test, feature = "conformance"))]
            given: options.clock.clone(),
        }
    }

    pub(super) fn clock(&self) -> Clock {
        #[cfg(any(test, feature = "conformance"))]
        if self.given.is_some() {
            return Clock::Given;
        }
        Clock::Server
    }

    /// The time that scripts are given, if they are given one.
    pub(super) fn given(&self) -> Option<i64> {
        #[cfg(any(test, feature = "conformance"))]
        if let Some(clock) = &self.given {
            return i64::try_from(clock.unix_ms()).ok();
        }
        None
    }

    /// What to tell of a server's time.
    pub(super) fn tell(&self, now: i64) -> i64 {
        self.latest.fetch_max(now, Ordering::Relaxed).max(now)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Time").finish_non_exhaustive()
    }
}
