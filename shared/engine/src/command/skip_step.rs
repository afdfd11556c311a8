//! Skips a step.

use super::Handle;
use crate::decide::{Decision, Rejection};
use crate::event::StepSkipped;
use crate::session::StepNo;
use serde::{Deserialize, Serialize};

/// Continue without a step that has not ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipStep {
    /// Number of the run; 0 for the newest.
    pub run: u32,
    /// Number of the step.
    pub step: StepNo,
    /// Why; may be empty.
    pub reason: String,
}

impl Handle for SkipStep {
    fn run_mut(&mut self) -> Option<&mut u32> {
        Some(&mut self.run)
    }

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let Self { run, step, reason } = self;
        if decision
            .step_in_force(decision.unended(run)?, step)?
            .has_ended()
        {
            let message = format!("step {step} has ended already");
            return Err(Rejection::refused("STEP_ENDED", message));
        }
        let running = decision.running(run);
        if let Some(attempt) = running.into_iter().find(|attempt| attempt.step == step) {
            decision.doubt_intended_calls(attempt, false)?;
        }
        decision.answer(StepSkipped {
            run,
            step,
            reason,
            by_person: true,
        })?;
        Ok(decision.advance(run)?)
    }
}
