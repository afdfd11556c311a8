//! Time as a parameter, so that what depends on it can be tested and replayed.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where the time comes from.
pub trait Clock: Monotonic {
    /// Milliseconds since 1970-01-01 UTC. It may jump, in both directions: it is for people and
    /// for records, never for measuring.
    fn unix_ms(&self) -> u64;

    /// Time since some fixed moment, without that for which the machine slept.
    fn awake(&self) -> Duration {
        self.now()
    }
}

/// The time of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(
        clippy::disallowed_methods,
        reason = "this is the one place where the machine is asked; everybody else takes a Clock"
    )]
    fn unix_ms(&self) -> u64 {
        let since_1970 = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX)
    }

    fn awake(&self) -> Duration {
        static FIRST: OnceLock<Instant> = OnceLock::new();
        FIRST.get_or_init(Instant::now).elapsed()
    }
}

impl Monotonic for SystemClock {
    fn now(&self) -> Duration {
        BootClock.now()
    }
}

/// A clock that only goes forward.
pub trait Monotonic: Send + Sync + 'static {
    /// Time since some fixed moment. Must go on while the machine sleeps.
    fn now(&self) -> Duration;
}

/// The system's clock since it was started. Where the system has such a clock it continues while the
/// machine sleeps, which `std::time::Instant` does not.
#[derive(Debug, Clone, Copy, Default)]
pub struct BootClock;

impl Monotonic for BootClock {
    fn now(&self) -> Duration {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let clock = rustix::time::ClockId::Boottime;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let clock = rustix::time::ClockId::Monotonic;
        let time = rustix::time::clock_gettime(clock);
        Duration::new(
            u64::try_from(time.tv_sec).unwrap_or_default(),
            u32::try_from(time.tv_nsec).unwrap_or_default(),
        )
    }
}

/// A clock that stands still until it is moved: for tests.
#[derive(Debug)]
pub struct ManualClock {
    now: Mutex<Now>,
}

#[derive(Debug, Clone, Copy)]
struct Now {
    unix_ms: u64,
    elapsed: Duration,
    slept: Duration,
}

impl ManualClock {
    /// A clock that shows `unix_ms`.
    pub fn at(unix_ms: u64) -> Self {
        Self {
            now: Mutex::new(Now {
                unix_ms,
                elapsed: Duration::ZERO,
                slept: Duration::ZERO,
            }),
        }
    }

    /// Moves both scales forward.
    pub fn advance(&self, by: Duration) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.elapsed += by;
        let ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        now.unix_ms = now.unix_ms.saturating_add(ms);
    }

    /// The same while the machine sleeps.
    pub fn sleep(&self, by: Duration) {
        self.advance(by);
        self.now
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .slept += by;
    }

    /// Sets the time of day alone, as when somebody corrects a machine's clock.
    pub fn set_unix_ms(&self, unix_ms: u64) {
        self.now
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .unix_ms = unix_ms;
    }

    fn shown(&self) -> Now {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn unix_ms(&self) -> u64 {
        self.shown().unix_ms
    }

    fn awake(&self) -> Duration {
        let shown = self.shown();
        shown.elapsed - shown.slept
    }
}

impl Monotonic for ManualClock {
    fn now(&self) -> Duration {
        self.shown().elapsed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_reported() {
        let clock = ManualClock::at(1_000);
        let start = clock.now();
        assert_eq!((clock.unix_ms(), clock.now()), (1_000, start));
        clock.advance(Duration::from_millis(250));
        assert_eq!(clock.unix_ms(), 1_250);
        assert_eq!(clock.now() - start, Duration::from_millis(250));
        clock.set_unix_ms(5);
        assert_eq!(clock.unix_ms(), 5);
        assert_eq!(clock.now() - start, Duration::from_millis(250));
        let awake = clock.awake();
        clock.sleep(Duration::from_secs(1));
        assert_eq!((clock.unix_ms(), clock.awake()), (1_005, awake));
        assert_eq!(clock.now() - start, Duration::from_millis(1_250));
    }

    /// A lease must not last longer because a laptop slept.
    #[test]
    fn the_system_clock_measures_by_the_clock_that_continues_while_the_machine_sleeps() {
        let before = BootClock.now();
        let measured = SystemClock.now();
        assert!((before..=BootClock.now()).contains(&measured));
    }

    #[test]
    fn the_system_clock_shows_this_century() {
        let year_2024 = 1_704_067_200_000;
        let year_2100 = 4_102_444_800_000;
        assert!((year_2024..year_2100).contains(&SystemClock.unix_ms()));
    }
}
