//! Pauses a run.

use super::Handle;
use crate::decide::{Decision, Rejection};
use crate::event::RunPaused;
use crate::session::RunStatus;
use serde::{Deserialize, Serialize};

/// Begin nothing, and let what has side effects end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseRun {
    /// Number of the run; 0 for the newest.
    pub run: u32,
    /// Why; may be empty.
    pub reason: String,
}

impl Handle for PauseRun {
    fn run_mut(&mut self) -> Option<&mut u32> {
        Some(&mut self.run)
    }

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let (run, reason) = (self.run, self.reason);
        if decision.unended(run)?.status == RunStatus::Paused {
            let message = format!("run {run} is paused already");
            return Err(Rejection::refused("RUN_PAUSED", message));
        }
        decision.answer(RunPaused { run, reason })
    }
}
