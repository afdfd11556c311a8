//! Times and spans as contracts have them.

use prost_types::{Duration, Timestamp};

const NANOS_PER_MS: i32 = 1_000_000;

/// A point in time, of milliseconds since 1970.
pub fn timestamp(unix_ms: i64) -> Timestamp {
    let ms = i32::try_from(unix_ms.rem_euclid(1000)).unwrap_or_default();
    Timestamp {
        seconds: unix_ms.div_euclid(1000),
        nanos: ms * NANOS_PER_MS,
    }
}

/// Milliseconds since 1970, without a part of a millisecond.
pub fn unix_ms(time: Timestamp) -> i64 {
    let ms = i64::from(time.nanos / NANOS_PER_MS);
    time.seconds.saturating_mul(1000).saturating_add(ms)
}

/// A span of so many milliseconds.
pub fn duration(ms: u64) -> Duration {
    let part = i32::try_from(ms % 1000).unwrap_or_default();
    Duration {
        seconds: i64::try_from(ms / 1000).unwrap_or(i64::MAX),
        nanos: part * NANOS_PER_MS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_same_after_its_way_there_and_back() {
        for ms in [0, 1, 999, 1_700_000_000_250, -1, -1000, i64::MAX, i64::MIN] {
            let time = timestamp(ms);
            assert!((0..1_000_000_000).contains(&time.nanos), "{ms}");
            // The first milliseconds of all are cut to whole seconds.
            assert!(unix_ms(time).abs_diff(ms) < 1000, "{ms}");
        }
        assert_eq!(unix_ms(timestamp(-1)), -1);
        assert_eq!(unix_ms(timestamp(1_700_000_000_250)), 1_700_000_000_250);
    }

    #[test]
    fn a_span_has_seconds_and_a_part() {
        assert_eq!(duration(900_000).to_string(), "900s");
        assert_eq!(duration(1_500).to_string(), "1.500s");
    }
}
