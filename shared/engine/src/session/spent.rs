//! What a run used of its budgets, and what follows when one is used up.

use super::{Apply, Attempt, Call, CallStatus, Envelope, PerBudget, Run, RunStatus, Session, Step};
use crate::command::RunLimits;
use crate::event::{Budget, BudgetExhausted, BudgetRaised, BudgetRefused, Effect, WaitReason};
use crate::message::Usage;
use crate::transitions::Applied;
use serde::{Deserialize, Serialize};

/// What a run used of its budgets, and what it may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// Tokens and money of planning and all steps.
    pub usage: Usage,
    /// Tool turns so far.
    pub tool_turns: u32,
    /// Tool calls so far, without those that the owner answers itself.
    pub calls: u32,
    /// Of a turn: replies with calls so far. Each attempt at a step counts its own tool turns.
    pub call_turns: u32,
    /// What it may use before it asks; `None` for any number.
    pub allowed: PerBudget<Option<u64>>,
    /// The budget that a person is asked about, or was when the run was paused.
    pub asked: Option<Budget>,
    /// When a person was last asked about one.
    pub asked_at: u64,
    /// How often a person was asked about one.
    pub times_asked: u32,
    /// Its active time is used up, as of the last check.
    pub is_out_of_time: bool,
    /// Active time before `active_since`, in milliseconds.
    pub active_ms: u64,
    /// Since when it has been active; none while it waits for a person, is paused, or has ended.
    pub active_since: Option<u64>,
}

impl Spent {
    /// Of a run that begins with these limits.
    pub(super) fn new(limits: &RunLimits, at: u64) -> Self {
        Self {
            usage: Usage::default(),
            tool_turns: 0,
            calls: 0,
            call_turns: 0,
            allowed: PerBudget::of(|budget| match budget {
                Budget::ToolTurns => limits.asked_tool_turns(),
                _ => Some(limits.budgets[budget]).filter(|most| *most > 0),
            }),
            asked: None,
            asked_at: 0,
            times_asked: 0,
            is_out_of_time: false,
            active_ms: 0,
            active_since: Some(at),
        }
    }

    /// What was used of a budget at that time, in its unit. Calls count as soon as they are requested.
    pub(crate) fn used(&self, budget: Budget, at: u64) -> u64 {
        match budget {
            Budget::Turns => self.tool_turns.into(),
            Budget::Tokens => self.usage.tokens(),
            Budget::Cost => self.usage.cost_nano_usd,
            Budget::Time => {
                let since = self.active_since;
                let active = since.map_or(0, |since| at.saturating_sub(since));
                self.active_ms.saturating_add(active)
            }
            Budget::Calls => self.calls.into(),
            Budget::ToolTurns => self.call_turns.into(),
        }
    }

    /// All budgets that are used up. The calls that bring a run beyond its budget are not made: they
    /// are counted when they are requested. So are the calls of a turn beyond its tool turns, because a final
    /// reply may follow the last of those.
    pub(crate) fn used_up(&self) -> impl Iterator<Item = Budget> {
        let is_over = |budget: Budget| match (budget, self.allowed[budget]) {
            (Budget::Time, _) => self.is_out_of_time,
            (_, None) => false,
            (Budget::Calls | Budget::ToolTurns, Some(most)) => self.used(budget, 0) > most,
            (_, Some(most)) => self.used(budget, 0) >= most,
        };
        Budget::ALL
            .into_iter()
            .filter(move |budget| is_over(*budget))
    }

    /// When its active time is used up, if it is active and has a limit.
    pub fn deadline(&self) -> Option<u64> {
        let (most, since) = (self.allowed[Budget::Time]?, self.active_since?);
        let left = most.saturating_sub(self.active_ms);
        (!self.is_out_of_time).then(|| since.saturating_add(left))
    }

    /// No owner worked at it between these two times.
    pub(super) fn exclude_absence(&mut self, from: u64, to: u64) {
        if let Some(since) = self.active_since {
            self.active_ms = self.active_ms.saturating_add(from.saturating_sub(since));
            self.active_since = Some(to);
        }
    }
}

impl Session {
    /// Adds what was used up to the totals of the run and of the session.
    pub(super) fn spend(&mut self, run: u32, usage: &Usage) -> Applied {
        self.run_mut(run)?.spent.usage.add(usage);
        self.usage.add(usage);
        Ok(())
    }
}

impl Run {
    /// No model may be asked any more before the run is allowed more: the budget that forbids it.
    pub fn no_questions(&self) -> Option<Budget> {
        self.no_calls().or_else(|| self.spent.used_up().next())
    }

    /// The call waits until the run is allowed more: it asks a model, and nothing may be asked.
    pub fn holds_back(&self, call: &Call) -> bool {
        call.asks_model() && self.no_questions().is_some()
    }

    /// No call may begin any more before the run is allowed more. The calls that brought the run
    /// beyond its budget do not begin either.
    pub fn no_calls(&self) -> Option<Budget> {
        let stops_calls =
            |budget: &Budget| matches!(budget, Budget::Time | Budget::Calls | Budget::ToolTurns);
        self.spent.used_up().find(stops_calls)
    }

    /// An attempt at a step has used its tool turns, and cannot continue without another one. Other attempts
    /// continue.
    pub fn is_at_limit(&self, step: &Step, attempt: &Attempt) -> bool {
        let most = self.spent.allowed[Budget::ToolTurns];
        let most = most.filter(|_| self.turn.is_none() && step.plan.tool.is_none());
        most.is_some_and(|most| u64::from(attempt.tool_turns) >= most) && attempt.needs_tool_turn()
    }

    /// A question that is open stays the same until it is answered, or another budget forbids more.
    pub(super) fn ask_budget(&mut self, at: u64) {
        if self.status != RunStatus::Waiting(WaitReason::Budget) {
            return;
        }
        let Some(budget) = self.blocking_budget() else {
            return;
        };
        if self.spent.asked != Some(budget) {
            self.spent.asked = Some(budget);
            self.spent.asked_at = at;
            self.spent.times_asked += 1;
        }
    }

    /// Calls that a model requested, or a tool step is, and that are not made yet: they wait for a
    /// person, a budget or the end of a pause.
    pub(crate) fn calls_waiting(&self) -> u32 {
        let calls = self.running_attempts();
        let calls = calls.flat_map(|(name, _, attempt)| attempt.last_calls(name));
        let waits = |call: &Call| match call.status {
            _ if call.effect == Effect::State => false,
            // One without side effects may be under way otherwise.
            CallStatus::Requested => self.is_held(),
            CallStatus::Asking { .. } => true,
            _ => false,
        };
        calls.filter(|(_, call)| waits(call)).count() as u32
    }

    /// What was used of a budget at that time, and what is allowed, in its unit. Calls that were not
    /// made are not used. Of tool turns the attempt counts that used most.
    pub fn figures(&self, budget: Budget, at: u64) -> (u64, u64) {
        let used = self.spent.used(budget, at);
        let allowed = self.spent.allowed[budget].unwrap_or_default();
        let used = match budget {
            Budget::Calls => used.saturating_sub(self.calls_waiting().into()),
            Budget::ToolTurns => used.max(self.most_tool_turns()).min(allowed),
            _ => used,
        };
        (used, allowed)
    }

    /// The tool turns of the attempt at a step under way that used most.
    fn most_tool_turns(&self) -> u64 {
        let attempts = self.running_attempts().filter(|_| self.turn.is_none());
        let most = attempts.map(|(.., attempt)| attempt.tool_turns).max();
        most.unwrap_or_default().into()
    }

    /// One more question to a model may begin beside so many that may be under way. Each of those
    /// takes a turn, and is estimated to take as many tokens and as much money as the turns of the
    /// run took so far on average; as long as nothing is known, all that there is.
    pub fn may_ask_model(&self, under_way: u32) -> bool {
        let turns = u64::from(self.spent.tool_turns.max(1));
        let fits = |budget: Budget| {
            let (used, most) = (self.spent.used(budget, 0), self.spent.allowed[budget]);
            let is_known = self.spent.tool_turns > 0 || used > 0;
            let each = match budget {
                Budget::Turns => 1,
                _ => is_known.then_some(used / turns).or(most).unwrap_or(0),
            };
            let reserved = each.saturating_mul(u64::from(under_way));
            most.is_none_or(|most| used.saturating_add(reserved) < most)
        };
        let reserved = [Budget::Turns, Budget::Tokens, Budget::Cost];
        self.no_questions().is_none() && reserved.into_iter().all(fits)
    }

    /// Something of it is planned or carried out. While one step waits for a person, others may continue.
    pub(super) fn is_active(&self) -> bool {
        match self.status {
            RunStatus::Planning | RunStatus::Running => true,
            RunStatus::Waiting(_) => self.has_attempt_to_run(),
            _ => false,
        }
    }

    /// An event happened at that time: whether time counts from now on.
    pub(super) fn count_time(&mut self, at: u64) {
        match (self.spent.active_since, self.is_active()) {
            (None, true) => self.spent.active_since = Some(at),
            (Some(_), false) => {
                self.spent.active_ms = self.spent.used(Budget::Time, at);
                self.spent.active_since = None;
            }
            _ => {}
        }
    }
}

impl Apply for BudgetExhausted {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let run = session.run_mut(self.run)?;
        if self.budget != Budget::Time {
            return Ok(());
        }
        run.spent.is_out_of_time = true;
        // Nothing is asked of models any more.
        session.drop_summaries(self.run)
    }
}

impl Apply for BudgetRaised {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let spent = &mut session.run_mut(self.run)?.spent;
        let allowed = &mut spent.allowed[self.budget];
        *allowed = allowed.map(|most| most.saturating_add(self.more));
        spent.is_out_of_time &= self.budget != Budget::Time;
        spent.asked = None;
        Ok(())
    }
}

impl Apply for BudgetRefused {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        session.run_mut(self.run)?.begin_ending(&self.failure);
        Ok(())
    }
}
