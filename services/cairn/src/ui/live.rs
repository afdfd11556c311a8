//! The live display on a terminal: what has ended stands, what continues moves below it.

use super::plans::size_text;
use super::progress::{Progress, StepState, StepView};
use super::screen;
use super::style::Style;
use super::time::span;
use crate::error::CliError;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Instant;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Most steps in the moving part.
const MOST_LINES: usize = 10;
/// Lines are no wider, however wide the terminal is.
const WIDEST: usize = 120;
const NARROWEST: usize = 40;
const TIME_WIDTH: usize = 7;

/// The display of one run.
#[derive(Debug)]
pub struct Live {
    style: Style,
    /// The plan that is shown; 0 while there is none.
    revision: u32,
    /// Steps of it whose end stands already.
    reported: BTreeSet<u32>,
    /// When this process saw a step begin.
    since: BTreeMap<u32, Instant>,
    began: Instant,
    /// How many compactions stand already.
    compacted: usize,
}

impl Live {
    /// An empty display.
    pub fn new(style: Style) -> Self {
        Self {
            style,
            revision: 0,
            reported: BTreeSet::new(),
            since: BTreeMap::new(),
            began: Instant::now(),
            compacted: 0,
        }
    }

    /// Shows how far the run has got.
    ///
    /// # Errors
    /// The terminal has gone.
    pub fn show(&mut self, progress: &Progress) -> Result<(), CliError> {
        let standing = self.standing(progress);
        let layout = Layout::of(progress);
        let moving = self.moving_part(progress, &layout);
        Ok(screen::frame(&standing, moving)?)
    }

    /// Takes the moving part away.
    pub fn end(&self) {
        // A terminal that has gone needs no cleaning.
        let _ = screen::frame(&[], Vec::new());
    }

    /// What stands from now on: a plan that is new here, and the compactions and the steps that have ended
    /// since.
    fn standing(&mut self, progress: &Progress) -> Vec<String> {
        let mut standing = Vec::new();
        if self.revision != progress.revision {
            standing.push(self.begin_plan(progress));
        }
        standing.extend(self.compactions(progress));
        let layout = Layout::of(progress);
        for step in &progress.steps {
            if step.is_over() && self.reported.insert(step.number) {
                standing.push(layout.line(self.style, step, "", &ended(step)));
            }
            if step.state == StepState::Running {
                self.since.entry(step.number).or_insert_with(Instant::now);
            }
        }
        standing
    }

    /// The compactions since, each on a line.
    fn compactions(&mut self, progress: &Progress) -> Vec<String> {
        let columns = size().0.clamp(NARROWEST, WIDEST) - 1;
        let all = &progress.compacted;
        let new = all.get(self.compacted..).unwrap_or_default().iter();
        self.compacted = all.len();
        let lines = new.filter(|it| !it.kept).map(|it| {
            let text = fit(&format!("    step {}: {}", it.step, it.what), columns);
            self.style.dim(text.trim_end())
        });
        lines.collect()
    }

    /// Another plan stands in full, with what it keeps.
    fn begin_plan(&mut self, progress: &Progress) -> String {
        self.revision = progress.revision;
        self.reported.clear();
        let size = size_text(progress.steps.len(), progress.order);
        let plan = match progress.revision {
            ..=1 => format!("plan ({size})"),
            revision => format!("plan, revision {revision} ({size})"),
        };
        self.style.strong(&plan)
    }

    fn moving_part(&self, progress: &Progress, layout: &Layout) -> Vec<String> {
        if progress.end.is_some() {
            return Vec::new();
        }
        if progress.steps.is_empty() {
            let time = span_since(self.began);
            let what = if progress.is_turn {
                "working"
            } else {
                "planning"
            };
            return vec![self.style.active(&format!("→ {what}  {time}"))];
        }
        let mut open = progress.steps.iter().filter(|step| !step.is_over());
        let shown = open
            .by_ref()
            .take(MOST_LINES.min(size().1.saturating_sub(4)));
        let mut lines: Vec<String> = shown
            .map(|step| {
                let since = self.since.get(&step.number);
                let since = since.filter(|_| step.state == StepState::Running);
                let time = since.map_or_else(String::new, |since| span_since(*since));
                let writing = progress.writing.line(step.number);
                let writing = writing.unwrap_or_default();
                layout.line(self.style, step, &writing, &time)
            })
            .collect();
        match open.count() {
            0 => {}
            more => lines.push(self.style.dim(&format!("    … and {more} more"))),
        }
        if !progress.revising.is_empty() {
            lines.push(self.style.active("→ another plan is being made"));
        }
        lines
    }
}

/// The widths of the columns.
struct Layout {
    number: usize,
    name: usize,
    detail: usize,
}

impl Layout {
    fn of(progress: &Progress) -> Self {
        let total = size().0.clamp(NARROWEST, WIDEST) - 1;
        let numbers = progress.steps.iter().map(|step| step.number);
        let number = numbers.max().unwrap_or(0).to_string().len();
        let names = progress.steps.iter().map(|step| step.name.width());
        let name = names.max().unwrap_or(0).clamp(8, total * 2 / 5);
        let rest = total.saturating_sub(4 + number + 1 + name + 2 + 2 + TIME_WIDTH);
        Self {
            number,
            name,
            detail: rest,
        }
    }

    /// `writing` is what the step's model is writing, if it is.
    fn line(&self, style: Style, step: &StepView, writing: &str, time: &str) -> String {
        let name = fit(&step.name, self.name);
        let detail = match writing {
            "" => fit(&detail(step), self.detail),
            writing => fit(tail(writing, self.detail), self.detail),
        };
        let number = format!("{:>1$}", step.number, self.number);
        let time = style.dim(&format!("{time:>TIME_WIDTH$}"));
        match step.state {
            StepState::Pending => style.dim(format!("    {number} {name}").trim_end()),
            StepState::Running => {
                let mark = style.active("→");
                format!(
                    "  {mark} {number} {name}  {}  {time}",
                    style.active(&detail)
                )
            }
            StepState::Done => {
                format!("  {} {number} {name}  {detail}  {time}", style.good("✓"))
            }
            StepState::Failed => {
                let detail = style.bad(&detail);
                format!("  {} {number} {name}  {detail}  {time}", style.bad("✗"))
            }
            StepState::Skipped => {
                let detail = style.dim(&detail);
                format!("  - {number} {name}  {detail}  {time}")
            }
        }
    }
}

fn detail(step: &StepView) -> String {
    if step.state != StepState::Running {
        return step.result.clone();
    }
    match step.parts {
        (_, 0) => step.call.clone(),
        (done, all) if step.call.is_empty() => format!("{done} of {all}"),
        (done, all) => format!("{done} of {all} · {}", step.call),
    }
}

fn ended(step: &StepView) -> String {
    if step.kept {
        return "kept".to_owned();
    }
    let ms = step.ended_ms.saturating_sub(step.started_ms);
    match step.started_ms {
        0 => String::new(),
        _ => span(u64::try_from(ms).unwrap_or(0)),
    }
}

fn span_since(instant: Instant) -> String {
    span(u64::try_from(instant.elapsed().as_millis()).unwrap_or(u64::MAX))
}

/// The text in exactly this many columns; a cut text ends with `…`.
fn fit(text: &str, columns: usize) -> String {
    let width = text.width();
    if width <= columns {
        return format!("{text}{}", " ".repeat(columns - width));
    }
    let (mut fitted, mut used) = (String::new(), 0);
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide + 1 > columns {
            break;
        }
        fitted.push(c);
        used += wide;
    }
    let rest = columns.saturating_sub(used + 1);
    format!("{fitted}…{}", " ".repeat(rest))
}

/// The end of the text, at most this many columns wide.
fn tail(text: &str, columns: usize) -> &str {
    let (mut start, mut used) = (text.len(), 0);
    for (at, c) in text.char_indices().rev() {
        used += c.width().unwrap_or(0);
        if used > columns {
            break;
        }
        start = at;
    }
    &text[start..]
}

/// The text in lines of at most this many columns, broken between words where that is possible.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let word = first_word(rest, columns);
        rest = &rest[word.len()..];
        if used > 0 && used + word.trim_end().width() > columns {
            lines.push(String::new());
            used = 0;
        }
        for c in word.chars() {
            let wide = c.width().unwrap_or(0);
            if used + wide > columns && c != ' ' {
                lines.push(String::new());
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                line.push(c);
            }
            used += wide;
        }
    }
    lines
        .iter()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// The first word of a text with the blank after it. What stands between backquotes, such as a command, is one word if
/// a line has room for it.
fn first_word(text: &str, columns: usize) -> &str {
    let to_blank = |from: usize| {
        let blank = text[from..].find(' ');
        blank.map_or(text.len(), |at| from + at + 1)
    };
    let word = &text[..to_blank(0)];
    if word.matches('`').count().is_multiple_of(2) {
        return word;
    }
    let inside = word.find('`').map_or(0, |at| at + 1);
    let Some(length) = text[inside..].find('`') else {
        return word;
    };
    let whole = &text[..to_blank(inside + length)];
    match whole.trim_end().width() <= columns {
        true => whole,
        false => word,
    }
}

/// A text as [`wrap`] breaks it, but a command at its end is on a line of its own, whole.
pub fn wrap_told(text: &str, columns: usize) -> Vec<String> {
    if text.width() <= columns {
        return vec![text.to_owned()];
    }
    let Some(at) = text.find(": cairn ") else {
        return wrap(text, columns);
    };
    let (told, command) = text.split_at(at + 1);
    let mut lines = wrap(told, columns);
    lines.push(format!("  {}", command.trim_start()));
    lines
}

/// Columns of standard output, if it is a terminal.
pub fn terminal_width() -> Option<usize> {
    let is_terminal = io::IsTerminal::is_terminal(&io::stdout());
    is_terminal.then(|| size().0)
}

/// Columns and rows of the terminal.
pub fn size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            (usize::from(size.ws_col), usize::from(size.ws_row))
        }
        _ => (80, 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::progress::Compacted;

    #[test]
    fn texts_fill_their_columns_exactly() {
        for (text, want) in [
            ("ab", "ab   "),
            ("abcdef", "abcd…"),
            ("石標石標", "石標…"),
            ("", "     "),
        ] {
            let fitted = fit(text, 5);
            assert_eq!(fitted.width(), 5, "{fitted:?}");
            assert_eq!(fitted, want);
        }
    }

    #[test]
    fn the_end_of_a_text_keeps_to_its_columns() {
        for (text, want) in [
            ("ab", "ab"),
            ("abcdef", "cdef"),
            ("石標石標", "石標"),
            ("", ""),
        ] {
            assert_eq!(tail(text, 4), want);
        }
    }

    #[test]
    fn texts_are_broken_between_words() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("abcdefghij kl", 4), ["abcd", "efgh", "ij", "kl"]);
        assert_eq!(wrap("石標石標 a", 4), ["石標", "石標", "a"]);
        assert_eq!(wrap("", 4), [""]);
    }

    #[test]
    fn a_command_is_not_broken_between_its_quotes() {
        let text = "begins with `cargo test`, here";
        assert_eq!(wrap(text, 20), ["begins with", "`cargo test`, here"]);
        assert_eq!(
            wrap(text, 9),
            ["begins", "with", "`cargo", "test`,", "here"]
        );
        assert_eq!(wrap("one ` two", 6), ["one `", "two"]);
    }

    #[test]
    fn a_command_is_not_broken() {
        let text = "come back with: cairn chat s-1 --in /a/b";
        assert_eq!(wrap_told(text, 40), [text]);
        let expected = ["come back with:", "  cairn chat s-1 --in /a/b"];
        assert_eq!(wrap_told(text, 30), expected);
        assert_eq!(wrap_told("one two three", 8), ["one two", "three"]);
    }

    #[test]
    fn lines_keep_to_the_width_in_every_state() {
        let step = |state| StepView {
            number: 3,
            name: "A name that is much longer than any column will ever be, surely".repeat(2),
            result: "and a result that continues and on ".repeat(9),
            state,
            ..StepView::default()
        };
        use StepState::{Done, Failed, Pending, Running, Skipped};
        let states = [Pending, Running, Done, Failed, Skipped];
        let progress = Progress {
            steps: states.map(step).to_vec(),
            ..Progress::default()
        };
        let layout = Layout::of(&progress);
        for step in &progress.steps {
            let line = layout.line(Style::new(false), step, &step.result, "1.2 s");
            assert!(line.width() < WIDEST.min(size().0.max(NARROWEST)), "{line}");
        }
    }

    #[test]
    fn another_plan_is_another_block_with_what_it_keeps() {
        let step = |number, state| StepView {
            number,
            name: format!("s{number}"),
            state,
            kept: state == StepState::Done,
            ..StepView::default()
        };
        let mut progress = Progress {
            revision: 1,
            order: "chain",
            steps: vec![step(1, StepState::Done), step(2, StepState::Pending)],
            ..Progress::default()
        };
        let mut live = Live::new(Style::new(false));
        let first = live.standing(&progress);
        assert_eq!(first[0], "plan (2 steps, chain)");
        assert!(first[1].starts_with("  ✓ 1 s1 "), "{first:?}");
        assert!(live.standing(&progress).is_empty());
        progress.revision = 2;
        progress.steps[1] = step(16, StepState::Pending);
        let second = live.standing(&progress);
        assert_eq!(second[0], "plan, revision 2 (2 steps, chain)");
        assert!(second[1].starts_with("  ✓  1 s1 "), "{second:?}");
        assert!(second[1].ends_with("kept"), "{second:?}");
        assert_eq!(second.len(), 2);
    }

    #[test]
    fn a_compaction_stands_once_unless_it_is_history() {
        let compacted = |what: &str, kept| Compacted {
            step: 2,
            what: what.to_owned(),
            kept,
        };
        let mut progress = Progress {
            compacted: vec![compacted("old", true), compacted("new", false)],
            ..Progress::default()
        };
        let mut live = Live::new(Style::new(false));
        assert_eq!(live.standing(&progress), ["    step 2: new"]);
        assert!(live.standing(&progress).is_empty());
        progress.compacted.push(compacted(&"x".repeat(200), false));
        let long = live.standing(&progress);
        assert_eq!(long.len(), 1);
        assert!(
            long[0].width() < WIDEST.min(size().0.max(NARROWEST)),
            "{long:?}"
        );
    }
}
