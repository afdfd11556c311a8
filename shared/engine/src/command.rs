//! What somebody may ask of a session.

use crate::plan::PlanDraft;
use serde::{Deserialize, Serialize};

/// One request to the owner of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Pursue a goal.
    StartRun(StartRun),
    /// End the active run.
    CancelRun {
        /// Number of the run.
        run: u32,
        /// Why; may be empty.
        reason: String,
    },
    /// Answer a question that a run waits for.
    Decide {
        /// The question, as the list of pending questions names it.
        pending_id: String,
        /// The answer.
        settlement: Settlement,
    },
    /// Make another plan of the plan in force.
    RevisePlan(RevisePlan),
    /// Put a proposal into force.
    ApplyProposal {
        /// Number of the run.
        run: u32,
        /// Number of the proposal, as its event says.
        proposal: u32,
    },
    /// Do a step again that has ended, and all that depends on it.
    RedoStep {
        /// Number of the run.
        run: u32,
        /// Number of the step.
        step: u32,
    },
    /// Go on without a step that has not ended.
    SkipStep {
        /// Number of the run.
        run: u32,
        /// Number of the step.
        step: u32,
        /// Why; may be empty.
        reason: String,
    },
    /// Begin nothing, and let what has side effects end.
    PauseRun {
        /// Number of the run.
        run: u32,
        /// Why; may be empty.
        reason: String,
    },
    /// Go on with a paused run.
    ResumeRun {
        /// Number of the run.
        run: u32,
    },
}

/// A wish for another plan: either in words, for the planner, or the plan itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevisePlan {
    /// Number of the run.
    pub run: u32,
    /// What is to be different; may be empty only if a plan is given.
    pub feedback: String,
    /// When given, nobody is asked.
    pub plan: Option<PlanDraft>,
    /// The revision that is to be changed; 0 for whatever is in force.
    pub expected_revision: u32,
    /// Put it into force at once; otherwise it is proposed.
    pub apply: bool,
}

/// Pursue a goal: plan it first, or carry out the plan given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartRun {
    /// What is to be reached; may be empty only if a plan is given.
    pub goal: String,
    /// When given, nothing is planned.
    pub plan: Option<PlanDraft>,
    /// What differs from the defaults; 0 leaves the default.
    pub limits: LimitOverrides,
    /// Model for planning and steps; empty for the default.
    pub model: String,
    /// The trace that the run belongs to; see `cairn/event/v1/command.proto`.
    pub trace_parent: String,
}

/// Limits that differ from the defaults; 0 leaves the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitOverrides {
    /// Most tool turns in one attempt.
    pub max_tool_turns: u32,
    /// Most tool turns in the whole run.
    pub max_turns: u32,
    /// Most steps that run at the same time.
    pub max_parallel_steps: u32,
    /// Most revisions that a run asks for by itself.
    pub max_own_revisions: u32,
    /// What the run does when a step fails.
    pub on_failure: Option<OnFailure>,
    /// Have a person agree to what the planner makes; false leaves the default.
    pub review_plan: bool,
    /// Most tokens.
    pub max_tokens: u64,
    /// Most money, in 10⁻⁹ US dollars.
    pub max_cost_nano_usd: u64,
    /// Longest active time in milliseconds.
    pub max_active_ms: u64,
    /// Most tool calls.
    pub max_calls: u32,
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
    /// Most tool turns in one attempt at a step; one more fails the step.
    pub max_tool_turns: u32,
    /// Most tool turns in the whole run; when they are used up the run waits and asks.
    pub max_turns: u32,
    /// Most steps that run at the same time.
    pub max_parallel_steps: u32,
    /// Most revisions in a row that it asks for by itself.
    pub max_own_revisions: u32,
    /// What it does when a step fails.
    pub on_failure: OnFailure,
    /// Plans that the planner makes for the run itself need a person's agreement.
    pub review_plan: bool,
    /// Most tokens, in and out; 0 for no limit.
    pub max_tokens: u64,
    /// Most that it may cost, in 10⁻⁹ US dollars; 0 for no limit.
    pub max_cost_nano_usd: u64,
    /// Longest time that it may be active, without what it waits for people; 0 for no limit.
    pub max_active_ms: u64,
    /// Most tool calls; 0 for no limit.
    pub max_calls: u32,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            max_tool_turns: 10,
            max_turns: 50,
            max_parallel_steps: 8,
            max_own_revisions: 3,
            on_failure: OnFailure::Stop,
            review_plan: false,
            max_tokens: 0,
            max_cost_nano_usd: 0,
            max_active_ms: 0,
            max_calls: 0,
        }
    }
}

impl RunLimits {
    /// These limits with what `overrides` sets.
    pub fn with(self, overrides: LimitOverrides) -> Self {
        let pick = |given: u32, default: u32| if given == 0 { default } else { given };
        let pick_long = |given: u64, default: u64| if given == 0 { default } else { given };
        Self {
            max_tool_turns: pick(overrides.max_tool_turns, self.max_tool_turns),
            max_turns: pick(overrides.max_turns, self.max_turns),
            max_parallel_steps: pick(overrides.max_parallel_steps, self.max_parallel_steps),
            max_own_revisions: pick(overrides.max_own_revisions, self.max_own_revisions),
            on_failure: overrides.on_failure.unwrap_or(self.on_failure),
            review_plan: overrides.review_plan || self.review_plan,
            max_tokens: pick_long(overrides.max_tokens, self.max_tokens),
            max_cost_nano_usd: pick_long(overrides.max_cost_nano_usd, self.max_cost_nano_usd),
            max_active_ms: pick_long(overrides.max_active_ms, self.max_active_ms),
            max_calls: pick(overrides.max_calls, self.max_calls),
        }
    }
}

/// What a person says to a question; which fits which is said in `cairn/event/v1/command.proto`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Settlement {
    /// The call was carried out, with this output.
    Done {
        /// What the model is told.
        output: String,
    },
    /// Send the call again with the same key; or go on with a fresh budget.
    Retry,
    /// Go on without it.
    Skip {
        /// Why; may be empty.
        reason: String,
    },
    /// The step fails; for a budget, the run.
    Fail {
        /// Why; may be empty.
        reason: String,
    },
    /// Make the call; put the plan into force.
    Approve,
    /// Do not make the call; make another plan.
    Deny {
        /// Why, or what is to be different.
        reason: String,
    },
    /// What the model asked for.
    Answer {
        /// What it is told.
        text: String,
    },
}

impl Settlement {
    /// What was said, in one word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Done { .. } => "done",
            Self::Retry => "retry",
            Self::Skip { .. } => "skip",
            Self::Fail { .. } => "fail",
            Self::Approve => "approve",
            Self::Deny { .. } => "deny",
            Self::Answer { .. } => "answer",
        }
    }

    /// What the model is told as the result of the call, and whether that tells of a failure.
    /// None if the call is to be sent.
    pub fn result(&self) -> Option<(String, bool)> {
        let told = |what: &str, reason: &str| match reason {
            "" => what.to_owned(),
            reason => format!("{what}: {reason}"),
        };
        match self {
            Self::Done { output } => Some((output.clone(), false)),
            Self::Retry | Self::Approve => None,
            Self::Answer { text } => Some((text.clone(), false)),
            Self::Deny { reason } => {
                let what = "a person does not allow this call; do not repeat it";
                Some((told(what, reason), true))
            }
            Self::Skip { reason } => {
                let what = "a person decided to go on without this call; do not repeat it";
                Some((told(what, reason), true))
            }
            Self::Fail { reason } => {
                Some((told("a person decided that this call failed", reason), true))
            }
        }
    }
}
