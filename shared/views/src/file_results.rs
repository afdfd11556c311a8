//! The text form of what the file tools return, with its writers (`Display`) and its readers
//! (`FromStr`).
//!
//! The tools write it, models see it as it is, and the offline model reads it. All forms are lines. No
//! path has a tab or a line break, because the tools quote such names. So the first tab of a line ends
//! its path, and a line of [`Listed`] without a tab is no entry: no content of a file can look like one.

mod excerpt;
mod list;
mod search;

pub use excerpt::Excerpt;
pub use list::{FileKind, FileTotals, ListedFile};
pub use search::{MatchTotals, MatchedLine};

use cairn_engine::text::counted;
use std::fmt::{self, Display};
use std::str::FromStr;

const CUT: &str = "truncated: showing the first ";

/// A text that is not in the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAResult;

/// What `list_files` returns.
pub type FileList = Listed<ListedFile, FileTotals>;
/// What `search_files` returns.
pub type Matches = Listed<MatchedLine, MatchTotals>;

/// Entries, one a line, with totals after them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<E, T> {
    /// The first entries, as far as there was room.
    pub entries: Vec<E>,
    /// Counts of all entries, also of those that are not shown. A text that was cut has none.
    pub totals: Option<T>,
    /// Not all entries are shown.
    pub is_cut: bool,
    /// What else the tool reports, such as folders that it could not read.
    pub notes: Vec<String>,
}

/// The lines after the entries. `is_cut` says that only `shown` entries were shown.
pub fn ending(totals: &impl Display, shown: usize, is_cut: bool, notes: &[String]) -> String {
    let mut text = totals.to_string();
    if is_cut {
        text.push_str(&format!("\n{CUT}{shown}"));
    }
    for note in notes {
        text.push('\n');
        text.push_str(note);
    }
    text
}

impl<E, T> Listed<E, T> {
    /// There are entries, and perhaps more than these.
    pub fn is_partial(&self) -> bool {
        let is_whole = self.totals.is_some() && !self.is_cut && self.notes.is_empty();
        !is_whole && !self.entries.is_empty()
    }
}

impl<E: FromStr, T: FromStr> Listed<E, T> {
    /// Reads a result. A line that is not understood makes it a cut one.
    pub fn read(text: &str) -> Self {
        let mut read = Self {
            entries: Vec::new(),
            totals: None,
            is_cut: false,
            notes: Vec::new(),
        };
        for line in text.split('\n').filter(|line| !line.is_empty()) {
            if line.contains('\t') {
                match line.parse() {
                    Ok(entry) => read.entries.push(entry),
                    Err(_) => read.is_cut = true,
                }
            } else if read.totals.is_none() {
                read.totals = line.parse().ok();
                read.is_cut |= read.totals.is_none();
            } else if line.starts_with(CUT) {
                read.is_cut = true;
            } else {
                read.notes.push(line.to_owned());
            }
        }
        read
    }
}

impl<E: Display, T: Display> Display for Listed<E, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for entry in &self.entries {
            writeln!(f, "{entry}")?;
        }
        match &self.totals {
            Some(totals) => {
                let shown = self.entries.len();
                f.write_str(&ending(totals, shown, self.is_cut, &self.notes))
            }
            None => Ok(()),
        }
    }
}

/// What `write_file` returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The path of the file.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// How many lines it has.
    pub lines: u64,
}

impl Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, lines) = (bytes(self.bytes), lines(self.lines));
        write!(f, "wrote {}: {bytes}, {lines}", self.path)
    }
}

impl FromStr for Written {
    type Err = NotAResult;

    fn from_str(text: &str) -> Result<Self, NotAResult> {
        let rest = text.strip_prefix("wrote ").ok_or(NotAResult)?;
        let (path, sizes) = rest.rsplit_once(": ").ok_or(NotAResult)?;
        let mut counts = Counts(sizes.split(", ").peekable());
        let written = Self {
            path: path.to_owned(),
            bytes: counts.next(bytes)?,
            lines: counts.next(lines)?,
        };
        counts.end(written)
    }
}

fn files(count: u64) -> String {
    counted(count, "file")
}

fn bytes(count: u64) -> String {
    counted(count, "byte")
}

fn lines(count: u64) -> String {
    counted(count, "line")
}

/// Counts with their nouns, separated by commas. Each is read by the function that writes it.
struct Counts<'a>(std::iter::Peekable<std::str::Split<'a, &'static str>>);

impl<'a> Counts<'a> {
    fn of(line: &'a str) -> Result<Self, NotAResult> {
        let counts = line.strip_prefix("total: ").ok_or(NotAResult)?;
        Ok(Self(counts.split(", ").peekable()))
    }

    fn next(&mut self, written: fn(u64) -> String) -> Result<u64, NotAResult> {
        let part = self.0.next().ok_or(NotAResult)?;
        count(part, written).ok_or(NotAResult)
    }

    /// A count of 0 is not written.
    fn optional(&mut self, written: fn(u64) -> String) -> u64 {
        let found = self.0.peek().and_then(|part| count(part, written));
        if found.is_some() {
            self.0.next();
        }
        found.unwrap_or(0)
    }

    fn end<T>(mut self, totals: T) -> Result<T, NotAResult> {
        match self.0.next() {
            None => Ok(totals),
            Some(_) => Err(NotAResult),
        }
    }
}

fn count(part: &str, written: fn(u64) -> String) -> Option<u64> {
    let (count, _) = part.split_once(' ')?;
    let count = number(count).ok()?;
    (written(count) == part).then_some(count)
}

/// Digits only: `parse` takes a sign, too.
fn number(text: &str) -> Result<u64, NotAResult> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = text.parse().ok().filter(|_| is_plain);
    parsed.ok_or(NotAResult)
}
