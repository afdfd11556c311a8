//! Points in time and spans of it as text.

/// A point in time in UTC, to the millisecond: `2026-11-21T23:11:34.512Z`.
pub fn utc(unix_ms: i64) -> String {
    let (days, ms) = (
        unix_ms.div_euclid(86_400_000),
        unix_ms.rem_euclid(86_400_000),
    );
    let (year, month, day) = date(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{}.{:03}Z",
        clock(ms),
        ms % 1000
    )
}

/// The time of day in UTC: `23:11:34`.
pub fn clock(unix_ms: i64) -> String {
    let seconds = unix_ms.rem_euclid(86_400_000) / 1000;
    format!(
        "{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
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

/// The Gregorian date of a number of days since 1970-01-01, after Howard Hinnant's
/// `civil_from_days`: years begin in March, so that the leap day is the last of its year.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
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
            (-1, "1969-12-31T23:59:59.999Z"),
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
