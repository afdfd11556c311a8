//! Sessions that begin as copies of others.

use super::Decision;
use crate::event::EventKind;
use crate::failure::{Failure, FailureKind};
use crate::message::Usage;
use crate::state::RunStatus;
use crate::transitions::IllegalTransition;

/// Where a copy comes from, and what is to become of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fork {
    /// The session that was copied.
    pub session: String,
    /// The request that asked for the copy.
    pub request_id: String,
    /// For people; empty for that of the session that was copied.
    pub title: String,
    /// An active run goes on by itself; else it is paused, so that it can be given another course
    /// first.
    pub goes_on: bool,
}

impl Decision<'_> {
    /// The copy becomes a session of its own. What was asked of the session that was copied, and had
    /// not been answered or had not taken effect, is that one's alone. A call with side effects that
    /// may be under way there is in doubt here.
    pub(super) fn fork(&mut self, fork: Fork) -> Result<(), IllegalTransition> {
        self.emit(EventKind::ForkedFrom {
            session: fork.session,
            at_seq: self.session.seq,
            request_id: fork.request_id,
            title: fork.title,
        })?;
        self.drop_wishes_of_people()?;
        let Some(run) = self.session.active_run() else {
            return Ok(());
        };
        let (number, status) = (run.number, run.status);
        for attempt in self.running(number) {
            self.doubt_intended_calls(attempt, false)?;
        }
        if fork.goes_on || status == RunStatus::Paused {
            return self.reconcile_status(number);
        }
        self.emit(EventKind::RunPaused {
            run: number,
            reason: "forked".to_owned(),
            command_seq: 0,
        })
    }

    /// Those of the run itself are about what has happened to it, and stay.
    fn drop_wishes_of_people(&mut self) -> Result<(), IllegalTransition> {
        let Some(run) = self.session.runs.last() else {
            return Ok(());
        };
        let number = run.number;
        let of_people = run.revising.keys().copied().filter(|&seq| seq > 0);
        let of_people: Vec<u64> = of_people.collect();
        for request_seq in of_people {
            let message = "it was asked of the session that this one was forked from";
            self.emit(EventKind::RevisionFailed {
                run: number,
                request_seq,
                failure: Failure::new(FailureKind::Other, "Dropped", message),
                usage: Usage::default(),
                duration_ms: 0,
            })?;
        }
        Ok(())
    }
}
