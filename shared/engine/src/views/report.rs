//! The report of a run in Markdown, written from the execution log.
//!
//! Everything that models, tools and people wrote is escaped, set as code or fenced, so that it
//! can add neither formatting nor links, and steers no terminal.

mod gather;
mod render;

use super::log::Log;

/// The report of a run, as far as the log goes. None for a run that there is not.
///
/// It has the goal, the answer, the plan with its status, each step with its summary, calls and
/// failures, calls whose outcome nobody knew and how they were settled, and what was used up.
pub fn markdown(log: &Log, run: u32) -> Option<String> {
    gather::gather(log, run).map(|facts| render::render(&facts))
}
