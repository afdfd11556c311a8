//! What makes a copy a session of its own.

use super::{Apply, Ask, Call, CallStatus, Envelope, Mode, Session, Step, StepStatus};
use crate::event::{Effect, ForkedFrom};
use crate::failure::FailureKind;
use crate::transitions::Applied;
use serde::{Deserialize, Serialize};

/// The session that another one was copied from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Its id.
    pub session: String,
    /// The last event that is common to both.
    pub seq: u64,
}

/// The copy inherits no command without an answer, no turn that waits, no decision about a call in doubt that has not
/// taken effect, no approval of a call that has not begun or of further calls, no mode, no refused budget, and no
/// question about runs that have ended. Calls that were sent there keep their keys. No owner worked at the copy since the cut.
impl Apply for ForkedFrom {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        session.commands.clear();
        session.queued_turns.clear();
        session.grants.clear();
        session.ended_hooks.clear();
        session.mode = Mode::default();
        session.handled_through = session.handled_through.max(self.at_seq);
        if !self.title.is_empty() {
            session.title.clone_from(&self.title);
        }
        session.forked_from = Some(Origin {
            session: self.session.clone(),
            seq: self.at_seq,
        });
        let worked_at = session.worked_at;
        for run in session.runs.whole_mut() {
            if let Some(rest) = run.turn.as_mut().and_then(|turn| turn.rest.as_mut()) {
                rest.unread.clear();
            }
            run.spent.exclude_absence(worked_at, envelope.at);
            // What a hook blocked stays blocked.
            run.ending
                .take_if(|failure| failure.kind != FailureKind::HookBlocked);
            for step in run.plan.iter_mut().flat_map(|plan| &mut plan.steps) {
                inherit(step, &self.session, envelope.at);
            }
        }
        Ok(())
    }
}

fn inherit(step: &mut Step, parent: &str, at: u64) {
    for effect in &mut step.effects {
        effect.origin.get_or_insert_with(|| parent.to_owned());
    }
    let StepStatus::Running(attempt) = &mut step.status else {
        return;
    };
    attempt.forget_unread();
    for call in &mut attempt.calls {
        call.mode = Mode::default();
        if may_have_been_sent(call) {
            call.origin.get_or_insert_with(|| parent.to_owned());
        }
        match &mut call.status {
            CallStatus::InDoubt { answer, .. } => *answer = None,
            CallStatus::Requested => {
                if let Some(digest) = call.approval.take() {
                    let ask = Ask::Approval { digest };
                    call.status = CallStatus::Asking { ask, answer: None };
                    call.asked_at = at;
                }
            }
            _ => {}
        }
    }
}

fn may_have_been_sent(call: &Call) -> bool {
    match &call.status {
        // Its first part was sent.
        CallStatus::Asking {
            ask: Ask::Input { .. },
            ..
        } => true,
        CallStatus::Requested if call.input.is_some() => true,
        CallStatus::Asking { .. } | CallStatus::Finished { .. } => false,
        CallStatus::Requested if call.is_unready() => false,
        // One that was in doubt is asked for again when a person says so.
        CallStatus::Requested => match call.effect {
            Effect::Pure | Effect::Idempotent => true,
            Effect::Effectful => call.doubts > 0,
            // The owner there may have saved its page, which this call saves too.
            Effect::State => call.waits_for_owner(),
        },
        CallStatus::Intended { .. } | CallStatus::InDoubt { .. } => true,
    }
}
