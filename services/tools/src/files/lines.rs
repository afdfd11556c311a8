//! The lines of a text that comes in pieces, each searched for an expression.
//!
//! A line has no largest size: at most its beginning is kept. After each [`STEP`] bytes there is a look
//! at the stop signal.

use super::Stop;
use super::expression::{Expression, SHORT, Verdict};
use crate::error::ToolError;

/// Bytes searched between two looks at the stop signal: some milliseconds of the slowest expression.
const STEP: usize = 64;

/// A line that was found, or may be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// It matches. The number is from 1, the text is its first [`SHORT`] bytes without the line end.
    Matching(u64, &'a [u8]),
    /// It is longer than [`SHORT`] bytes, and it is not known whether it matches.
    Unknown,
}

/// What takes the lines that are found.
pub(super) type Take<'t> = dyn FnMut(Line<'_>) + 't;

/// A search, line by line.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    stop: &'a Stop,
    expression: Expression,
    /// Bytes searched since the last look at the stop signal.
    unchecked: usize,
    /// Of the line that is being read, or was read last.
    number: u64,
    /// The first [`SHORT`] bytes of a line that has begun.
    head: Vec<u8>,
    bytes: usize,
    has_begun: bool,
    /// A carriage return was read that belongs to the line only if it does not end there.
    is_held: bool,
}

impl<'a> Lines<'a> {
    pub(super) fn new(expression: Expression, stop: &'a Stop) -> Self {
        Self {
            stop,
            expression,
            unchecked: 0,
            number: 0,
            head: Vec::new(),
            bytes: 0,
            has_begun: false,
            is_held: false,
        }
    }

    /// Begins a text.
    pub(super) fn begin(&mut self) {
        self.number = 0;
        self.forget();
    }

    /// Takes the next piece of the text.
    ///
    /// # Errors
    /// The search was stopped.
    pub(super) fn piece(&mut self, piece: &[u8], take: &mut Take<'_>) -> Result<(), ToolError> {
        let mut lines = piece.split(|byte| *byte == b'\n');
        // What follows the last line end is the beginning of a line.
        let rest = lines.next_back().unwrap_or_default();
        for line in lines {
            let is_short = !self.has_begun && line.len() <= SHORT;
            if is_short && self.expression.is_quick() {
                self.whole(line, take)?;
            } else {
                self.part(line)?;
                self.line_end(take)?;
            }
        }
        self.part(rest)
    }

    /// Ends the text.
    ///
    /// # Errors
    /// The search was stopped.
    pub(super) fn end(&mut self, take: &mut Take<'_>) -> Result<(), ToolError> {
        match self.has_begun {
            true => self.line_end(take),
            false => Ok(()),
        }
    }

    /// Takes a short line at once.
    fn whole(&mut self, line: &[u8], take: &mut Take<'_>) -> Result<(), ToolError> {
        self.count(line.len() + 1)?;
        self.number += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if self.expression.is_match(line) {
            take(Line::Matching(self.number, line));
        }
        Ok(())
    }

    /// Takes a part of a line.
    fn part(&mut self, part: &[u8]) -> Result<(), ToolError> {
        if part.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.is_held) {
            self.feed(b"\r")?;
        }
        self.begin_line();
        match part.split_last() {
            Some((b'\r', part)) => {
                self.is_held = true;
                self.feed(part)
            }
            _ => self.feed(part),
        }
    }

    fn begin_line(&mut self) {
        if !self.has_begun {
            self.has_begun = true;
            self.number += 1;
            self.expression.begin();
        }
    }

    fn feed(&mut self, part: &[u8]) -> Result<(), ToolError> {
        let room = SHORT - self.head.len();
        self.head.extend_from_slice(&part[..part.len().min(room)]);
        self.bytes += part.len();
        for step in part.chunks(STEP) {
            self.count(step.len())?;
            if !self.expression.feed(step) {
                break;
            }
        }
        Ok(())
    }

    fn line_end(&mut self, take: &mut Take<'_>) -> Result<(), ToolError> {
        self.begin_line();
        self.count(1)?;
        match self.expression.end() {
            Verdict::Match => take(Line::Matching(self.number, &self.head)),
            Verdict::NoMatch => {}
            Verdict::Unknown if self.bytes <= SHORT => {
                self.count(STEP)?;
                if self.expression.is_match(&self.head) {
                    take(Line::Matching(self.number, &self.head));
                }
            }
            Verdict::Unknown => take(Line::Unknown),
        }
        self.forget();
        Ok(())
    }

    fn forget(&mut self) {
        self.head.clear();
        self.bytes = 0;
        self.has_begun = false;
        self.is_held = false;
    }

    /// Looks at the stop signal once enough was searched.
    fn count(&mut self, bytes: usize) -> Result<(), ToolError> {
        self.unchecked += bytes;
        if self.unchecked >= STEP {
            self.unchecked = 0;
            self.stop.check()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_util::sync::CancellationToken;

    /// Numbers and texts of the matching lines.
    fn matching(pattern: &str, text: &[u8], size: usize) -> Vec<(u64, Vec<u8>)> {
        let stop = Stop(CancellationToken::new());
        let mut lines = Lines::new(Expression::new(pattern, false).unwrap(), &stop);
        let mut found = Vec::new();
        let mut take = |line: Line<'_>| match line {
            Line::Matching(number, text) => found.push((number, text.to_vec())),
            Line::Unknown => panic!("it is known"),
        };
        lines.begin();
        for piece in text.chunks(size) {
            lines.piece(piece, &mut take).unwrap();
        }
        lines.end(&mut take).unwrap();
        found
    }

    #[test]
    fn neither_pieces_nor_the_size_of_an_expression_make_a_difference() {
        let long = "ab".repeat(700);
        let text = format!("b\r\n\r\na\rb\n{long}\n{long}x\r\n\nxb\n\r");
        let expected: Vec<(u64, Vec<u8>)> = [
            (1, "b"),
            (2, ""),
            (3, "a\rb"),
            (4, &long[..SHORT]),
            (6, ""),
            (7, "xb"),
            (8, ""),
        ]
        .map(|(number, text)| (number, text.into()))
        .to_vec();
        for pattern in ["b$|^$", "b$|^$|z{2000}"] {
            let is_quick = Expression::new(pattern, false).unwrap().is_quick();
            assert_eq!(is_quick, !pattern.contains('z'));
            for size in [1, 2, 3, 7, 1000, 1_000_000] {
                let found = matching(pattern, text.as_bytes(), size);
                assert_eq!(found, expected, "{pattern} by {size}");
            }
        }
    }

    #[test]
    fn a_search_stops_within_a_line() {
        let token = CancellationToken::new();
        let stop = Stop(token.clone());
        let mut lines = Lines::new(Expression::new("x$", false).unwrap(), &stop);
        lines.begin();
        lines.piece(&[b'a'; 2 * STEP], &mut |_| {}).unwrap();
        token.cancel();
        lines.piece(&[b'a'; 2 * STEP], &mut |_| {}).unwrap_err();
    }
}
