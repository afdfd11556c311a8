//! Puts a proposal into force.

use super::Handle;
use crate::decide::{Decision, Rejection, moved_on};
use crate::refusal::Refusal;
use serde::{Deserialize, Serialize};

/// Put a proposal into force.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyProposal {
    /// Number of the run; 0 for the newest.
    pub run: u32,
    /// Number of the proposal, as its event says.
    pub proposal: u32,
}

impl Handle for ApplyProposal {
    const BEGINS_WORK: bool = true;

    fn run_mut(&mut self) -> Option<&mut u32> {
        Some(&mut self.run)
    }

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let number = self.proposal;
        let run = decision.revisable(self.run, 0)?;
        let Some(proposal) = run.revisions.proposals.get(&number) else {
            if number == 0 || number > run.revisions.proposed {
                let message = format!("run {} has no proposal {number}", run.number);
                return Err(Rejection::refused(Refusal::NoSuchProposal, message));
            }
            return Err(moved_on(run));
        };
        decision.check_plan_of_run(run.number, &proposal.plan)?;
        let change = decision.change_asked_for(proposal.plan.clone());
        Ok(decision.put_into_force(self.run, change)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::RevisePlan;
    use crate::command::testing::{Sent, plan};
    use crate::event::EventKind;

    /// A run with a proposal.
    fn proposed() -> Sent {
        let mut sent = Sent::running(&["one"]);
        sent.send(RevisePlan {
            plan: Some(plan(&["two"])),
            ..RevisePlan::default()
        });
        sent
    }

    fn apply(proposal: u32) -> ApplyProposal {
        ApplyProposal { run: 0, proposal }
    }

    #[test]
    fn the_proposal_is_the_plan() {
        let mut sent = proposed();
        let events = sent.send(apply(1));
        let is_applied = |kind: &EventKind| matches!(kind, EventKind::PlanApplied(_));
        assert!(events.iter().any(is_applied), "{events:?}");
        assert_eq!(sent.run().revision(), 2);
    }

    #[test]
    fn only_a_proposal_that_still_counts_is_applied() {
        let mut sent = proposed();
        for proposal in [0, 2] {
            assert_eq!(sent.refused(apply(proposal)), Refusal::NoSuchProposal);
        }
        sent.send(apply(1));
        assert_eq!(sent.refused(apply(1)), Refusal::PlanMovedOn);
        assert_eq!(Sent::new().refused(apply(1)), Refusal::NoSuchRun);
    }
}
