//! Events about a whole run.

use crate::command::OnFailure;
use crate::event::{Budget, EventKind, WaitReason};
use crate::state::{Allowance, Attempt, Raise, Run, RunStatus, Session, Step};
use crate::transitions::{IllegalTransition, run_may};
use std::collections::BTreeMap;

impl Session {
    pub(super) fn apply_to_run(
        &mut self,
        event: &EventKind,
        at: u64,
    ) -> Result<(), IllegalTransition> {
        use EventKind as E;
        match event {
            E::RunStarted { command_seq, .. } => {
                self.start_run(event, at)?;
                self.answer_command(*command_seq);
            }
            E::BudgetExhausted { run, budget } => {
                let run = self.run_mut(*run)?;
                run.is_out_of_time |= *budget == Budget::Time;
            }
            E::RunWaiting { run, reason } => {
                self.run_mut(*run)?.enter(RunStatus::Waiting(*reason))?;
            }
            E::RunPaused {
                run, command_seq, ..
            } => {
                self.run_mut(*run)?.enter(RunStatus::Paused)?;
                self.answer_command(*command_seq);
            }
            E::RunTakenOver { run } => {
                let worked_at = self.worked_at;
                self.run_mut(*run)?.rest(worked_at, at);
            }
            E::RunResumed { run, command_seq } => {
                self.run_mut(*run)?.resume()?;
                self.answer_command(*command_seq);
            }
            E::BudgetRaised {
                run, command_seq, ..
            } => {
                self.run_mut(*run)?.raise(event);
                self.answer_command(*command_seq);
            }
            E::BudgetRefused {
                run,
                command_seq,
                failure,
            } => {
                let run = self.run_mut(*run)?;
                run.ending = Some(failure.clone());
                run.asked_budget = None;
                self.answer_command(*command_seq);
            }
            other => self.end_run(other, at)?,
        }
        Ok(())
    }

    fn end_run(&mut self, event: &EventKind, at: u64) -> Result<(), IllegalTransition> {
        use EventKind as E;
        match event {
            E::RunCompleted { run, answer } => {
                let run = self.run_mut(*run)?;
                run.end(RunStatus::Completed, at)?;
                run.answer.clone_from(answer);
            }
            E::RunFailed {
                run,
                failure,
                usage,
                ..
            } => {
                let run = self.run_mut(*run)?;
                run.end(RunStatus::Failed, at)?;
                run.usage.add(&usage.unwrap_or_default());
                run.failure = Some(failure.clone());
            }
            E::RunCancelled {
                run,
                reason,
                command_seq,
            } => {
                let run = self.run_mut(*run)?;
                run.end(RunStatus::Cancelled, at)?;
                run.cancel_reason.clone_from(reason);
                self.answer_command(*command_seq);
            }
            other => return Err(IllegalTransition::missing(format!("run event {other:?}"))),
        }
        Ok(())
    }

    fn start_run(&mut self, event: &EventKind, at: u64) -> Result<(), IllegalTransition> {
        let EventKind::RunStarted {
            run,
            goal,
            limits,
            model,
            command_seq,
            trace_parent,
        } = event
        else {
            return Err(IllegalTransition::missing(
                "the start of a run in another event",
            ));
        };
        if *run as usize != self.runs.len() + 1 || self.active_run().is_some() {
            return Err(IllegalTransition::not_allowed(
                format_args!("run {run}"),
                "another run is active or the number is not the next",
                RunStatus::Planning,
            ));
        }
        self.runs.push(Run {
            number: *run,
            goal: goal.clone(),
            model: model.clone(),
            limits: *limits,
            command_seq: *command_seq,
            trace_parent: trace_parent.clone(),
            status: RunStatus::Planning,
            plan: None,
            usage: crate::message::Usage::default(),
            tool_turns: 0,
            calls: 0,
            allowance: Allowance::of(limits),
            asked_budget: None,
            budget_questions: 0,
            is_out_of_time: false,
            active_ms: 0,
            active_since: Some(at),
            in_doubt: 0,
            approvals: 0,
            questions: 0,
            review: None,
            failing: None,
            ending: None,
            revising: BTreeMap::new(),
            proposals: BTreeMap::new(),
            proposed: 0,
            own_revisions: 0,
            ticks: 0,
            started_at: at,
            ended_at: None,
            answer: String::new(),
            failure: None,
            cancel_reason: String::new(),
        });
        Ok(())
    }

    pub(crate) fn run_mut(&mut self, number: u32) -> Result<&mut Run, IllegalTransition> {
        let position = (number as usize).wrapping_sub(1);
        self.runs
            .get_mut(position)
            .ok_or_else(|| IllegalTransition::missing(format_args!("run {number}")))
    }
}

impl Run {
    pub(super) fn enter(&mut self, to: RunStatus) -> Result<(), IllegalTransition> {
        if !run_may(self.status, to) {
            let what = format_args!("run {}", self.number);
            return Err(IllegalTransition::not_allowed(what, self.status, to));
        }
        self.status = to;
        Ok(())
    }

    fn resume(&mut self) -> Result<(), IllegalTransition> {
        if self.status.is_terminal() {
            let what = format_args!("run {}", self.number);
            return Err(IllegalTransition::not_allowed(what, self.status, "resumed"));
        }
        self.enter(match self.plan {
            None => RunStatus::Planning,
            Some(_) => RunStatus::Running,
        })
    }

    fn raise(&mut self, event: &EventKind) {
        if let &EventKind::BudgetRaised {
            turns,
            tokens,
            cost_nano_usd,
            active_ms,
            calls,
            ..
        } = event
        {
            self.allowance.raise(&Raise {
                turns,
                tokens,
                cost_nano_usd,
                active_ms,
                calls,
            });
            self.is_out_of_time &= active_ms == 0;
            self.asked_budget = None;
        }
    }

    fn end(&mut self, to: RunStatus, at: u64) -> Result<(), IllegalTransition> {
        let before = self.status;
        self.enter(to)?;
        let plan = self.plan.as_ref();
        let is_open = plan.is_some_and(|plan| plan.open > 0);
        if plan.is_some_and(|plan| !plan.running.is_empty()) {
            let what = format_args!("run {}, whose steps are running", self.number);
            return Err(IllegalTransition::not_allowed(what, before, to));
        }
        if is_open && to == RunStatus::Completed {
            let what = format_args!("run {}, whose steps are open", self.number);
            return Err(IllegalTransition::not_allowed(what, before, to));
        }
        self.ended_at = Some(at);
        Ok(())
    }

    /// What the run should be doing, given what its attempts wait for.
    pub(crate) fn due_status(&self) -> RunStatus {
        if self.status == RunStatus::Paused {
            return RunStatus::Paused;
        }
        let waits = [
            (self.in_doubt > 0, WaitReason::InDoubt),
            (self.approvals > 0, WaitReason::Approval),
            (self.questions > 0, WaitReason::Question),
            (self.review.is_some(), WaitReason::PlanReview),
            (self.lacks().is_some(), WaitReason::Budget),
        ];
        let waits = waits.into_iter().find(|(is_so, _)| *is_so);
        match (waits, &self.plan) {
            (Some((_, reason)), _) => RunStatus::Waiting(reason),
            (None, Some(_)) => RunStatus::Running,
            (None, None) => RunStatus::Planning,
        }
    }

    /// The budget that is used up, if something of the run needs more of it to go on.
    pub(crate) fn lacks(&self) -> Option<Budget> {
        let asks = |budget: &Budget| {
            let mut attempts = self.running_attempts();
            let is_held = |step: &Step, attempt: &Attempt| match budget {
                Budget::Time | Budget::Calls => !attempt.has_intended_call(),
                _ => step.plan.tool.is_none() && attempt.needs_turn(),
            };
            attempts.any(|(_, step, attempt)| is_held(step, attempt))
                || self.revising.contains_key(&0)
                || self.plan.is_none()
                || (self.no_calls().is_some() && self.has_more_to_begin())
        };
        let is_ending = self.ending.is_some();
        self.no_questions().filter(asks).filter(|_| !is_ending)
    }

    /// A step could begin, as far as the plan goes.
    pub(crate) fn has_more_to_begin(&self) -> bool {
        let is_stopped = self.failing.is_some() && self.limits.on_failure != OnFailure::GoOn;
        let is_ready = self
            .plan
            .as_ref()
            .is_some_and(|plan| !plan.ready.is_empty());
        is_ready && !is_stopped
    }
}
