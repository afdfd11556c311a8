//! Pieces of a long result: its beginning, a range of its lines, the lines that a search finds.

use crate::event::ResultHandle;
use crate::limits::RESULT_BYTES_RANGE;
use crate::lines::{Lines, MAX_LINE};
use crate::text::counted;

/// Most lines that one search shows.
const MOST_FOUND: usize = 200;
/// Bytes of an excerpt that its first and last line may have.
const AROUND_EXCERPT: usize = 512;

/// How the note begins that ends the beginning of a long result.
pub const TOO_LONG: &str = "[the result is too long: ";
/// What is said of a result whose tool gave more than its own limit allows.
pub(crate) const NOT_KEPT: &str = "its tool gave more, which was not kept";

/// Most bytes of a result that a model with a window of so many tokens gets at once; 0 stands for a window that is
/// not known. `most` holds for every model. A token has about four bytes, so one result takes about a quarter of a
/// small window.
///
/// The owner and the executor of an attempt both apply it to each reply, so they agree which results are long.
pub fn most_for_window(most: usize, window_tokens: u64) -> usize {
    if window_tokens == 0 {
        return most;
    }
    let window = usize::try_from(window_tokens).unwrap_or(usize::MAX);
    most.min(window.max(*RESULT_BYTES_RANGE.start()))
}

/// The beginning of a text, of at most `most` bytes. It ends with a line, if one ends in its second half,
/// else between two characters. A line end of two characters is not parted.
pub fn head(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let (head, rest) = text.split_at(text.floor_char_boundary(most));
    match head.rfind('\n') {
        Some(at) if at >= most / 2 => &head[..=at],
        _ if rest.starts_with('\n') => head.strip_suffix('\r').unwrap_or(head),
        _ => head,
    }
}

/// What a model wants to read of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultRequest {
    /// The result.
    pub whole: ResultHandle,
    /// First line, from 1.
    pub from: u64,
    /// Last line, included.
    pub to: u64,
    /// Only lines that contain this text.
    pub search: Option<String>,
}

/// Reads an excerpt of a result, whose text comes in parts. Memory holds the excerpt, and one line.
#[derive(Debug)]
pub struct Excerpt {
    asked: ResultRequest,
    lines: Lines,
    /// Bytes that the lines shown may have, with their numbers.
    room: usize,
    shown: Vec<String>,
    /// The last line that is shown.
    through: u64,
    /// The first line that belongs to the answer and is not shown.
    left_out: Option<u64>,
    /// Lines that the search has found, those not shown included.
    found: u64,
}

impl Excerpt {
    /// An excerpt of at most `most` bytes.
    pub fn new(asked: ResultRequest, most: usize) -> Self {
        // A line always fits beside the frame, or nothing could be read.
        let room = most.saturating_sub(AROUND_EXCERPT);
        Self {
            asked,
            lines: Lines::default(),
            room,
            shown: Vec::new(),
            through: 0,
            left_out: None,
            found: 0,
        }
    }

    /// Nothing of the parts that follow would be shown.
    pub fn is_done(&self) -> bool {
        let is_full = self.left_out.is_some() && self.asked.search.is_none();
        is_full || self.lines.count() > self.asked.to
    }

    /// Takes the next part of the text.
    ///
    /// # Errors
    /// It is no text, in words for the model.
    pub fn take(&mut self, part: &str) -> Result<(), String> {
        if part.contains('\0') {
            let handle = &self.asked.whole.handle;
            return Err(format!("'{handle}' is binary; only text can be read"));
        }
        let mut lines = std::mem::take(&mut self.lines);
        lines.take(part, |number, line| self.offer(number, line));
        self.lines = lines;
        Ok(())
    }

    fn offer(&mut self, number: u64, line: &str) {
        let ResultRequest {
            from, to, search, ..
        } = &self.asked;
        if !(*from..=*to).contains(&number) {
            return;
        }
        if let Some(search) = search {
            if !line.contains(search.as_str()) {
                return;
            }
            self.found += 1;
        }
        if self.left_out.is_some() {
            return;
        }
        let line = format!("{number}\t{line}");
        let is_full = self.shown.len() == MOST_FOUND && self.asked.search.is_some();
        if is_full || line.len() + 1 > self.room {
            return self.cut(number, &line);
        }
        self.room -= line.len() + 1;
        self.through = number;
        self.shown.push(line);
    }

    /// There is no room for the line. Where nothing is shown before it, its beginning is shown.
    fn cut(&mut self, number: u64, line: &str) {
        if !self.shown.is_empty() {
            self.left_out = Some(number);
            return;
        }
        let part = head(line, self.room.saturating_sub(4));
        self.shown.push(format!("{part} …"));
        self.through = number;
        self.left_out = Some(number + 1);
    }

    /// The answer for the model, after all parts or once nothing more is shown.
    ///
    /// # Errors
    /// There is nothing to be shown, in words for the model.
    pub fn finish(mut self) -> Result<String, String> {
        let mut lines = std::mem::take(&mut self.lines);
        lines.finish(|number, line| self.offer(number, line));
        let ResultRequest { whole, search, .. } = &self.asked;
        let (handle, all) = (&whole.handle, counted(whole.lines, "line"));
        if self.shown.is_empty() && search.is_none() {
            let lost = whole.lost_bytes;
            return Err(format!(
                "nothing of these lines was kept: the store was full, and the last {lost} bytes of \
                 '{handle}' are lost"
            ));
        }
        let mut text = match search {
            None => format!(
                "{handle}: lines {} to {} of {all}\n",
                self.asked.from, self.through
            ),
            Some(search) => format!(
                "{handle}: {} of {} contain '{}'{}\n",
                counted(self.found, "line"),
                self.searched(),
                head(search, 80),
                unsearched(whole)
            ),
        };
        for line in &self.shown {
            text.push_str(line);
            text.push('\n');
        }
        text.push_str(&self.rest());
        Ok(text.trim_end_matches('\n').to_owned())
    }

    /// The lines that a search is about.
    fn searched(&self) -> String {
        let ResultRequest {
            whole, from, to, ..
        } = &self.asked;
        match *from == 1 && *to >= whole.lines {
            true => counted(whole.lines, "line"),
            false => format!("lines {from} to {}", whole.lines.min(*to)),
        }
    }

    /// What is not shown, and how to read it.
    fn rest(&self) -> String {
        let Some(next) = self.left_out.filter(|next| *next <= self.asked.to) else {
            return String::new();
        };
        let shown = counted(self.shown.len(), "line");
        match &self.asked.search {
            None if next > self.asked.whole.lines => String::new(),
            None => format!("[read on with from_line {next}]"),
            Some(_) => format!("[the first {shown} are shown; search on with from_line {next}]"),
        }
    }
}

/// What a search cannot find, because it was not kept.
fn unsearched(whole: &ResultHandle) -> String {
    match (whole.lost_bytes, whole.is_cut) {
        (0, false) => String::new(),
        (0, true) => format!(" ({NOT_KEPT})"),
        (lost, _) => format!(" (its last {lost} bytes were not kept)"),
    }
}

/// A line fits into the smallest excerpt only in part, and into the usual one whole.
const _: () = assert!(MAX_LINE + AROUND_EXCERPT < crate::limits::RESULT_BYTES);

#[cfg(test)]
mod tests;
