//! What can be wrong with a plan.

use super::MAX_STEPS;
use crate::pool::{MAX_LEVEL, MAX_NAME, MAX_NEEDED};

/// Why a draft is no plan. Steps are counted from 0, as in the text that they were read from; see
/// [`Self::located`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Nothing to do.
    #[error("a plan needs at least one step")]
    NoSteps,
    /// Too much to do.
    #[error("the plan has {steps} steps; at most {MAX_STEPS} are allowed")]
    TooManySteps {
        /// How many it has.
        steps: usize,
    },
    /// Neither a description nor a tool.
    #[error("step {step} lacks 'description'")]
    NoDescription {
        /// Position of the step.
        step: usize,
    },
    /// Two steps of one name.
    #[error("steps {first} and {second} have the same id '{id}'; ids must be unique")]
    DuplicateId {
        /// The name.
        id: String,
        /// Position of the first.
        first: usize,
        /// Position of the second.
        second: usize,
    },
    /// A dependency on something that is not in the plan.
    #[error("step {step} depends on '{dependency}', which is not a step of this plan")]
    UnknownDependency {
        /// Position of the step.
        step: usize,
        /// The name that is not there.
        dependency: String,
    },
    /// Steps that wait for each other.
    #[error("steps depend on each other in a circle: {}", circle.join(" → "))]
    Circle {
        /// Ids along the circle; the first comes again at the end.
        circle: Vec<String>,
    },
    /// Dependencies where the order is given already.
    #[error("step {step} has 'depends_on' in a plan of order 'chain'; use order 'graph'")]
    DependsOnInChain {
        /// Position of the step.
        step: usize,
    },
    /// A text that names no capability.
    #[error(
        "step {step} needs the capability '{text}', which is no name of one; allowed: NAME or \
         NAME>=LEVEL, where NAME is 1 to {MAX_NAME} lower-case letters, digits, '_', '-', '.' or ':'"
    )]
    BadCapability {
        /// Position of the step.
        step: usize,
        /// The text, cut.
        text: String,
    },
    /// A level that no resource can have.
    #[error(
        "step {step} needs the capability '{text}', whose level is out of range; allowed: 1 to {MAX_LEVEL}"
    )]
    BadLevel {
        /// Position of the step.
        step: usize,
        /// The text, cut.
        text: String,
    },
    /// A capability that a step names twice.
    #[error("step {step} needs the capability '{capability}' twice; allowed: each capability once")]
    RepeatedCapability {
        /// Position of the step.
        step: usize,
        /// The capability.
        capability: String,
    },
    /// A step with too many capabilities.
    #[error("step {step} needs {count} capabilities; at most {MAX_NEEDED} are allowed")]
    TooManyCapabilities {
        /// Position of the step.
        step: usize,
        /// How many it names.
        count: usize,
    },
    /// A capability that no resource has, or that steps of the run may not name.
    #[error(
        "step {step} needs the capability '{capability}', which no resource has or whose tools this run may not \
         use; there are: {available}"
    )]
    UnknownCapability {
        /// Position of the step.
        step: usize,
        /// The capability.
        capability: String,
        /// Those that steps may name, or "none".
        available: String,
    },
    /// A text that is too long.
    #[error("the '{field}' of step {step} has {bytes} bytes; at most {most} are allowed")]
    TooLong {
        /// Position of the step.
        step: usize,
        /// The field.
        field: &'static str,
        /// How many bytes it has.
        bytes: usize,
        /// How many it may have.
        most: usize,
    },
    /// A tool that no source provides.
    #[error("step {step} names the tool '{tool}', which does not exist; available: {available}")]
    UnknownTool {
        /// Position of the step.
        step: usize,
        /// The tool.
        tool: String,
        /// Those that are available, or "none".
        available: String,
    },
    /// A tool that is about the step of the model that calls it.
    #[error("step {step} names the tool '{tool}', which is for models only; a plan cannot name it")]
    ForModels {
        /// Position of the step.
        step: usize,
        /// The tool.
        tool: String,
    },
    /// A tool's arguments are no JSON object.
    #[error("the arguments of step {step} are not a JSON object: {problem}")]
    BadArguments {
        /// Position of the step.
        step: usize,
        /// What is wrong.
        problem: String,
    },
}

/// Where a plan has a fault, for people, who count steps from 1 unless the problem says otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// Position of the step, from 0; none for the plan as a whole.
    pub step: Option<usize>,
    /// The field, as plans in files name it.
    pub field: &'static str,
    /// What is wrong there.
    pub problem: String,
}

impl Located {
    /// The path of the field: `steps.depends_on`. It has no number: the problem names the step, from 1, and a
    /// path counts from 0.
    pub fn path(&self) -> String {
        match self.step {
            Some(_) => format!("steps.{}", self.field),
            None => self.field.to_owned(),
        }
    }
}

impl PlanError {
    /// The same for people. A step without a description keeps its position from 0, because the words of this fault
    /// are the same everywhere.
    pub fn located(&self) -> Located {
        let mut counted = self.clone();
        let (step, field) = match &mut counted {
            Self::NoSteps | Self::TooManySteps { .. } | Self::Circle { .. } => (None, "steps"),
            Self::NoDescription { step } => (Some(step), "description"),
            Self::DuplicateId { first, second, .. } => {
                *first += 1;
                (Some(second), "id")
            }
            Self::UnknownDependency { step, .. } | Self::DependsOnInChain { step } => {
                (Some(step), "depends_on")
            }
            Self::BadCapability { step, .. }
            | Self::BadLevel { step, .. }
            | Self::RepeatedCapability { step, .. }
            | Self::TooManyCapabilities { step, .. }
            | Self::UnknownCapability { step, .. } => (Some(step), "capabilities"),
            Self::TooLong { step, field, .. } => (Some(step), *field),
            Self::UnknownTool { step, .. } | Self::ForModels { step, .. } => (Some(step), "tool"),
            Self::BadArguments { step, .. } => (Some(step), "arguments"),
        };
        let step = step.map(|step| {
            let position = *step;
            *step += 1;
            position
        });
        let problem = match self {
            Self::NoDescription { step } => format!("{self} (counted from 0: steps[{step}])"),
            _ => counted.to_string(),
        };
        Located {
            step,
            field,
            problem,
        }
    }
}
