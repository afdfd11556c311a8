//! Commands and what they carry.

use super::error::{ConvertError, required};
use super::wire::{OnWire, known};
use crate::event::{self as proto, settlement::Outcome};
use cairn_engine::command::{
    AtLimit, LimitOverrides, OnFailure, RevisePlan, RunLimits, Settlement, StartRun,
};
use cairn_engine::event::Budget;
use cairn_engine::session::PerBudget;

/// Limits have a field for each budget on the wire, and a table in the engine.
macro_rules! limits {
    ($limits:ident) => {
        impl From<$limits> for proto::$limits {
            fn from(limits: $limits) -> Self {
                let most = |budget| limits.budgets[budget];
                // What the wire cannot hold becomes the most that it can.
                let count = |budget| u32::try_from(most(budget)).unwrap_or(u32::MAX);
                Self {
                    max_tool_turns: limits.max_tool_turns,
                    max_turns: count(Budget::Turns),
                    max_parallel_steps: limits.max_parallel_steps,
                    max_own_revisions: limits.max_own_revisions,
                    on_failure: limits.on_failure.to_wire(),
                    review_plan: limits.review_plan,
                    max_tokens: most(Budget::Tokens),
                    max_cost_nano_usd: most(Budget::Cost),
                    max_active_ms: most(Budget::Time),
                    max_calls: count(Budget::Calls),
                    at_limit: limits.at_limit.to_wire(),
                }
            }
        }

        impl TryFrom<proto::$limits> for $limits {
            type Error = ConvertError;

            fn try_from(limits: proto::$limits) -> Result<Self, ConvertError> {
                Ok(Self {
                    max_tool_turns: limits.max_tool_turns,
                    max_parallel_steps: limits.max_parallel_steps,
                    max_own_revisions: limits.max_own_revisions,
                    on_failure: OnWire::from_wire(limits.on_failure, "on_failure")?,
                    review_plan: limits.review_plan,
                    budgets: PerBudget::of(|budget| match budget {
                        Budget::Turns => limits.max_turns.into(),
                        Budget::Tokens => limits.max_tokens,
                        Budget::Cost => limits.max_cost_nano_usd,
                        Budget::Time => limits.max_active_ms,
                        Budget::Calls => limits.max_calls.into(),
                        // Its limit is max_tool_turns.
                        Budget::ToolTurns => 0,
                    }),
                    at_limit: OnWire::from_wire(limits.at_limit, "at_limit")?,
                })
            }
        }
    };
}

limits!(LimitOverrides);
limits!(RunLimits);

impl OnWire<i32> for Option<OnFailure> {
    fn to_wire(self) -> i32 {
        let wire = match self {
            None => proto::OnFailure::Unspecified,
            Some(OnFailure::Stop) => proto::OnFailure::Stop,
            Some(OnFailure::GoOn) => proto::OnFailure::GoOn,
            Some(OnFailure::Revise) => proto::OnFailure::Revise,
        };
        wire.into()
    }

    /// A policy from a newer version is refused: carried out as another, it would do harm.
    fn from_wire(wire: i32, field: &str) -> Result<Self, ConvertError> {
        Ok(match known(wire, field)? {
            proto::OnFailure::Unspecified => None,
            proto::OnFailure::Stop => Some(OnFailure::Stop),
            proto::OnFailure::GoOn => Some(OnFailure::GoOn),
            proto::OnFailure::Revise => Some(OnFailure::Revise),
        })
    }
}

/// Journals from before there was a choice stop, and stopping is written as they did.
impl OnWire<i32> for OnFailure {
    fn to_wire(self) -> i32 {
        Some(self).filter(|it| *it != Self::Stop).to_wire()
    }

    fn from_wire(wire: i32, field: &str) -> Result<Self, ConvertError> {
        Option::<Self>::from_wire(wire, field).map(Option::unwrap_or_default)
    }
}

impl OnWire<i32> for Option<AtLimit> {
    fn to_wire(self) -> i32 {
        let wire = match self {
            None => proto::AtLimit::Unspecified,
            Some(AtLimit::Fail) => proto::AtLimit::Fail,
            Some(AtLimit::Ask) => proto::AtLimit::Ask,
        };
        wire.into()
    }

    fn from_wire(wire: i32, field: &str) -> Result<Self, ConvertError> {
        Ok(match known(wire, field)? {
            proto::AtLimit::Unspecified => None,
            proto::AtLimit::Fail => Some(AtLimit::Fail),
            proto::AtLimit::Ask => Some(AtLimit::Ask),
        })
    }
}

/// Journals from before there was a choice fail, and failing is written as they did.
impl OnWire<i32> for AtLimit {
    fn to_wire(self) -> i32 {
        Some(self).filter(|it| *it != Self::Fail).to_wire()
    }

    fn from_wire(wire: i32, field: &str) -> Result<Self, ConvertError> {
        Option::<Self>::from_wire(wire, field).map(Option::unwrap_or_default)
    }
}

/// One row for each command.
macro_rules! commands {
    ($($name:ident: $command:ident)*) => {
        impl From<Command> for proto::Command {
            fn from(command: Command) -> Self {
                let kind = match command {
                    $(Command::$command(command) => CommandKind::$command(command.into()),)*
                };
                Self { kind: Some(kind) }
            }
        }

        impl TryFrom<proto::Command> for Command {
            type Error = ConvertError;

            fn try_from(command: proto::Command) -> Result<Self, ConvertError> {
                Ok(match command.kind {
                    $(Some(CommandKind::$command(command)) => {
                        Self::$command(required(stringify!($name), Some(command))?)
                    })*
                    None => {
                        let allowed = [$(stringify!($name)),*].join(", ");
                        let problem =
                            format!("is missing or newer than this version; allowed are {allowed}");
                        return Err(ConvertError::unknown("kind", problem));
                    }
                })
            }
        }
    };
}

pub(super) use commands;

impl From<StartRun> for proto::StartRun {
    fn from(start: StartRun) -> Self {
        Self {
            goal: start.goal,
            plan: start.plan.map(Into::into),
            limits: Some(start.limits.into()),
            model: start.model,
            trace_parent: start.trace_parent,
            agent: start.agent,
            answers_questions: start.answers_questions,
            external_id: start.external_id,
            note: start.note,
        }
    }
}

/// Without limits nothing differs from the defaults.
impl TryFrom<proto::StartRun> for StartRun {
    type Error = ConvertError;

    fn try_from(start: proto::StartRun) -> Result<Self, ConvertError> {
        let plan = start.plan.map(|plan| required("plan", Some(plan)));
        Ok(Self {
            goal: start.goal,
            plan: plan.transpose()?,
            limits: match start.limits {
                None => LimitOverrides::default(),
                limits => required("limits", limits)?,
            },
            model: start.model,
            trace_parent: start.trace_parent,
            agent: start.agent,
            answers_questions: start.answers_questions,
            external_id: start.external_id,
            note: start.note,
        })
    }
}

impl From<RevisePlan> for proto::RevisePlan {
    fn from(change: RevisePlan) -> Self {
        Self {
            run: change.run,
            feedback: change.feedback,
            plan: change.plan.map(Into::into),
            expected_revision: change.expected_revision,
            apply: change.apply,
        }
    }
}

impl TryFrom<proto::RevisePlan> for RevisePlan {
    type Error = ConvertError;

    fn try_from(change: proto::RevisePlan) -> Result<Self, ConvertError> {
        let plan = change.plan.map(|plan| required("plan", Some(plan)));
        Ok(Self {
            run: change.run,
            feedback: change.feedback,
            plan: plan.transpose()?,
            expected_revision: change.expected_revision,
            apply: change.apply,
        })
    }
}

impl From<Settlement> for proto::Settlement {
    fn from(settlement: Settlement) -> Self {
        use proto::settlement::{Answer, Approve, ApproveAlways, Deny, Done, Fail, Retry, Skip};
        let outcome = match settlement {
            Settlement::Done { output } => Outcome::Done(Done { output }),
            Settlement::Retry => Outcome::Retry(Retry {}),
            Settlement::Skip { reason } => Outcome::Skip(Skip { reason }),
            Settlement::Fail { reason } => Outcome::Fail(Fail { reason }),
            Settlement::Approve => Outcome::Approve(Approve {}),
            Settlement::ApproveAlways { when, scope } => Outcome::ApproveAlways(ApproveAlways {
                when: when.into_iter().map(Into::into).collect(),
                scope,
            }),
            Settlement::Deny { reason } => Outcome::Deny(Deny { reason }),
            Settlement::Answer { text } => Outcome::Answer(Answer { text }),
        };
        Self {
            outcome: Some(outcome),
        }
    }
}

impl TryFrom<proto::Settlement> for Settlement {
    type Error = ConvertError;

    fn try_from(settlement: proto::Settlement) -> Result<Self, ConvertError> {
        match settlement.outcome {
            Some(Outcome::Done(done)) => Ok(Self::Done {
                output: done.output,
            }),
            Some(Outcome::Retry(_)) => Ok(Self::Retry),
            Some(Outcome::Skip(skip)) => Ok(Self::Skip {
                reason: skip.reason,
            }),
            Some(Outcome::Fail(fail)) => Ok(Self::Fail {
                reason: fail.reason,
            }),
            Some(Outcome::Approve(_)) => Ok(Self::Approve),
            Some(Outcome::ApproveAlways(always)) => Ok(Self::ApproveAlways {
                when: always.when.into_iter().map(Into::into).collect(),
                scope: always.scope,
            }),
            Some(Outcome::Deny(deny)) => Ok(Self::Deny {
                reason: deny.reason,
            }),
            Some(Outcome::Answer(answer)) => Ok(Self::Answer { text: answer.text }),
            None => Err(ConvertError::unknown(
                "outcome",
                "is missing or newer than this version; done, retry, skip, fail, approve, \
                 approve_always, deny and answer are allowed",
            )),
        }
    }
}
