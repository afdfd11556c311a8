//! The entries and totals of `search_files`.

use super::{Counts, NotAResult, files, number};
use cairn_engine::text::counted;
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

fn matching(count: u64) -> String {
    counted(count, "matching line")
}

fn searched(count: u64) -> String {
    format!("{} searched", files(count))
}

fn binary(count: u64) -> String {
    format!("{} skipped", counted(count, "binary file"))
}

fn large(count: u64) -> String {
    format!("{} skipped as too large", files(count))
}

fn unreadable(count: u64) -> String {
    format!("{} skipped as unreadable", files(count))
}

impl Display for MatchTotals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (matching, files) = (matching(self.lines), files(self.files));
        write!(
            f,
            "total: {matching} in {files}, {}",
            searched(self.searched)
        )?;
        let skipped = [
            (self.binary, binary(self.binary)),
            (self.large, large(self.large)),
            (self.unreadable, unreadable(self.unreadable)),
        ];
        let mut skipped = skipped.into_iter().filter(|(count, _)| *count > 0);
        skipped.try_for_each(|(_, written)| write!(f, ", {written}"))
    }
}

impl FromStr for MatchTotals {
    type Err = NotAResult;

    fn from_str(line: &str) -> Result<Self, NotAResult> {
        let line = line.replacen(" in ", ", ", 1);
        let mut counts = Counts::of(&line)?;
        let totals = Self {
            lines: counts.next(matching)?,
            files: counts.next(files)?,
            searched: counts.next(searched)?,
            binary: counts.optional(binary),
            large: counts.optional(large),
            unreadable: counts.optional(unreadable),
        };
        counts.end(totals)
    }
}
