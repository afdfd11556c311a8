//! The store's time, as this process returns it.

use super::clocks::{Apart, STEP_MS};
use super::options::RedisOptions;
use super::script::Clock;
use crate::port::{StoreError, StoreResult};
use cairn_rpc::{BootClock, Monotonic as _};
use std::fmt;
#[cfg(any(test, feature = "conformance"))]
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long leases are taken to be before anybody has asked for one.
const USUAL_LEASE_MS: u32 = 15_000;

/// How long a time that was returned is good for an estimate.
const LATELY: Duration = Duration::from_secs(1);

/// The time of the servers, as they give it: a clock that was wrong for a moment is followed when it is
/// right again.
pub(super) struct Time {
    /// The time that was returned last, and when by [`BootClock`].
    last: Mutex<Option<(Duration, i64)>>,
    /// How long the leases are that were asked for last.
    lease_ms: AtomicU32,
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
            last: Mutex::default(),
            lease_ms: AtomicU32::new(USUAL_LEASE_MS),
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

    /// Refuses to claim as long as the clocks of several servers differ, because a lease would be over
    /// for its owner before it began, and sessions whose owners lose them again and again are
    /// quarantined.
    pub(super) fn check(&self, apart: Option<&Apart>, lease_ms: u32) -> StoreResult<()> {
        self.lease_ms.store(lease_ms, Ordering::Relaxed);
        match apart.filter(|apart| apart.by_ms > self.allowed_ms()) {
            None => Ok(()),
            // Whoever looks out tells the log.
            Some(apart) => Err(StoreError::unavailable(format!(
                "{apart}; no session is claimed until they are"
            ))),
        }
    }

    /// By how much clocks may differ. What is left of a lease that is a third shorter is enough to
    /// renew it.
    pub(super) fn allowed_ms(&self) -> i64 {
        i64::from(self.lease_ms.load(Ordering::Relaxed) / 3).max(STEP_MS)
    }

    /// The servers' time by what was returned a moment ago, if anything was: good enough for the time of
    /// an event, and no server is asked.
    pub(super) fn estimate(&self) -> Option<i64> {
        if let Some(given) = self.given() {
            return Some(given);
        }
        let (at, last) = (*self.last())?;
        let elapsed = BootClock.now().saturating_sub(at);
        let ms = i64::try_from(elapsed.as_millis()).ok()?;
        (elapsed < LATELY).then_some(last + ms)
    }

    fn last(&self) -> MutexGuard<'_, Option<(Duration, i64)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a server's time, and returns it.
    pub(super) fn take(&self, now: i64) -> i64 {
        *self.last() = Some((BootClock.now(), now));
        now
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Time").finish_non_exhaustive()
    }
}
