//! Commands and what they carry.

use super::error::{ConvertError, required};
use super::wire::{OnWire, known, record};
use crate::event::{self as proto, command::Kind, settlement::Outcome};
use cairn_engine::command::{
    Command, LimitOverrides, OnFailure, RevisePlan, RunLimits, Settlement, StartRun,
};

record! {
    LimitOverrides => proto::LimitOverrides {
        max_tool_turns, max_turns, max_parallel_steps, max_own_revisions, on_failure, review_plan,
        max_tokens, max_cost_nano_usd, max_active_ms, max_calls
    }
}
record! {
    RunLimits => proto::RunLimits {
        max_tool_turns, max_turns, max_parallel_steps, max_own_revisions, on_failure, review_plan,
        max_tokens, max_cost_nano_usd, max_active_ms, max_calls
    }
}

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

impl From<Command> for proto::Command {
    fn from(command: Command) -> Self {
        let kind = match command {
            Command::StartRun(start) => Kind::StartRun(start.into()),
            Command::CancelRun { run, reason } => Kind::CancelRun(proto::CancelRun { run, reason }),
            Command::RevisePlan(wish) => Kind::RevisePlan(wish.into()),
            Command::ApplyProposal { run, proposal } => {
                Kind::ApplyProposal(proto::ApplyProposal { run, proposal })
            }
            Command::RedoStep { run, step } => Kind::RedoStep(proto::RedoStep { run, step }),
            Command::SkipStep { run, step, reason } => {
                Kind::SkipStep(proto::SkipStep { run, step, reason })
            }
            Command::PauseRun { run, reason } => Kind::PauseRun(proto::PauseRun { run, reason }),
            Command::ResumeRun { run } => Kind::ResumeRun(proto::ResumeRun { run }),
            Command::Decide {
                pending_id,
                settlement,
            } => Kind::Decide(proto::Decide {
                pending_id,
                settlement: Some(settlement.into()),
            }),
        };
        Self { kind: Some(kind) }
    }
}

impl TryFrom<proto::Command> for Command {
    type Error = ConvertError;

    fn try_from(command: proto::Command) -> Result<Self, ConvertError> {
        match command.kind {
            Some(Kind::StartRun(start)) => required("start_run", Some(start)).map(Self::StartRun),
            Some(Kind::CancelRun(proto::CancelRun { run, reason })) => {
                Ok(Self::CancelRun { run, reason })
            }
            Some(Kind::RevisePlan(wish)) => {
                required("revise_plan", Some(wish)).map(Self::RevisePlan)
            }
            Some(Kind::ApplyProposal(proto::ApplyProposal { run, proposal })) => {
                Ok(Self::ApplyProposal { run, proposal })
            }
            Some(Kind::RedoStep(proto::RedoStep { run, step })) => Ok(Self::RedoStep { run, step }),
            Some(Kind::SkipStep(proto::SkipStep { run, step, reason })) => {
                Ok(Self::SkipStep { run, step, reason })
            }
            Some(Kind::PauseRun(proto::PauseRun { run, reason })) => {
                Ok(Self::PauseRun { run, reason })
            }
            Some(Kind::ResumeRun(proto::ResumeRun { run })) => Ok(Self::ResumeRun { run }),
            Some(Kind::Decide(decide)) => Ok(Self::Decide {
                pending_id: decide.pending_id,
                settlement: required("settlement", decide.settlement)
                    .map_err(|error: ConvertError| error.within("decide"))?,
            }),
            None => Err(ConvertError::new(
                "kind",
                "is missing or newer than this version; allowed are start_run, cancel_run, decide, \
                 revise_plan, apply_proposal, redo_step, skip_step, pause_run and resume_run",
            )),
        }
    }
}

impl From<StartRun> for proto::StartRun {
    fn from(start: StartRun) -> Self {
        Self {
            goal: start.goal,
            plan: start.plan.map(Into::into),
            limits: Some(start.limits.into()),
            model: start.model,
            trace_parent: start.trace_parent,
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
        })
    }
}

impl From<RevisePlan> for proto::RevisePlan {
    fn from(wish: RevisePlan) -> Self {
        Self {
            run: wish.run,
            feedback: wish.feedback,
            plan: wish.plan.map(Into::into),
            expected_revision: wish.expected_revision,
            apply: wish.apply,
        }
    }
}

impl TryFrom<proto::RevisePlan> for RevisePlan {
    type Error = ConvertError;

    fn try_from(wish: proto::RevisePlan) -> Result<Self, ConvertError> {
        let plan = wish.plan.map(|plan| required("plan", Some(plan)));
        Ok(Self {
            run: wish.run,
            feedback: wish.feedback,
            plan: plan.transpose()?,
            expected_revision: wish.expected_revision,
            apply: wish.apply,
        })
    }
}

impl From<Settlement> for proto::Settlement {
    fn from(settlement: Settlement) -> Self {
        use proto::settlement::{Answer, Approve, Deny, Done, Fail, Retry, Skip};
        let outcome = match settlement {
            Settlement::Done { output } => Outcome::Done(Done { output }),
            Settlement::Retry => Outcome::Retry(Retry {}),
            Settlement::Skip { reason } => Outcome::Skip(Skip { reason }),
            Settlement::Fail { reason } => Outcome::Fail(Fail { reason }),
            Settlement::Approve => Outcome::Approve(Approve {}),
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
            Some(Outcome::Deny(deny)) => Ok(Self::Deny {
                reason: deny.reason,
            }),
            Some(Outcome::Answer(answer)) => Ok(Self::Answer { text: answer.text }),
            None => Err(ConvertError::new(
                "outcome",
                "is missing or newer than this version; done, retry, skip, fail, approve, deny and \
                 answer are allowed",
            )),
        }
    }
}
