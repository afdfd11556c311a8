//! Carries a step out again.

use super::Handle;
use crate::decide::{Decision, Rejection};
use crate::revise::draft_of;
use crate::session::StepNo;
use serde::{Deserialize, Serialize};

/// Do a step again that has ended, and all that depends on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedoStep {
    /// Number of the run; 0 for the newest.
    pub run: u32,
    /// Number of the step.
    pub step: StepNo,
}

impl Handle for RedoStep {
    const BEGINS_WORK: bool = true;

    fn run_mut(&mut self) -> Option<&mut u32> {
        Some(&mut self.run)
    }

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let step = self.step;
        let run = decision.revisable(self.run, 0)?;
        let found = decision.step_in_force(run, step)?;
        if !found.has_ended() {
            let message = format!("step {step} has not ended; only a step that ended is redone");
            return Err(Rejection::refused("STEP_NOT_ENDED", message));
        }
        let mut plan = run.plan.as_ref().map(draft_of).unwrap_or_default();
        if let Some(place) = found.place
            && let Some(again) = plan.steps.get_mut(place.index())
        {
            again.redo = again.redo.saturating_add(1);
        }
        let change = decision.change_asked_for(plan);
        Ok(decision.put_into_force(self.run, change)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::testing::Sent;
    use crate::session::RunStatus;

    fn redo(step: u32) -> RedoStep {
        RedoStep {
            run: 0,
            step: step.into(),
        }
    }

    #[test]
    fn a_step_that_ended_is_done_again() {
        let mut sent = Sent::running(&["one", "two"]);
        sent.fail();
        assert_eq!(sent.run().status, RunStatus::Failed);
        sent.send(redo(1));
        let run = sent.run();
        assert_eq!((run.status, run.revision()), (RunStatus::Running, 2));
        assert_eq!(run.running_attempts().count(), 1);
    }

    #[test]
    fn a_step_that_has_not_ended_or_is_not_there_is_not_redone() {
        let mut sent = Sent::running(&["one", "two"]);
        for step in [1, 2] {
            assert_eq!(sent.refused(redo(step)), "STEP_NOT_ENDED");
        }
        assert_eq!(sent.refused(redo(3)), "NO_SUCH_STEP");
        assert_eq!(Sent::new().refused(redo(1)), "NO_SUCH_RUN");
    }
}
