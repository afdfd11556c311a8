//! The last gate before a side effect.
//!
//! Every call that is not pure says after which moment, by the store's clock, it must no longer
//! begin: by then another owner of the session may have decided about it. The gate cannot read the
//! store's clock at the moment of the call, but it knows a bound: the store stamped its answer
//! after it was asked, so its clock now shows at most *stamp + time since it was asked*. If even
//! that is not past `not_after`, the call may begin; in every other case it is refused, and the
//! refusal is a certain answer: nothing was done.
//!
//! The bound holds as long as this process's monotonic clock runs, also while the machine sleeps
//! (see [`BootClock`](cairn_rpc::BootClock)). It cannot cover a process that is frozen *after* the gate has answered and
//! before the tool's first system call.

mod clock;

pub use clock::{BoxError, Refresher, StoreClock, StoreTime};

use crate::error::ToolError;
use std::sync::Arc;
use std::time::Duration;

/// A bound older than this is read anew before a call is let through: the two clocks may run at
/// different speeds.
pub const STALE_AFTER: Duration = Duration::from_secs(30);

/// A reading that is not older says no more if it is read again.
const JUST_READ: Duration = Duration::from_millis(100);

/// Lets calls through, or refuses them, by the store's clock.
#[derive(Debug, Clone)]
pub struct Gate {
    clock: Arc<StoreClock>,
    /// It lets everything through.
    #[cfg(debug_assertions)]
    is_open: bool,
}

impl Gate {
    /// A gate that goes by `clock`.
    pub fn new(clock: Arc<StoreClock>) -> Self {
        Self {
            clock,
            #[cfg(debug_assertions)]
            is_open: false,
        }
    }

    /// A gate that lets everything through, if `is_open`: for tests of what it holds off.
    #[cfg(debug_assertions)]
    #[must_use]
    pub fn left_open(self, is_open: bool) -> Self {
        Self { is_open, ..self }
    }

    /// Asks whether the call with this `key` may begin. `not_after` is the last moment at which it
    /// may, in milliseconds since 1970 by the store's clock.
    ///
    /// # Errors
    /// [`ToolError::NotSent`] if it is too late, if the store's time is not known, or if the call
    /// has no key or no `not_after`.
    pub async fn admit(&self, key: &str, not_after: Option<u64>) -> Result<Permit, ToolError> {
        #[cfg(debug_assertions)]
        if self.is_open {
            return Ok(Permit::unlimited());
        }
        if key.is_empty() {
            return Err(not_sent("it carries no key; its sender must give one"));
        }
        let Some(not_after) = not_after else {
            return Err(not_sent(
                "it carries no not_after; its sender must give one",
            ));
        };
        if let Err(error) = self.clock.refresh_if_older(STALE_AFTER).await {
            tracing::warn!(%error, "the store's time cannot be read");
            return Err(not_sent(
                "the store's time is not known; it may be sent again",
            ));
        }
        let permit = Permit(Some(Term {
            clock: self.clock.clone(),
            not_after,
        }));
        if permit.check().is_err() {
            // The bound is as far ahead as its answer was slow. Before a call is refused, and its
            // owner intends it again, the store is asked once more; the old bound holds if it does
            // not answer.
            let _ = self.clock.refresh_if_older(JUST_READ).await;
        }
        permit.check()?;
        Ok(permit)
    }
}

/// The gate's leave to begin, which runs out.
#[derive(Debug, Clone)]
pub struct Permit(Option<Term>);

#[derive(Debug, Clone)]
struct Term {
    clock: Arc<StoreClock>,
    not_after: u64,
}

impl Permit {
    /// For calls that change nothing: never runs out.
    pub fn unlimited() -> Self {
        Self(None)
    }

    /// Whether the side effect may still begin now.
    ///
    /// # Errors
    /// [`ToolError::NotSent`]: the tool must leave everything as it was and return this error.
    pub fn check(&self) -> Result<(), ToolError> {
        let Some(term) = &self.0 else {
            return Ok(());
        };
        match term.clock.latest_now() {
            None => Err(not_sent(
                "the store's time is not known; it may be sent again",
            )),
            Some(now) if now > term.not_after => Err(not_sent(&format!(
                "it came too late by up to {} ms; its owner decides anew",
                now - term.not_after
            ))),
            Some(_) => Ok(()),
        }
    }
}

fn not_sent(why: &str) -> ToolError {
    ToolError::NotSent(format!("the call was not begun: {why}"))
}

#[cfg(test)]
mod tests;
