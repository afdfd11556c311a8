//! Sessions that begin as copies of others.

use super::Decision;
use crate::command::ModeSet;
use crate::event::{ForkedFrom, HooksDropped, RunPaused};
use crate::principal::Principal;
use crate::session::{Mode, RunStatus};
use crate::transitions::Applied;

/// Where a copy comes from, and what is to become of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fork {
    /// The session that was copied.
    pub session: String,
    /// The request that asked for the copy.
    pub request_id: String,
    /// Who asks for it.
    pub principal: Option<Principal>,
    /// For people; empty for that of the session that was copied.
    pub title: String,
    /// An active run continues by itself; else it is paused, so that it can be given another course
    /// first.
    pub continues: bool,
}

impl Decision<'_> {
    /// A session that comes from an archive begins with the mode of a new one, as a copy does. Its run
    /// asks the hooks of this place, from the next owner on.
    pub(super) fn imported(&mut self) -> Applied {
        let has_ended = !self.session.ended_hooks.is_empty();
        let active = self.session.active_run();
        if has_ended || active.is_some_and(|run| !run.hooks.is_dropped) {
            self.emit(HooksDropped {})?;
        }
        let mode = Mode::default();
        match self.session.mode == mode {
            true => Ok(()),
            false => self.emit(ModeSet { mode }),
        }
    }

    /// The copy becomes a session of its own. What was asked of the session that was copied, and had
    /// not been answered or had not taken effect, is that one's alone. A call with side effects that
    /// may be under way there is in doubt here.
    pub(super) fn fork(&mut self, fork: Fork) -> Applied {
        let forked = ForkedFrom {
            session: fork.session,
            at_seq: self.session.seq,
            request_id: fork.request_id,
            title: fork.title,
        };
        self.emit_with(forked.into(), 0, fork.principal)?;
        self.drop_requests_of_people()?;
        let Some(run) = self.session.active_run() else {
            return Ok(());
        };
        let (number, status) = (run.number, run.status);
        for attempt in self.running(number) {
            self.doubt_intended_calls(attempt, false)?;
        }
        if fork.continues || status == RunStatus::Paused {
            return self.reconcile_status(number);
        }
        self.emit(RunPaused {
            run: number,
            reason: "forked".to_owned(),
        })
    }
}
