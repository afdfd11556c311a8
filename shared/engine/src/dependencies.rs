//! What a step depends on: the rule for skipped steps, in one place.
//!
//! A skipped step hands its dependencies on. The *effective dependencies* of a step are the steps
//! that its plan names for it; in place of a skipped one stand the effective dependencies of that
//! one. Everything that a plan's order decides follows them:
//!
//! - **Keys** cover the keys of the effective dependencies (`keys_of`), and with them what another
//!   plan keeps ([`crate::revise`]) and what its diff says.
//! - **Readiness.** A step is met once it is completed, or skipped by a decision, and all that it
//!   depends on is met ([`Step::is_met`]). A pending step is ready once all that it depends on is met,
//!   so it never begins after a failed step, however many skipped ones lie between.
//! - **What a step may see**, summaries and notes, is what the completed steps among its effective
//!   dependencies, theirs and so on, left behind (`seen_by`). A skipped step leaves nothing.
//!
//! Readiness and sight need no list of the effective dependencies: both pass through all steps before,
//! so they pass through skipped ones.

use crate::key::{KeySet, StepKey};
use crate::plan::PlanStep;
use crate::session::{Place, PlanState, Slot, Step, StepStatus};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

/// A step of a plan with the places of the steps that the plan names as its dependencies.
pub(crate) struct Named<'a, At = Place> {
    step: &'a PlanStep<At>,
    depends_on: Vec<Place>,
}

impl<'a> Named<'a> {
    /// A step whose dependencies are places already.
    pub(crate) fn of(step: &'a PlanStep) -> Self {
        Self {
            step,
            depends_on: step.depends_on.clone(),
        }
    }
}

/// The effective dependencies of a step.
#[derive(Clone)]
struct Effective {
    places: Rc<[Place]>,
    keys: KeySet,
}

/// The keys of a plan's steps, in its order. `visit` gets each step's place and key, a step after all
/// that it depends on and otherwise in the order of the plan; it returns the key that counts, and
/// whether the step is skipped.
///
/// Time is proportional to the steps and their effective dependencies. Many steps that depend on one
/// skipped step alone share its dependencies.
pub(crate) fn keys_of<At>(
    steps: &[Named<'_, At>],
    mut visit: impl FnMut(Place, StepKey) -> (StepKey, bool),
) -> Vec<StepKey> {
    let mut keys: Vec<Option<StepKey>> = vec![None; steps.len()];
    let mut handed_on: Vec<Option<Effective>> = vec![None; steps.len()];
    let mut met_by = vec![None; steps.len()];
    for place in in_order(steps) {
        let Named { step, depends_on } = &steps[place.index()];
        let alone = match depends_on[..] {
            [only] => handed_on[only.index()].clone(),
            _ => None,
        };
        let effective = alone.unwrap_or_else(|| {
            let places = effective(place, depends_on, &handed_on, &mut met_by);
            let known = places.iter().filter_map(|before| keys[before.index()]);
            let known = KeySet::of(known.collect());
            Effective {
                places: places.into(),
                keys: known,
            }
        });
        let key = StepKey::of(step, effective.keys);
        let (key, is_skipped) = visit(place, key);
        keys[place.index()] = Some(key);
        if is_skipped {
            handed_on[place.index()] = Some(effective);
        }
    }
    keys.into_iter().flatten().collect()
}

/// Each effective dependency once. `met_by` says which step met a place last.
fn effective(
    place: Place,
    depends_on: &[Place],
    handed_on: &[Option<Effective>],
    met_by: &mut [Option<Place>],
) -> Vec<Place> {
    let mut places = Vec::with_capacity(depends_on.len());
    let mut add = |before: Place| {
        if met_by[before.index()].replace(place) != Some(place) {
            places.push(before);
        }
    };
    for &before in depends_on {
        match &handed_on[before.index()] {
            Some(handed_on) => handed_on.places.iter().copied().for_each(&mut add),
            None => add(before),
        }
    }
    places
}

/// The places of all steps, each after those that it depends on, and otherwise in order.
fn in_order<At>(steps: &[Named<'_, At>]) -> Vec<Place> {
    let mut dependents = vec![Vec::new(); steps.len()];
    for (step, place) in steps.iter().zip(Place::all()) {
        for before in &step.depends_on {
            dependents[before.index()].push(place);
        }
    }
    let mut waits: Vec<usize> = steps.iter().map(|step| step.depends_on.len()).collect();
    let is_free = |place: &Place| waits[place.index()] == 0;
    let mut free: BinaryHeap<_> = Place::all()
        .take(steps.len())
        .filter(is_free)
        .map(Reverse)
        .collect();
    let mut order = Vec::with_capacity(steps.len());
    while let Some(Reverse(place)) = free.pop() {
        order.push(place);
        for &dependent in &dependents[place.index()] {
            waits[dependent.index()] -= 1;
            if waits[dependent.index()] == 0 {
                free.push(Reverse(dependent));
            }
        }
    }
    order
}

impl PlanState {
    /// Gives the steps of the plan in force the keys that follow from the steps that are skipped now.
    /// A step that has begun and was not skipped keeps the key that covers what it saw.
    pub(crate) fn rekey(&mut self) {
        let here: Vec<&Step> = self.current().map(|(_, step)| step).collect();
        let keys = keys_of(&self.named(), |place, key| {
            match &here[place.index()].status {
                StepStatus::Pending => (key, false),
                StepStatus::Skipped { .. } => (key, here[place.index()].is_handing_on()),
                _ => (here[place.index()].key, false),
            }
        });
        for (slot, key) in self.slots.iter().zip(keys) {
            if let Some(step) = self.steps.get_mut(slot.index()) {
                step.key = key;
            }
        }
    }

    /// Counts anew what each step waits for.
    pub(crate) fn count_unmet(&mut self) {
        let order = in_order(&self.named());
        for place in order {
            let slot = self.slots[place.index()].index();
            let depends_on = self.steps[slot].plan.depends_on.iter();
            let unmet = depends_on.filter(|before| !self.steps[before.index()].is_met());
            self.steps[slot].unmet = unmet.count() as u32;
        }
    }

    fn named(&self) -> Vec<Named<'_, Slot>> {
        let place_of = |slot: &Slot| self.steps.get(slot.index())?.place;
        let named = self.current().map(|(_, step)| Named {
            step: &step.plan,
            depends_on: step.plan.depends_on.iter().filter_map(place_of).collect(),
        });
        named.collect()
    }
}

impl Step {
    /// It was skipped by a decision: the steps after it depend on what it depends on. A step that its
    /// run or another plan ended is not in force where anything could begin after it.
    pub(crate) fn is_handing_on(&self) -> bool {
        matches!(
            self.status,
            StepStatus::Skipped {
                by_person: true,
                ..
            }
        )
    }

    /// Nothing that depends on it has to wait: it is completed, or skipped by a decision, and all that
    /// it depends on is met. A plan may reuse a result beside an equal step that has not ended, so a
    /// completed step, too, counts only with all before it.
    pub fn is_met(&self) -> bool {
        let is_completed = matches!(self.status, StepStatus::Completed { .. });
        (is_completed || self.is_handing_on()) && self.unmet == 0
    }
}

/// The completed steps that a step depends on, directly or not, by their places: all that it may see.
pub(crate) fn seen_by<'a>(plan: &'a PlanState, step: &'a Step) -> BTreeMap<Place, &'a Step> {
    let mut found = BTreeMap::new();
    let mut stack = vec![step];
    while let Some(here) = stack.pop() {
        for dependency in &here.plan.depends_on {
            if let Some(before) = plan.steps.get(dependency.index())
                && let Some(place) = before.place
                && found.insert(place, before).is_none()
            {
                stack.push(before);
            }
        }
    }
    found.retain(|_, step| matches!(step.status, StepStatus::Completed { .. }));
    found
}
