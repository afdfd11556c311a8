//! What makes a copy a session of its own.

use crate::state::{Ask, Attempt, CallStatus, Origin, Session, StepStatus};

impl Session {
    /// Commands that nobody has answered are not this session's, nor is what somebody said for what
    /// the other session would do: answers about calls in doubt that have not taken effect, and
    /// approvals of calls that have not begun, which are for one call.
    pub(super) fn become_fork(&mut self, parent: &str, at_seq: u64, title: &str) {
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
        for run in &mut self.runs {
            let steps = run.plan.iter_mut().flat_map(|plan| &mut plan.steps);
            let asked = steps.filter_map(|step| match &mut step.status {
                StepStatus::Running(attempt) => Some(forget_words(attempt)),
                _ => None,
            });
            run.approvals += asked.sum::<u32>();
        }
    }
}

/// How many calls need approval anew.
fn forget_words(attempt: &mut Attempt) -> u32 {
    let calls = attempt.turns.iter_mut().flat_map(|turn| &mut turn.calls);
    let mut asked = 0;
    for call in calls {
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
