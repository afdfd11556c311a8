//! The text of a file with a part of it replaced.
//!
//! Texts are compared with `\n` as the only line end, as models write it. What replaces a part gets the line
//! ends of its place.

mod nearest;

use cairn_engine::text::counted;
use nearest::nearest;
use std::borrow::Cow;

/// Most line numbers in one message.
const MOST_NAMED: usize = 10;

/// A replacement that is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edit<'a> {
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    /// Every occurrence. Otherwise, there must be exactly one.
    pub(super) all: bool,
    /// The same edit may have been made before: it is not made a second time.
    pub(super) may_be_repeat: bool,
}

/// What came of an edit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Edited {
    /// The new text of the whole file.
    Changed(String),
    /// The text has the replacement already, at this line.
    Already(usize),
}

/// Replaces a part of `text`.
///
/// # Errors
/// Why not, for the model. `shown` is the file's path.
pub(super) fn replace(text: &str, edit: &Edit<'_>, shown: &str) -> Result<Edited, String> {
    let file = Unix::of(text);
    let (old, new) = (unix(edit.old), unix(edit.new));
    let (old, new): (&str, &str) = (&*old, &*new);
    if old.is_empty() {
        return Err(
            "'old' is empty; give the text that is to be replaced, or use write_file for a whole file"
                .to_owned(),
        );
    }
    if old == new {
        return Err("'old' and 'new' are the same text, so nothing would change".to_owned());
    }
    let starts: Vec<usize> = file.text.match_indices(old).map(|(at, _)| at).collect();
    let Some(&first) = starts.first() else {
        return match file.only(new, edit.all) {
            Some(at) if edit.may_be_repeat => Ok(Edited::Already(file.line(at))),
            there => Err(missing(&file, old, there, shown)),
        };
    };
    if edit.may_be_repeat && starts.iter().all(|start| file.is_within(*start, old, new)) {
        return Ok(Edited::Already(file.line(first)));
    }
    if !edit.all && (starts.len() > 1 || file.overlaps(first, old)) {
        return Err(several(&file, &starts, shown));
    }
    Ok(Edited::Changed(file.with(text, &starts, old, new)))
}

fn missing(file: &Unix<'_>, old: &str, there: Option<usize>, shown: &str) -> String {
    if let Some(at) = there {
        let line = file.line(at);
        return format!(
            "'old' does not occur in '{shown}', and 'new' does, at line {line}: was it edited already? Read the \
             file again"
        );
    }
    let hint = nearest(&file.text, old).map_or_else(String::new, |hint| format!("; {hint}"));
    format!(
        "'old' does not occur in '{shown}'{hint}. Read the file, and give its text exactly, with its spaces and \
         line breaks and without the line numbers of read_file"
    )
}

fn several(file: &Unix<'_>, starts: &[usize], shown: &str) -> String {
    let named = starts.iter().take(MOST_NAMED);
    let mut lines: Vec<String> = named.map(|at| file.line(*at).to_string()).collect();
    lines.dedup();
    let (noun, more) = match (lines.len(), starts.len() > MOST_NAMED) {
        (1, _) => ("line", ""),
        (_, true) => ("lines", ", …"),
        (_, false) => ("lines", ""),
    };
    // Occurrences that overlap are counted once.
    let count = counted(starts.len().max(2), "time");
    format!(
        "'old' occurs {count} in '{shown}', at {noun} {}{more}; take more of the lines around it into 'old', so that \
         it occurs once, or set 'all' to replace every occurrence",
        lines.join(", ")
    )
}

/// A text with `\n` as the only line end.
fn unix(text: &str) -> Cow<'_, str> {
    match text.contains("\r\n") {
        true => Cow::Owned(text.replace("\r\n", "\n")),
        false => Cow::Borrowed(text),
    }
}

/// A file's text with `\n` as the only line end, and the way back to the text as it is.
struct Unix<'a> {
    text: Cow<'a, str>,
    /// Where a `\n` stands for `\r\n`, in order.
    cut: Vec<usize>,
    /// Where every `\n` is, in order; empty if all of them are of one kind.
    ends: Vec<usize>,
}

impl<'a> Unix<'a> {
    fn of(text: &'a str) -> Self {
        if !text.contains("\r\n") {
            return Self {
                text: Cow::Borrowed(text),
                cut: Vec::new(),
                ends: Vec::new(),
            };
        }
        let (mut unix, mut cut) = (String::with_capacity(text.len()), Vec::new());
        for (number, piece) in text.split("\r\n").enumerate() {
            if number > 0 {
                cut.push(unix.len());
                unix.push('\n');
            }
            unix.push_str(piece);
        }
        let ends: Vec<usize> = unix.match_indices('\n').map(|(at, _)| at).collect();
        Self {
            text: Cow::Owned(unix),
            ends: match ends.len() == cut.len() {
                true => Vec::new(),
                false => ends,
            },
            cut,
        }
    }

    /// The position in the text as it is. Before a line end it is before the whole of it.
    fn back(&self, at: usize) -> usize {
        at + self.cut.partition_point(|cut| *cut < at)
    }

    /// Whether what begins here has `\r\n` at the ends of its lines, or of the line that it is in.
    fn is_crlf(&self, start: usize) -> bool {
        if self.ends.is_empty() {
            return !self.cut.is_empty();
        }
        let next = self.ends.partition_point(|end| *end < start);
        let end = self.ends.get(next).or(self.ends.last());
        end.is_some_and(|end| self.cut.binary_search(end).is_ok())
    }

    fn line(&self, at: usize) -> usize {
        1 + self.text[..at].matches('\n').count()
    }

    /// Where the text `new` is: its only place, or with `all` its first one.
    fn only(&self, new: &str, all: bool) -> Option<usize> {
        if new.trim().is_empty() {
            return None;
        }
        let mut places = self.text.match_indices(new);
        let (first, _) = places.next()?;
        (all || places.next().is_none()).then_some(first)
    }

    /// Whether the `old` at `start` is a part of a `new`: then it is what an edit that was made left.
    fn is_within(&self, start: usize, old: &str, new: &str) -> bool {
        let mut offsets = new.match_indices(old);
        offsets.any(|(offset, _)| {
            let begins = start.checked_sub(offset);
            let there = begins.and_then(|begins| self.text.get(begins..));
            there.is_some_and(|there| there.starts_with(new))
        })
    }

    /// Whether another `old` begins within the one at `start`.
    fn overlaps(&self, start: usize, old: &str) -> bool {
        let step = old.chars().next().map_or(1, char::len_utf8);
        self.text[start + step..].contains(old)
    }

    /// The text as it is with `new` for each `old`.
    fn with(&self, text: &str, starts: &[usize], old: &str, new: &str) -> String {
        let new_crlf = new.replace('\n', "\r\n");
        let mut changed = String::with_capacity(text.len());
        let mut done = 0;
        for &start in starts {
            changed.push_str(&text[done..self.back(start)]);
            changed.push_str(match self.is_crlf(start) {
                true => &new_crlf,
                false => new,
            });
            done = self.back(start + old.len());
        }
        changed.push_str(&text[done..]);
        changed
    }
}

#[cfg(test)]
mod tests;
