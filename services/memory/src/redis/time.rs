//! The store's time, as this process tells it.

use super::clocks::{Apart, STEP_MS};
use super::options::RedisOptions;
use super::script::Clock;
use crate::port::{StoreError, StoreResult};
use std::fmt;
#[cfg(any(test, feature = "conformance"))]
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long leases are taken to be before anybody has asked for one.
const USUAL_LEASE_MS: u32 = 15_000;

/// How long a time that was returned is good for an estimate.
const LATELY: Duration = Duration::from_secs(1);

/// The time of the servers. Their clocks may differ a little, or be set: what is told never runs
/// backwards.
pub(super) struct Time {
    latest: AtomicI64,
    /// The time that was returned last, and when.
    last: Mutex<Option<(Instant, i64)>>,
    /// How long the leases are that were asked for last.
    lease_ms: AtomicU32,
    /// The servers' clock was found to be behind what was told.
    is_behind: AtomicBool,
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
            last: Mutex::default(),
            lease_ms: AtomicU32::new(USUAL_LEASE_MS),
            is_behind: AtomicBool::new(false),
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

    /// Refuses to claim as long as a lease would be over for its owner before it began, since
    /// sessions whose owners lose them again and again are quarantined: as long as the servers' clock
    /// is behind what was told, as after a failover to a server whose clock is late, and as long as
    /// the clocks of several servers differ.
    pub(super) fn check(&self, now: i64, apart: Option<&Apart>, lease_ms: u32) -> StoreResult<()> {
        self.lease_ms.store(lease_ms, Ordering::Relaxed);
        self.check_apart(apart)?;
        self.check_behind(now)
    }

    /// The servers' clock was behind what was told when it was last looked at.
    pub(super) fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::Relaxed)
    }

    /// By how much clocks may differ. What is left of a lease that is a third shorter is enough to
    /// renew it.
    pub(super) fn allowed_ms(&self) -> i64 {
        i64::from(self.lease_ms.load(Ordering::Relaxed) / 3).max(STEP_MS)
    }

    fn check_apart(&self, apart: Option<&Apart>) -> StoreResult<()> {
        match apart.filter(|apart| apart.by_ms > self.allowed_ms()) {
            None => Ok(()),
            // Whoever looks out tells the log.
            Some(apart) => Err(StoreError::unavailable(format!(
                "{apart}; no session is claimed until they are"
            ))),
        }
    }

    fn check_behind(&self, now: i64) -> StoreResult<()> {
        let behind = self.latest.load(Ordering::Relaxed).saturating_sub(now);
        let is_behind = behind > self.allowed_ms();
        let was_behind = self.is_behind.swap(is_behind, Ordering::Relaxed);
        match (was_behind, is_behind) {
            (false, true) => tracing::error!(
                behind_ms = behind,
                "the clock of the store's servers was set back: no session is claimed until it has \
                 caught up; set the clocks of all servers"
            ),
            (true, false) => tracing::info!("the clock of the store's servers has caught up"),
            _ => {}
        }
        if !is_behind {
            return Ok(());
        }
        Err(StoreError::unavailable(format!(
            "the clock of the store's servers is {behind} ms behind the time that they gave before: \
             no session is claimed until it has caught up"
        )))
    }

    /// The servers' time by what was returned a moment ago, if anything was: good enough for the time of
    /// an event, and no server is asked.
    pub(super) fn estimate(&self) -> Option<i64> {
        if let Some(given) = self.given() {
            return Some(given);
        }
        let (at, last) = (*self.last())?;
        let elapsed = at.elapsed();
        let ms = i64::try_from(elapsed.as_millis()).ok()?;
        (elapsed < LATELY).then_some(last + ms)
    }

    fn last(&self) -> MutexGuard<'_, Option<(Instant, i64)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to tell of a server's time.
    pub(super) fn tell(&self, now: i64) -> i64 {
        let told = self.latest.fetch_max(now, Ordering::Relaxed).max(now);
        *self.last() = Some((Instant::now(), told));
        told
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Time").finish_non_exhaustive()
    }
}
