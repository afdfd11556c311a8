//! Events about the plan of a run.

#![allow(missing_docs)] // Fields are described once, in `cairn/event/v1/event.proto`.

use crate::failure::Failure;
use crate::message::Usage;
use crate::plan::PlanDraft;
use crate::session::StepNo;

/// Another plan is requested, and the planner is asked for it.
#[derive(Debug, Clone, PartialEq)]
pub struct RevisionRequested {
    pub run: u32,
    pub feedback: String,
    pub apply: bool,
    pub request: u64,
    pub denied: u32,
}

/// Another plan, which a person may apply.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanProposed {
    pub run: u32,
    pub proposal: u32,
    pub base_revision: u32,
    pub plan: PlanDraft,
    pub request: u64,
    pub usage: Usage,
    pub duration_ms: u64,
}

/// There is no other plan.
#[derive(Debug, Clone, PartialEq)]
pub struct RevisionFailed {
    pub run: u32,
    pub request: u64,
    pub failure: Failure,
    pub usage: Usage,
    pub duration_ms: u64,
}

/// The plan that is in force from here on.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanApplied {
    pub run: u32,
    pub revision: u32,
    pub plan: PlanDraft,
    pub numbers: Vec<StepNo>,
    pub request: u64,
    pub usage: Usage,
    pub duration_ms: u64,
    pub stops: u32,
}
