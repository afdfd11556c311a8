//! The live display on a terminal: what has ended stands, what goes on moves below it.

use super::progress::{Progress, StepState, StepView};
use super::style::Style;
use super::time::span;
use crate::error::CliError;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Instant;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Most steps in the moving part; terminals are not high.
const MOST_LINES: usize = 10;
/// Lines are no wider, however wide the terminal is.
const WIDEST: usize = 120;
const NARROWEST: usize = 40;
const TIME_WIDTH: usize = 7;

/// The display of one run.
#[derive(Debug)]
pub struct Live {
    area: MultiProgress,
    lines: Vec<ProgressBar>,
    style: Style,
    /// Steps whose end stands already.
    told: Vec<bool>,
    /// When this process saw a step begin.
    since: Vec<Instant>,
    began: Instant,
}

impl Live {
    /// An empty display.
    pub fn new(style: Style) -> Self {
        Self {
            area: MultiProgress::with_draw_target(ProgressDrawTarget::stdout()),
            lines: Vec::new(),
            style,
            told: Vec::new(),
            since: Vec::new(),
            began: Instant::now(),
        }
    }

    /// Shows how far the run has got.
    ///
    /// # Errors
    /// The terminal has gone.
    pub fn show(&mut self, progress: &Progress) -> Result<(), CliError> {
        if self.told.len() != progress.steps.len() {
            self.begin_plan(progress)?;
        }
        let layout = Layout::of(progress);
        for (index, step) in progress.steps.iter().enumerate() {
            let is_over = !matches!(step.state, StepState::Pending | StepState::Running);
            if is_over && !self.told[index] {
                self.told[index] = true;
                self.print(&layout.line(self.style, index + 1, step, &ended(step)))?;
            }
            if step.state == StepState::Pending {
                self.since[index] = Instant::now();
            }
        }
        let moving = self.moving(progress, &layout);
        self.redraw(moving);
        Ok(())
    }

    /// Writes a line that stays.
    ///
    /// # Errors
    /// The terminal has gone.
    pub fn print(&self, line: &str) -> Result<(), CliError> {
        Ok(self.area.println(line)?)
    }

    /// Takes the moving part away.
    pub fn end(&mut self) {
        self.redraw(Vec::new());
        // What cannot be cleared is left as it is.
        let _ = self.area.clear();
    }

    fn begin_plan(&mut self, progress: &Progress) -> Result<(), CliError> {
        let steps = progress.steps.len();
        self.told = vec![false; steps];
        self.since = vec![Instant::now(); steps];
        let noun = if steps == 1 { "step" } else { "steps" };
        let plan = format!("plan ({steps} {noun}, {})", progress.order);
        self.print(&self.style.strong(&plan))
    }

    fn moving(&self, progress: &Progress, layout: &Layout) -> Vec<String> {
        if progress.end.is_some() {
            return Vec::new();
        }
        if progress.steps.is_empty() {
            let time = span_since(self.began);
            return vec![self.style.active(&format!("→ planning  {time}"))];
        }
        let open = (0..).zip(&progress.steps);
        let mut open = open.filter(|(_, step): &(usize, &StepView)| {
            matches!(step.state, StepState::Pending | StepState::Running)
        });
        let shown = open.by_ref().take(MOST_LINES);
        let mut lines: Vec<String> = shown
            .map(|(index, step)| {
                let time = match step.state {
                    StepState::Running => span_since(self.since[index]),
                    _ => String::new(),
                };
                layout.line(self.style, index + 1, step, &time)
            })
            .collect();
        match open.count() {
            0 => {}
            more => lines.push(self.style.dim(&format!("    … and {more} more"))),
        }
        lines
    }

    fn redraw(&mut self, lines: Vec<String>) {
        while self.lines.len() > lines.len() {
            if let Some(line) = self.lines.pop() {
                line.finish_and_clear();
                self.area.remove(&line);
            }
        }
        for (index, text) in lines.into_iter().enumerate() {
            if self.lines.len() == index {
                let plain = ProgressStyle::with_template("{msg}");
                let line = ProgressBar::new_spinner();
                let line = self.area.add(line);
                line.set_style(plain.unwrap_or_else(|_| ProgressStyle::default_spinner()));
                self.lines.push(line);
            }
            self.lines[index].set_message(text);
            self.lines[index].tick();
        }
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
        let total = width().clamp(NARROWEST, WIDEST) - 1;
        let number = progress.steps.len().to_string().len();
        let names = progress.steps.iter().map(|step| step.name.width());
        let name = names.max().unwrap_or(0).clamp(8, total * 2 / 5);
        let rest = total.saturating_sub(4 + number + 1 + name + 2 + 2 + TIME_WIDTH);
        Self {
            number,
            name,
            detail: rest,
        }
    }

    fn line(&self, style: Style, number: usize, step: &StepView, time: &str) -> String {
        let name = fit(&step.name, self.name);
        let detail = fit(&detail(step), self.detail);
        let number = format!("{number:>0$}", self.number);
        let time = style.dim(&format!("{time:>TIME_WIDTH$}"));
        match step.state {
            StepState::Pending => style.dim(&format!("    {number} {name}").trim_end().to_owned()),
            StepState::Running => {
                let mark = style.active("→");
                format!("  {mark} {number} {name}  {}  {time}", style.active(&detail))
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

/// Columns of the terminal.
pub fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    match size {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => 80,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fill_their_columns_exactly() {
        for (text, want) in [("ab", "ab   "), ("abcdef", "abcd…"), ("石標石標", "石標…"), ("", "     ")]
        {
            let fitted = fit(text, 5);
            assert_eq!(fitted.width(), 5, "{fitted:?}");
            assert_eq!(fitted, want);
        }
    }

    #[test]
    fn lines_keep_to_the_width_in_every_state() {
        let step = |state| StepView {
            name: "A name that is much longer than any column will ever be, surely".repeat(2),
            result: "and a result that goes on and on ".repeat(9),
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
            let line = layout.line(Style::new(false), 3, step, "1.2 s");
            assert!(line.width() < WIDEST.min(width().max(NARROWEST)), "{line}");
        }
    }
}
