//! Limits of runs, and what they do when a step fails.

use cairn_boot::Checks;
use cairn_engine::command::{self, RunLimits};
use serde::{Deserialize, Serialize};

/// Limits of a run that names none.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct RunSettings {
    /// Most tool turns in one attempt at a step.
    pub max_tool_turns: u32,
    /// Most tool turns in the whole run; when they are used up the run waits and asks.
    pub max_turns: u32,
    /// Most steps of a graph that run at the same time.
    pub max_parallel_steps: u32,
    /// Most revisions in a row that a run asks for by itself.
    pub max_own_revisions: u32,
    /// What it does when a step fails.
    pub on_failure: OnFailure,
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
            max_turns: limits.max_turns,
            max_parallel_steps: limits.max_parallel_steps,
            max_own_revisions: limits.max_own_revisions,
            on_failure: OnFailure::Stop,
        }
    }
}

impl RunSettings {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.range("run.max_tool_turns", self.max_tool_turns, 1..=1_000);
        checks.range("run.max_turns", self.max_turns, 1..=100_000);
        let parallel = self.max_parallel_steps;
        checks.range("run.max_parallel_steps", parallel, 1..=256);
        checks.range("run.max_own_revisions", self.max_own_revisions, 1..=100);
    }

    /// As a run takes them.
    pub(super) fn limits(&self) -> RunLimits {
        RunLimits {
            max_tool_turns: self.max_tool_turns,
            max_turns: self.max_turns,
            max_parallel_steps: self.max_parallel_steps,
            max_own_revisions: self.max_own_revisions,
            on_failure: match self.on_failure {
                OnFailure::Stop => command::OnFailure::Stop,
                OnFailure::GoOn => command::OnFailure::GoOn,
                OnFailure::Revise => command::OnFailure::Revise,
            },
        }
    }
}
