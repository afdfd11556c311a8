//! Another plan for a run that has one: which of its steps are steps that there are already.
//!
//! A step of the new plan *is* a step of the run if their keys are equal, for then it would be shown
//! the same and asked to do the same. A completed step is taken first, then a running one, then one
//! that was skipped by a decision, then one that has not begun; what failed, or was dropped while it
//! ran, is never taken. Equal steps are taken in the order of their numbers.
//!
//! A step that is taken and is skipped hands its dependencies on (see [`crate::dependencies`]), so the
//! keys of the new plan follow from what is taken. A skipped step may be left out of the plan or put
//! back without a change for the steps after it.

use crate::dependencies::{Named, keys_of};
use crate::key::StepKey;
use crate::plan::{Order, Plan, PlanDraft, PlanError, PlanStep, StepDraft, ToolInvocation};
use crate::session::{PlanState, Slot, Step, StepNo, StepStatus};
use std::collections::{HashMap, VecDeque};

/// The number of each step of the new plan: that of a step of `old`, or the next that is free.
///
/// Proportional to the steps of the run and of the plan, sorting aside.
pub fn numbers(old: Option<&PlanState>, plan: &Plan) -> Vec<StepNo> {
    let steps = old.map_or(&[][..], |old| &old.steps);
    if steps.is_empty() {
        return StepNo::all().take(plan.steps.len()).collect();
    }
    // How many steps of a key there will be is known once those before them are taken; steps of the
    // same words are the most that there can be.
    let mut of_identity: HashMap<(IdentityText<'_>, u32), usize> =
        HashMap::with_capacity(plan.steps.len());
    for step in &plan.steps {
        *of_identity
            .entry((identity_text(step), step.redo))
            .or_default() += 1;
    }
    let most = |step: &Step| {
        of_identity
            .get(&(identity_text(&step.plan), step.plan.redo))
            .copied()
    };
    let (_, keys) = take(steps, plan, |step| most(step).unwrap_or_default());
    let mut of_key: HashMap<StepKey, usize> = HashMap::with_capacity(keys.len());
    for key in keys {
        *of_key.entry(key).or_default() += 1;
    }
    let expected = |step: &Step| of_key.get(&step.key).copied();
    let (taken, _) = take(steps, plan, |step| expected(step).unwrap_or_default());
    let mut free = StepNo::all().skip(steps.len());
    let number = |taken: Option<StepNo>| taken.or_else(|| free.next());
    taken.into_iter().filter_map(number).collect()
}

/// The step that each step of the plan takes, by its number, and the keys that follow. `expected` says
/// how many steps of the plan may take one with the key of this step.
fn take(
    steps: &[Step],
    plan: &Plan,
    expected: impl Fn(&Step) -> usize,
) -> (Vec<Option<StepNo>>, Vec<StepKey>) {
    let mut candidates = candidates(steps, expected);
    let mut taken = vec![None; plan.steps.len()];
    let named: Vec<Named<'_>> = plan.steps.iter().map(Named::of).collect();
    let keys = keys_of(&named, |place, key| {
        let number = candidates.get_mut(&key).and_then(Vec::pop);
        taken[place.index()] = number;
        let step = number.and_then(|number| number.find_in(steps));
        (key, step.is_some_and(Step::is_handing_on))
    });
    (taken, keys)
}

/// For each key, the numbers of the steps that can be taken; the first comes last. As many as are
/// expected are taken by number, and before those that are left over.
fn candidates(steps: &[Step], expected: impl Fn(&Step) -> usize) -> HashMap<StepKey, Vec<StepNo>> {
    let mut found: HashMap<StepKey, (usize, Vec<(u8, StepNo)>)> = HashMap::new();
    for (step, number) in steps.iter().zip(StepNo::all()) {
        if let Some(rank) = rank(step) {
            let of_key = found.entry(step.key);
            let (_, of_key) = of_key.or_insert_with(|| (expected(step), Vec::new()));
            of_key.push((rank, number));
        }
    }
    let taken = found.into_iter().map(|(key, (expected, mut of_key))| {
        of_key.sort_unstable();
        let expected = expected.min(of_key.len());
        let (first, left_over) = of_key.split_at_mut(expected);
        first.sort_unstable_by_key(|(_, number)| *number);
        let order = first.iter().chain(left_over.iter()).rev();
        (key, order.map(|(_, number)| *number).collect())
    });
    taken.collect()
}

/// What is taken first has the lowest; none if it is never taken.
fn rank(step: &Step) -> Option<u8> {
    match &step.status {
        StepStatus::Completed { .. } if step.place.is_some() => Some(0),
        // What an earlier plan did.
        StepStatus::Completed { .. } => Some(1),
        StepStatus::Running(_) => Some(2),
        StepStatus::Skipped { .. } if step.is_handing_on() => Some(3),
        // One that was dropped before it began is nothing that could be kept.
        StepStatus::Pending => step.place.map(|_| 4),
        StepStatus::Failed { .. } | StepStatus::Skipped { .. } => None,
    }
}

/// What its key says may be kept of a step, if its state allows it.
pub(crate) fn may_be_kept(step: &Step) -> bool {
    rank(step).is_some()
}

/// The plan in force as a proposal.
pub fn draft_of(plan: &PlanState) -> PlanDraft {
    let id = |slot: &Slot| plan.steps.get(slot.index()).map(|s| s.plan.id.clone());
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
        external_id: step.plan.external_id.clone(),
        note: step.plan.note.clone(),
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
    let mut known: HashMap<IdentityText<'_>, Redone> = HashMap::new();
    for step in old.into_iter().flat_map(|old| &old.steps) {
        let redone = known.entry(identity_text(&step.plan)).or_default();
        redone.most = redone.most.max(step.plan.redo);
    }
    let current: Vec<_> = old.into_iter().flat_map(PlanState::current).collect();
    for (_, step) in current.into_iter().rev() {
        let redone = known.entry(identity_text(&step.plan)).or_default();
        redone.current.push(step.plan.redo);
    }
    let before = plan.steps.iter().map(|step| {
        let redone = known.get_mut(&identity_text(step));
        redone.map_or(0, |redone| redone.current.pop().unwrap_or(redone.most))
    });
    let before: Vec<u32> = before.collect();
    for ((drafted, planned), before) in draft.steps.iter_mut().zip(&mut plan.steps).zip(before) {
        drafted.redo = drafted.redo.max(before);
        planned.redo = drafted.redo;
    }
    Ok(plan)
}

/// Gives the steps of another plan the external ids and the notes of the steps of the same words in `earlier`:
/// models do not see them, and would lose them with each revision. What the draft says itself stays.
pub fn inherit_notes(draft: &mut PlanDraft, earlier: &PlanDraft) {
    let (Ok(plan), Ok(before)) = (Plan::new(draft), Plan::new(earlier)) else {
        return;
    };
    let mut known: HashMap<IdentityText<'_>, VecDeque<&PlanStep>> = HashMap::new();
    for step in &before.steps {
        let of_words = known.entry(identity_text(step)).or_default();
        of_words.push_back(step);
    }
    for (drafted, planned) in draft.steps.iter_mut().zip(&plan.steps) {
        let of_words = known.get_mut(&identity_text(planned));
        let Some(same) = of_words.and_then(VecDeque::pop_front) else {
            continue;
        };
        if drafted.external_id.is_empty() {
            drafted.external_id.clone_from(&same.external_id);
        }
        if drafted.note.is_empty() {
            drafted.note.clone_from(&same.note);
        }
    }
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
pub type IdentityText<'a> = (&'a str, &'a str, Option<&'a ToolInvocation>);

/// The title, the description and the call of a step.
pub fn identity_text<At>(step: &PlanStep<At>) -> IdentityText<'_> {
    (&step.title, &step.description, step.tool.as_ref())
}
