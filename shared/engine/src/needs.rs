//! What the steps of a plan need: capabilities and tools.

use crate::decide::STATE_TOOLS;
use crate::plan::{PlanDraft, PlanError};
use crate::pool::{MAX_NEEDED, NeedError, Needed};
use crate::text::cut;
use std::collections::BTreeSet;

/// Most characters of a text that an error quotes.
const MAX_QUOTED: usize = 64;

/// Checks that every capability in a plan can be read, and that a step names few of them and each once.
pub(crate) fn check_capabilities(plan: &PlanDraft) -> Result<(), PlanError> {
    let mut steps = plan.steps.iter().enumerate();
    steps.try_for_each(|(at, step)| check_needed(at, &step.capabilities))
}

fn check_needed(step: usize, texts: &[String]) -> Result<(), PlanError> {
    if texts.len() > MAX_NEEDED {
        let count = texts.len();
        return Err(PlanError::TooManyCapabilities { step, count });
    }
    let mut named = BTreeSet::new();
    for text in texts {
        let needed = Needed::parse(text).map_err(|error| {
            let text = cut(text, MAX_QUOTED);
            match error {
                NeedError::Name => PlanError::BadCapability { step, text },
                NeedError::Level => PlanError::BadLevel { step, text },
            }
        })?;
        if let Some(capability) = named.replace(needed.capability) {
            return Err(PlanError::RepeatedCapability { step, capability });
        }
    }
    Ok(())
}

/// Checks that every capability that a model's plan names is among `known`, so that the model can be asked
/// for another plan. Levels do not count.
///
/// [`Plan::accept`](crate::plan::Plan::accept) does not: a step may wait for a resource that comes later.
///
/// # Errors
/// The first capability that is not there, in the order of the steps.
pub fn check_known_capabilities(plan: &PlanDraft, known: &[String]) -> Result<(), PlanError> {
    let named = capabilities(plan);
    let mut named = named.filter_map(|(at, text)| Some((at, Needed::parse(text).ok()?.capability)));
    match named.find(|(_, capability)| !known.contains(capability)) {
        None => Ok(()),
        Some((step, capability)) => Err(PlanError::UnknownCapability {
            step,
            capability,
            available: listed(known),
        }),
    }
}

/// What the steps need, with the position of each step.
fn capabilities(plan: &PlanDraft) -> impl Iterator<Item = (usize, &str)> {
    let steps = plan.steps.iter().enumerate();
    steps.flat_map(|(at, step)| step.capabilities.iter().map(move |it| (at, it.as_str())))
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(", "),
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
            available: listed(tools),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::StepDraft;

    /// A plan of steps with these capabilities.
    fn plan(steps: &[&[&str]]) -> PlanDraft {
        let step = |capabilities: &&[&str]| StepDraft {
            description: "do it".to_owned(),
            capabilities: capabilities.iter().map(|&it| it.to_owned()).collect(),
            ..StepDraft::default()
        };
        PlanDraft {
            steps: steps.iter().map(step).collect(),
            ..PlanDraft::default()
        }
    }

    fn fault(plan: &PlanDraft, known: &[&str]) -> Option<String> {
        let known: Vec<String> = known.iter().map(|&it| it.to_owned()).collect();
        let checked = check_known_capabilities(plan, &known);
        checked.err().map(|fault| fault.to_string())
    }

    #[test]
    fn a_capability_that_no_resource_has_is_named_with_those_that_there_are() {
        let draft = plan(&[&["file_ops"], &["gpu>=2", "tpu"]]);
        assert_eq!(fault(&draft, &["gpu", "file_ops", "tpu"]), None);
        assert_eq!(
            fault(&draft, &["web_search", "file_ops"]).as_deref(),
            Some(
                "step 1 needs the capability 'gpu', which no resource has or whose tools this run may not \
                 use; there are: web_search, file_ops"
            )
        );
        assert_eq!(
            fault(&draft, &[]).as_deref(),
            Some(
                "step 0 needs the capability 'file_ops', which no resource has or whose tools this run may not \
                 use; there are: none"
            )
        );
        assert_eq!(fault(&plan(&[&[], &[]]), &[]), None);
    }

    #[test]
    fn a_step_names_few_capabilities_each_once_and_at_a_level_that_there_is() {
        let checked = |capabilities: &[&str]| {
            let checked = check_capabilities(&plan(&[&[], capabilities]));
            checked.err().map(|fault| fault.to_string())
        };
        let names: Vec<String> = (0..=MAX_NEEDED).map(|at| format!("c{at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(checked(&names[1..]), None);
        let cases: [(&[&str], &str); 4] = [
            (
                &names[..],
                "step 1 needs 17 capabilities; at most 16 are allowed",
            ),
            (
                &["gpu", "tpu", "gpu>=2"],
                "step 1 needs the capability 'gpu' twice; allowed: each capability once",
            ),
            (
                &["gpu>=0"],
                "step 1 needs the capability 'gpu>=0', whose level is out of range; allowed: 1 to 1000000",
            ),
            (
                &["gpu>=1000001"],
                "step 1 needs the capability 'gpu>=1000001', whose level is out of range; allowed: 1 to 1000000",
            ),
        ];
        for (capabilities, expected) in cases {
            assert_eq!(checked(capabilities).as_deref(), Some(expected));
        }
    }
}
