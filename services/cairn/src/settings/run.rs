//! Limits of runs, and what they do when a step fails.

use super::Settings;
use cairn_boot::config::duration;
use cairn_boot::{Checks, Loaded, Origin};
use cairn_engine::command::{self, AtLimit, RunLimits};
use cairn_engine::event::Budget;
use cairn_engine::limits::MAX_CONVERSATIONS;
use cairn_engine::session::PerBudget;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Limits of a run that names none.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct RunSettings {
    /// Most tool turns in one attempt at a step. See [`CommandLimits`] for those of `cairn run` and `cairn chat`.
    pub max_tool_turns: u32,
    /// Most tool turns in the whole run; when they are used up the run waits and asks.
    pub max_turns: u32,
    /// Most steps of a graph that run at the same time.
    pub max_parallel_steps: u32,
    /// Most revisions in a row that a run asks for by itself.
    pub max_own_revisions: u32,
    /// What it does when a step fails.
    pub on_failure: OnFailure,
    /// Plans that the planner makes are put into force once a person agrees.
    pub review_plan: bool,
    /// Most tokens, in and out; without it, any number. When a budget is used up the run waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Most money in US dollars; without it, any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<f64>,
    /// Longest active time, without what it waits for people; without it, any.
    #[serde(with = "duration::optional")]
    pub max_time: Option<Duration>,
    /// Most tool calls; without it, any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u32>,
}

/// What a run does when a step fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Begin nothing more; the run fails.
    Stop,
    /// Carry out what does not depend on the step; the run fails in the end.
    GoOn,
    /// Ask the planner for a plan that gets round it.
    Revise,
}

impl Default for RunSettings {
    fn default() -> Self {
        let limits = RunLimits::default();
        Self {
            max_tool_turns: limits.max_tool_turns,
            max_turns: limits.budgets[Budget::Turns] as u32,
            max_parallel_steps: limits.max_parallel_steps,
            max_own_revisions: limits.max_own_revisions,
            on_failure: OnFailure::Stop,
            review_plan: false,
            max_tokens: None,
            max_cost: None,
            max_time: None,
            max_calls: None,
        }
    }
}

impl RunSettings {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.range("run.max_tool_turns", self.max_tool_turns, 1..=1_000);
        checks.range("run.max_turns", self.max_turns, 1..=100_000);
        let parallel = self.max_parallel_steps;
        checks.range("run.max_parallel_steps", parallel, 1..=MAX_CONVERSATIONS);
        checks.range("run.max_own_revisions", self.max_own_revisions, 1..=100);
        if let Some(tokens) = self.max_tokens {
            checks.range("run.max_tokens", tokens, 1..=1_000_000_000_000);
        }
        if let Some(cost) = self.max_cost
            && nano_usd(cost).is_none()
        {
            let problem = format!("is {cost}");
            let allowed = "dollars, from 0.000001 to 1000000";
            checks.require(false, "run.max_cost", &problem, allowed);
        }
        if let Some(time) = self.max_time {
            let allowed = Duration::from_millis(1)..=Duration::from_secs(365 * 24 * 3600);
            let problem = format!("is {}", duration::show(time));
            checks.require(
                allowed.contains(&time),
                "run.max_time",
                &problem,
                "1ms to 365d",
            );
        }
        if let Some(calls) = self.max_calls {
            checks.range("run.max_calls", calls, 1..=1_000_000);
        }
    }

    /// As a run takes them.
    pub(super) fn limits(&self) -> RunLimits {
        RunLimits {
            max_tool_turns: self.max_tool_turns,
            max_parallel_steps: self.max_parallel_steps,
            max_own_revisions: self.max_own_revisions,
            on_failure: match self.on_failure {
                OnFailure::Stop => command::OnFailure::Stop,
                OnFailure::GoOn => command::OnFailure::GoOn,
                OnFailure::Revise => command::OnFailure::Revise,
            },
            review_plan: self.review_plan,
            budgets: PerBudget::of(|budget| match budget {
                Budget::Turns => self.max_turns.into(),
                Budget::Tokens => self.max_tokens.unwrap_or(0),
                Budget::Cost => self.max_cost.and_then(nano_usd).unwrap_or(0),
                Budget::Time => self.max_time.map_or(0, millis),
                Budget::Calls => self.max_calls.unwrap_or(0).into(),
                // Its limit is max_tool_turns.
                Budget::ToolTurns => 0,
            }),
            at_limit: AtLimit::Fail,
        }
    }
}

/// Limits that `cairn run` and `cairn chat` ask for. A person is asked at each of them, so they are higher than
/// those of other clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandLimits {
    /// Tool turns in one attempt at a step, and in one turn of a conversation.
    pub max_tool_turns: u32,
    /// Tool turns in the whole run or turn.
    pub max_turns: u32,
}

impl CommandLimits {
    /// What the settings say, where they say something.
    pub fn of(settings: &Loaded<Settings>) -> Self {
        let run = &settings.config.run;
        let pick = |path: &str, set: u32, default: u32| match settings.origin(path) {
            Origin::Default => default,
            Origin::File { .. } | Origin::Variable(_) | Origin::Flag(_) => set,
        };
        Self {
            max_tool_turns: pick("run.max_tool_turns", run.max_tool_turns, 100),
            max_turns: pick("run.max_turns", run.max_turns, 500),
        }
    }
}

/// Dollars as runs count them, from a millionth to a million.
pub(crate) fn nano_usd(dollars: f64) -> Option<u64> {
    let nano = (dollars * 1e9).round();
    // In range, and so whole and not negative.
    (1e3..=1e15).contains(&nano).then_some(nano as u64)
}

/// Whole milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
