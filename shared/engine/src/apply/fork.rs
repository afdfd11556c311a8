//! What makes a copy a session of its own.

use crate::event::Effect;
use crate::state::{Ask, Call, CallStatus, Origin, Session, Step, StepStatus};

impl Session {
    /// Commands that nobody has answered are not this session's, nor is what somebody said for what
    /// the other session would do: answers about calls in doubt that have not taken effect, approvals of
    /// calls that have not begun, which are for one call, and that the run is to end. Calls that were
    /// sent there keep their keys. Nobody worked at the copy since the cut.
    pub(super) fn become_fork(&mut self, parent: &str, at_seq: u64, title: &str, at: u64) {
        let origin = Origin {
            session: parent.to_owned(),
            seq: at_seq,
            is_titled: !title.is_empty(),
        };
        self.commands.clear();
        self.handled_through = self.handled_through.max(origin.seq);
        if !title.is_empty() {
            title.clone_into(&mut self.title);
        }
        self.forked_from = Some(origin);
        let worked_at = self.worked_at;
        for run in &mut self.runs {
            run.rest(worked_at, at);
            run.ending = None;
            let steps = run.plan.iter_mut().flat_map(|plan| &mut plan.steps);
            run.approvals += steps.map(|step| inherit(step, parent)).sum::<u32>();
        }
    }
}

/// How many calls need approval anew.
fn inherit(step: &mut Step, parent: &str) -> u32 {
    for effect in &mut step.effects {
        effect.origin.get_or_insert_with(|| parent.to_owned());
    }
    let StepStatus::Running(attempt) = &mut step.status else {
        return 0;
    };
    let calls = attempt.turns.iter_mut().flat_map(|turn| &mut turn.calls);
    let mut asked = 0;
    for call in calls {
        if may_have_been_sent(call) {
            call.origin.get_or_insert_with(|| parent.to_owned());
        }
        match &mut call.status {
            CallStatus::InDoubt { answer, .. } => *answer = None,
            CallStatus::Requested => {
                if let Some(digest) = call.approval.take() {
                    let ask = Ask::Approval { digest };
                    call.status = CallStatus::Asking { ask, answer: None };
                    asked += 1;
                }
            }
            _ => {}
        }
    }
    asked
}

fn may_have_been_sent(call: &Call) -> bool {
    match call.status {
        CallStatus::Asking { .. } | CallStatus::Finished { .. } => false,
        // One that was in doubt is asked for again when a person says so.
        CallStatus::Requested => match call.effect {
            Effect::Pure | Effect::Idempotent => true,
            Effect::Effectful => call.doubts > 0,
            Effect::State => false,
        },
        CallStatus::Intended { .. } | CallStatus::InDoubt { .. } => true,
    }
}
