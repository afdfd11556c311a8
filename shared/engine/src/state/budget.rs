//! What a run may use up, and what follows when it has.

use super::{Call, CallStatus, Run, RunStatus};
use crate::command::RunLimits;
use crate::event::{Budget, Effect, WaitReason};
use serde::{Deserialize, Serialize};

/// What a run may use before it asks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowance {
    /// Tool turns.
    pub turns: u32,
    /// Tokens; `None` for any number.
    pub tokens: Option<u64>,
    /// Money in 10⁻⁹ US dollars; `None` for any.
    pub cost_nano_usd: Option<u64>,
    /// Active time in milliseconds; `None` for any.
    pub active_ms: Option<u64>,
    /// Tool calls; `None` for any number.
    pub calls: Option<u32>,
}

impl Allowance {
    /// What a run with these limits begins with.
    pub(crate) fn of(limits: &RunLimits) -> Self {
        let any = |most: u64| Some(most).filter(|most| *most > 0);
        Self {
            turns: limits.max_turns,
            tokens: any(limits.max_tokens),
            cost_nano_usd: any(limits.max_cost_nano_usd),
            active_ms: any(limits.max_active_ms),
            calls: Some(limits.max_calls).filter(|most| *most > 0),
        }
    }

    /// With so much more of each; what has no limit keeps none.
    pub(crate) fn raise(&mut self, more: &Raise) {
        let add = |known: &mut Option<u64>, more: u64| {
            if let Some(known) = known {
                *known = known.saturating_add(more);
            }
        };
        self.turns = self.turns.saturating_add(more.turns);
        add(&mut self.tokens, more.tokens);
        add(&mut self.cost_nano_usd, more.cost_nano_usd);
        add(&mut self.active_ms, more.active_ms);
        if let Some(calls) = &mut self.calls {
            *calls = calls.saturating_add(more.calls);
        }
    }
}

/// So much more of each budget.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Raise {
    pub(crate) turns: u32,
    pub(crate) tokens: u64,
    pub(crate) cost_nano_usd: u64,
    pub(crate) active_ms: u64,
    pub(crate) calls: u32,
}

impl Run {
    /// No model may be asked any more before the run is allowed more: the budget that forbids it.
    pub fn no_questions(&self) -> Option<Budget> {
        self.no_calls().or_else(|| self.used_up().next())
    }

    /// No call may begin any more before the run is allowed more. The calls that brought the run
    /// beyond its budget do not begin either: they are counted when they are asked for.
    pub fn no_calls(&self) -> Option<Budget> {
        let stops_calls = |budget: &Budget| matches!(budget, Budget::Time | Budget::Calls);
        self.used_up().find(stops_calls)
    }

    /// All budgets that are used up.
    pub(crate) fn used_up(&self) -> impl Iterator<Item = Budget> {
        let allowed = self.allowance;
        let is_over = |used: u64, most: Option<u64>| most.is_some_and(|most| used >= most);
        let budgets = [
            (self.tool_turns >= allowed.turns, Budget::Turns),
            (is_over(self.usage.tokens(), allowed.tokens), Budget::Tokens),
            (
                is_over(self.usage.cost_nano_usd, allowed.cost_nano_usd),
                Budget::Cost,
            ),
            (self.is_out_of_time, Budget::Time),
            (
                allowed.calls.is_some_and(|most| self.calls > most),
                Budget::Calls,
            ),
        ];
        budgets
            .into_iter()
            .filter_map(|(is_over, budget)| is_over.then_some(budget))
    }

    /// A question that is open stays the same until it is answered, or another budget forbids more.
    pub(crate) fn ask_budget(&mut self) {
        let is_asked = self.status == RunStatus::Waiting(WaitReason::Budget);
        let Some(lacks) = self.lacks().filter(|_| is_asked) else {
            return;
        };
        if self.asked_budget != Some(lacks) {
            self.asked_budget = Some(lacks);
            self.budget_questions += 1;
        }
    }

    /// Active time at that time, in milliseconds.
    pub(crate) fn active_ms_at(&self, at: u64) -> u64 {
        let since = self
            .active_since
            .map_or(0, |since| at.saturating_sub(since));
        self.active_ms.saturating_add(since)
    }

    /// Calls that a model asked for, or a tool step is, and that are not made yet: they wait for a
    /// person, a budget or the end of a pause.
    pub(crate) fn calls_waiting(&self) -> u32 {
        let calls = self.running_attempts();
        let calls = calls.flat_map(|(name, _, attempt)| attempt.last_calls(name));
        let waits = |call: &Call| match call.status {
            _ if call.effect == Effect::State => false,
            // One without side effects may be under way otherwise.
            CallStatus::Requested => self.begins_nothing(),
            CallStatus::Asking { .. } => true,
            _ => false,
        };
        calls.filter(|(_, call)| waits(call)).count() as u32
    }

    /// What was used of a budget at that time, and what is allowed, in its unit. Calls that were not
    /// made are not used.
    pub(crate) fn figures(&self, budget: Budget, at: u64) -> (u64, u64) {
        let allowed = self.allowance;
        let any = Option::unwrap_or_default;
        match budget {
            Budget::Turns => (self.tool_turns.into(), allowed.turns.into()),
            Budget::Tokens => (self.usage.tokens(), any(allowed.tokens)),
            Budget::Cost => (self.usage.cost_nano_usd, any(allowed.cost_nano_usd)),
            Budget::Time => (self.active_ms_at(at), any(allowed.active_ms)),
            Budget::Calls => {
                let made = self.calls.saturating_sub(self.calls_waiting());
                (made.into(), allowed.calls.unwrap_or_default().into())
            }
        }
    }

    /// When its active time is used up, if it is active and has a limit.
    pub fn deadline(&self) -> Option<u64> {
        let (most, since) = (self.allowance.active_ms?, self.active_since?);
        let left = most.saturating_sub(self.active_ms);
        (!self.is_out_of_time).then(|| since.saturating_add(left))
    }

    /// One more question to a model may begin beside so many that may be under way. Each of those
    /// takes a turn, and is reckoned to take as many tokens and as much money as the turns of the
    /// run took so far on average; as long as nothing is known, all that there is.
    pub(crate) fn may_ask_model(&self, under_way: u32) -> bool {
        let turns = u64::from(self.tool_turns.max(1));
        let fits = |used: u64, most: Option<u64>| {
            let is_known = self.tool_turns > 0 || used > 0;
            let each = is_known.then_some(used / turns).or(most).unwrap_or(0);
            let reserved = each.saturating_mul(u64::from(under_way));
            most.is_none_or(|most| used.saturating_add(reserved) < most)
        };
        self.no_questions().is_none()
            && self.tool_turns.saturating_add(under_way) < self.allowance.turns
            && fits(self.usage.tokens(), self.allowance.tokens)
            && fits(self.usage.cost_nano_usd, self.allowance.cost_nano_usd)
    }

    /// Something happened at that time: whether time counts from now on.
    pub(crate) fn count_time(&mut self, at: u64) {
        match (self.active_since, self.is_worked_at()) {
            (None, true) => self.active_since = Some(at),
            (Some(since), false) => {
                self.active_ms = self.active_ms.saturating_add(at.saturating_sub(since));
                self.active_since = None;
            }
            _ => {}
        }
    }

    /// Nobody worked at it between these two times.
    pub(crate) fn rest(&mut self, from: u64, to: u64) {
        if let Some(since) = self.active_since {
            self.active_ms = self.active_ms.saturating_add(from.saturating_sub(since));
            self.active_since = Some(to);
        }
    }

    /// A plan is made, or steps are carried out. While one waits for a person, others may go on.
    fn is_worked_at(&self) -> bool {
        match self.status {
            RunStatus::Planning | RunStatus::Running => true,
            RunStatus::Waiting(_) => self.attempts_to_run(|_| false).next().is_some(),
            _ => false,
        }
    }
}
