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
