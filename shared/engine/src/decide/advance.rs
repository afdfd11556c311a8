//! What a run does next: start steps, wait, end.

use super::Decision;
use crate::command::OnFailure;
use crate::event::{AttemptRef, Budget, CallRef, Effect, EventKind, WaitReason};
use crate::failure::Failure;
use crate::limits::MAX_PARALLEL_STEPS;
use crate::state::{Run, RunStatus, StepStatus};
use crate::transitions::IllegalTransition;

impl Decision<'_> {
    /// Starts what is ready, ends the run if nothing is left, and says whether it waits.
    pub(super) fn advance(&mut self, number: u32) -> Result<(), IllegalTransition> {
        self.note_time(number)?;
        if let Some(failure) = self.session.run(number).and_then(|run| run.ending.clone()) {
            return self.end_as_told(number, failure);
        }
        while let Some(step) = self.next_step(number) {
            self.start_step(number, step)?;
        }
        self.reconcile_status(number)?;
        let Some(run) = self.session.run(number) else {
            return Ok(());
        };
        let Some(plan) = run.plan.as_ref() else {
            return Ok(());
        };
        if run.status != RunStatus::Running || !plan.running.is_empty() {
            return Ok(());
        }
        if let Some(failure) = run.failing.clone() {
            return self.go_on_after(number, failure);
        }
        if plan.open == 0 {
            let answer = match plan.current().last().map(|(_, step)| &step.status) {
                Some(StepStatus::Completed { summary, .. }) => summary.clone(),
                _ => String::new(),
            };
            return self.emit(EventKind::RunCompleted {
                run: number,
                answer,
            });
        }
        Ok(())
    }

    /// A step has failed, and nothing is running.
    fn go_on_after(&mut self, number: u32, failure: Failure) -> Result<(), IllegalTransition> {
        let Some(run) = self.session.run(number) else {
            return Ok(());
        };
        let is_ready = run.plan.as_ref().is_some_and(|plan| !plan.ready.is_empty());
        match run.limits.on_failure {
            // This owner is about to let go: the next one goes on.
            OnFailure::GoOn if is_ready => return Ok(()),
            OnFailure::Revise if run.revising.contains_key(&0) || run.review.is_some() => {
                return Ok(());
            }
            OnFailure::Revise if run.own_revisions < run.limits.max_own_revisions => {
                self.ask_for_revision(number, &failure)?;
                return self.reconcile_status(number);
            }
            OnFailure::Stop | OnFailure::GoOn | OnFailure::Revise => {}
        }
        self.emit(EventKind::RunFailed {
            run: number,
            failure,
            usage: None,
            duration_ms: 0,
        })
    }

    /// The next step to start, if the run may start one. After a failure nothing new begins, unless
    /// the run is to go on all the same.
    fn next_step(&self, number: u32) -> Option<u32> {
        let run = self.session.run(number)?;
        let is_stopped = run.failing.is_some() && run.limits.on_failure != OnFailure::GoOn;
        if !self.may_begin(number) || is_stopped {
            return None;
        }
        let plan = run.plan.as_ref()?;
        let most = run.limits.max_parallel_steps.min(MAX_PARALLEL_STEPS);
        if plan.running.len() >= most as usize {
            return None;
        }
        let place = *plan.ready.first()?;
        plan.places.get(place as usize).map(|position| position + 1)
    }

    fn start_step(&mut self, run: u32, number: u32) -> Result<(), IllegalTransition> {
        let mut attempt = AttemptRef {
            run,
            step: number,
            attempt: 1,
        };
        let step = self.session.step(attempt);
        let step = step.ok_or_else(|| IllegalTransition::missing(format_args!("step {number}")))?;
        attempt.attempt = step.attempts + 1;
        let tool = step.plan.tool.as_ref().map(|tool| tool.name.clone());
        // A tool that is not in the catalogue cannot have effects: tools will say so.
        let effect = |name: &String| {
            self.facts
                .tools
                .get(name)
                .map_or(Effect::Pure, |t| t.effect)
        };
        let tool_effect = tool.as_ref().map(effect);
        self.emit(EventKind::StepStarted {
            attempt,
            tool_effect,
        })?;
        match tool {
            Some(tool) => {
                let call = CallRef {
                    attempt,
                    tool_turn: 0,
                    index: 0,
                };
                self.ask_approval(call, &tool)?;
                self.intend_requested_calls(attempt)
            }
            None => Ok(()),
        }
    }

    pub(super) fn reconcile_status(&mut self, number: u32) -> Result<(), IllegalTransition> {
        self.note_time(number)?;
        let Some(run) = self.session.run(number) else {
            return Ok(());
        };
        let (is, due) = (run.status, run.due_status());
        if is.is_terminal() || is == due {
            return Ok(());
        }
        if matches!(is, RunStatus::Waiting(_)) {
            self.emit(EventKind::RunResumed {
                run: number,
                command_seq: 0,
            })?;
        }
        let RunStatus::Waiting(reason) = due else {
            return Ok(());
        };
        // That time is used up was noted when it was.
        let lacks = self.session.run(number).and_then(Run::lacks);
        let noted = |budget: &Budget| reason != WaitReason::Budget || *budget == Budget::Time;
        if let Some(budget) = lacks.filter(|budget| !noted(budget)) {
            self.emit(EventKind::BudgetExhausted {
                run: number,
                budget,
            })?;
        }
        self.emit(EventKind::RunWaiting {
            run: number,
            reason,
        })
    }
}
