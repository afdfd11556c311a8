//! The lines of a history, which a tree's view and a conversation's share.

use crate::escape::{breaks_line, line};
use std::borrow::Cow;
use std::fmt;
use std::fmt::Write as _;

/// Calls of which a history shows nothing. What they brought is elsewhere: in its goals, in the notes
/// that a reminder beside it repeats, or in the history itself.
const NOT_KEY: [&str; 3] = ["read_progress", "scratchpad", "compact"];

/// A history shows calls of the tool.
pub fn is_key(tool: &str) -> bool {
    !NOT_KEY.contains(&tool)
}

/// How far a goal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoalState {
    /// Not begun, or left for another one.
    ToDo,
    /// What is done now is done for it.
    InProgress,
    /// Ended well.
    Done,
    /// Ended badly.
    Failed,
    /// Given up.
    Skipped,
}

impl GoalState {
    const ALL: [Self; 5] = [
        Self::ToDo,
        Self::InProgress,
        Self::Done,
        Self::Failed,
        Self::Skipped,
    ];

    const fn label(self) -> &'static str {
        match self {
            Self::ToDo => "to do",
            Self::InProgress => "in progress",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// What came of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// Its result in brief.
    Known(&'a str),
    /// Why it failed, in brief.
    Failed(&'a str),
    /// It has no result.
    Unknown,
}

/// Writes the lines of a history. A line is indented by two spaces for each level of its depth.
///
/// Texts come in the length in which they are to be shown. A line break in one is escaped, so that it
/// begins no line.
///
/// ```
/// use cairn_engine::prompt::history::{GoalState, Lines, Outcome};
///
/// let mut lines = Lines::default();
/// lines.goal(0, GoalState::InProgress, "Count");
/// lines.call(1, "look(a.md)", Outcome::Known("31 lines"));
/// assert_eq!(lines.finish(), "[in progress] Count\n  → look(a.md): 31 lines");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lines {
    text: String,
}

impl Lines {
    /// Adds a goal.
    pub fn goal(&mut self, depth: usize, state: GoalState, goal: &str) {
        self.add(
            depth,
            format_args!("[{}] {}", state.label(), unbroken(goal)),
        );
    }

    /// Adds a call: tool and arguments, and what came of it.
    pub fn call(&mut self, depth: usize, call: &str, outcome: Outcome<'_>) {
        let call = unbroken(call);
        match outcome {
            Outcome::Known(brief) => {
                self.add(depth, format_args!("→ {call}: {}", unbroken(brief)));
            }
            Outcome::Failed(brief) => {
                self.add(depth, format_args!("→ {call}: failed: {}", unbroken(brief)));
            }
            Outcome::Unknown => {
                self.add(depth, format_args!("→ {call}: its outcome is not known"));
            }
        }
    }

    /// Adds what came out of a goal.
    pub fn summary(&mut self, depth: usize, summary: &str) {
        self.add(depth, format_args!("Summary: {}", unbroken(summary)));
    }

    /// Adds what a model said while it worked.
    pub fn note(&mut self, depth: usize, note: &str) {
        self.add(depth, format_args!("Note: {}", unbroken(note)));
    }

    /// Adds what a person said while a model worked.
    pub fn said(&mut self, depth: usize, said: &str) {
        self.add(depth, format_args!("User: {}", unbroken(said)));
    }

    /// The lines, without a line break at the end.
    pub fn finish(mut self) -> String {
        self.text.truncate(self.text.trim_end().len());
        self.text
    }

    pub(super) fn append(&mut self, more: &Self) {
        self.text.push_str(&more.text);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    fn add(&mut self, depth: usize, line: fmt::Arguments<'_>) {
        let indent = "  ".repeat(depth);
        // Writing to a string does not fail.
        _ = writeln!(self.text, "{indent}{line}");
    }
}

/// A text that breaks no line stands as it is.
fn unbroken(text: &str) -> Cow<'_, str> {
    match text.contains(breaks_line) {
        true => Cow::Owned(line(text)),
        false => Cow::Borrowed(text),
    }
}

/// The goal that a line at depth 0 is about.
pub(super) fn goal_of(line: &str) -> Option<(GoalState, &str)> {
    let (label, goal) = line.strip_prefix('[')?.split_once("] ")?;
    let mut states = GoalState::ALL.into_iter();
    let state = states.find(|state| state.label() == label)?;
    Some((state, goal))
}
