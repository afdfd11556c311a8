//! What follows when an owner or an executor is lost.

use super::Decision;
use crate::event::{AttemptContinued, AttemptRef, RunTakenOver};
use crate::session::Run;
use crate::transitions::Applied;

impl Decision<'_> {
    /// What the owner before had running continues, but for calls with side effects that may have
    /// been sent: those are in doubt. Commands that people sent since count before anything else
    /// begins: a person who cancels the run of a process that has died wants no more of it.
    pub(super) fn take_over(&mut self, holder_dead: bool) -> Applied {
        self.pin_hooks_anew()?;
        let active = self.session.active_run();
        let attempts = active.map_or_else(Vec::new, |run| self.running(run.number));
        let asked = self.asked_for_summaries(&attempts);
        self.exclude_absence()?;
        for &attempt in &attempts {
            if self.waits_for_pool(attempt) {
                continue;
            }
            self.emit(AttemptContinued { attempt })?;
            self.doubt_intended_calls(attempt, holder_dead)?;
        }
        if self.facts.starts {
            self.handle_commands_while(|_| true)?;
        }
        // Those of them that are still under way.
        for attempt in attempts {
            let rewrites = self.session.attempt(attempt).map(|it| it.rewrites);
            // A command can have dropped the question. What it has led to was never asked before.
            if rewrites.is_some_and(|rewrites| asked.contains(&(attempt, rewrites))) {
                self.ask_summary_again(attempt)?;
            }
            self.judge_again(attempt)?;
            self.intend_requested_calls(attempt)?;
            self.prepare_request(attempt)?;
        }
        self.settle_due()
    }

    /// Nobody carried the attempt out, because no resource has what it needs: nothing of it continues.
    fn waits_for_pool(&self, attempt: AttemptRef) -> bool {
        let running = self.session.attempt(attempt);
        running.is_some_and(|it| it.lacks_capability() && !it.has_intended_call())
    }

    /// The time in which the run had no owner is not taken from its own.
    fn exclude_absence(&mut self) -> Applied {
        let active = self.session.active_run();
        let is_counted = |run: &&Run| run.spent.deadline().is_some();
        let Some(run) = active.filter(is_counted).map(|run| run.number) else {
            return Ok(());
        };
        self.emit(RunTakenOver { run })
    }

    /// The stream to the executor broke.
    pub(super) fn attempt_lost(&mut self, attempt: AttemptRef) -> Applied {
        if self.session.attempt(attempt).is_none() {
            return Ok(());
        }
        self.emit(AttemptContinued { attempt })?;
        self.doubt_intended_calls(attempt, false)?;
        self.ask_summary_again(attempt)?;
        self.prepare_request(attempt)?;
        self.advance(attempt.run)
    }
}
