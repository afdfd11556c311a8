//! Commands and what they carry.

use super::error::{ConvertError, required};
use super::wire::plain_record;
use crate::event::{self as proto, command::Kind, settlement::Outcome};
use cairn_engine::command::{Command, LimitOverrides, RunLimits, Settlement, StartRun};

plain_record! {
    LimitOverrides => proto::LimitOverrides {
        max_tool_turns, max_turns, max_parallel_steps
    }
}
plain_record! { RunLimits => proto::RunLimits { max_tool_turns, max_turns, max_parallel_steps } }

impl From<Command> for proto::Command {
    fn from(command: Command) -> Self {
        let kind = match command {
            Command::StartRun(start) => Kind::StartRun(start.into()),
            Command::CancelRun { run, reason } => Kind::CancelRun(proto::CancelRun { run, reason }),
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
            Some(Kind::Decide(decide)) => Ok(Self::Decide {
                pending_id: decide.pending_id,
                settlement: required("settlement", decide.settlement)
                    .map_err(|error: ConvertError| error.within("decide"))?,
            }),
            None => Err(ConvertError::new(
                "kind",
                "is missing or newer than this version; start_run, cancel_run and decide are allowed",
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
            limits: start.limits.unwrap_or_default().into(),
            model: start.model,
            trace_parent: start.trace_parent,
        })
    }
}

impl From<Settlement> for proto::Settlement {
    fn from(settlement: Settlement) -> Self {
        use proto::settlement::{Done, Fail, Retry, Skip};
        let outcome = match settlement {
            Settlement::Done { output } => Outcome::Done(Done { output }),
            Settlement::Retry => Outcome::Retry(Retry {}),
            Settlement::Skip { reason } => Outcome::Skip(Skip { reason }),
            Settlement::Fail { reason } => Outcome::Fail(Fail { reason }),
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
            None => Err(ConvertError::new(
                "outcome",
                "is missing or newer than this version; done, retry, skip and fail are allowed",
            )),
        }
    }
}
