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
    /// A program that parses does not take the text.
    #[error("the plan parser refused the answer: {words}")]
    Refused {
        /// What the program says of it.
        words: String,
    },
    /// A program that parses does not work, whatever the text is.
    #[error("the plan parser '{program}' {problem}")]
    ParserFailed {
        /// The program.
        program: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The steps do not make a plan.
    #[error(transparent)]
    Invalid(#[from] PlanError),
}

impl PlanParseError {
    /// The same for people, who count steps from 1, with the path of the field. A step without a description keeps
    /// its position from 0.
    pub fn for_people(&self) -> String {
        let says_where = matches!(self, Self::Invalid(PlanError::NoDescription { .. }));
        match self.located() {
            None => self.to_string(),
            Some(located) if located.step.is_some() && !says_where => {
                format!("{} ({})", located.problem, located.path())
            }
            Some(located) => located.problem,
        }
    }

    /// The model that wrote the text can mend it.
    pub(crate) fn is_for_model(&self) -> bool {
        !matches!(self, Self::ParserFailed { .. })
    }

    /// The same for the model that wrote the plan. It counts steps from 1 and names them by these titles, as other
    /// texts for models do. A step without a description keeps its position from 0.
    pub(crate) fn for_model(&self, titles: &[String]) -> String {
        let Some(located) = self.located() else {
            return self.to_string();
        };
        let titled = located.step.and_then(|at| {
            let title = titles.get(at).filter(|title| !title.is_empty())?;
            let step = format!("step {}", at + 1);
            let rest = located.problem.strip_prefix(&step)?;
            rest.starts_with(' ')
                .then(|| format!("{step} ('{title}'){rest}"))
        });
        titled.unwrap_or(located.problem)
    }

    /// Where the fault is, if a step or the plan as a whole has it.
    fn located(&self) -> Option<Located> {
        let of_arguments = |step: usize, counted: &Self| Located {
            step: Some(step),
            field: "arguments",
            problem: counted.to_string(),
        };
        match self {
            Self::Invalid(error) => Some(error.located()),
            Self::MissingArguments { step } => {
                let counted = Self::MissingArguments { step: step + 1 };
                Some(of_arguments(*step, &counted))
            }
            Self::ArgumentsWithoutTool { step } => {
                let counted = Self::ArgumentsWithoutTool { step: step + 1 };
                Some(of_arguments(*step, &counted))
            }
            _ => None,
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
            Self::Refused { .. } => "ParserRefused",
            Self::ParserFailed { .. } => "ParserFailed",
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
        let kind = match error {
            PlanParseError::Cut => {
                let message = "the plan was cut at the limit of its length twice; allow longer replies with \
                               max_output_tokens, or make the goal smaller";
                return Self::new(FailureKind::Llm, error.reason(), message);
            }
            PlanParseError::ParserFailed { .. } => FailureKind::Config,
            _ => FailureKind::PlanParse,
        };
        // People read it, and count steps from 1.
        let message = match &error {
            PlanParseError::Invalid(PlanError::NoDescription { .. }) => error.for_people(),
            _ => error.to_string(),
        };
        Self::new(kind, error.reason(), message)
    }
}
