//! Events about a whole run.

use crate::event::{EventKind, WaitReason};
use crate::key::step_keys;
use crate::plan::{Plan, PlanDraft, dependents};
use crate::state::{PlanState, Run, RunStatus, Session, Step, StepStatus};
use crate::transitions::{IllegalTransition, run_may};

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
            E::PlanApplied {
                run,
                revision,
                plan,
                usage,
                ..
            } => {
                let run = self.run_mut(*run)?;
                run.enter(RunStatus::Running)?;
                run.usage.add(usage);
                run.plan = Some(PlanState::new(*revision, plan)?);
            }
            E::RunWaiting { run, reason } => {
                self.run_mut(*run)?.enter(RunStatus::Waiting(*reason))?;
            }
            E::RunResumed { run } => self.run_mut(*run)?.enter(RunStatus::Running)?,
            E::BudgetRaised {
                run,
                turns,
                command_seq,
            } => {
                let run = self.run_mut(*run)?;
                run.turn_allowance = run.turn_allowance.saturating_add(*turns);
                run.raises += 1;
                self.answer_command(*command_seq);
            }
            other => return self.end_run(other, at),
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
            return Ok(());
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
            turn_allowance: limits.max_turns,
            raises: 0,
            in_doubt: 0,
            failing: None,
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
    fn enter(&mut self, to: RunStatus) -> Result<(), IllegalTransition> {
        if !run_may(self.status, to) {
            let what = format_args!("run {}", self.number);
            return Err(IllegalTransition::not_allowed(what, self.status, to));
        }
        self.status = to;
        Ok(())
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
        if self.in_doubt > 0 {
            return RunStatus::Waiting(WaitReason::InDoubt);
        }
        let needs_turns = || {
            self.running_attempts()
                .any(|(_, step, attempt)| step.plan.tool.is_none() && attempt.needs_turn())
        };
        if self.is_budget_used_up() && needs_turns() {
            return RunStatus::Waiting(WaitReason::Budget);
        }
        RunStatus::Running
    }
}

impl PlanState {
    fn new(revision: u32, draft: &PlanDraft) -> Result<Self, IllegalTransition> {
        let plan = Plan::new(draft).map_err(|error| IllegalTransition::Malformed {
            what: error.to_string(),
        })?;
        let keys = step_keys(&plan.steps, |_| 0);
        let dependents = dependents(&plan.steps);
        let mut steps = Vec::with_capacity(plan.steps.len());
        for ((plan, key), dependents) in plan.steps.into_iter().zip(keys).zip(dependents) {
            steps.push(Step {
                unmet: plan.depends_on.len() as u32,
                plan,
                key,
                dependents,
                status: StepStatus::Pending,
                attempts: 0,
                notes: String::new(),
                usage: crate::message::Usage::default(),
                tool_turns: 0,
                started: None,
                ended: None,
            });
        }
        let positions = 0..steps.len() as u32;
        Ok(Self {
            revision,
            order: plan.order,
            ready: positions
                .zip(&steps)
                .filter(|(_, s)| s.unmet == 0)
                .map(|(i, _)| i)
                .collect(),
            running: std::collections::BTreeSet::new(),
            open: steps.len() as u32,
            steps,
        })
    }
}
