//! Ends a run.

use super::Handle;
use crate::decide::{Decision, Ended, Rejection};
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
    const BEGINS_WORK: bool = false;

    fn run_mut(&mut self) -> Option<&mut u32> {
        Some(&mut self.run)
    }

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let run = decision.unended(self.run)?.number;
        let reason = decision.cancel_reason(run, &self.reason);
        for attempt in decision.running(run) {
            decision.stop_step(attempt, Ended::Cancelled)?;
        }
        decision.drop_requests(run, "the run was cancelled")?;
        let cancelled = decision.run_cancelled(run, reason);
        decision.answer(cancelled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::testing::Sent;
    use crate::event::EventKind;
    use crate::refusal::Refusal;
    use crate::session::RunStatus;

    #[test]
    fn the_run_ends_with_its_steps() {
        let mut sent = Sent::running(&["one", "two"]);
        let events = sent.send(CancelRun {
            run: 0,
            reason: "not needed".to_owned(),
        });
        let [EventKind::StepSkipped(_), EventKind::RunCancelled(cancelled)] = &events[..] else {
            panic!("{events:?}");
        };
        assert_eq!((cancelled.run, cancelled.reason.as_str()), (1, "not needed"));
        assert_eq!(sent.run().status, RunStatus::Cancelled);
    }

    #[test]
    fn only_a_run_that_has_not_ended_is_cancelled() {
        assert_eq!(Sent::new().refused(CancelRun::default()), Refusal::NoSuchRun);
        let mut sent = Sent::running(&["one"]);
        sent.fail();
        assert_eq!(sent.refused(CancelRun::default()), Refusal::RunEnded);
    }
}
