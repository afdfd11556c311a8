//! What stays of a turn that ends before it completes.

use super::{Decision, words};
use crate::event::{OpenCall, RunCancelled, RunFailed};
use crate::failure::Failure;

impl Decision<'_> {
    /// The end of a run that fails. The context of a turn keeps what the options of the turn say.
    pub(super) fn run_failed(&self, run: u32, failure: Failure) -> RunFailed {
        let (kept_through, results) = self.kept(run);
        RunFailed {
            run,
            failure,
            usage: None,
            duration_ms: 0,
            kept_through,
            results,
        }
    }

    /// The same for a run that a person cancels.
    pub(crate) fn run_cancelled(&self, run: u32, reason: String) -> RunCancelled {
        let (kept_through, results) = self.kept(run);
        RunCancelled {
            run,
            reason,
            kept_through,
            results,
        }
    }

    fn kept(&self, run: u32) -> (u32, Vec<OpenCall>) {
        match self.session.kept_of_turn(run) {
            Some(kept_through) => (kept_through, self.results_at_end(run)),
            None => (0, Vec::new()),
        }
    }

    /// Results for the calls that the step of a turn has left without one, or with one that hooks were still asked
    /// about. A provider refuses a conversation in which a call has none.
    pub(super) fn results_at_end(&self, run: u32) -> Vec<OpenCall> {
        let turn = self.session.run(run).and_then(|run| run.turn.as_ref());
        let rest = turn.and_then(|turn| turn.rest.as_deref());
        let calls = rest.into_iter().flat_map(|rest| &rest.calls);
        let open = calls.filter(|(_, call)| !call.is_finished());
        let results = open.map(|(name, call)| OpenCall {
            call: *name,
            output: words::ended(call).to_owned(),
        });
        results.collect()
    }
}
