//! What a run asks of hooks, and what waits for their answers.

use super::RunStatus;
use crate::event::{AttemptRef, HeldPlan};
use crate::failure::Failure;
use crate::hooks::{Gate, PinnedHook};
use crate::message::Usage;
use serde::{Deserialize, Serialize};

/// The hooks of a run. Without any, all of it is as by default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunHooks {
    /// The hooks that it asks, in the order in which they are asked.
    pub pinned: Vec<PinnedHook>,
    /// Questions about the run, the oldest first. Only the first is asked. Those of attempts are in
    /// [`Attempt::gate`](super::Attempt::gate) and at their calls.
    pub open: Vec<Gate>,
    /// What a person is asked because of hooks.
    pub asks: Option<HookAsk>,
    /// How often a person was asked.
    pub times_asked: u32,
    /// How often hooks were asked about a plan.
    pub plans_asked: u32,
    /// The plan that waits for hooks.
    pub plan: Option<Box<HeldPlan>>,
    /// The attempt that may begin, as hooks say.
    pub step_passed: Option<AttemptRef>,
    /// Attempts that completed.
    pub turns: u32,
    /// The session was imported, so the hooks are those of another place.
    pub is_dropped: bool,
}

/// What a person is asked because of hooks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HookAsk {
    /// How does the run continue without hooks that it has to ask?
    Changed {
        /// Names of the hooks that are not there any more.
        missing: Vec<String>,
        /// Names of the hooks that have another digest.
        changed: Vec<String>,
        /// When the person was asked, in milliseconds since 1970.
        since: u64,
    },
    /// May the run or the step begin?
    Approval {
        /// What the hooks were asked about.
        gate: Gate,
        /// The hook that requires the approval.
        hook: String,
        /// Its words.
        reason: String,
        /// When the person was asked, in milliseconds since 1970.
        since: u64,
    },
}

/// A run that has ended, as its hooks are asked about that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndedHooks {
    /// Its number.
    pub run: u32,
    /// The hooks that it asked.
    pub pinned: Vec<PinnedHook>,
    /// The trace that it belongs to.
    pub trace_parent: String,
    /// How it ended.
    pub status: RunStatus,
    /// Why it failed; none otherwise.
    pub failure: Option<Failure>,
    /// What it used up.
    pub usage: Usage,
    /// The context of a turn; empty for a run with a plan.
    pub context: String,
    /// The name of its agent.
    pub agent: String,
    /// Its model; empty for the default.
    pub model: String,
}
