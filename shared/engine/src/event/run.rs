//! Events about a run.

#![allow(missing_docs)] // Fields are described once, in `cairn/event/v1/event.proto`.

use super::{AgentUse, Budget, CallRef, WaitReason};
use crate::command::RunLimits;
use crate::failure::Failure;
use crate::hooks::PinnedHook;
use crate::message::Usage;

/// A run began.
#[derive(Debug, Clone, PartialEq)]
pub struct RunStarted {
    pub run: u32,
    pub goal: String,
    pub limits: RunLimits,
    pub model: String,
    pub trace_parent: String,
    pub turn: Option<StartedTurn>,
    pub agent: Option<AgentUse>,
    pub hooks: Vec<PinnedHook>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StartedTurn {
    pub context: String,
    pub queued: u64,
    pub turn_index: u32,
}

impl StartedTurn {
    /// The seq of the command that has what the person says: a queued turn has been answered by another event.
    /// `answers` is the event's.
    pub fn command(&self, answers: u64) -> u64 {
        match self.queued {
            0 => answers,
            queued => queued,
        }
    }
}

/// A run was paused.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPaused {
    pub run: u32,
    pub reason: String,
}

/// A run waits for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct RunWaiting {
    pub run: u32,
    pub reason: WaitReason,
}

/// A run continues.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResumed {
    pub run: u32,
}

/// Another owner continues a run whose active time has a limit.
#[derive(Debug, Clone, PartialEq)]
pub struct RunTakenOver {
    pub run: u32,
}

/// A budget is used up.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetExhausted {
    pub run: u32,
    pub budget: Budget,
}

/// A run may use more of a budget.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetRaised {
    pub run: u32,
    pub budget: Budget,
    pub more: u64,
}

/// A run may not use more of a budget, and ends.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetRefused {
    pub run: u32,
    pub failure: Failure,
}

/// A run is to end with a failure. Nothing begins any more.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEnding {
    pub run: u32,
    pub failure: Failure,
    pub usage: Option<Usage>,
}

/// Every step ended well.
#[derive(Debug, Clone, PartialEq)]
pub struct RunCompleted {
    pub run: u32,
    pub answer: String,
    pub kept_through: u32,
    pub results: Vec<OpenCall>,
    pub journal_permille: u32,
}

/// A run ended without reaching its goal.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFailed {
    pub run: u32,
    pub failure: Failure,
    pub usage: Option<Usage>,
    pub duration_ms: u64,
    pub kept_through: u32,
    pub results: Vec<OpenCall>,
}

/// A person ended a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunCancelled {
    pub run: u32,
    pub reason: String,
    pub kept_through: u32,
    pub results: Vec<OpenCall>,
}

/// A call that had no result when its turn ended, and the result that the model gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCall {
    pub call: CallRef,
    pub output: String,
}
