//! Skips a step.

use super::Handle;
use crate::decide::{Decision, Rejection};
use crate::event::StepSkipped;
use crate::refusal::Refusal;
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
    const BEGINS_WORK: bool = false;

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
            return Err(Rejection::refused(Refusal::StepEnded, message));
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
            hook: String::new(),
        })?;
        Ok(decision.advance(run)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::testing::Sent;

    fn skip(step: u32) -> SkipStep {
        SkipStep {
            step: step.into(),
            ..SkipStep::default()
        }
    }

    #[test]
    fn the_next_step_begins_in_place_of_a_skipped_one() {
        let mut sent = Sent::running(&["one", "two"]);
        sent.send(skip(1));
        let running = sent.run().running_attempts().map(|(name, ..)| name.step);
        assert_eq!(running.collect::<Vec<_>>(), [StepNo::from(2)]);
    }

    #[test]
    fn a_step_that_ended_or_is_not_there_is_not_skipped() {
        let mut sent = Sent::running(&["one", "two"]);
        assert_eq!(sent.refused(skip(3)), Refusal::NoSuchStep);
        sent.send(skip(1));
        assert_eq!(sent.refused(skip(1)), Refusal::StepEnded);
        sent.fail();
        assert_eq!(sent.refused(skip(2)), Refusal::RunEnded);
    }
}
