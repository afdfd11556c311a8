//! Limits of a run.

use crate::agent::AgentLimits;
use crate::event::Budget;
use crate::session::PerBudget;
use serde::{Deserialize, Serialize};

/// Limits that differ from the defaults; 0 leaves the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitOverrides {
    /// Most tool turns in one attempt.
    pub max_tool_turns: u32,
    /// Most steps that run at the same time.
    pub max_parallel_steps: u32,
    /// Most revisions that a run asks for by itself.
    pub max_own_revisions: u32,
    /// What the run does when a step fails.
    pub on_failure: Option<OnFailure>,
    /// Have a person agree to what the planner makes; false leaves the default.
    pub review_plan: bool,
    /// Most of each budget, in its unit; 0 leaves the default.
    pub budgets: PerBudget<u64>,
    /// What happens at `max_tool_turns`; none leaves the default.
    pub at_limit: Option<AtLimit>,
}

/// What happens to an attempt that has used its tool turns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AtLimit {
    /// It fails.
    #[default]
    Fail,
    /// It waits, and a person is asked whether it may use as many again.
    Ask,
}

/// What a run does when a step fails. What depends on the step never begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OnFailure {
    /// Begin nothing more; the run fails once nothing is running.
    #[default]
    Stop,
    /// Carry out what does not depend on it; the run fails in the end.
    GoOn,
    /// Ask the planner for a plan that gets round it, once nothing is running; after as many
    /// revisions as are allowed the run fails.
    Revise,
}

/// The limits of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// Most tool turns in one attempt at a step; one more fails the step, or is asked for.
    pub max_tool_turns: u32,
    /// Most steps that run at the same time.
    pub max_parallel_steps: u32,
    /// Most revisions in a row that it asks for by itself.
    pub max_own_revisions: u32,
    /// What it does when a step fails.
    pub on_failure: OnFailure,
    /// Plans that the planner makes for the run itself need a person's agreement.
    pub review_plan: bool,
    /// Most of each budget, in its unit; 0 for no limit. A run that used one up waits and asks. That of
    /// [`Budget::ToolTurns`] is 0: `max_tool_turns` is its limit.
    pub budgets: PerBudget<u64>,
    /// What happens to an attempt at `max_tool_turns`.
    pub at_limit: AtLimit,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            max_tool_turns: 10,
            max_parallel_steps: 8,
            max_own_revisions: 3,
            on_failure: OnFailure::Stop,
            review_plan: false,
            budgets: PerBudget::of(|budget| match budget {
                Budget::Turns => 50,
                _ => 0,
            }),
            at_limit: AtLimit::Fail,
        }
    }
}

impl RunLimits {
    /// These limits with what an agent sets.
    pub fn of_agent(self, agent: &AgentLimits) -> Self {
        let own = |budget| match budget {
            Budget::Turns => agent.max_turns.map(u64::from),
            Budget::Tokens => agent.tokens,
            Budget::Cost => agent.cost_nano_usd,
            Budget::Time => agent.time_ms,
            Budget::Calls => agent.calls.map(u64::from),
            Budget::ToolTurns => None,
        };
        Self {
            max_tool_turns: agent.max_tool_turns.unwrap_or(self.max_tool_turns),
            budgets: PerBudget::of(|budget| own(budget).unwrap_or(self.budgets[budget])),
            ..self
        }
    }

    /// Tool turns after which a person is asked; none if an attempt fails with one more. An attempt without any
    /// tool turns asks its model once, so no person is asked for more.
    pub fn asked_tool_turns(&self) -> Option<u64> {
        let most = (self.at_limit == AtLimit::Ask).then_some(u64::from(self.max_tool_turns));
        most.filter(|most| *most > 0)
    }

    /// Tool turns after which an attempt fails; the largest number if a person is asked instead.
    pub fn failing_tool_turns(&self) -> u32 {
        match self.asked_tool_turns() {
            Some(_) => u32::MAX,
            None => self.max_tool_turns,
        }
    }

    /// These limits with what `overrides` sets.
    pub fn with(self, overrides: LimitOverrides) -> Self {
        let pick = |given: u32, default: u32| if given == 0 { default } else { given };
        Self {
            max_tool_turns: pick(overrides.max_tool_turns, self.max_tool_turns),
            max_parallel_steps: pick(overrides.max_parallel_steps, self.max_parallel_steps),
            max_own_revisions: pick(overrides.max_own_revisions, self.max_own_revisions),
            on_failure: overrides.on_failure.unwrap_or(self.on_failure),
            review_plan: overrides.review_plan || self.review_plan,
            budgets: PerBudget::of(|budget| match overrides.budgets[budget] {
                0 => self.budgets[budget],
                most => most,
            }),
            at_limit: overrides.at_limit.unwrap_or(self.at_limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_of_zero_leaves_the_default() {
        let limits = RunLimits::default();
        assert_eq!(limits.with(LimitOverrides::default()), limits);
    }

    #[test]
    fn a_request_goes_before_an_agent_and_an_agent_before_the_settings() {
        let settings = RunLimits {
            budgets: PerBudget::of(|_| 100),
            ..RunLimits::default()
        };
        assert_eq!(settings.of_agent(&AgentLimits::default()), settings);
        let agent = AgentLimits {
            max_tool_turns: Some(0),
            max_turns: Some(1),
            tokens: Some(2),
            cost_nano_usd: Some(3),
            time_ms: Some(4),
            calls: Some(5),
        };
        let limits = settings.of_agent(&agent);
        assert_eq!(limits.max_tool_turns, 0);
        let budgets = Budget::ALL.map(|budget| limits.budgets[budget]);
        assert_eq!(budgets, [1, 2, 3, 4, 5, 100]);
        let asked = limits.with(LimitOverrides {
            max_tool_turns: 7,
            budgets: PerBudget::of(|budget| u64::from(budget == Budget::Calls) * 50),
            ..LimitOverrides::default()
        });
        assert_eq!(
            (asked.max_tool_turns, asked.budgets[Budget::Calls]),
            (7, 50)
        );
        assert_eq!(asked.budgets[Budget::Tokens], 2);
    }

    #[test]
    fn each_override_counts() {
        let limits = RunLimits::default().with(LimitOverrides {
            max_tool_turns: 1,
            max_parallel_steps: 2,
            max_own_revisions: 4,
            on_failure: Some(OnFailure::Revise),
            review_plan: true,
            budgets: PerBudget::of(|budget| match budget {
                Budget::Calls => 5,
                _ => 0,
            }),
            at_limit: Some(AtLimit::Ask),
        });
        let expected = RunLimits {
            max_tool_turns: 1,
            max_parallel_steps: 2,
            max_own_revisions: 4,
            on_failure: OnFailure::Revise,
            review_plan: true,
            budgets: PerBudget::of(|budget| match budget {
                Budget::Calls => 5,
                budget => RunLimits::default().budgets[budget],
            }),
            at_limit: AtLimit::Ask,
        };
        assert_eq!(limits, expected);
    }

    #[test]
    fn an_attempt_fails_at_its_limit_unless_a_person_is_asked() {
        let limits = |max_tool_turns, at_limit| RunLimits {
            max_tool_turns,
            at_limit,
            ..RunLimits::default()
        };
        for (limits, asked, failing) in [
            (limits(10, AtLimit::Fail), None, 10),
            (limits(10, AtLimit::Ask), Some(10), u32::MAX),
            (limits(0, AtLimit::Ask), None, 0),
        ] {
            assert_eq!(limits.asked_tool_turns(), asked, "{limits:?}");
            assert_eq!(limits.failing_tool_turns(), failing, "{limits:?}");
        }
        let unchanged = RunLimits::default();
        assert_eq!(
            (unchanged.max_tool_turns, unchanged.at_limit),
            (10, AtLimit::Fail)
        );
        assert_eq!(unchanged.budgets[Budget::Turns], 50);
    }
}
