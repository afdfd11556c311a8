//! What a turn leaves that ends before it completes, until its context takes it in.

use super::{Attempt, Call, Run, Session, StepNo, StepStatus, Turn};
use crate::command::Keep;
use crate::conversation::Entry;
use crate::event::{AttemptRef, CallRef, OpenCall};
use crate::message::{Message, Role};
use crate::transitions::IllegalTransition;
use serde::{Deserialize, Serialize};

/// What the attempt of a turn has that no reply has seen. It follows the last reply in the context.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rest {
    /// The calls of the last reply.
    pub calls: Vec<(CallRef, Call)>,
    /// What a person said since.
    pub unread: Vec<Message>,
}

impl Rest {
    fn of(name: AttemptRef, attempt: &Attempt) -> Self {
        let calls = attempt.last_calls(name);
        Self {
            calls: calls.map(|(name, call)| (name, call.clone())).collect(),
            unread: attempt.unread().cloned().collect(),
        }
    }

    /// The results of the calls, and then what a person said. `results` are those of the calls that had none, or one
    /// that hooks were still asked about, in the order of the calls.
    pub(super) fn messages(self, results: &[OpenCall]) -> Result<Vec<Message>, IllegalTransition> {
        let mut given = results.iter();
        let mut messages = Vec::with_capacity(self.calls.len() + self.unread.len());
        for (name, call) in &self.calls {
            let result = match call.result() {
                Some(result) => result,
                None => {
                    let missing = || IllegalTransition::missing(format!("the result of {name:?}"));
                    let result = given.next().filter(|result| result.call == *name);
                    let output = &result.ok_or_else(missing)?.output;
                    Message::tool(&call.call.id, output, true)
                }
            };
            messages.push(result);
        }
        if let Some(other) = given.next() {
            let what = format!("call {:?} without a result", other.call);
            return Err(IllegalTransition::missing(what));
        }
        messages.extend(self.unread);
        Ok(messages)
    }
}

impl Turn {
    /// Its context keeps its work also if it does not complete.
    pub fn keeps_work(&self) -> bool {
        self.options.keep == Some(Keep::Complete)
    }
}

impl Run {
    /// The step of a turn ends: what no reply has seen is left to the end of the turn. Calls that a turn without
    /// tool turns returns stay without results.
    pub(super) fn leave_rest(&mut self, number: StepNo, end: &StepStatus) {
        let is_completed = matches!(end, StepStatus::Completed { .. });
        let returns_calls = is_completed && self.limits.max_tool_turns == 0;
        if returns_calls || !self.turn.as_ref().is_some_and(Turn::keeps_work) {
            return;
        }
        let ended = self
            .running_attempts()
            .find(|(name, ..)| name.step == number);
        let rest = ended.map(|(name, _, attempt)| Box::new(Rest::of(name, attempt)));
        if let Some(turn) = &mut self.turn {
            turn.rest = rest;
        }
    }
}

impl Session {
    /// The number of the last message that the context of a turn keeps if the turn does not complete; none if it
    /// keeps nothing. A turn without any reply keeps nothing, and a reply that says nothing is none.
    pub(crate) fn kept_of_turn(&self, run: u32) -> Option<u32> {
        let turn = self.run(run)?.turn.as_ref()?;
        let context = self.contexts.get(&turn.context)?;
        let behind = context.conversation.behind.as_slice();
        if !turn.keeps_work() || !behind.iter().any(has_reply) {
            return None;
        }
        let last = behind.iter().rfind(|entry| !is_idle(&entry.message))?;
        Some(last.number)
    }
}

/// It is a reply, or stands for some.
fn has_reply(entry: &Entry) -> bool {
    let is_reply = entry.message.role == Role::Assistant && !is_idle(&entry.message);
    is_reply || entry.compaction.is_some()
}

/// A reply without text and calls, such as that of a question which failed.
fn is_idle(message: &Message) -> bool {
    let is_silent = || message.calls().next().is_none() && message.said().trim().is_empty();
    message.role == Role::Assistant && is_silent()
}
