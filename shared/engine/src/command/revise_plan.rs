//! Requests another plan, or brings one.

use super::Handle;
use crate::decide::{Decision, Rejection};
use crate::event::RevisionRequested;
use crate::limits::MAX_GOAL;
use crate::plan::{Plan, PlanDraft};
use serde::{Deserialize, Serialize};

/// Most requests that the planner is asked about, one after the other.
const MOST_REQUESTS: usize = 8;

/// A request for another plan: either in words, for the planner, or the plan itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevisePlan {
    /// Number of the run; 0 for the newest.
    pub run: u32,
    /// What is to be different; may be empty only if a plan is given.
    pub feedback: String,
    /// When given, the planner is not asked.
    pub plan: Option<PlanDraft>,
    /// The revision that is to be changed; 0 for the one in force.
    pub expected_revision: u32,
    /// Put it into force at once; otherwise it is proposed.
    pub apply: bool,
}

impl Handle for RevisePlan {
    const BEGINS_WORK: bool = true;

    fn run_mut(&mut self) -> Option<&mut u32> {
        Some(&mut self.run)
    }

    fn handle(self, decision: &mut Decision<'_>) -> Result<(), Rejection> {
        let run = decision.revisable(self.run, self.expected_revision)?;
        let (number, requests) = (run.number, run.revisions.requests.len());
        if let Some(plan) = self.plan {
            if let Err(fault) = Plan::accept(&plan) {
                return Err(Rejection::refused("BAD_PLAN", fault.to_string()));
            }
            let change = decision.change_asked_for(plan);
            let changed = match self.apply {
                true => decision.put_into_force(number, change),
                false => decision.propose(number, change),
            };
            return changed.map_err(Rejection::from);
        }
        check_feedback(&self.feedback, requests)?;
        decision.take_up(RevisionRequested {
            run: number,
            feedback: self.feedback,
            apply: self.apply,
            request: decision.command_seq(),
            denied: 0,
        })?;
        Ok(decision.reconcile_status(number)?)
    }
}

fn check_feedback(feedback: &str, requests: usize) -> Result<(), Rejection> {
    let bytes = feedback.len();
    if feedback.trim().is_empty() {
        let message = "a revision needs feedback or a plan";
        return Err(Rejection::refused("BAD_FEEDBACK", message));
    }
    if bytes > MAX_GOAL {
        let message = format!("the feedback has {bytes} bytes; at most {MAX_GOAL} are allowed");
        return Err(Rejection::refused("BAD_FEEDBACK", message));
    }
    if requests >= MOST_REQUESTS {
        let message =
            format!("{requests} requests for another plan wait; at most {MOST_REQUESTS} may");
        return Err(Rejection::refused("TOO_MANY_REVISIONS", message));
    }
    Ok(())
}
