//! The entries and totals of `list_files`.

use super::{Counts, NotAResult, bytes, files, number};
use std::fmt::{self, Display};
use std::str::FromStr;

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Lines of text.
    Text,
    /// A NUL byte is in it.
    Binary,
    /// It could not be read.
    Unreadable,
}

const KINDS: [(FileKind, &str); 3] = [
    (FileKind::Text, "text"),
    (FileKind::Binary, "binary"),
    (FileKind::Unreadable, "unreadable"),
];

/// A file of a folder: path, bytes, lines and kind, separated by tabs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    /// Its path from the workspace on.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// How many lines it has; none if they were not counted.
    pub lines: Option<u64>,
    /// What it holds.
    pub kind: FileKind,
}

impl Display for ListedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = KINDS.iter().find(|(kind, _)| *kind == self.kind);
        let kind = kind.map_or("", |(_, name)| name);
        write!(f, "{}\t{}\t", self.path, self.bytes)?;
        match self.lines {
            Some(lines) => write!(f, "{lines}\t{kind}"),
            None => write!(f, "-\t{kind}"),
        }
    }
}

impl FromStr for ListedFile {
    type Err = NotAResult;

    fn from_str(line: &str) -> Result<Self, NotAResult> {
        let columns: Vec<&str> = line.split('\t').collect();
        let [path, bytes, lines, kind] = columns[..] else {
            return Err(NotAResult);
        };
        let kind = KINDS.iter().find(|(_, name)| *name == kind);
        Ok(Self {
            path: path.to_owned(),
            bytes: number(bytes)?,
            lines: match lines {
                "-" => None,
                lines => Some(number(lines)?),
            },
            kind: kind.ok_or(NotAResult)?.0,
        })
    }
}

/// Counts of all files that were found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileTotals {
    /// Files of any kind.
    pub files: u64,
    /// Their size.
    pub bytes: u64,
    /// Files of text.
    pub text: u64,
    /// Files that are binary.
    pub binary: u64,
    /// Files that could not be read.
    pub unreadable: u64,
}

impl Display for FileTotals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "total: {}, {}", files(self.files), bytes(self.bytes))?;
        write!(f, ", {}, {}", text(self.text), binary(self.binary))?;
        match self.unreadable {
            0 => Ok(()),
            some => write!(f, ", {}", unreadable(some)),
        }
    }
}

fn text(count: u64) -> String {
    format!("{count} text")
}

fn binary(count: u64) -> String {
    format!("{count} binary")
}

fn unreadable(count: u64) -> String {
    format!("{count} unreadable")
}

impl FromStr for FileTotals {
    type Err = NotAResult;

    fn from_str(line: &str) -> Result<Self, NotAResult> {
        let mut counts = Counts::of(line)?;
        let totals = Self {
            files: counts.next(files)?,
            bytes: counts.next(bytes)?,
            text: counts.next(text)?,
            binary: counts.next(binary)?,
            unreadable: counts.optional(unreadable),
        };
        counts.end(totals)
    }
}
