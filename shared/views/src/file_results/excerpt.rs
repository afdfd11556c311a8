//! The result of `read_file`.

use super::{NotAResult, number};
use std::fmt::{self, Display};
use std::str::FromStr;

const LOSSY: &str = " (not valid UTF-8: shown with replacement characters)";
const READ_ON: &str = "truncated: read on with from_line ";

/// What `read_file` returns: a head with the range, then each line as number, tab, text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// The path of the file.
    pub path: String,
    /// The number of the first line that was asked for; 0 in an empty file.
    pub first: u64,
    /// How many lines the whole file has.
    pub total: u64,
    /// Some bytes are not UTF-8, and replacement characters stand for them.
    pub is_lossy: bool,
    /// The lines from `first` on, without their ends.
    pub lines: Vec<String>,
    /// Lines that were asked for are missing at the end.
    pub is_cut: bool,
}

impl Excerpt {
    /// The lines with their numbers.
    pub fn numbered(&self) -> impl Iterator<Item = (u64, &str)> {
        (self.first.max(1)..).zip(self.lines.iter().map(String::as_str))
    }
}

impl Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.first.max(1) - 1 + self.lines.len() as u64;
        let (path, first, total) = (&self.path, self.first, self.total);
        write!(f, "{path} lines {first}-{last} of {total}")?;
        f.write_str(if self.is_lossy { LOSSY } else { "" })?;
        for (number, text) in self.numbered() {
            write!(f, "\n{number}\t{text}")?;
        }
        match self.is_cut {
            true => write!(f, "\n{READ_ON}{}", last + 1),
            false => Ok(()),
        }
    }
}

impl FromStr for Excerpt {
    type Err = NotAResult;

    fn from_str(text: &str) -> Result<Self, NotAResult> {
        let mut lines = text.split('\n');
        let head = lines.next().unwrap_or_default();
        let plain = head.strip_suffix(LOSSY);
        let (range, total) = plain
            .unwrap_or(head)
            .rsplit_once(" of ")
            .ok_or(NotAResult)?;
        let (path, range) = range.rsplit_once(" lines ").ok_or(NotAResult)?;
        let (first, last) = range.split_once('-').ok_or(NotAResult)?;
        let mut excerpt = Self {
            path: path.to_owned(),
            first: number(first)?,
            total: number(total)?,
            is_lossy: plain.is_some(),
            lines: Vec::new(),
            is_cut: false,
        };
        let mut expected = excerpt.first.max(1);
        for line in lines {
            match line.split_once('\t') {
                Some((at, text)) if number(at) == Ok(expected) => {
                    excerpt.lines.push(text.to_owned());
                    expected = expected.saturating_add(1);
                }
                _ => excerpt.is_cut = true,
            }
        }
        excerpt.is_cut |= number(last)? >= expected;
        Ok(excerpt)
    }
}
