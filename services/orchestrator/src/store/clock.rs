//! The store's time, as far as it is known here.

use std::sync::Mutex;
use std::sync::PoisonError;
use tokio::time::Instant;

/// Servers of a store may differ by so much: with the shortest leases, of a second, most of each is left
/// to one whose clock is ahead by that.
const STEP_MS: u64 = 300;

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

    /// Takes a stamp from a reply that has just come to what was asked at that time of this clock.
    ///
    /// A stamp that is before the question shows that this clock is ahead: the store's clock was set
    /// back, or runs slower. Leases by that clock would seem to be over too early, and calls too.
    pub(crate) fn take(&self, asked: u64, stamp: i64) {
        let reading = Reading::now(stamp);
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_ahead = reading.stamp.saturating_add(STEP_MS) < asked;
        if is_ahead || reading.stamp > latest.value() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_late_stamp_of_a_clock_that_goes_right_changes_nothing() {
        let clock = StoreClock::new(100_000);
        let asked = clock.now();
        tokio::time::advance(Duration::from_secs(10)).await;
        clock.take(asked, 100_000);
        assert_eq!(clock.now(), 110_000);
        clock.take(clock.now(), 111_000);
        assert_eq!(clock.now(), 111_000);
        // Servers that differ a little do not push it to and fro.
        clock.take(clock.now(), 110_800);
        assert_eq!(clock.now(), 111_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_was_set_back_is_followed() {
        let clock = StoreClock::new(100_000);
        clock.take(clock.now(), 80_000);
        assert_eq!(clock.now(), 80_000);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(clock.now(), 81_000);
    }

    /// Leases of a second would all seem to be over.
    #[tokio::test(start_paused = true)]
    async fn a_clock_that_was_set_back_by_less_than_a_short_lease_is_followed() {
        let clock = StoreClock::new(100_900);
        clock.take(clock.now(), 100_000);
        assert_eq!(clock.now(), 100_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_runs_slower_is_never_left_far_behind() {
        let clock = StoreClock::new(0);
        for second in 1..10_000_u64 {
            tokio::time::advance(Duration::from_millis(1010)).await;
            clock.take(clock.now(), i64::try_from(second * 1000).unwrap());
            let ahead = clock.now() - second * 1000;
            assert!(ahead <= STEP_MS, "{second}: {ahead} ms ahead");
        }
    }
}
