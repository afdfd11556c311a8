//! What can be wrong with the text of a plan.

use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::plan::{Located, PlanError};

/// Why a text is no plan. Steps are counted from 0, as in the JSON array; see [`Self::for_people`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanParseError {
    /// The model reached the limit of its output: what looks like a plan may be the first half of one, or
    /// a draft.
    #[error(
        "the answer was cut at the limit of its length; a plan must be whole, so make it shorter"
    )]
    Cut,
    /// Nothing in the text begins like a JSON object.
    #[error("no JSON object found; a plan is an object with a 'steps' array")]
    NoJson,
    /// The text is not JSON.
    #[error("bad JSON at line {line}, column {column}: {cause}")]
    BadJson {
        /// Line of the fault, from 1.
        line: usize,
        /// Character in that line, from 1.
        column: usize,
        /// What is wrong there.
        cause: String,
    },
    /// The object is not a plan.
    #[error("missing 'steps' array")]
    MissingSteps,
    /// A value is of another type than its field.
    #[error("{path} must be {expected}, not {found}")]
    WrongType {
        /// Where: `steps[2].title`.
        path: String,
        /// What the field takes.
        expected: &'static str,
        /// What was there.
        found: &'static str,
    },
    /// A field has no text in it.
    #[error("{path} is empty")]
    EmptyField {
        /// Where: `steps[2].id`.
        path: String,
    },
    /// A field that plans do not have.
    #[error("{path} is not a field of a plan; allowed here: {allowed}")]
    UnknownField {
        /// Where: `steps[2].depend_on`.
        path: String,
        /// The fields that may stand there.
        allowed: String,
    },
    /// Neither chain nor graph.
    #[error("unknown order '{order}'; allowed: 'chain', 'graph'")]
    UnknownOrder {
        /// What was there, cut.
        order: String,
    },
    /// A tool without its arguments.
    #[error("step {step} has a 'tool' but no 'arguments' object; for no arguments write {{}}")]
    MissingArguments {
        /// Position of the step.
        step: usize,
    },
    /// Arguments for nothing.
    #[error("step {step} has 'arguments' but no 'tool'")]
    ArgumentsWithoutTool {
        /// Position of the step.
        step: usize,
    },
    /// The steps do not make a plan.
    #[error(transparent)]
    Invalid(#[from] PlanError),
}

impl PlanParseError {
    /// The same for people, who count steps from 1, with the path of the field.
    pub fn for_people(&self) -> String {
        let located = match self {
            Self::Invalid(error) => error.located(),
            Self::MissingArguments { step } => Located {
                step: Some(*step),
                field: "arguments",
                problem: Self::MissingArguments { step: step + 1 }.to_string(),
            },
            Self::ArgumentsWithoutTool { step } => Located {
                step: Some(*step),
                field: "arguments",
                problem: Self::ArgumentsWithoutTool { step: step + 1 }.to_string(),
            },
            other => return other.to_string(),
        };
        match located.step {
            Some(_) => format!("{} ({})", located.problem, located.path()),
            None => located.problem,
        }
    }

    /// Stable name, for programs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Cut => "reply_cut",
            Self::NoJson | Self::BadJson { .. } => "BadJson",
            Self::MissingSteps => "MissingSteps",
            Self::WrongType { .. } => "WrongType",
            Self::EmptyField { .. } => "EmptyField",
            Self::UnknownField { .. } => "UnknownField",
            Self::UnknownOrder { .. } => "UnknownOrder",
            Self::MissingArguments { .. } => "MissingArguments",
            Self::ArgumentsWithoutTool { .. } => "ArgumentsWithoutTool",
            Self::Invalid(PlanError::NoSteps) => "NoSteps",
            Self::Invalid(PlanError::TooManySteps { .. }) => "TooManySteps",
            Self::Invalid(PlanError::NoDescription { .. }) => "MissingDescription",
            Self::Invalid(PlanError::DuplicateId { .. }) => "DuplicateId",
            Self::Invalid(PlanError::UnknownDependency { .. }) => "UnknownDependency",
            Self::Invalid(PlanError::Circle { .. }) => "CircularDependency",
            Self::Invalid(PlanError::DependsOnInChain { .. }) => "DependsOnInChain",
            Self::Invalid(PlanError::BadArguments { .. }) => "BadArguments",
            Self::Invalid(PlanError::UnknownTool { .. } | PlanError::ForModels { .. }) => {
                "UnknownTool"
            }
            Self::Invalid(
                PlanError::BadCapability { .. }
                | PlanError::BadLevel { .. }
                | PlanError::UnknownCapability { .. },
            ) => "UnknownCapability",
            Self::Invalid(PlanError::TooLong { .. }) => "TooLong",
            Self::Invalid(_) => "InvalidPlan",
        }
    }
}

impl From<PlanParseError> for Failure {
    fn from(error: PlanParseError) -> Self {
        if error == PlanParseError::Cut {
            let message = "the plan was cut at the limit of its length twice; allow longer replies with \
                           max_output_tokens, or make the goal smaller";
            return Self::new(FailureKind::Llm, error.reason(), message);
        }
        Self::new(FailureKind::PlanParse, error.reason(), error.to_string())
    }
}
