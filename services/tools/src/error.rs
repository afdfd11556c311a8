//! Why a call gave no output, in words that the model can act on.

use crate::tool::{InputRequired, Rejudge};
use cairn_engine::event::CallFinished;
use std::fmt;

/// A call that ended without an output. Every variant holds what happened, what was wrong and what
/// is allowed.
///
/// [`NotFound`](Self::NotFound), [`InvalidArguments`](Self::InvalidArguments),
/// [`Denied`](Self::Denied), [`NotSent`](Self::NotSent), [`TooLarge`](Self::TooLarge),
/// [`Unreachable`](Self::Unreachable) and [`Rejudge`](Self::Rejudge) are certain: nothing was done. After
/// [`Timeout`](Self::Timeout), [`Interrupted`](Self::Interrupted) and
/// [`ExecutionFailed`](Self::ExecutionFailed) a tool that is not pure may have done part of its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolError {
    /// No tool has this name.
    NotFound(String),
    /// The arguments are not what the tool's schema or the tool itself accepts.
    InvalidArguments(String),
    /// The configuration, or a guard, forbids it.
    Denied(String),
    /// The gate refused: the call was not begun.
    NotSent(String),
    /// The call took longer than its time limit and was stopped.
    Timeout(String),
    /// Its owner interrupted the call, and it has ended for certain.
    Interrupted(String),
    /// The tool ran and failed, or its server wants to be left alone for a while.
    ExecutionFailed(String),
    /// The tool ended because its call was stopped, and says this about what it did; may be empty. Around the tool
    /// it becomes [`Timeout`](Self::Timeout) or [`Interrupted`](Self::Interrupted).
    Stopped(String),
    /// The arguments are larger than is accepted.
    TooLarge(String),
    /// Its server cannot be reached: nothing was sent, and it may be later.
    Unreachable(String),
    /// Its server had the call, and nobody knows what became of it.
    Unknown(String),
    /// It is not the call that its owner judged: nothing was sent.
    Rejudge(Rejudge),
    /// The tool asks a person, and continues with the answer.
    InputRequired(InputRequired),
}

impl ToolError {
    /// The stable name of the variant, for programs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "NotFound",
            Self::InvalidArguments(_) => "InvalidArguments",
            Self::Denied(_) => "Denied",
            Self::NotSent(_) => CallFinished::NOT_SENT,
            Self::Timeout(_) => "Timeout",
            Self::Interrupted(_) => "Interrupted",
            Self::ExecutionFailed(_) | Self::Stopped(_) => "ExecutionFailed",
            Self::TooLarge(_) => "TooLarge",
            Self::Unreachable(_) | Self::Rejudge(_) => CallFinished::NOT_SENT,
            Self::Unknown(_) => "Unknown",
            Self::InputRequired(_) => "InputRequired",
        }
    }

    /// What happened, without the reason.
    pub fn message(&self) -> &str {
        match self {
            Self::NotFound(message)
            | Self::InvalidArguments(message)
            | Self::Denied(message)
            | Self::NotSent(message)
            | Self::Timeout(message)
            | Self::Interrupted(message)
            | Self::ExecutionFailed(message)
            | Self::Stopped(message)
            | Self::TooLarge(message)
            | Self::Unreachable(message)
            | Self::Unknown(message) => message,
            Self::Rejudge(_) => "the tool or its values are not those that were judged",
            Self::InputRequired(_) => "the tool asks a person",
        }
    }

    /// The same error with another message, where it has one.
    pub(crate) fn map_message(self, change: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::NotFound(message) => Self::NotFound(change(message)),
            Self::InvalidArguments(message) => Self::InvalidArguments(change(message)),
            Self::Denied(message) => Self::Denied(change(message)),
            Self::NotSent(message) => Self::NotSent(change(message)),
            Self::Timeout(message) => Self::Timeout(change(message)),
            Self::Interrupted(message) => Self::Interrupted(change(message)),
            Self::ExecutionFailed(message) => Self::ExecutionFailed(change(message)),
            Self::Stopped(message) => Self::Stopped(change(message)),
            Self::TooLarge(message) => Self::TooLarge(change(message)),
            Self::Unreachable(message) => Self::Unreachable(change(message)),
            Self::Unknown(message) => Self::Unknown(change(message)),
            Self::Rejudge(_) | Self::InputRequired(_) => self,
        }
    }

    /// The text that the model is told: reason, colon, message.
    pub fn to_text(&self) -> String {
        format!("{}: {}", self.reason(), self.message())
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for ToolError {}

/// Why the service cannot be built. Nothing is running then.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The configuration is wrong; every fault is listed.
    #[error("the configuration of tools has {} fault(s): {}", .0.len(), join(.0))]
    Config(Vec<Fault>),
    /// The workspace cannot be opened.
    #[error("cannot open the workspace '{path}'; give a folder that exists and can be read")]
    Workspace {
        /// The folder as configured.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A tool cannot be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
}

/// One fault of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where it is, such as `commands[2].argv`.
    pub field: String,
    /// What is wrong.
    pub problem: String,
    /// What is allowed.
    pub allowed: String,
}

impl Fault {
    /// A fault at `field`.
    pub fn new(
        field: impl Into<String>,
        problem: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
            allowed: allowed.into(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} (allowed: {})",
            self.field, self.problem, self.allowed
        )
    }
}

/// Why a tool was not taken into the registry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// Names are what model providers accept.
    #[error("tool name '{0}' is not allowed; use 1 to 64 letters, digits, '_' and '-'")]
    Name(String),
    /// A registered tool is never replaced in silence.
    #[error("a tool named '{0}' is registered already; give this one another name")]
    Duplicate(String),
    /// The parameters are not a usable JSON Schema.
    #[error("the parameters of tool '{tool}' are no usable JSON Schema: {problem}")]
    Schema {
        /// The tool.
        tool: String,
        /// What is wrong with it.
        problem: String,
    },
}

fn join(faults: &[Fault]) -> String {
    let lines: Vec<String> = faults.iter().map(Fault::to_string).collect();
    lines.join("; ")
}
