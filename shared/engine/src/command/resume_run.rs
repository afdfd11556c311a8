//! Resumes a run.

use super::Handle;
use crate::decide::{Decision, Rejection};
use crate::event::RunResumed;
use crate::refusal::Refusal;
use crate::session::RunStatus;
use serde::{Deserialize, Serialize};

/// Continue a paused run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumeRun {
    /// Number of the run; 0 for the newest.
    pub run: u32,
}

impl Handle for ResumeRun {
    const BEGINS_WORK: bool = false;

    fn run_mut(&mut self) -> Option<&mut u32> {
        Some(&mut self.run)
    }

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let run = self.run;
        if decision.unended(run)?.status != RunStatus::Paused {
            let message = format!("run {run} is not paused");
            return Err(Rejection::refused(Refusal::RunNotPaused, message));
        }
        decision.answer(RunResumed { run })?;
        Ok(decision.begin_again(run)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::PauseRun;
    use crate::command::testing::Sent;

    #[test]
    fn a_paused_run_continues() {
        let mut sent = Sent::running(&["one"]);
        assert_eq!(sent.refused(ResumeRun::default()), Refusal::RunNotPaused);
        sent.send(PauseRun::default());
        sent.send(ResumeRun::default());
        assert_eq!(sent.run().status, RunStatus::Running);
        assert_eq!(sent.run().running_attempts().count(), 1);
    }

    #[test]
    fn a_run_that_has_ended_is_not_resumed() {
        assert_eq!(Sent::new().refused(ResumeRun::default()), Refusal::NoSuchRun);
        let mut sent = Sent::running(&["one"]);
        sent.fail();
        assert_eq!(sent.refused(ResumeRun::default()), Refusal::RunEnded);
    }
}
