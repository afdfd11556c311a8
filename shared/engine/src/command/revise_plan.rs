//! Requests another plan, or brings one.

use super::Handle;
use crate::decide::{Decision, Rejection};
use crate::event::RevisionRequested;
use crate::limits::MAX_GOAL;
use crate::plan::{Plan, PlanDraft};
use crate::refusal::Refusal;
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
                return Err(Rejection::refused(Refusal::BadPlan, fault.located().problem));
            }
            decision.check_plan_of_run(number, &plan)?;
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
        return Err(Rejection::refused(Refusal::BadFeedback, message));
    }
    if bytes > MAX_GOAL {
        let message = format!("the feedback has {bytes} bytes; at most {MAX_GOAL} are allowed");
        return Err(Rejection::refused(Refusal::BadFeedback, message));
    }
    if requests >= MOST_REQUESTS {
        let message =
            format!("{requests} requests for another plan wait; at most {MOST_REQUESTS} may");
        return Err(Rejection::refused(Refusal::TooManyRevisions, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::testing::{Sent, plan};
    use crate::command::{StartRun, SubmitTurn};
    use crate::event::EventKind;
    use crate::message::Message;

    fn feedback(feedback: &str) -> RevisePlan {
        RevisePlan {
            feedback: feedback.to_owned(),
            ..RevisePlan::default()
        }
    }

    fn by_hand(steps: &[&str], apply: bool) -> RevisePlan {
        RevisePlan {
            plan: Some(plan(steps)),
            apply,
            ..RevisePlan::default()
        }
    }

    #[test]
    fn feedback_is_a_request_to_the_planner() {
        let mut sent = Sent::running(&["one"]);
        let events = sent.send(feedback("add a test"));
        let [EventKind::RevisionRequested(requested)] = &events[..] else {
            panic!("{events:?}");
        };
        assert_eq!(requested.feedback, "add a test");
        assert_eq!(sent.run().revisions.requests.len(), 1);
    }

    #[test]
    fn a_plan_by_hand_is_proposed_or_applied() {
        let mut sent = Sent::running(&["one"]);
        sent.send(by_hand(&["two"], false));
        assert_eq!(sent.run().revision(), 1);
        assert_eq!(sent.run().revisions.proposals.len(), 1);
        sent.send(by_hand(&["three"], true));
        assert_eq!(sent.run().revision(), 2);
    }

    #[test]
    fn a_request_says_what_is_to_be_different() {
        let mut sent = Sent::running(&["one"]);
        for bad in [" ", &"f".repeat(MAX_GOAL + 1)] {
            assert_eq!(sent.refused(feedback(bad)), Refusal::BadFeedback);
        }
        assert_eq!(sent.refused(by_hand(&[], true)), Refusal::BadPlan);
    }

    #[test]
    fn a_run_has_a_few_requests_at_a_time() {
        let mut sent = Sent::running(&["one"]);
        for _ in 0..MOST_REQUESTS {
            sent.send(feedback("once more"));
        }
        assert_eq!(sent.refused(feedback("once more")), Refusal::TooManyRevisions);
    }

    #[test]
    fn the_newest_plan_is_changed_from_the_revision_that_was_seen() {
        let mut sent = Sent::new();
        assert_eq!(sent.refused(feedback("x")), Refusal::NoSuchRun);
        let mut sent = Sent::running(&["one"]);
        sent.send(by_hand(&["two"], true));
        let of_the_first = RevisePlan {
            expected_revision: 1,
            ..feedback("x")
        };
        assert_eq!(sent.refused(of_the_first), Refusal::PlanMovedOn);
        sent.fail();
        sent.send(StartRun {
            plan: Some(plan(&["three"])),
            ..StartRun::default()
        });
        let of_the_first_run = RevisePlan {
            run: 1,
            ..feedback("x")
        };
        assert_eq!(sent.refused(of_the_first_run), Refusal::RunEnded);
    }

    #[test]
    fn a_turn_has_no_plan() {
        let mut sent = Sent::new();
        sent.send(SubmitTurn {
            message: Some(Message::user("hello")),
            ..SubmitTurn::default()
        });
        assert_eq!(sent.refused(feedback("x")), Refusal::NoPlan);
    }
}
