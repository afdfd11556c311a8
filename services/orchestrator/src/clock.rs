//! The store's time, as far as it is known here.

use std::sync::Mutex;
use std::sync::PoisonError;
use tokio::time::Instant;

/// The latest reading of the store's clock.
///
/// What it shows is never ahead of the store: a stamp is as old as its way here, and from then on
/// this machine's monotonic clock counts. So nothing that waits for a time begins too early.
#[derive(Debug)]
pub(crate) struct StoreClock(Mutex<Reading>);

#[derive(Debug, Clone, Copy)]
struct Reading {
    stamp: u64,
    received: Instant,
}

impl StoreClock {
    pub(crate) fn new(stamp: i64) -> Self {
        Self(Mutex::new(Reading::now(stamp)))
    }

    /// Takes a stamp from a reply that has just come.
    pub(crate) fn take(&self, stamp: i64) {
        let reading = Reading::now(stamp);
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if reading.stamp > latest.value() {
            *latest = reading;
        }
    }

    /// Milliseconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .value()
    }
}

impl Reading {
    fn now(stamp: i64) -> Self {
        Self {
            stamp: u64::try_from(stamp).unwrap_or(0),
            received: Instant::now(),
        }
    }

    fn value(&self) -> u64 {
        let elapsed = self.received.elapsed().as_millis();
        self.stamp
            .saturating_add(u64::try_from(elapsed).unwrap_or(u64::MAX))
    }
}
