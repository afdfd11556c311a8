//! What another plan would change, for people to read before they apply it.
//!
//! It is worked out by the rules that applying follows ([`cairn_engine::revise`]), so what it says holds
//! as long as the plan in force is still the [`PlanDiff::base_revision`] and no step has ended or
//! begun since.

use cairn_engine::event::{AttemptRef, Effect};
use cairn_engine::message::Usage;
use cairn_engine::plan::{Plan, PlanDraft, PlanError};
use cairn_engine::revise::{IdentityText, identity_text, inherit_redo, numbers};
use cairn_engine::session::{
    CallStatus, EffectfulCall, Place, PlanState, Run, Step, StepNo, StepStatus,
};
use cairn_engine::transitions::StepPhase;
use std::collections::{HashMap, HashSet};

/// The difference between the plan in force and another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanDiff {
    /// The revision that it was made for; 0 if there is no plan yet.
    pub base_revision: u32,
    /// The steps of the new plan, in its order.
    pub steps: Vec<StepDiff>,
    /// The steps of the plan in force that the new plan does not keep, in the order of that plan.
    pub dropped: Vec<Dropped>,
    /// Numbers of the running steps that would be stopped, in the order of the plan in force.
    pub stopped: Vec<StepNo>,
    /// Calls with side effects of the dropped steps. They stay done, and what comes instead of their
    /// step may do them once more: a person has to judge that.
    pub effects: Vec<EffectfulCall>,
    /// What does not have to be spent again.
    pub saved: Saved,
}

/// A step of the new plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepDiff {
    /// What becomes of it.
    pub fate: Fate,
    /// Its number in the run, if it is a step that there is.
    pub number: Option<StepNo>,
    /// What people call it, on one line.
    pub label: String,
    /// It is kept, and its order among the kept steps is another: with the fewest steps that have
    /// to move, it is one of them.
    pub moved: bool,
}

/// What becomes of a step of the new plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Its result is there and counts.
    Reused,
    /// It is running and continues undisturbed.
    Continues,
    /// It has not begun. With a number it stays as it is; without one, what it depends on has changed,
    /// so it is a new step of the same words.
    Waiting,
    /// A person skipped it, and that holds.
    Skipped,
    /// A step of the same words had begun, and what came of it does not count any more: the work is done
    /// again from the start.
    Repeated {
        /// Number of the step that it repeats.
        number: StepNo,
    },
    /// No step of the same words is in the plan in force, or one that was skipped before it began.
    Added,
}

/// A step that the new plan does not keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// Its number in the run.
    pub number: StepNo,
    /// What people call it, on one line.
    pub label: String,
    /// How it stands.
    pub status: StepPhase,
    /// Place of the step of the new plan that has its words and is done instead of it; none if its
    /// words are not in the new plan.
    pub repeated_as: Option<Place>,
}

/// What the steps whose results are reused have cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Saved {
    /// How many steps they are.
    pub steps: u32,
    /// What their model calls used up.
    pub usage: Usage,
    /// Their tool turns.
    pub tool_turns: u32,
    /// Their time, added up: milliseconds from the begin to the end of each.
    pub duration_ms: u64,
}

/// Compares `draft` with the plan of `run` that is in force, in time proportional to the steps of
/// the run and of the draft (sorting aside).
///
/// # Errors
/// The draft is no plan.
pub fn diff(run: &Run, draft: &PlanDraft) -> Result<PlanDiff, PlanError> {
    let mut draft = draft.clone();
    let plan = inherit_redo(&mut draft, run.plan.as_ref())?;
    let numbers = numbers(run.plan.as_ref(), &plan);
    let all = run.plan.as_ref().map_or(&[][..], |old| &old.steps);
    let gone = gone(run.plan.as_ref(), &numbers);
    let repeated = repeated(&plan, &numbers, all, &gone);
    let moved = moved(&numbers, all);
    let mut saved = Saved::default();
    let mut steps = Vec::with_capacity(plan.steps.len());
    for (position, planned) in plan.steps.iter().enumerate() {
        let kept = numbers[position].find_in(all);
        let before = repeated[position];
        let before = before.and_then(|number| Some((number, number.find_in(all)?)));
        let fate = match (kept, before) {
            (Some(kept), _) => fate_of_kept(kept),
            (None, Some((number, before))) if before.attempts > 0 => Fate::Repeated { number },
            (None, Some(_)) => Fate::Waiting,
            (None, None) => Fate::Added,
        };
        if let Some(reused) = kept.filter(|_| fate == Fate::Reused) {
            saved.add(reused);
        }
        steps.push(StepDiff {
            fate,
            number: kept.map(|_| numbers[position]),
            label: planned.label().to_owned(),
            moved: moved[position],
        });
    }
    let places = Place::all().zip(&repeated);
    let repeated_as = places.filter_map(|(place, number)| Some(((*number)?, place)));
    let repeated_as: HashMap<StepNo, Place> = repeated_as.collect();
    Ok(PlanDiff {
        base_revision: run.revision(),
        steps,
        stopped: running(&gone),
        effects: effects(run.number, &gone),
        dropped: gone
            .iter()
            .map(|(number, step)| dropped(*number, step, &repeated_as))
            .collect(),
        saved,
    })
}

/// The steps of the plan in force that are not among `numbers`.
fn gone<'a>(old: Option<&'a PlanState>, numbers: &[StepNo]) -> Vec<(StepNo, &'a Step)> {
    let kept: HashSet<_> = numbers.iter().collect();
    let current = old.into_iter().flat_map(PlanState::current);
    current
        .filter(|(number, _)| !kept.contains(number))
        .collect()
}

/// For each new step with the words of a step that is gone, the number of that; each counts once,
/// equal ones in order. What was skipped before it began is not looked for: the skip is lost.
fn repeated(
    plan: &Plan,
    numbers: &[StepNo],
    all: &[Step],
    gone: &[(StepNo, &Step)],
) -> Vec<Option<StepNo>> {
    let mut known: HashMap<IdentityText<'_>, Vec<StepNo>> = HashMap::new();
    let counts = |step: &Step| step.attempts > 0 || step.status == StepStatus::Pending;
    for (number, step) in gone.iter().rev().filter(|(_, step)| counts(step)) {
        known
            .entry(identity_text(&step.plan))
            .or_default()
            .push(*number);
    }
    let steps = plan.steps.iter().zip(numbers);
    let old = steps.map(|(step, &number)| {
        let is_new = number.find_in(all).is_none();
        is_new
            .then(|| known.get_mut(&identity_text(step))?.pop())
            .flatten()
    });
    old.collect()
}

fn fate_of_kept(step: &Step) -> Fate {
    match &step.status {
        StepStatus::Running(_) => Fate::Continues,
        StepStatus::Pending => Fate::Waiting,
        StepStatus::Skipped { .. } => Fate::Skipped,
        // A failed one is never kept.
        StepStatus::Completed { .. } | StepStatus::Failed { .. } => Fate::Reused,
    }
}

/// Which kept steps have another order now: all but a longest row of them that has the old order.
/// What comes back from an earlier plan has no old order, and has not moved.
fn moved(numbers: &[StepNo], all: &[Step]) -> Vec<bool> {
    let place_of = |number: &StepNo| number.find_in(all)?.place;
    let places: Vec<Option<Place>> = numbers.iter().map(place_of).collect();
    let mut moved: Vec<bool> = places.iter().map(Option::is_some).collect();
    // Position of the last step of the best row of each length, and who comes before whom.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; numbers.len()];
    for position in 0..places.len() {
        if places[position].is_none() {
            continue;
        }
        let length = ends.partition_point(|&end| places[end] < places[position]);
        before[position] = length.checked_sub(1).map(|shorter| ends[shorter]);
        ends.truncate(ends.len().max(length));
        match ends.get_mut(length) {
            Some(end) => *end = position,
            None => ends.push(position),
        }
    }
    let mut here = ends.last().copied();
    while let Some(position) = here {
        moved[position] = false;
        here = before[position];
    }
    moved
}

fn running(gone: &[(StepNo, &Step)]) -> Vec<StepNo> {
    let running = gone.iter().filter(|(_, step)| step.running().is_some());
    running.map(|(number, _)| *number).collect()
}

/// Calls of a running step that are on their way count as calls of unknown outcome: that is what
/// they are once it is stopped.
fn effects(run: u32, gone: &[(StepNo, &Step)]) -> Vec<EffectfulCall> {
    let mut effects = Vec::new();
    for &(step, state) in gone {
        effects.extend(state.effects.iter().cloned());
        let Some(running) = state.running() else {
            continue;
        };
        let attempt = running.number;
        let calls = running.last_calls(AttemptRef { run, step, attempt });
        let on_their_way = calls.filter(|(name, call)| {
            let is_intended = matches!(call.status, CallStatus::Intended { .. });
            let is_known = || state.effects.iter().any(|known| known.call == *name);
            call.effect == Effect::Effectful && is_intended && !is_known()
        });
        effects.extend(on_their_way.map(|(name, call)| EffectfulCall {
            call: name,
            tool: call.call.name.clone(),
            is_done: false,
            origin: call.origin.clone(),
        }));
    }
    effects
}

fn dropped(number: StepNo, step: &Step, repeated_as: &HashMap<StepNo, Place>) -> Dropped {
    Dropped {
        number,
        label: step.plan.label().to_owned(),
        status: step.status.phase(),
        repeated_as: repeated_as.get(&number).copied(),
    }
}

impl Saved {
    fn add(&mut self, step: &Step) {
        self.steps += 1;
        self.usage.add(&step.usage);
        self.tool_turns = self.tool_turns.saturating_add(step.tool_turns);
        if let (Some(began), Some(ended)) = (step.started, step.ended) {
            let took = ended.at.saturating_sub(began.at);
            self.duration_ms = self.duration_ms.saturating_add(took);
        }
    }
}
