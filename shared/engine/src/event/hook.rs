//! Events about hooks.

#![allow(missing_docs)] // Fields are described once, in `cairn/event/v1/event.proto`.

use crate::failure::Failure;
use crate::hooks::{Gate, Outcome, PinnedHook, VerdictKind};
use crate::message::Usage;
use crate::plan::PlanDraft;
use serde::{Deserialize, Serialize};

/// Hooks are asked before something that no other event announces.
#[derive(Debug, Clone, PartialEq)]
pub struct HooksAsked {
    pub gate: Gate,
    pub failure: Option<Failure>,
    pub plan: Option<Box<HeldPlan>>,
}

/// A plan that waits for the answers of hooks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldPlan {
    pub plan: PlanDraft,
    pub request: Option<u64>,
    pub usage: Usage,
    pub duration_ms: u64,
}

/// Hooks answered, and the answers count.
#[derive(Debug, Clone, PartialEq)]
pub struct HooksAnswered {
    pub gate: Gate,
    pub outcomes: Vec<Outcome>,
}

impl HooksAnswered {
    /// It adds nothing to the session: no change of a payload, and no result in place of one.
    pub(crate) fn is_plain(&self) -> bool {
        let mut outcomes = self.outcomes.iter();
        outcomes.all(|it| it.mutation.is_none() && it.verdict != VerdictKind::Skip)
    }
}

/// A hook of a run is missing or changed, and the run waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HooksChanged {
    pub run: u32,
    pub missing: Vec<String>,
    pub changed: Vec<String>,
}

/// A run asks these hooks from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HooksPinned {
    pub run: u32,
    pub hooks: Vec<PinnedHook>,
}

/// The session was imported: its hooks are those of another place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HooksDropped {}
