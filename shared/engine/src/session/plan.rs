//! The plan of a run, with the states of its steps.

use super::{Apply, End, Envelope, Run, RunStatus, Session, Step, StepStatus};
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
    /// All steps that the run has had; a step's number is its position here plus 1. A step that a
    /// revision dropped stays, with what came of it.
    pub steps: Vec<Step>,
    /// The plan in force: positions in `steps`, in its order.
    pub places: Vec<u32>,
    /// Places of pending steps whose dependencies are all met, see [`Step::is_met`].
    pub ready: BTreeSet<u32>,
    /// Positions of running steps.
    pub running: BTreeSet<u32>,
    /// Steps of the plan in force that have not ended.
    pub open: u32,
}

impl PlanState {
    /// The steps of the plan in force with their numbers, in its order.
    pub fn current(&self) -> impl Iterator<Item = (u32, &Step)> + Clone {
        let places = self.places.iter();
        places.filter_map(|&position| Some((position + 1, self.steps.get(position as usize)?)))
    }

    /// The step of that number, if it is in the plan in force.
    pub fn step(&self, number: u32) -> Option<&Step> {
        let step = self.steps.get((number as usize).checked_sub(1)?)?;
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
        run.spent.usage.add(&self.usage);
        run.revisions.renew(self);
        run.first_failure = None;
        run.refused_budget = None;
        run.end = End::default();
        Ok(())
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
    fn in_force(old: Option<Self>, applied: &PlanApplied) -> Result<Self, IllegalTransition> {
        let plan = Plan::new(&applied.plan).map_err(malformed)?;
        let mut steps = old.map(|old| old.steps).unwrap_or_default();
        // Asked before the places go: what was dropped before it began is not kept.
        let may_be_kept: Vec<bool> = steps.iter().map(may_be_kept).collect();
        for step in &mut steps {
            step.place = None;
            step.dependents.clear();
            step.unmet = 0;
        }
        let places = positions(&applied.numbers, plan.steps.len())?;
        let keys = step_keys(&plan.steps, |place| {
            let kept = steps.get(places[place] as usize);
            kept.is_some_and(Step::is_handing_on)
        });
        for ((planned, key), place) in plan.steps.into_iter().zip(keys).zip(0..) {
            let position = places[place as usize] as usize;
            let may_be_kept = may_be_kept.get(position).is_some_and(|&may| may);
            let kept = steps.get(position);
            let is_taken =
                kept.is_some_and(|kept| !may_be_kept || kept.key != key || kept.place.is_some());
            if is_taken || position > steps.len() {
                let number = position + 1;
                return Err(malformed(format!(
                    "step {number} is neither kept as it is nor the next new one"
                )));
            }
            put(&mut steps, &places, place, planned, key);
        }
        let running = |(_, step): &(u32, &Step)| step.running().is_some();
        let running: BTreeSet<u32> = (0..).zip(&steps).filter(running).map(|(i, _)| i).collect();
        if running.iter().any(|&i| steps[i as usize].place.is_none()) {
            return Err(malformed("a step that is running is not in the plan"));
        }
        join(&mut steps, &places);
        let mut plan = Self {
            revision: applied.revision,
            order: plan.order,
            steps,
            places,
            ready: BTreeSet::new(),
            running,
            open: 0,
        };
        plan.count_unmet();
        let is_ready = |step: &Step| step.status == StepStatus::Pending && step.unmet == 0;
        let here = || plan.current().map(|(_, step)| step);
        let ready = (0..).zip(here()).filter(|(_, step)| is_ready(step));
        let ready = ready.map(|(place, _)| place).collect();
        let open = here().filter(|step| !step.has_ended()).count() as u32;
        Ok(Self {
            ready,
            open,
            ..plan
        })
    }
}

/// The positions that the plan's steps have among all; those of a first plan need not be written.
fn positions(numbers: &[u32], steps: usize) -> Result<Vec<u32>, IllegalTransition> {
    if numbers.is_empty() {
        return Ok((0..steps as u32).collect());
    }
    if numbers.len() != steps {
        return Err(malformed("the plan has another number of steps"));
    }
    let position = |number: &u32| number.checked_sub(1);
    let positions: Option<Vec<u32>> = numbers.iter().map(position).collect();
    positions.ok_or_else(|| malformed("a step has the number 0"))
}

/// Keeps the step that has this key, or takes in a new one.
fn put(steps: &mut Vec<Step>, places: &[u32], place: u32, mut planned: PlanStep, key: StepKey) {
    let position = places[place as usize];
    let dependencies = planned.depends_on.iter();
    planned.depends_on = dependencies.map(|&at| places[at as usize]).collect();
    match steps.get_mut(position as usize) {
        Some(kept) => {
            kept.plan = planned;
            kept.place = Some(place);
        }
        None => steps.push(Step::new(planned, key, place)),
    }
}

/// Which steps wait for which.
fn join(steps: &mut [Step], places: &[u32]) {
    for &position in places {
        let dependencies = steps[position as usize].plan.depends_on.clone();
        for dependency in dependencies {
            steps[dependency as usize].dependents.push(position);
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
    pub(super) fn release(&mut self, position: u32) -> Applied {
        let mut ended = vec![position];
        while let Some(position) = ended.pop() {
            let step = self.step_mut(position + 1)?;
            if !step.is_met() {
                continue;
            }
            for position in step.dependents.clone() {
                let dependent = self.step_mut(position + 1)?;
                dependent.unmet -= 1;
                if dependent.unmet > 0 {
                    continue;
                }
                match dependent.status {
                    StepStatus::Pending => {
                        let place = dependent.place;
                        self.ready.extend(place);
                    }
                    _ => ended.push(position),
                }
            }
        }
        Ok(())
    }

    pub(super) fn step_mut(&mut self, number: u32) -> Result<&mut Step, IllegalTransition> {
        self.steps
            .get_mut(number.wrapping_sub(1) as usize)
            .ok_or_else(|| IllegalTransition::missing(format_args!("step {number}")))
    }
}
