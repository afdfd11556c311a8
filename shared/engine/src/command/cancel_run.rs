//! Ends a run.

use super::Handle;
use crate::decide::{Decision, Ended, Rejection};
use crate::event::RunCancelled;
use serde::{Deserialize, Serialize};

/// End the active run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelRun {
    /// Number of the run; 0 for the newest.
    pub run: u32,
    /// Why; may be empty.
    pub reason: String,
}

impl Handle for CancelRun {
    fn run_mut(&mut self) -> Option<&mut u32> {
        Some(&mut self.run)
    }

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let (run, reason) = (decision.unended(self.run)?.number, self.reason);
        for attempt in decision.running(run) {
            decision.stop_step(attempt, Ended::Cancelled)?;
        }
        decision.drop_requests(run, "the run was cancelled")?;
        decision.answer(RunCancelled { run, reason })
    }
}
