//! One try at a step, and the events about its sub-goals and notes.

use super::{Apply, Call, CallStatus, Envelope, Note, Session};
use crate::event::{
    AttemptRef, CallRef, Effect, ScratchpadWritten, SubGoalAdded, SubGoalCompleted, SubGoalDropped,
    SubGoalFocused,
};
use crate::transitions::{Applied, IllegalTransition};
use serde::{Deserialize, Serialize};

/// One try at a step, as far as it is durable.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// From 1.
    pub number: u32,
    /// Its tool turns. A tool step has one, with one call.
    pub turns: Vec<Turn>,
    /// The parts that the model split its step into.
    pub sub_goals: Vec<SubGoal>,
    /// Position of the sub-goal in focus.
    pub focus: Option<u32>,
    /// The step context that it began with, if the plan was changed while it was under way.
    pub context: Option<String>,
}

/// One reply of the model with its calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The reply's text.
    pub text: String,
    /// The calls that it asked for.
    pub calls: Vec<Call>,
}

/// A part of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubGoal {
    /// In the model's words.
    pub text: String,
    /// The model's evaluation, once completed.
    pub summary: Option<String>,
    /// The model gave it up.
    pub is_dropped: bool,
}

impl SubGoal {
    /// It is neither completed nor dropped.
    pub fn is_open(&self) -> bool {
        self.summary.is_none() && !self.is_dropped
    }
}

impl Turn {
    fn calls(&self, attempt: AttemptRef, tool_turn: u32) -> impl Iterator<Item = (CallRef, &Call)> {
        self.calls.iter().zip(0..).map(move |(call, index)| {
            let name = CallRef {
                attempt,
                tool_turn,
                index,
            };
            (name, call)
        })
    }
}

impl Attempt {
    /// Calls with their names, oldest first.
    pub fn calls(&self, attempt: AttemptRef) -> impl Iterator<Item = (CallRef, &Call)> {
        let turns = self.turns.iter().zip(0..);
        turns.flat_map(move |(turn, tool_turn)| turn.calls(attempt, tool_turn))
    }

    /// The calls of the last tool turn with their names; those before it have ended.
    pub fn last_calls(&self, attempt: AttemptRef) -> impl Iterator<Item = (CallRef, &Call)> {
        let tool_turn = (self.turns.len() as u32).saturating_sub(1);
        let last = self.turns.last().into_iter();
        last.flat_map(move |turn| turn.calls(attempt, tool_turn))
    }

    /// It can do nothing that matters without asking the model again. Calls that may be made again
    /// at any time wait with it; a call with side effects, and the end of the step when it waits
    /// for other calls, do not.
    pub fn needs_turn(&self) -> bool {
        let mut calls = self.turns.last().into_iter().flat_map(|turn| &turn.calls);
        let matters = |call: &Call| matches!(call.effect, Effect::Effectful | Effect::State);
        !calls.any(|call| matters(call) && !call.is_finished())
    }

    /// A call with side effects may be on its way.
    pub fn has_intended_call(&self) -> bool {
        let mut calls = self.turns.last().into_iter().flat_map(|turn| &turn.calls);
        calls.any(|call| {
            call.effect == Effect::Effectful && matches!(call.status, CallStatus::Intended { .. })
        })
    }

    /// A call waits for a person's decision, approval or answer. The attempt does not continue before
    /// that, and no executor keeps a slot for it.
    pub fn waits_for_person(&self) -> bool {
        let mut calls = self.turns.last().into_iter().flat_map(|turn| &turn.calls);
        calls.any(|call| {
            matches!(
                call.status,
                CallStatus::InDoubt { .. } | CallStatus::Asking { .. }
            )
        })
    }

    fn open_sub_goal(&mut self, index: u32) -> Result<&mut SubGoal, IllegalTransition> {
        self.sub_goals
            .get_mut(index as usize)
            .filter(|goal| goal.is_open())
            .ok_or_else(|| IllegalTransition::missing(format_args!("open sub-goal {index}")))
    }
}

impl Apply for SubGoalAdded {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let attempt = session.attempt_mut(self.attempt)?;
        if attempt.sub_goals.len() != self.index as usize {
            let what = format_args!("sub-goal {}", self.index);
            return Err(IllegalTransition::missing(what));
        }
        attempt.sub_goals.push(SubGoal {
            text: self.text.clone(),
            summary: None,
            is_dropped: false,
        });
        Ok(())
    }
}

impl Apply for SubGoalFocused {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let attempt = session.attempt_mut(self.attempt)?;
        attempt.open_sub_goal(self.index)?;
        attempt.focus = Some(self.index);
        Ok(())
    }
}

impl Apply for SubGoalCompleted {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let attempt = session.attempt_mut(self.attempt)?;
        attempt.open_sub_goal(self.index)?.summary = Some(self.summary.clone());
        attempt.focus = attempt.focus.filter(|focus| *focus != self.index);
        Ok(())
    }
}

impl Apply for SubGoalDropped {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        let attempt = session.attempt_mut(self.attempt)?;
        attempt.open_sub_goal(self.index)?.is_dropped = true;
        attempt.focus = attempt.focus.filter(|focus| *focus != self.index);
        Ok(())
    }
}

impl Apply for ScratchpadWritten {
    fn apply(&self, session: &mut Session, _: Envelope<'_>) -> Applied {
        session.attempt_mut(self.attempt)?;
        let run = session.run_mut(self.attempt.run)?;
        run.ticks += 1;
        let tick = run.ticks;
        let notes = &mut session.step_mut(self.attempt)?.notes;
        if self.replaces {
            notes.clear();
        }
        if !(self.text.is_empty() && notes.is_empty()) {
            let text = self.text.clone();
            notes.push(Note { tick, text });
        }
        Ok(())
    }
}
