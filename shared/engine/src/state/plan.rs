//! The plan of a run, with the states of its steps.

use super::{Attempt, SubGoal};
use crate::event::CallRef;
use crate::failure::Failure;
use crate::key::StepKey;
use crate::message::Usage;
use crate::plan::{Order, PlanStep};
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

/// A step with its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// As planned; it depends on positions among all steps of the run.
    pub plan: PlanStep,
    /// Its place in the plan in force, from 0; none once a revision dropped it.
    pub place: Option<u32>,
    /// Says whether a result still counts. It covers the effective dependencies, so it changes when a
    /// step before it is skipped; from the start of an attempt it stays.
    pub key: StepKey,
    /// Positions of the steps whose plan names it.
    pub dependents: Vec<u32>,
    /// Dependencies that are not met, see [`Step::is_met`].
    pub unmet: u32,
    /// What it is doing, or how it ended.
    pub status: StepStatus,
    /// Attempts begun.
    pub attempts: u32,
    /// The model's notes, for itself and for the steps that depend on it, oldest first.
    pub notes: Vec<Note>,
    /// The sub-goals of its last attempt, once that has ended.
    pub ended_sub_goals: Vec<SubGoal>,
    /// What its model calls used up.
    pub usage: Usage,
    /// Tool turns of all its attempts.
    pub tool_turns: u32,
    /// The run's tick and the time at which it began.
    pub started: Option<Moment>,
    /// The run's tick and the time at which it ended.
    pub ended: Option<Moment>,
    /// Its calls with side effects that have a result, or whose outcome nobody knows.
    pub effects: Vec<EffectfulCall>,
}

/// A note of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The run's tick at which it was written.
    pub tick: u64,
    /// In the model's words.
    pub text: String,
}

/// A call with side effects that was carried out, or may have been.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectfulCall {
    /// Which call.
    pub call: CallRef,
    /// Name of the tool.
    pub tool: String,
    /// It has a result that tells of no failure.
    pub is_done: bool,
    /// As [`Call::origin`](super::Call::origin).
    pub origin: Option<String>,
}

/// A point in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Orders moments of one run.
    pub tick: u64,
    /// Milliseconds since 1970.
    pub at: u64,
}

/// What a step is doing, or how it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum StepStatus {
    /// Not begun.
    Pending,
    /// An attempt is under way.
    Running(Box<Attempt>),
    /// Ended well.
    Completed {
        /// The model's last text. Empty for a tool step: its output is its call's result.
        response: String,
        /// What later steps see.
        summary: String,
    },
    /// Ended badly.
    Failed {
        /// Why.
        failure: Failure,
    },
    /// Will not be done.
    Skipped {
        /// Why.
        reason: String,
        /// Somebody wished to go on without it; otherwise its run was cancelled, or a revision
        /// dropped it.
        is_wish: bool,
    },
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

impl Step {
    /// A step that has not begun.
    pub(crate) fn new(plan: PlanStep, key: StepKey, place: u32) -> Self {
        Self {
            plan,
            place: Some(place),
            key,
            dependents: Vec::new(),
            unmet: 0,
            status: StepStatus::Pending,
            attempts: 0,
            notes: Vec::new(),
            ended_sub_goals: Vec::new(),
            usage: Usage::default(),
            tool_turns: 0,
            started: None,
            ended: None,
            effects: Vec::new(),
        }
    }

    /// Nothing will become of it any more.
    pub fn has_ended(&self) -> bool {
        !matches!(self.status, StepStatus::Pending | StepStatus::Running(_))
    }

    /// Its notes, a line or more for each.
    pub fn notes(&self) -> String {
        let notes = self.notes.iter().map(|note| note.text.as_str());
        notes.collect::<Vec<_>>().join("\n")
    }

    /// The parts that the model split it into.
    pub fn sub_goals(&self) -> &[SubGoal] {
        match self.running() {
            Some(attempt) => &attempt.sub_goals,
            None => &self.ended_sub_goals,
        }
    }

    /// The attempt under way.
    pub fn running(&self) -> Option<&Attempt> {
        match &self.status {
            StepStatus::Running(attempt) => Some(attempt),
            _ => None,
        }
    }

    /// It ended well, or was skipped for whatever reason.
    pub fn is_done(&self) -> bool {
        matches!(
            self.status,
            StepStatus::Completed { .. } | StepStatus::Skipped { .. }
        )
    }
}

/// The notes of some steps of a run in the order in which they were written.
pub fn in_journal_order<'a>(steps: impl Iterator<Item = &'a Step>) -> Vec<&'a str> {
    let mut notes: Vec<&Note> = steps.flat_map(|step| &step.notes).collect();
    notes.sort_by_key(|note| note.tick);
    notes.into_iter().map(|note| note.text.as_str()).collect()
}
