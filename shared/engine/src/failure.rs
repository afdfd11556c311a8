//! Why something failed: one type over all layers, stored with the step or run that it ended.

use crate::hooks::{Outcome, Point};
use crate::refusal::Refusal;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The layer that a failure comes from, and whether trying again may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// A language model or its provider.
    Llm,
    /// A tool call.
    Tool,
    /// Session memory, knowledge or the store.
    Memory,
    /// A plan that cannot be read or carried out.
    PlanParse,
    /// A hook said no.
    HookBlocked,
    /// A limit of the agent or the run was reached.
    LimitExceeded,
    /// Something is missing or wrong in the configuration.
    Config,
    /// None of the above.
    Other,
}

/// A failure as people and models see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The layer.
    pub kind: FailureKind,
    /// Stable name of the inner error, for programs: `RateLimit`, `NotFound`, `max_tool_turns` …
    pub reason: String,
    /// What happened, for people: lower case, no full stop, no secrets.
    pub message: String,
}

impl Failure {
    /// Reason of [`Self::missing`]. A call has it, too, if there is nothing that could carry it out.
    pub const MISSING: &str = "missing";

    /// A failure of `kind` with a stable `reason` and a `message` for people.
    pub fn new(kind: FailureKind, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind,
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// A failure for a reason for which commands are refused.
    pub(crate) fn refused(reason: Refusal, message: impl Into<String>) -> Self {
        let kind = match reason {
            Refusal::Limit => FailureKind::LimitExceeded,
            _ => FailureKind::Other,
        };
        Self::new(kind, reason.name(), message)
    }

    /// A required part of the configuration is not there.
    pub fn missing(field: &str) -> Self {
        Self::new(
            FailureKind::Config,
            Self::MISSING,
            format!("missing {field}"),
        )
    }

    /// Hooks blocked what comes next at a point. The message is also the output of a call that they blocked. A fold
    /// makes that one, so that other words would change the sessions that there are.
    pub fn blocked(point: Point, outcome: &Outcome) -> Self {
        let Outcome { hook, text, .. } = outcome;
        let name = point.name();
        let mut message = match point {
            Point::PostToolCall => {
                format!("the call was made, and hook '{hook}' blocked its result at {name}")
            }
            _ => format!("hook '{hook}' blocked {name}"),
        };
        if !text.is_empty() {
            message = format!("{message}: {text}");
        }
        Self::by_hook(message)
    }

    /// A failure with the words about a hook.
    pub(crate) fn by_hook(message: impl Into<String>) -> Self {
        Self::new(FailureKind::HookBlocked, "HOOK_BLOCKED", message)
    }

    /// The model or its provider refused to answer.
    pub fn refused_by_model() -> Self {
        let message = "the model refused to answer; change the goal or take another model";
        Self::new(FailureKind::Llm, "refused", message)
    }

    /// Whether the same thing may succeed when it is tried again.
    ///
    /// Llm: rate limit, timeout, broken stream, refused connection and a fault of the provider's
    /// server, also when all retries are used up. Tool: a failed execution, but not an unknown tool.
    /// Memory: an absent entry, but not the store. Nothing else.
    pub fn is_recoverable(&self) -> bool {
        matches!(
            (self.kind, self.reason.as_str()),
            (
                FailureKind::Llm,
                "RateLimit" | "Timeout" | "Stream" | "ConnectionRefused" | "Server"
            ) | (FailureKind::Tool, "ExecutionFailed")
                | (FailureKind::Memory, "NotFound")
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
