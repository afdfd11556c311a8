//! Which transitions there are. Everything that is not listed here is refused, with its name.

use crate::event::WaitReason;
use crate::session::{CallStatus, RunStatus, StepStatus};
use std::fmt;

/// The states of a step, without what belongs to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // Described at `StepStatus`.
pub enum StepPhase {
    Pending,
    Running,
    Completed,
    Failed,
    Skipped,
}

/// The states of a call, without what belongs to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // Described at `CallStatus`.
pub enum CallPhase {
    Requested,
    Asking,
    Intended,
    InDoubt,
    Finished,
}

/// Steps go one way only.
pub fn step_may(from: StepPhase, to: StepPhase) -> bool {
    use StepPhase::{Completed, Failed, Pending, Running, Skipped};
    matches!(
        (from, to),
        (Pending, Running | Skipped) | (Running, Completed | Failed | Skipped)
    )
}

/// Runs may wait, pause and go on, and end. Only another plan opens an ended one again.
pub fn run_may(from: RunStatus, to: RunStatus) -> bool {
    use RunStatus::{Cancelled, Completed, Failed, Paused, Planning, Running, Waiting};
    use WaitReason::{Budget, Hook, PlanReview};
    matches!(
        (from, to),
        (Planning, Waiting(Budget | PlanReview | Hook) | Running)
            | (Planning, Paused | Failed | Cancelled)
            | (
                Running,
                Waiting(_) | Paused | Completed | Failed | Cancelled
            )
            | (Waiting(_), Running | Paused | Failed | Cancelled)
            | (Waiting(Budget | PlanReview | Hook), Planning)
            | (Paused, Planning | Running | Failed | Cancelled)
            | (Completed | Failed | Cancelled, Running)
    )
}

/// A call is intended again if it is certain that it was not sent; one in doubt, or one that asks a
/// person, is finished or asked for again by a person's word only.
pub fn call_may(from: CallPhase, to: CallPhase) -> bool {
    use CallPhase::{Asking, Finished, InDoubt, Intended, Requested};
    matches!(
        (from, to),
        (Requested, Asking | Intended | Finished)
            | (Asking, Requested | Finished)
            | (Intended, Intended | Finished | InDoubt | Requested | Asking)
            | (InDoubt, Finished | Requested)
    )
}

/// An event that does not fit the state that it is applied to: a fault of the program, or a journal
/// that was tampered with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IllegalTransition {
    /// The state does not allow it.
    #[error("illegal transition of {what}: {from} → {to}")]
    NotAllowed {
        /// What was to change.
        what: String,
        /// The state that it is in.
        from: String,
        /// The state that it was to have.
        to: String,
    },
    /// It is about something that is not there.
    #[error("illegal event: {what} does not exist")]
    Missing {
        /// What is missing.
        what: String,
    },
    /// It carries something that cannot be.
    #[error("illegal event: {what}")]
    Malformed {
        /// What is wrong.
        what: String,
    },
}

/// Whether an event fitted.
pub type Applied = Result<(), IllegalTransition>;

impl IllegalTransition {
    pub(crate) fn not_allowed(
        what: impl fmt::Display,
        from: impl fmt::Debug,
        to: impl fmt::Debug,
    ) -> Self {
        Self::NotAllowed {
            what: what.to_string(),
            from: format!("{from:?}"),
            to: format!("{to:?}"),
        }
    }

    pub(crate) fn missing(what: impl fmt::Display) -> Self {
        Self::Missing {
            what: what.to_string(),
        }
    }
}

impl StepStatus {
    /// The state without what belongs to it.
    pub fn phase(&self) -> StepPhase {
        match self {
            Self::Pending => StepPhase::Pending,
            Self::Running(_) => StepPhase::Running,
            Self::Completed { .. } => StepPhase::Completed,
            Self::Failed { .. } => StepPhase::Failed,
            Self::Skipped { .. } => StepPhase::Skipped,
        }
    }
}

impl CallStatus {
    /// The state without what belongs to it.
    pub fn phase(&self) -> CallPhase {
        match self {
            Self::Requested => CallPhase::Requested,
            Self::Asking { .. } => CallPhase::Asking,
            Self::Intended { .. } => CallPhase::Intended,
            Self::InDoubt { .. } => CallPhase::InDoubt,
            Self::Finished { .. } => CallPhase::Finished,
        }
    }
}
