//! What the steps of a plan need: capabilities and tools.

use crate::decide::STATE_TOOLS;
use crate::plan::{PlanDraft, PlanError};

/// The capabilities that a step may ask for. `file_ops` takes the tools `read_file` and
/// `write_file`.
///
/// Executors are alike: each offers the tools of the one catalogue. So a step that asks for
/// anything else would never run where it can be done.
const CAPABILITIES: [&str; 1] = ["file_ops"];

/// Checks that every capability in a plan is available.
pub(crate) fn check_capabilities(plan: &PlanDraft) -> Result<(), PlanError> {
    let needed = plan.steps.iter().enumerate();
    let mut needed = needed.flat_map(|(at, step)| step.capabilities.iter().map(move |it| (at, it)));
    match needed.find(|(_, capability)| !CAPABILITIES.contains(&capability.as_str())) {
        None => Ok(()),
        Some((step, missing)) => Err(PlanError::UnknownCapability {
            step,
            capability: missing.clone(),
            available: CAPABILITIES.join(", "),
        }),
    }
}

/// Checks that no step names a tool that only models call: its answer is for the model of a step.
pub(crate) fn check_state_tools(plan: &PlanDraft) -> Result<(), PlanError> {
    let named = plan.steps.iter().map(|step| step.tool.as_ref());
    let mut named = named.enumerate().filter_map(|(at, tool)| Some((at, tool?)));
    let is_state = |name: &str| STATE_TOOLS.iter().any(|tool| tool.name == name);
    match named.find(|(_, tool)| is_state(&tool.name)) {
        None => Ok(()),
        Some((step, tool)) => Err(PlanError::ForModels {
            step,
            tool: tool.name.clone(),
        }),
    }
}

/// Checks that every tool that a model's plan names is among `tools`, so that the model can be asked
/// for another plan.
///
/// [`Plan::accept`](crate::plan::Plan::accept) does not: a person may name a tool of a server that comes
/// later.
///
/// # Errors
/// The first tool that is not there, in the order of the steps.
pub fn check_tools(plan: &PlanDraft, tools: &[String]) -> Result<(), PlanError> {
    let named = plan.steps.iter().map(|step| step.tool.as_ref());
    let mut named = (0..).zip(named).filter_map(|(at, tool)| Some((at, tool?)));
    match named.find(|(_, tool)| !tools.contains(&tool.name)) {
        None => Ok(()),
        Some((step, tool)) => Err(PlanError::UnknownTool {
            step,
            tool: tool.name.clone(),
            available: match tools {
                [] => "none".to_owned(),
                tools => tools.join(", "),
            },
        }),
    }
}
