//! What people decided, and who.

use super::{Mode, StepNo};
use crate::event::{Event, EventKind};
use crate::pending::PendingId;
use crate::principal::Principal;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// A session keeps as many of its last decisions; the journal has them all.
const MOST: usize = 20;

/// Something that a person decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastDecision {
    /// Milliseconds since 1970.
    pub at: u64,
    /// The run that it is about; 0 for the session.
    pub run: u32,
    /// The step that it is about; 0 for none.
    pub step: StepNo,
    /// What was decided.
    pub kind: DecisionKind,
    /// Who decided.
    pub principal: Principal,
}

/// What a person decided. Views have the words for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DecisionKind {
    /// A question was answered.
    Settled {
        /// The question.
        pending: PendingId,
        /// The answer; see [`Settlement::verb`](crate::command::Settlement::verb).
        verb: String,
    },
    /// The run was started.
    RunStarted,
    /// The run was paused.
    RunPaused {
        /// Why; may be empty.
        reason: String,
    },
    /// The run was resumed.
    RunResumed,
    /// The run was cancelled.
    RunCancelled {
        /// Why; may be empty.
        reason: String,
    },
    /// The step was skipped.
    StepSkipped {
        /// Why; may be empty.
        reason: String,
    },
    /// Another plan was requested.
    RevisionRequested {
        /// What is to be different; may be empty.
        feedback: String,
    },
    /// A plan was proposed.
    PlanProposed {
        /// Its number.
        proposal: u32,
    },
    /// A plan was put into force.
    PlanApplied {
        /// The revision that it became.
        revision: u32,
    },
    /// Further calls were approved.
    ApprovalGranted {
        /// Number of the approval.
        grant: u32,
        /// The tool that they are of.
        tool: String,
    },
    /// An approval of further calls was revoked.
    ApprovalRevoked {
        /// Number of the approval.
        grant: u32,
    },
    /// The session was given a mode.
    ModeSet {
        /// The mode.
        mode: Mode,
    },
    /// The session was forked from another.
    Forked {
        /// The other session.
        session: String,
        /// The last event that both have in common.
        at_seq: u64,
    },
}

impl PastDecision {
    /// The decision that an event is, if a person made it.
    pub fn of(event: &Event) -> Option<Self> {
        use {DecisionKind as D, EventKind as E};
        let principal = event.principal.clone()?;
        let none = StepNo::default();
        let (run, step, kind) = match &event.kind {
            E::Decided(e) => {
                let attempt = e.pending.attempt();
                let kind = D::Settled {
                    pending: e.pending,
                    verb: e.settlement.verb().to_owned(),
                };
                let step = attempt.map_or(none, |attempt| attempt.step);
                (e.pending.run(), step, kind)
            }
            E::RunStarted(e) if e.turn.is_none() => (e.run, none, D::RunStarted),
            E::RunPaused(e) => {
                let reason = e.reason.clone();
                (e.run, none, D::RunPaused { reason })
            }
            E::RunResumed(e) => (e.run, none, D::RunResumed),
            E::RunCancelled(e) => {
                let reason = e.reason.clone();
                (e.run, none, D::RunCancelled { reason })
            }
            E::StepSkipped(e) => {
                let reason = e.reason.clone();
                (e.run, e.step, D::StepSkipped { reason })
            }
            E::RevisionRequested(e) => {
                let feedback = e.feedback.clone();
                (e.run, none, D::RevisionRequested { feedback })
            }
            E::PlanProposed(e) => {
                let proposal = e.proposal;
                (e.run, none, D::PlanProposed { proposal })
            }
            E::PlanApplied(e) => {
                let revision = e.revision;
                (e.run, none, D::PlanApplied { revision })
            }
            E::ApprovalGranted(e) => {
                let (grant, tool) = (e.grant, e.tool.clone());
                (0, none, D::ApprovalGranted { grant, tool })
            }
            E::ApprovalRevoked(e) => (0, none, D::ApprovalRevoked { grant: e.grant }),
            E::ModeSet(e) => (0, none, D::ModeSet { mode: e.mode }),
            E::ForkedFrom(e) => {
                let (session, at_seq) = (e.session.clone(), e.at_seq);
                (0, none, D::Forked { session, at_seq })
            }
            _ => return None,
        };
        Some(Self {
            at: event.at,
            run,
            step,
            kind,
            principal,
        })
    }
}

/// Keeps the decision that an event is.
pub(super) fn note(decisions: &mut VecDeque<PastDecision>, event: &Event) {
    if event.principal.is_none() {
        return;
    }
    decisions.extend(PastDecision::of(event));
    if decisions.len() > MOST {
        decisions.pop_front();
    }
}
