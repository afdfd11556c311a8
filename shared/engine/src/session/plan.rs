//! The plan of a run, with the states of its steps.

use super::{Apply, End, Envelope, Place, Run, RunStatus, Session, Slot, Step, StepNo, StepStatus};
use crate::event::PlanApplied;
use crate::key::{StepKey, step_keys};
use crate::plan::{Order, Plan, PlanStep};
use crate::revise::may_be_kept;
use crate::transitions::{Applied, IllegalTransition};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A plan with the states of its steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanState {
    /// From 1.
    pub revision: u32,
    /// How the steps depend on each other.
    pub order: Order,
    /// All steps that the run has had, by [`Slot`]. A step that a revision dropped stays, with what
    /// came of it.
    pub steps: Vec<Step>,
    /// The plan in force, by [`Place`].
    pub slots: Vec<Slot>,
    /// Places of pending steps whose dependencies are all met, see [`Step::is_met`].
    pub ready: BTreeSet<Place>,
    /// Running steps.
    pub running: BTreeSet<Slot>,
    /// Steps of the plan in force that have not ended.
    pub open: u32,
}

impl PlanState {
    /// The steps of the plan in force with their numbers, in its order.
    pub fn current(&self) -> impl Iterator<Item = (StepNo, &Step)> + Clone {
        let slots = self.slots.iter();
        slots.filter_map(|slot| Some((slot.number(), self.steps.get(slot.index())?)))
    }

    /// The step of that number, if it is in the plan in force.
    pub fn step(&self, number: StepNo) -> Option<&Step> {
        let step = number.find_in(&self.steps)?;
        step.place.is_some().then_some(step)
    }
}

impl Apply for PlanApplied {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let run = session.run_mut(self.run)?;
        if self.revision != run.revision() + 1 {
            let what = format_args!("revision {} of run {}", self.revision, self.run);
            return Err(IllegalTransition::not_allowed(what, run.revision(), "next"));
        }
        if run.status == RunStatus::Planning || run.status.is_terminal() {
            run.enter(RunStatus::Running)?;
        }
        let before = run.plan.take();
        run.plan = Some(PlanState::in_force(before, self)?);
        run.revisions.renew(self);
        run.first_failure = None;
        run.ending = None;
        run.hooks.drop_error();
        run.hooks.drop_plan(None);
        if let Some(plan) = &run.plan {
            let is_ready = |step: StepNo| {
                let place = plan.step(step).and_then(|step| step.place);
                place.is_some_and(|place| plan.ready.contains(&place))
            };
            run.hooks.keep_starts(is_ready);
        }
        run.end = End::default();
        session.spend(self.run, &self.usage)
    }
}

impl Run {
    /// Number of the plan in force; 0 without one.
    pub fn revision(&self) -> u32 {
        self.plan.as_ref().map_or(0, |plan| plan.revision)
    }
}

impl PlanState {
    /// The plan put into force, with the steps that it shares with the one before.
    pub(super) fn in_force(
        old: Option<Self>,
        applied: &PlanApplied,
    ) -> Result<Self, IllegalTransition> {
        let plan = Plan::new(&applied.plan).map_err(malformed)?;
        let mut steps = old.map(|old| old.steps).unwrap_or_default();
        // Asked before the places go: what was dropped before it began is not kept.
        let may_be_kept: Vec<bool> = steps.iter().map(may_be_kept).collect();
        for step in &mut steps {
            step.place = None;
            step.dependents.clear();
            step.unmet = 0;
        }
        let slots = slots_of(&applied.numbers, plan.steps.len())?;
        let keys = step_keys(&plan.steps, |place| {
            let kept = steps.get(slots[place.index()].index());
            kept.is_some_and(Step::is_handing_on)
        });
        steps.reserve_exact(plan.steps.len().saturating_sub(steps.len()));
        for ((planned, key), place) in plan.steps.into_iter().zip(keys).zip(Place::all()) {
            let slot = slots[place.index()];
            let may_be_kept = may_be_kept.get(slot.index()).is_some_and(|&may| may);
            let kept = steps.get(slot.index());
            let is_taken =
                kept.is_some_and(|kept| !may_be_kept || kept.key != key || kept.place.is_some());
            if is_taken || slot.index() > steps.len() {
                let number = slot.number();
                return Err(malformed(format!(
                    "step {number} is neither kept as it is nor the next new one"
                )));
            }
            put(&mut steps, &slots, place, planned, key);
        }
        let running = Slot::all().zip(&steps);
        let running = running.filter(|(_, step)| step.running().is_some());
        let running: BTreeSet<Slot> = running.map(|(slot, _)| slot).collect();
        if running.iter().any(|it| steps[it.index()].place.is_none()) {
            return Err(malformed("a step that is running is not in the plan"));
        }
        join(&mut steps, &slots);
        let mut plan = Self {
            revision: applied.revision,
            order: plan.order,
            steps,
            slots,
            ready: BTreeSet::new(),
            running,
            open: 0,
        };
        plan.count_unmet();
        let is_ready = |step: &Step| step.status == StepStatus::Pending && step.unmet == 0;
        let here = || plan.current().map(|(_, step)| step);
        let ready = Place::all().zip(here()).filter(|(_, step)| is_ready(step));
        let ready = ready.map(|(place, _)| place).collect();
        let open = here().filter(|step| !step.has_ended()).count() as u32;
        Ok(Self {
            ready,
            open,
            ..plan
        })
    }
}

/// The slots of the plan's steps; the numbers of a first plan need not be written.
fn slots_of(numbers: &[StepNo], steps: usize) -> Result<Vec<Slot>, IllegalTransition> {
    if numbers.is_empty() {
        return Ok(Slot::all().take(steps).collect());
    }
    if numbers.len() != steps {
        return Err(malformed("the plan has another number of steps"));
    }
    let slots: Option<Vec<Slot>> = numbers.iter().map(|number| number.slot()).collect();
    slots.ok_or_else(|| malformed("a step has the number 0"))
}

/// Keeps the step that has this key, or takes in a new one.
fn put(steps: &mut Vec<Step>, slots: &[Slot], place: Place, planned: PlanStep, key: StepKey) {
    let planned = planned.in_table(slots);
    match steps.get_mut(slots[place.index()].index()) {
        Some(kept) => {
            kept.plan = planned;
            kept.place = Some(place);
        }
        None => steps.push(Step::new(planned, key, place)),
    }
}

/// Which steps wait for which.
fn join(steps: &mut [Step], slots: &[Slot]) {
    for &slot in slots {
        let dependencies = steps[slot.index()].plan.depends_on.clone();
        for dependency in dependencies {
            steps[dependency.index()].dependents.push(slot);
        }
    }
}

fn malformed(what: impl std::fmt::Display) -> IllegalTransition {
    IllegalTransition::Malformed {
        what: what.to_string(),
    }
}

impl PlanState {
    /// Makes ready what a step that has ended held back, also through steps that ended before it.
    pub(super) fn release(&mut self, slot: Slot) -> Applied {
        let mut ended = vec![slot];
        while let Some(slot) = ended.pop() {
            let step = self.step_mut(slot.number())?;
            if !step.is_met() {
                continue;
            }
            for slot in step.dependents.clone() {
                let dependent = self.step_mut(slot.number())?;
                dependent.unmet -= 1;
                if dependent.unmet > 0 {
                    continue;
                }
                match dependent.status {
                    StepStatus::Pending => {
                        let place = dependent.place;
                        self.ready.extend(place);
                    }
                    _ => ended.push(slot),
                }
            }
        }
        Ok(())
    }

    pub(super) fn step_mut(&mut self, number: StepNo) -> Result<&mut Step, IllegalTransition> {
        let slot = number.slot();
        slot.and_then(|slot| self.steps.get_mut(slot.index()))
            .ok_or_else(|| IllegalTransition::missing(format_args!("step {number}")))
    }
}
