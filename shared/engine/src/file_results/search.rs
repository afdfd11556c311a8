//! The entries and totals of `search_files`.

use super::{Counts, NotAResult, number};
use std::fmt::{self, Display};
use std::str::FromStr;

/// A line that matches: path, colon, number, colon, tab, text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchedLine {
    /// The path of its file.
    pub path: String,
    /// Its number, from 1.
    pub line: u64,
    /// Its text without the line end, perhaps only the beginning.
    pub text: String,
}

impl Display for MatchedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:\t{}", self.path, self.line, self.text)
    }
}

impl FromStr for MatchedLine {
    type Err = NotAResult;

    fn from_str(line: &str) -> Result<Self, NotAResult> {
        let (place, text) = line.split_once('\t').ok_or(NotAResult)?;
        let place = place.strip_suffix(':').ok_or(NotAResult)?;
        let (path, line) = place.rsplit_once(':').ok_or(NotAResult)?;
        Ok(Self {
            path: path.to_owned(),
            line: number(line)?,
            text: text.to_owned(),
        })
    }
}

/// Counts of all lines that match, and of the files that were searched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MatchTotals {
    /// Lines that match.
    pub lines: u64,
    /// Files with such a line.
    pub files: u64,
    /// Files that were searched.
    pub searched: u64,
    /// Files that were not searched because they are binary.
    pub binary: u64,
    /// Files that were not searched because they are too large.
    pub large: u64,
    /// Files that could not be read.
    pub unreadable: u64,
}

const BINARY: &str = " binary files skipped";
const LARGE: &str = " files skipped as too large";
const UNREADABLE: &str = " files skipped as unreadable";

impl Display for MatchTotals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "total: {} matching lines in", self.lines)?;
        write!(f, " {} files, {} files searched", self.files, self.searched)?;
        for (count, what) in [
            (self.binary, BINARY),
            (self.large, LARGE),
            (self.unreadable, UNREADABLE),
        ] {
            if count > 0 {
                write!(f, ", {count}{what}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for MatchTotals {
    type Err = NotAResult;

    fn from_str(line: &str) -> Result<Self, NotAResult> {
        let line = line.replacen(" matching lines in ", " matching lines, ", 1);
        let mut counts = Counts::of(&line)?;
        let totals = Self {
            lines: counts.next(" matching lines")?,
            files: counts.next(" files")?,
            searched: counts.next(" files searched")?,
            binary: counts.optional(BINARY),
            large: counts.optional(LARGE),
            unreadable: counts.optional(UNREADABLE),
        };
        counts.end(totals)
    }
}
