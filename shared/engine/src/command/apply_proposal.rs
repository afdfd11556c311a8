//! Puts a proposal into force.

use super::Handle;
use crate::decide::{Decision, Rejection, moved_on};
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
                return Err(Rejection::refused("NO_SUCH_PROPOSAL", message));
            }
            return Err(moved_on(run));
        };
        let change = decision.change_asked_for(proposal.plan.clone());
        Ok(decision.put_into_force(self.run, change)?)
    }
}
