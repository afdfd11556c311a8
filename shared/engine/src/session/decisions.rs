//! What people decided, and who.

use super::StepNo;
use crate::event::{Event, EventKind};
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
    /// In a few words: `approved approval-1.2.1.0.0`.
    pub what: String,
    /// Who decided.
    pub principal: Principal,
}

impl PastDecision {
    /// The decision that an event is, if a person made it.
    pub fn of(event: &Event) -> Option<Self> {
        use EventKind as E;
        let because = |what: &str, reason: &str| match reason {
            "" => what.to_owned(),
            reason => format!("{what}: {reason}"),
        };
        let (run, step, what) = match &event.kind {
            E::Decided(e) => {
                let attempt = e.pending.call().map(|call| call.attempt);
                let run = e.pending.run();
                let what = format!("decided {}: {}", e.pending, e.settlement.verb());
                (run, attempt.map_or(0, |attempt| attempt.step.into()), what)
            }
            E::RunStarted(e) if e.turn.is_none() => (e.run, 0, "started the run".to_owned()),
            E::RunPaused(e) => (e.run, 0, because("paused the run", &e.reason)),
            E::RunResumed(e) => (e.run, 0, "resumed the run".to_owned()),
            E::RunCancelled(e) => (e.run, 0, because("cancelled the run", &e.reason)),
            E::StepSkipped(e) => (e.run, e.step.into(), because("skipped the step", &e.reason)),
            E::RevisionRequested(e) => (e.run, 0, because("asked for another plan", &e.feedback)),
            E::PlanProposed(e) => (e.run, 0, format!("proposed plan {}", e.proposal)),
            E::PlanApplied(e) => (e.run, 0, format!("put revision {} into force", e.revision)),
            E::ApprovalGranted(e) => {
                let what = format!(
                    "approved further calls of {} (approval {})",
                    e.tool, e.grant
                );
                (0, 0, what)
            }
            E::ApprovalRevoked(e) => (0, 0, format!("revoked approval {}", e.grant)),
            E::ForkedFrom(e) => {
                let what = format!("forked it from {} at event {}", e.session, e.at_seq);
                (0, 0, what)
            }
            _ => return None,
        };
        let principal = event.principal.clone()?;
        Some(Self {
            at: event.at,
            run,
            step: step.into(),
            what,
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
