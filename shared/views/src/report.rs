//! The report of a run in Markdown, written from its events.
//!
//! Everything that models, tools and people wrote is escaped, set as code or fenced, so that it
//! can add neither formatting nor links, and steers no terminal.

mod gather;
mod render;
mod turn;

use cairn_engine::event::Event;

/// The report of a run, as far as the events of its session go. None for a run that there is not.
///
/// It has the goal, the answer, the plan with its status, each step with its summary, calls and
/// failures, calls of unknown outcome and how they were settled, and what was used up.
pub fn markdown<'a>(events: impl IntoIterator<Item = &'a Event>, run: u32) -> Option<String> {
    gather::gather(events, run).map(|facts| render::render(&facts))
}
