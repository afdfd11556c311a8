//! The report of a run in Markdown, written from its events.
//!
//! Everything that models, tools and people wrote is escaped, set as code or fenced, so that it
//! can add neither formatting nor links, and steers no terminal.

mod gather;
mod render;
mod turn;

use cairn_engine::command::Command;
use cairn_engine::event::{Event, EventKind};

/// The report of a run, as far as the events of its session go. None for a run that there is not.
///
/// It has the goal, the answer, the plan with its status, each step with its summary, calls and
/// failures, calls of unknown outcome and how they were settled, and what was used up.
pub fn markdown<'a>(events: impl IntoIterator<Item = &'a Event>, run: u32) -> Option<String> {
    of_some((1..).zip(events), run)
}

/// The same of events with their numbers, of which those may be left out that [`is_before`] accepts.
pub fn of_some<'a>(events: impl IntoIterator<Item = (u64, &'a Event)>, run: u32) -> Option<String> {
    gather::gather(events, run).map(|facts| render::render(&facts))
}

/// Whether the report of a run shows nothing of an event that came before the run.
pub fn is_before(event: &EventKind, run: u32) -> bool {
    match event {
        EventKind::RunStarted(started) => started.run != run,
        // A turn's report has the text of its command.
        EventKind::CommandReceived(received) => !matches!(received.command, Command::SubmitTurn(_)),
        _ => true,
    }
}
