//! Points in time and spans of it as text.

use cairn_views::figures;

/// A point in time in UTC, to the millisecond: `2026-11-21T23:11:34.512Z`. An earlier
/// time than 1970 is shown as its begin.
pub fn utc(unix_ms: i64) -> String {
    figures::rfc3339(unix_ms.max(0).unsigned_abs())
}

/// The time of day in UTC: `23:11:34`.
pub fn clock(unix_ms: i64) -> String {
    figures::clock(unix_ms.max(0).unsigned_abs())
}

/// How long ago something was: `12 s ago`, `3 h ago`.
pub fn age(unix_ms: i64, now_unix_ms: i64) -> String {
    let seconds = now_unix_ms.saturating_sub(unix_ms) / 1000;
    match seconds {
        ..=0 => "now".to_owned(),
        1..=59 => format!("{seconds} s ago"),
        60..=3599 => format!("{} min ago", seconds / 60),
        3600..=86_399 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// A span of time: `4 ms`, `1.2 s`, `3 min 20 s`, `2 h 5 min`.
pub fn span(ms: u64) -> String {
    match ms {
        0..=99 => format!("{ms} ms"),
        // Rounded to tenths before it is cut up, so that 59.96 s does not become "60.0 s".
        100..=59_949 => format!("{}.{} s", (ms + 50) / 1000, (ms + 50) / 100 % 10),
        59_950..=3_599_999 => {
            let seconds = (ms + 50) / 1000;
            format!("{} min {} s", seconds / 60, seconds % 60)
        }
        _ => format!("{} h {} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_in_time_are_utc() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (1_760_000_000_001, "2025-10-09T08:53:20.001Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (-1, "1970-01-01T00:00:00.000Z"),
        ];
        for (ms, want) in cases {
            assert_eq!(utc(ms), want);
        }
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        for ms in [i64::MIN, i64::MAX] {
            assert!(utc(ms).ends_with('Z'));
            assert!(!age(ms, i64::MIN).is_empty());
            assert!(!age(ms, i64::MAX).is_empty());
        }
        assert!(!span(u64::MAX).is_empty());
    }

    #[test]
    fn spans_are_short_and_rounded() {
        let cases = [
            (0, "0 ms"),
            (99, "99 ms"),
            (100, "0.1 s"),
            (1249, "1.2 s"),
            (1250, "1.3 s"),
            (59_949, "59.9 s"),
            (59_950, "1 min 0 s"),
            (200_000, "3 min 20 s"),
            (7_500_000, "2 h 5 min"),
        ];
        for (ms, want) in cases {
            assert_eq!(span(ms), want);
        }
    }

    #[test]
    fn ages_are_coarse() {
        let cases = [
            (0, "now"),
            (999, "now"),
            (-5_000, "now"),
            (12_000, "12 s ago"),
        ];
        for (ms, want) in cases {
            assert_eq!(age(1_000_000, 1_000_000 + ms), want);
        }
        assert_eq!(age(0, 3_600_000 * 25), "1 d ago");
        assert_eq!(age(0, 3_600_000 * 3), "3 h ago");
        assert_eq!(age(0, 61_000), "1 min ago");
    }
}
