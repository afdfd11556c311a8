//! Requests for other plans, and the proposals that came of them.

use super::{Apply, Envelope, Run, Session};
use crate::event::{PlanApplied, PlanProposed, RevisionFailed, RevisionRequested};
use crate::plan::PlanDraft;
use crate::transitions::{Applied, IllegalTransition};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Proposals that are kept: the newest.
const MOST_PROPOSALS: usize = 8;

/// What is asked and proposed about the plan of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Revisions {
    /// Requests that the planner is asked about, by the command that they came with; that of the run
    /// itself by 0.
    pub requests: BTreeMap<u64, RevisionRequest>,
    /// Changes of the plan in force that a person may apply, by number.
    pub proposals: BTreeMap<u32, Proposal>,
    /// Proposals so far.
    pub proposed: u32,
    /// The proposal that a person is to approve.
    pub review: Option<u32>,
    /// When that proposal was made.
    pub review_at: u64,
    /// Revisions that the run requested by itself since a person last changed the plan.
    pub own: u32,
}

/// A request for another plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevisionRequest {
    /// What is wrong with the plan, or with what came of it.
    pub feedback: String,
    /// The answer takes effect at once.
    pub apply: bool,
    /// The revision that was in force when it was requested.
    pub base_revision: u32,
    /// The proposal under review that it denies; 0 for none.
    pub denied: u32,
}

/// A change of the plan that can be applied as long as the plan is the one that it was made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// The revision that it changes.
    pub base_revision: u32,
    /// The whole plan as it would be.
    pub plan: PlanDraft,
    /// How often it was denied.
    pub denials: u32,
}

impl Revisions {
    /// Another plan is in force: what was requested or proposed for the plan before says nothing of
    /// this one. Requests of people stay until they are answered.
    pub(super) fn renew(&mut self, applied: &PlanApplied) {
        self.own = match (applied.revision, applied.request) {
            (1, _) | (_, 1..) => 0,
            _ => self.own + 1,
        };
        // A request for the first plan was about no plan that was there: it is about this one.
        let requests = self.requests.values_mut();
        for early in requests.filter(|request| request.base_revision == 0) {
            early.base_revision = applied.revision;
        }
        self.requests.remove(&0);
        self.requests.remove(&applied.request);
        self.proposals.clear();
        self.review = None;
    }

    /// A person denied this plan, and another one is being made.
    pub(crate) fn is_denied(&self, proposal: u32) -> bool {
        let mut requests = self.requests.values();
        requests.any(|request| request.denied == proposal)
    }
}

impl Apply for RevisionRequested {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let run = session.run_mut(self.run)?;
        let request = RevisionRequest {
            feedback: self.feedback.clone(),
            apply: self.apply,
            base_revision: run.revision(),
            denied: self.denied,
        };
        if let Some(proposal) = run.revisions.proposals.get_mut(&self.denied) {
            proposal.denials += 1;
        }
        run.revisions.requests.insert(self.request, request);
        // It is handled, and answered once the planner has.
        session.answer_command(self.request);
        Ok(())
    }
}

impl Apply for PlanProposed {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        session.spend(self.run, &self.usage)?;
        let Run {
            limits,
            revisions,
            hooks,
            ..
        } = session.run_mut(self.run)?;
        revisions.requests.remove(&self.request);
        let by_hooks = std::mem::take(&mut hooks.reviews_plan);
        let is_reviewed = limits.review_plan || by_hooks || revisions.review.is_some();
        // A plan that the run itself asked for: by its goal, or by what failed of it. What takes the
        // place of one under review is to be approved in its stead.
        if is_reviewed && (self.request == 0 || revisions.review.is_some()) {
            revisions.review = Some(self.proposal);
            revisions.review_at = envelope.at;
        }
        if self.proposal != revisions.proposed + 1 {
            let what = format_args!("proposal {}", self.proposal);
            let from = revisions.proposed;
            return Err(IllegalTransition::not_allowed(what, from, "next"));
        }
        revisions.proposed = self.proposal;
        let proposal = Proposal {
            base_revision: self.base_revision,
            plan: self.plan.clone(),
            denials: 0,
        };
        revisions.proposals.insert(self.proposal, proposal);
        while revisions.proposals.len() > MOST_PROPOSALS {
            let mut numbers = revisions.proposals.keys().copied();
            let oldest = numbers.find(|number| Some(*number) != revisions.review);
            oldest.and_then(|oldest| revisions.proposals.remove(&oldest));
        }
        Ok(())
    }
}

impl Apply for RevisionFailed {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        session.spend(self.run, &self.usage)?;
        let run = session.run_mut(self.run)?;
        run.revisions.requests.remove(&self.request);
        run.hooks.drop_plan(Some(self.request));
        run.hooks.reviews_plan = false;
        if self.request == 0 {
            // It will not ask again until a person has changed the plan.
            run.revisions.own = run.limits.max_own_revisions;
        }
        Ok(())
    }
}
