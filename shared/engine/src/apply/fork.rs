//! What makes a copy a session of its own.

use crate::state::{CallStatus, Origin, Session, StepStatus};

impl Session {
    /// Commands that nobody has answered are not this session's, nor are answers about calls in
    /// doubt that have not taken effect: somebody gave them for what the other session would do.
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
        let plans = self.runs.iter_mut().filter_map(|run| run.plan.as_mut());
        let steps = plans.flat_map(|plan| &mut plan.steps);
        for step in steps {
            let StepStatus::Running(attempt) = &mut step.status else {
                continue;
            };
            let calls = attempt.turns.iter_mut().flat_map(|turn| &mut turn.calls);
            for call in calls {
                if let CallStatus::InDoubt { answer, .. } = &mut call.status {
                    *answer = None;
                }
            }
        }
    }
}
