//! What a run does next: start steps, wait, end.

use super::Decision;
use super::calls::UNKNOWN_TOOL;
use crate::command::{ContextDestroyed, OnFailure};
use crate::context::of_step;
use crate::event::{
    AttemptRef, Budget, BudgetExhausted, CallRef, Effect, RunCompleted, RunResumed, RunWaiting,
    StepStarted, WaitReason,
};
use crate::failure::Failure;
use crate::limits::{FULL_TRANSITION, NEARLY_FULL_JOURNAL};
use crate::session::{Attempt, Purpose, Run, RunStatus, StepNo, StepStatus, Turn};
use crate::transitions::{Applied, IllegalTransition};

impl Decision<'_> {
    /// Starts what is ready, ends the run if nothing is left, and notes whether it waits.
    pub(crate) fn advance(&mut self, number: u32) -> Applied {
        self.note_time(number)?;
        let run = self.session.run(number);
        if let Some(failure) = run.and_then(|run| run.ending.clone()) {
            return self.end_failing(number, failure);
        }
        while let Some(step) = self.next_step(number) {
            self.start_step(number, step)?;
        }
        self.ask_before_requests(number)?;
        self.reconcile_status(number)?;
        let Some(run) = self.session.run(number) else {
            return Ok(());
        };
        let Some(plan) = run.plan.as_ref() else {
            return Ok(());
        };
        if run.status != RunStatus::Running || !plan.running.is_empty() || run.is_gated() {
            return Ok(());
        }
        if let Some(failure) = run.first_failure.clone() {
            return self.continue_after(number, failure);
        }
        if plan.open == 0 {
            let answer = match plan.current().last().map(|(_, step)| &step.status) {
                Some(StepStatus::Completed { summary, .. }) => summary.clone(),
                _ => String::new(),
            };
            let journal_permille = self.nearly_full_journal(run.turn.is_some());
            let concluded = run.turn.clone();
            let concluded = concluded.filter(|turn| turn.purpose == Purpose::Conclude);
            let kept_through = self.session.last_of_turn(number);
            self.emit(RunCompleted {
                run: number,
                answer,
                kept_through,
                results: self.results_at_end(number),
                journal_permille,
            })?;
            if let Some(Turn { context, .. }) = concluded {
                self.emit(ContextDestroyed { context })?;
            }
        }
        Ok(())
    }

    /// How full the journal is, if it is so full that the end of a turn says so; else 0.
    fn nearly_full_journal(&self, is_turn: bool) -> u32 {
        let permille = self.facts.journal_permille;
        match is_turn && permille >= NEARLY_FULL_JOURNAL {
            true => permille,
            false => 0,
        }
    }

    /// A step has failed, and nothing is running.
    fn continue_after(&mut self, number: u32, failure: Failure) -> Applied {
        let Some(run) = self.session.run(number) else {
            return Ok(());
        };
        let is_ready = run.plan.as_ref().is_some_and(|plan| !plan.ready.is_empty());
        match run.limits.on_failure {
            // This owner is about to release the session: the next one continues.
            OnFailure::GoOn if is_ready => return Ok(()),
            OnFailure::Revise
                if run.revisions.requests.contains_key(&0) || run.revisions.review.is_some() =>
            {
                return Ok(());
            }
            OnFailure::Revise if run.revisions.own < run.limits.max_own_revisions => {
                self.request_own_revision(number, &failure)?;
                return self.reconcile_status(number);
            }
            OnFailure::Stop | OnFailure::GoOn | OnFailure::Revise => {}
        }
        let failed = self.run_failed(number, failure);
        self.emit(failed)
    }

    /// The next step to start, if the run may start one now. Steps that end at once, as a rule denies
    /// their calls, must not fill a transition without end: the owner starts the rest in the next one.
    fn next_step(&self, number: u32) -> Option<StepNo> {
        let may_start = self.facts.starts && self.events.len() < FULL_TRANSITION;
        self.session
            .run(number)
            .filter(|_| may_start)
            .and_then(Run::startable_step)
    }

    /// Starts a step. Hooks may be asked before, or before its attempt does anything.
    fn start_step(&mut self, run: u32, number: StepNo) -> Applied {
        let mut attempt = AttemptRef {
            run,
            step: number,
            attempt: 1,
        };
        let step = self.session.step(attempt);
        let step = step.ok_or_else(|| IllegalTransition::missing(format_args!("step {number}")))?;
        attempt.attempt = step.attempts + 1;
        if self.ask_before_step(attempt)? {
            return Ok(());
        }
        self.begin_step(attempt)?;
        match self.is_gated(attempt) {
            true => Ok(()),
            false => self.begin_attempt(attempt),
        }
    }

    /// An attempt at a step begins, and does nothing yet.
    pub(crate) fn begin_step(&mut self, attempt: AttemptRef) -> Applied {
        let AttemptRef {
            run, step: number, ..
        } = attempt;
        let step = self.session.step(attempt);
        let step = step.ok_or_else(|| IllegalTransition::missing(format_args!("step {number}")))?;
        let tool = step.plan.tool.as_ref().map(|tool| tool.name.clone());
        // A tool that is not in the catalogue cannot have effects: tools will say so. One that the agent does
        // not have never gets there.
        let offered = tool.as_ref().filter(|name| self.offers(attempt, name));
        let known = offered.and_then(|name| self.facts.tool(attempt, name));
        let tool_effect = tool
            .as_ref()
            .map(|_| known.map_or(Effect::Pure, |tool| tool.effect));
        let tool_digest = match (&tool, known) {
            (None, _) => String::new(),
            // Its server may just be starting: should tools know it by then, it is to be judged.
            (Some(_), None) => UNKNOWN_TOOL.to_owned(),
            (Some(_), Some(tool)) => tool.digest.clone(),
        };
        let planned = self.session.run(run).filter(|run| run.turn.is_none());
        let context = match tool_effect {
            None => planned.and_then(|run| of_step(run, number)),
            Some(_) => None,
        };
        let called = tool.as_deref().zip(tool_effect);
        let tool_hooked =
            called.is_some_and(|(name, effect)| self.asks_before_call(attempt, name, effect));
        self.emit(StepStarted {
            attempt,
            tool_effect,
            tool_digest,
            tool_previews: known.is_some_and(|tool| tool.previews),
            tool_hooked,
            context: context.unwrap_or_default(),
        })
    }

    /// An attempt that has begun does what comes first: its model gets its task, or its call is judged.
    pub(super) fn begin_attempt(&mut self, attempt: AttemptRef) -> Applied {
        if let Some(turn) = self.session.turn(attempt).cloned() {
            return self.begin_turn(attempt, &turn);
        }
        if !self.is_tool_step(attempt) {
            return self.begin_conversation(attempt);
        }
        let call = CallRef {
            attempt,
            tool_turn: 0,
            index: 0,
        };
        self.judge(call)?;
        self.finish_tool_turn(attempt)?;
        self.intend_requested_calls(attempt)
    }

    pub(crate) fn reconcile_status(&mut self, number: u32) -> Applied {
        self.note_time(number)?;
        let Some(run) = self.session.run(number) else {
            return Ok(());
        };
        let (is, due) = (run.status, run.due_status());
        if is.is_terminal() || is == due {
            return Ok(());
        }
        if matches!(is, RunStatus::Waiting(_)) {
            self.emit(RunResumed { run: number })?;
        }
        let RunStatus::Waiting(reason) = due else {
            return Ok(());
        };
        // That time is used up was noted when it was.
        let blocking = self.session.run(number).and_then(Run::blocking_budget);
        let noted = |budget: &Budget| reason != WaitReason::Budget || *budget == Budget::Time;
        if let Some(budget) = blocking.filter(|budget| !noted(budget)) {
            self.emit(BudgetExhausted {
                run: number,
                budget,
            })?;
        }
        self.emit(RunWaiting {
            run: number,
            reason,
        })
    }

    /// Notes that the active time of the run is used up, once it is.
    fn note_time(&mut self, number: u32) -> Applied {
        let run = self.session.run(number);
        let deadline = run.and_then(|run| run.spent.deadline());
        if deadline.is_none_or(|deadline| self.facts.now < deadline) {
            return Ok(());
        }
        self.emit(BudgetExhausted {
            run: number,
            budget: Budget::Time,
        })
    }

    /// What was held continues.
    pub(crate) fn begin_again(&mut self, number: u32) -> Applied {
        for attempt in self.running(number) {
            self.intend_requested_calls(attempt)?;
            self.prepare_request(attempt)?;
        }
        self.settle_due()
    }

    /// A person refused the run more of a budget, or a hook blocked it: nothing begins, calls with side effects that
    /// are under way end, hooks are asked about what has ended, and the run ends.
    fn end_failing(&mut self, number: u32, failure: Failure) -> Applied {
        let run = self.session.run(number);
        if run.is_none_or(|run| run.status == RunStatus::Paused || run.status.is_terminal()) {
            return Ok(());
        }
        for attempt in self.running(number) {
            let running = self.session.attempt(attempt);
            if !running.is_some_and(Attempt::has_intended_call) {
                self.fail_step(attempt, failure.clone())?;
            }
        }
        self.reconcile_status(number)?;
        let is_gated = self.session.run(number).is_some_and(Run::is_gated);
        if is_gated || !self.running(number).is_empty() {
            return Ok(());
        }
        let failed = self.run_failed(number, failure);
        self.emit(failed)
    }
}
