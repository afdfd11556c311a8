//! A step, and the events about it and its attempts.

use super::{
    Apply, Attempt, Call, Envelope, Mode, Place, Placing, Run, Session, Slot, StepNo, SubGoal,
};
use crate::conversation::Conversation;
use crate::event::{
    AttemptContinued, AttemptRef, CallRef, Effect, RequestedCall, StepCompleted, StepFailed,
    StepSkipped, StepStarted,
};
use crate::failure::Failure;
use crate::key::StepKey;
use crate::message::{Message, ToolCall, Usage};
use crate::plan::PlanStep;
use crate::transitions::{Applied, IllegalTransition, StepPhase, step_may};
use serde::{Deserialize, Serialize};

/// A step with its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// As planned.
    pub plan: PlanStep<Slot>,
    /// Its place in the plan in force; none once a revision dropped it.
    pub place: Option<Place>,
    /// Says whether a result still counts. It covers the effective dependencies, so it changes when a
    /// step before it is skipped; from the start of an attempt it stays.
    pub key: StepKey,
    /// The steps whose plan names it.
    pub dependents: Vec<Slot>,
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
    /// Its calls with side effects that have a result, or whose outcome is not known.
    pub effects: Vec<EffectfulCall>,
    /// Who carries out its last attempt, or did.
    pub placing: Placing,
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
        /// A person skipped it; otherwise its run was cancelled, or a revision dropped it.
        by_person: bool,
    },
}

impl Step {
    /// A step that has not begun.
    pub(crate) fn new(plan: PlanStep<Slot>, key: StepKey, place: Place) -> Self {
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
            placing: Placing::default(),
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

    /// It ended well, or was skipped for any reason.
    pub fn is_done(&self) -> bool {
        matches!(
            self.status,
            StepStatus::Completed { .. } | StepStatus::Skipped { .. }
        )
    }
}

impl Apply for StepStarted {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        let mode = session.mode;
        let (number, run) = (self.attempt.step, session.run_mut(self.attempt.run)?);
        let refuse = |from: &str| {
            let what = format_args!("step {number}");
            IllegalTransition::not_allowed(what, from, StepPhase::Running)
        };
        if run.status.is_terminal() {
            return Err(refuse("the run has ended"));
        }
        run.ticks += 1;
        let tick = run.ticks;
        let calls = u32::from(self.tool_effect.is_some());
        run.spent.calls = run.spent.calls.saturating_add(calls);
        let plan = run.plan_mut()?;
        let place = plan.step_mut(number)?.place;
        if !place.is_some_and(|place| plan.ready.remove(&place)) {
            return Err(refuse("not ready"));
        }
        plan.running.extend(number.slot());
        let moment = Moment {
            tick,
            at: envelope.at,
        };
        plan.step_mut(number)?.begin(self, moment, mode)?;
        session.begin_turn(self.attempt, tick)?;
        session.open_turn(self.attempt)
    }
}

impl Apply for AttemptContinued {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        session.attempt_mut(self.attempt).map(|_| ())
    }
}

impl Apply for StepCompleted {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        session.attempt_mut(self.attempt)?;
        session.drop_summary(self.attempt)?;
        session.note_turn_end(self.attempt)?;
        let end = StepStatus::Completed {
            response: self.response.clone(),
            summary: self.summary.clone(),
        };
        let run = session.run_mut(self.attempt.run)?;
        run.end_step(self.attempt.step, end, envelope.at)
    }
}

impl Apply for StepFailed {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        session.attempt_mut(self.attempt)?;
        session.drop_summary(self.attempt)?;
        session.note_error(self.attempt)?;
        let failure = &self.failure;
        let end = StepStatus::Failed {
            failure: failure.clone(),
        };
        let run = session.run_mut(self.attempt.run)?;
        run.end_step(self.attempt.step, end, envelope.at)?;
        run.first_failure.get_or_insert_with(|| failure.clone());
        Ok(())
    }
}

impl Apply for StepSkipped {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        session.drop_summary(AttemptRef {
            run: self.run,
            step: self.step,
            ..AttemptRef::default()
        })?;
        let end = StepStatus::Skipped {
            reason: self.reason.clone(),
            by_person: self.by_person,
        };
        let run = session.run_mut(self.run)?;
        run.end_step(self.step, end, envelope.at)
    }
}

impl Run {
    fn end_step(&mut self, number: StepNo, end: StepStatus, at: u64) -> Applied {
        self.leave_rest(number, &end);
        self.ticks += 1;
        let tick = self.ticks;
        let plan = self.plan_mut()?;
        let step = plan.step_mut(number)?;
        if let StepStatus::Running(attempt) = &mut step.status {
            step.ended_sub_goals = std::mem::take(&mut attempt.sub_goals);
        }
        step.enter(number, end)?;
        step.ended = Some(Moment { tick, at });
        let attempts = step.attempts;
        let is_handing_on = step.is_handing_on();
        let found = step.place.zip(number.slot());
        let (place, slot) = found.ok_or_else(|| {
            IllegalTransition::missing(format_args!("step {number} in the plan in force"))
        })?;
        plan.running.remove(&slot);
        plan.ready.remove(&place);
        plan.open -= 1;
        plan.release(slot)?;
        if is_handing_on {
            plan.rekey();
        }
        self.note_step_end(number, attempts);
        Ok(())
    }
}

impl Step {
    fn begin(&mut self, event: &StepStarted, moment: Moment, mode: Mode) -> Applied {
        let name = event.attempt;
        self.attempts += 1;
        if self.attempts != name.attempt {
            let what = format_args!("attempt {} of step {}", name.attempt, name.step);
            return Err(IllegalTransition::not_allowed(
                what,
                "not the next",
                "begun",
            ));
        }
        if self.plan.tool.is_some() != event.tool_effect.is_some() {
            return Err(IllegalTransition::Malformed {
                what: format!("step {} begins with a tool, or without its tool", name.step),
            });
        }
        self.started.get_or_insert(moment);
        self.notes.clear();
        self.placing = Placing::default();
        let call = event
            .tool_effect
            .map(|effect| self.tool_call(effect, event, mode));
        let context = Some(&event.context).filter(|context| !context.is_empty());
        let begun = Attempt {
            number: name.attempt,
            conversation: Conversation::beginning_with(context.into_iter().map(Message::user)),
            tool_turns: u32::from(call.is_some()),
            calls: call.into_iter().collect(),
            ..Attempt::default()
        };
        self.enter(name.step, StepStatus::Running(Box::new(begun)))
    }

    /// The one call of a tool step, for which no model is asked.
    fn tool_call(&self, effect: Effect, event: &StepStarted, mode: Mode) -> Call {
        let tool = self.plan.tool.clone();
        let (name, arguments) = tool
            .map(|tool| (tool.name, tool.arguments))
            .unwrap_or_default();
        let id = "call-0".to_owned();
        let call = ToolCall {
            id,
            name,
            arguments,
        };
        let asked = RequestedCall {
            call,
            effect,
            tool_digest: event.tool_digest.clone(),
            previews: event.tool_previews,
            hooked: event.tool_hooked,
        };
        Call::requested(asked, mode)
    }

    fn enter(&mut self, number: StepNo, to: StepStatus) -> Applied {
        let (from, into) = (self.status.phase(), to.phase());
        if !step_may(from, into) {
            let what = format_args!("step {number}");
            return Err(IllegalTransition::not_allowed(what, from, into));
        }
        self.status = to;
        Ok(())
    }
}

/// The notes of some steps of a run in the order in which they were written.
pub fn in_journal_order<'a>(steps: impl Iterator<Item = &'a Step>) -> Vec<&'a str> {
    let mut notes: Vec<&Note> = steps.flat_map(|step| &step.notes).collect();
    notes.sort_by_key(|note| note.tick);
    notes.into_iter().map(|note| note.text.as_str()).collect()
}
