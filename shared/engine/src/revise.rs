//! Another plan for a run that has one: which of its steps are steps that there are already.
//!
//! A step of the new plan *is* a step of the run if their keys are equal, for then it would be told
//! to do the same after the same. What was completed is taken first, then what is running, then
//! what somebody wished to go on without, then what has not begun; what failed, or was dropped
//! while it ran, is never taken. Equal steps are taken in the order of their numbers.

use crate::key::{StepKey, step_keys};
use crate::plan::{Order, Plan, PlanDraft, PlanError, PlanStep, StepDraft, ToolInvocation};
use crate::state::{PlanState, Step, StepStatus};
use std::collections::HashMap;

/// The number of each step of the new plan: that of a step of `old`, or the next that is free.
///
/// Proportional to the steps of the run and of the plan.
pub fn numbers(old: Option<&PlanState>, plan: &Plan) -> Vec<u32> {
    let steps = old.map_or(&[][..], |old| &old.steps);
    let keys = step_keys(&plan.steps);
    let mut chosen = choose(steps, &keys);
    let mut next = steps.len() as u32;
    let number = |key| {
        let kept: Option<u32> = chosen.get_mut(key).and_then(Vec::pop);
        kept.unwrap_or_else(|| {
            next += 1;
            next
        })
    };
    keys.iter().map(number).collect()
}

/// For each key, the numbers of the steps to be taken; the first comes last.
fn choose<'a>(steps: &[Step], keys: &'a [StepKey]) -> HashMap<&'a StepKey, Vec<u32>> {
    let mut wanted: HashMap<&StepKey, usize> = HashMap::with_capacity(keys.len());
    for key in keys {
        *wanted.entry(key).or_default() += 1;
    }
    let mut found: HashMap<&StepKey, Vec<(u8, u32)>> = HashMap::new();
    for (step, number) in steps.iter().zip(1..) {
        if let Some((key, _)) = wanted.get_key_value(&step.key)
            && let Some(rank) = rank(step)
        {
            found.entry(key).or_default().push((rank, number));
        }
    }
    let taken = found.into_iter().map(|(key, mut candidates)| {
        candidates.sort_unstable();
        candidates.truncate(wanted[key]);
        let mut numbers: Vec<u32> = candidates.into_iter().map(|(_, number)| number).collect();
        numbers.sort_unstable_by(|one, other| other.cmp(one));
        (key, numbers)
    });
    taken.collect()
}

/// What is taken first has the lowest; none if it is never taken.
fn rank(step: &Step) -> Option<u8> {
    match &step.status {
        StepStatus::Completed { .. } => Some(0),
        StepStatus::Running(_) => Some(1),
        StepStatus::Skipped { is_wish: true, .. } => Some(2),
        // One that was dropped before it began is nothing that could be kept.
        StepStatus::Pending => step.place.map(|_| 3),
        StepStatus::Failed { .. } | StepStatus::Skipped { .. } => None,
    }
}

/// What its key says may be kept of a step, if its state allows it.
pub(crate) fn may_be_kept(step: &Step) -> bool {
    rank(step).is_some()
}

/// The plan in force as somebody could have proposed it.
pub fn draft_of(plan: &PlanState) -> PlanDraft {
    let id = |position: &u32| {
        plan.steps
            .get(*position as usize)
            .map(|s| s.plan.id.clone())
    };
    let steps = plan.current().map(|(_, step)| StepDraft {
        id: step.plan.id.clone(),
        title: step.plan.title.clone(),
        description: step.plan.description.clone(),
        tool: step.plan.tool.clone(),
        depends_on: match plan.order {
            Order::Chain => Vec::new(),
            Order::Graph => step.plan.depends_on.iter().filter_map(id).collect(),
        },
        capabilities: step.plan.capabilities.clone(),
        redo: step.plan.redo,
    });
    PlanDraft {
        order: plan.order,
        steps: steps.collect(),
    }
}

/// Carries over how often steps were done again: whoever writes a plan knows their words only, and
/// a step that was to be done again must not come back with the result before that, not even after
/// a plan without it.
///
/// # Errors
/// The draft is no plan.
pub fn inherit_redo(draft: &mut PlanDraft, old: Option<&PlanState>) -> Result<Plan, PlanError> {
    let mut plan = Plan::new(draft)?;
    let mut known: HashMap<Words<'_>, Redone> = HashMap::new();
    for step in old.into_iter().flat_map(|old| &old.steps) {
        let redone = known.entry(words(&step.plan)).or_default();
        redone.most = redone.most.max(step.plan.redo);
    }
    let current: Vec<_> = old.into_iter().flat_map(PlanState::current).collect();
    for (_, step) in current.into_iter().rev() {
        let redone = known.entry(words(&step.plan)).or_default();
        redone.current.push(step.plan.redo);
    }
    let before = plan.steps.iter().map(|step| {
        let redone = known.get_mut(&words(step));
        redone.map_or(0, |redone| redone.current.pop().unwrap_or(redone.most))
    });
    let before: Vec<u32> = before.collect();
    for ((drafted, planned), before) in draft.steps.iter_mut().zip(&mut plan.steps).zip(before) {
        drafted.redo = drafted.redo.max(before);
        planned.redo = drafted.redo;
    }
    Ok(plan)
}

/// How often the steps of some words were done again.
#[derive(Default)]
struct Redone {
    /// Those of the plan in force; the first comes last.
    current: Vec<u32>,
    /// Of all that the run has had.
    most: u32,
}

/// What people recognise a step by.
pub(crate) type Words<'a> = (&'a str, &'a str, Option<&'a ToolInvocation>);

pub(crate) fn words(step: &PlanStep) -> Words<'_> {
    (&step.title, &step.description, step.tool.as_ref())
}
