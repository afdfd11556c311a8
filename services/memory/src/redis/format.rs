//! The formats of stores and sessions.

use std::fmt;

/// The formats that a program reads. It writes the newest, and a session keeps the format in which it was
/// written first.
///
/// While programs of two versions share a store, each works on the sessions of its range and leaves the
/// others alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Formats {
    /// The first of them.
    pub oldest: u64,
    /// The last of them.
    pub newest: u64,
}

impl Formats {
    /// Those that this program knows.
    pub(super) const KNOWN: Self = Self {
        oldest: 1,
        newest: 1,
    };

    /// Whether a format is one of them.
    pub(super) fn know(self, format: &str) -> bool {
        let number = format.parse::<u64>();
        number.is_ok_and(|number| (self.oldest..=self.newest).contains(&number))
    }

    /// The same for scripts, which stands before them.
    pub(super) fn lua(self) -> String {
        let Self { oldest, newest } = self;
        format!("local OLDEST, FORMAT = {oldest}, '{newest}'\n")
    }
}

impl fmt::Display for Formats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { oldest, newest } = self;
        match oldest == newest {
            true => write!(f, "format {newest}"),
            false => write!(f, "formats {oldest} to {newest}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_knows_its_formats() {
        let formats = |oldest, newest| Formats { oldest, newest };
        for (formats, known, unknown) in [
            (
                formats(1, 1),
                &["1"][..],
                &["0", "2", "", "x", "-1", "1.5"][..],
            ),
            (formats(2, 4), &["2", "3", "4"][..], &["1", "5"][..]),
        ] {
            assert!(known.iter().all(|it| formats.know(it)), "{formats}");
            assert!(!unknown.iter().any(|it| formats.know(it)), "{formats}");
        }
        assert_eq!(formats(1, 1).to_string(), "format 1");
        assert_eq!(formats(1, 2).to_string(), "formats 1 to 2");
        assert_eq!(formats(1, 2).lua(), "local OLDEST, FORMAT = 1, '2'\n");
    }
}
