//! Pauses a run.

use super::Handle;
use crate::decide::{Decision, Rejection};
use crate::event::RunPaused;
use crate::refusal::Refusal;
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
    const BEGINS_WORK: bool = false;

    fn run_mut(&mut self) -> Option<&mut u32> {
        Some(&mut self.run)
    }

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let (run, reason) = (self.run, self.reason);
        if decision.unended(run)?.status == RunStatus::Paused {
            let message = format!("run {run} is paused already");
            return Err(Rejection::refused(Refusal::RunPaused, message));
        }
        decision.answer(RunPaused { run, reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::testing::Sent;

    #[test]
    fn a_run_is_paused_once() {
        let mut sent = Sent::running(&["one"]);
        sent.send(PauseRun::default());
        assert_eq!(sent.run().status, RunStatus::Paused);
        assert_eq!(sent.refused(PauseRun::default()), Refusal::RunPaused);
    }

    #[test]
    fn a_run_that_has_ended_is_not_paused() {
        assert_eq!(Sent::new().refused(PauseRun::default()), Refusal::NoSuchRun);
        let mut sent = Sent::running(&["one"]);
        sent.fail();
        assert_eq!(sent.refused(PauseRun::default()), Refusal::RunEnded);
    }
}
