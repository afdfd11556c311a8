//! Times such as `15s`, for `#[serde(with = "cairn_boot::config::duration")]`.

use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::ser::Serializer;
use std::fmt;
use std::time::Duration;

const ALLOWED: &str = "a whole number with a unit, such as 500ms, 15s, 2m, 1h or 7d";

/// Units, largest first, with their length in milliseconds.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Reads a time. There is no default unit: a bare number could mean anything.
///
/// # Errors
/// Whatever is not a whole number with a unit.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    struct Text;
    impl Visitor<'_> for Text {
        type Value = Duration;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(ALLOWED)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
            parse(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
        }
    }
    deserializer.deserialize_str(Text)
}

/// Writes a time in the largest unit that loses nothing; parts of a millisecond are lost.
///
/// # Errors
/// The serializer's.
pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&show(*time))
}

/// A time of the form `15s`.
pub fn parse(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let ms = number.parse::<u64>().ok()?.checked_mul(*factor)?;
    Some(Duration::from_millis(ms))
}

/// The time as [`parse`] reads it.
pub fn show(time: Duration) -> String {
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let fits = |factor: u64| ms != 0 && ms.is_multiple_of(factor);
    let (unit, factor) = UNITS
        .into_iter()
        .find(|(_, factor)| fits(*factor))
        .unwrap_or(("s", 1_000));
    format!("{}{unit}", ms / factor)
}

/// The same for times that need not be there.
pub mod optional {
    use super::{Deserializer, Duration, Serializer};

    /// Reads a time.
    ///
    /// # Errors
    /// Those of [`deserialize`](super::deserialize).
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        super::deserialize(deserializer).map(Some)
    }

    /// Writes a time, or that there is none.
    ///
    /// # Errors
    /// The serializer's.
    #[allow(clippy::ref_option, reason = "serde gives it so")]
    pub fn serialize<S: Serializer>(
        time: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => super::serialize(time, serializer),
            None => serializer.serialize_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_shown_alike() {
        for (text, ms) in [
            ("0s", 0),
            ("1ms", 1),
            ("1500ms", 1_500),
            ("15s", 15_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(ms)), "{text}");
            assert_eq!(show(Duration::from_millis(ms)), text);
        }
        assert_eq!(parse("60s"), parse("1m"));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "5",
            "s",
            "-5s",
            "1.5s",
            "5 s",
            "5S",
            "5w",
            "99999999999999999999s",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
        assert_eq!(parse("213503982335d"), None);
    }
}
