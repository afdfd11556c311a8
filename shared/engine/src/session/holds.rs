//! What holds a run: people, budgets, a pause, its end.

use super::{Ask, Attempt, CallStatus, Run, RunStatus, Step, StepNo};
use crate::command::OnFailure;
use crate::event::{Budget, WaitReason};
use crate::limits::MAX_CONVERSATIONS;

impl CallStatus {
    /// What a person is asked about the call.
    pub(crate) fn asks(&self) -> Option<WaitReason> {
        match self {
            Self::InDoubt { .. } => Some(WaitReason::InDoubt),
            Self::Asking { ask, answer: None } => Some(match ask {
                Ask::Approval { .. } => WaitReason::Approval,
                Ask::Question { .. } | Ask::Input { .. } => WaitReason::Question,
            }),
            _ => None,
        }
    }
}

impl Run {
    /// What the run should be doing, given what its attempts wait for.
    pub(crate) fn due_status(&self) -> RunStatus {
        if self.status == RunStatus::Paused {
            return RunStatus::Paused;
        }
        if let Some(reason) = self.wait_reason() {
            return RunStatus::Waiting(reason);
        }
        match &self.plan {
            Some(_) => RunStatus::Running,
            None => RunStatus::Planning,
        }
    }

    /// Why it waits: the first of these that holds.
    fn wait_reason(&self) -> Option<WaitReason> {
        let mut asked = [false; 3];
        for status in self.last_statuses() {
            match status.asks() {
                Some(WaitReason::InDoubt) => asked[0] = true,
                Some(WaitReason::Approval) => asked[1] = true,
                Some(_) => asked[2] = true,
                None => {}
            }
        }
        let reasons = [
            (asked[0], WaitReason::InDoubt),
            (asked[1], WaitReason::Approval),
            (asked[2], WaitReason::Question),
            (self.has_full_context(), WaitReason::Context),
            (self.revisions.review.is_some(), WaitReason::PlanReview),
            (self.hooks.asks.is_some(), WaitReason::Hook),
            (self.lacks_capability(), WaitReason::Capability),
        ];
        let reason = reasons.into_iter().find(|(holds, _)| *holds);
        let budget = || self.blocking_budget().map(|_| WaitReason::Budget);
        reason.map(|(_, reason)| reason).or_else(budget)
    }

    /// Those of the last tool turn of each attempt; calls before it have ended.
    fn last_statuses(&self) -> impl Iterator<Item = &CallStatus> {
        let attempts = self.running_attempts();
        attempts.flat_map(|(_, _, attempt)| attempt.calls.iter().map(|call| &call.status))
    }

    /// The next request of an attempt does not fit.
    pub(crate) fn has_full_context(&self) -> bool {
        let mut attempts = self.running_attempts();
        attempts.any(|(_, _, attempt)| attempt.full.is_some())
    }

    /// A person can answer something now: about calls, a plan, hooks or a request that does not fit.
    pub fn asks_person(&self) -> bool {
        let asks = |status: &CallStatus| status.asks().is_some();
        self.revisions.review.is_some()
            || self.hooks.asks.is_some()
            || self.has_full_context()
            || self.last_statuses().any(asks)
    }

    /// The budget that is used up, if something of the run needs more of it to continue.
    pub(crate) fn blocking_budget(&self) -> Option<Budget> {
        if self.ending.is_some() {
            return None;
        }
        let Some(budget) = self.no_questions() else {
            return self.has_attempt_at_limit().then_some(Budget::ToolTurns);
        };
        let is_blocked = |step: &Step, attempt: &Attempt| match budget {
            Budget::Time | Budget::Calls | Budget::ToolTurns => !attempt.has_intended_call(),
            _ => {
                let asks_next = step.plan.tool.is_none() && attempt.needs_tool_turn();
                asks_next || attempt.questions_of_calls() > 0
            }
        };
        let mut attempts = self.running_attempts();
        let needs_more = attempts.any(|(_, step, attempt)| is_blocked(step, attempt))
            || self.revisions.requests.contains_key(&0)
            || self.plan.is_none()
            || (self.no_calls().is_some() && self.next_step().is_some());
        needs_more.then_some(budget)
    }

    fn has_attempt_at_limit(&self) -> bool {
        let mut attempts = self.running_attempts();
        attempts.any(|(_, step, attempt)| self.is_at_limit(step, attempt))
    }

    /// The step that starts next, as far as the plan goes: the first one whose dependencies are met.
    /// None after a failure that stops the run.
    pub fn next_step(&self) -> Option<StepNo> {
        let plan = self.plan.as_ref().filter(|_| !self.is_stopped())?;
        let slot = plan.slots.get(plan.ready.first()?.index())?;
        Some(slot.number())
    }

    /// The step that may start now: nothing holds the run, no hook is asked, and it may open one more conversation. Only one
    /// run of a session is active, so its conversations are those of the session.
    pub fn startable_step(&self) -> Option<StepNo> {
        let most = self.limits.max_parallel_steps.min(MAX_CONVERSATIONS);
        let has_room = self.plan.as_ref()?.running.len() < most as usize;
        let may_start = has_room && !self.is_held() && !self.is_gated();
        self.next_step().filter(|_| may_start)
    }

    /// A step has failed, and nothing begins any more because of it.
    pub(crate) fn is_stopped(&self) -> bool {
        self.first_failure.is_some() && self.limits.on_failure != OnFailure::GoOn
    }

    /// Neither steps nor calls with side effects may begin.
    pub(crate) fn is_held(&self) -> bool {
        self.status == RunStatus::Paused
            || self.status.is_terminal()
            || self.no_calls().is_some()
            || self.ending.is_some()
            || self.hooks.asks.is_some()
    }
}
