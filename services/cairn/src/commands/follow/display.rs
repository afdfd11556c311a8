//! A run as it continues: moving on a terminal, line by line elsewhere, or as JSON.

use crate::context::Context;
use crate::error::CliError;
use crate::ui::event_json::event_json;
use crate::ui::event_line::{Mark, Narrator};
use crate::ui::live::{Live, size, wrap};
use crate::ui::out;
use crate::ui::progress::Progress;
use crate::ui::style::Style;
use crate::ui::writing::{Pace, delta_json, written};
use cairn_proto::event::event::Kind;
use cairn_proto::event::{Event, TextDelta};
use std::time::Instant;

/// A run as it continues.
#[derive(Debug)]
pub(super) struct Display {
    form: Form,
    style: Style,
    pace: Pace,
}

#[derive(Debug)]
enum Form {
    Live(Box<Live>),
    Plain {
        narrator: Box<Narrator>,
        verbose: bool,
        deltas: bool,
    },
    Json {
        deltas: bool,
    },
}

impl Display {
    /// Where nothing moves, `verbose` also tells what the model does to its own state, and `deltas`
    /// what it is writing.
    pub(super) fn new(context: &Context, verbose: bool, deltas: bool) -> Self {
        let style = Style::new(context.color);
        let form = match (context.json, context.live) {
            (true, _) => Form::Json { deltas },
            (false, true) => Form::Live(Box::new(Live::new(style))),
            (false, false) => Form::Plain {
                narrator: Box::default(),
                verbose,
                deltas,
            },
        };
        Self {
            form,
            style,
            pace: Pace::default(),
        }
    }

    /// Whether replies are wanted while they come.
    pub(super) fn shows_deltas(&self) -> bool {
        match self.form {
            Form::Live(_) => true,
            Form::Plain { deltas, .. } | Form::Json { deltas } => deltas,
        }
    }

    /// A part of a reply that is on its way.
    pub(super) fn delta(
        &mut self,
        delta: &TextDelta,
        progress: &mut Progress,
    ) -> Result<(), CliError> {
        let mut lines = progress.writing.take(delta);
        if let Some(far) = &delta.progress
            && !self.pace.takes(far, Instant::now())
        {
            return Ok(());
        }
        match &mut self.form {
            // The next tick shows it: a display that moves with every part cannot be read.
            Form::Live(_) => Ok(()),
            Form::Plain { narrator, .. } => {
                let step = delta.attempt.map_or(0, |attempt| attempt.step);
                lines.extend(delta.progress.as_ref().map(|far| narrator.progress(far)));
                let mut lines = lines.iter();
                lines.try_for_each(|line| out::line(&self.style.dim(&written(step, line))))
            }
            Form::Json { .. } => out::line(&delta_json(delta)),
        }
    }

    /// What a person should know first.
    pub(super) fn header(&self, lines: &[String]) -> Result<(), CliError> {
        let columns = match &self.form {
            Form::Live(_) => size().0.max(20),
            Form::Plain { .. } => usize::MAX,
            Form::Json { .. } => return Ok(()),
        };
        for line in lines.iter().flat_map(|line| wrap(line, columns)) {
            out::line(&self.style.dim(&line))?;
        }
        match &self.form {
            Form::Live(_) => out::line(""),
            _ => Ok(()),
        }
    }

    /// The run's next event, which `progress` has taken already.
    pub(super) fn event(
        &mut self,
        seq: u64,
        event: &Event,
        progress: &Progress,
    ) -> Result<(), CliError> {
        match &mut self.form {
            Form::Live(live) => live.show(progress),
            Form::Json { .. } => out::json(&event_json(seq, event)),
            Form::Plain {
                narrator, verbose, ..
            } => {
                let line = match verbose {
                    true => Some(narrator.line(event)),
                    false => narrator.brief(event),
                };
                let Some(line) = line else {
                    return Ok(());
                };
                let text = match event.kind {
                    Some(Kind::PlanApplied(_)) => format!("{line}{}", kept(progress)),
                    _ if seq > progress.seen_before => line.to_string(),
                    Some(Kind::StepCompleted(_) | Kind::StepFailed(_) | Kind::StepSkipped(_)) => {
                        format!("{line} (done before)")
                    }
                    _ => return Ok(()),
                };
                out::line(&painted(self.style, line.mark, &text))
            }
        }
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, progress: &Progress) -> Result<(), CliError> {
        match &mut self.form {
            Form::Live(live) => live.show(progress),
            Form::Plain { .. } | Form::Json { .. } => Ok(()),
        }
    }

    /// Nothing moves any more.
    pub(super) fn end(&mut self) {
        if let Form::Live(live) = &mut self.form {
            live.end();
        }
    }
}

/// The steps that another plan keeps with what came of them.
fn kept(progress: &Progress) -> String {
    let kept = progress.steps.iter().filter(|step| step.kept);
    let numbers: Vec<_> = kept.map(|step| step.number.to_string()).collect();
    match numbers.len() {
        0 => String::new(),
        1 => format!(" (step {} is kept)", numbers[0]),
        _ => format!(" (steps {} are kept)", numbers.join(", ")),
    }
}

fn painted(style: Style, mark: Mark, text: &str) -> String {
    match mark {
        Mark::Plain | Mark::Began => text.to_owned(),
        Mark::Good => style.good(text),
        Mark::Bad => style.bad(text),
        Mark::Asks => style.asks(text),
    }
}
