//! What an attempt waits for.

use super::{Attempt, Call, CallStatus};
use crate::event::{AttemptRef, CallRef, Effect};

impl Attempt {
    /// Calls with their names, oldest first.
    pub fn calls(&self, attempt: AttemptRef) -> impl Iterator<Item = (CallRef, &Call)> {
        self.turns
            .iter()
            .zip(0..)
            .flat_map(move |(turn, tool_turn)| {
                turn.calls.iter().zip(0..).map(move |(call, index)| {
                    let name = CallRef {
                        attempt,
                        tool_turn,
                        index,
                    };
                    (name, call)
                })
            })
    }

    /// The calls of the last tool turn with their names; those before it have ended.
    pub fn last_calls(&self, attempt: AttemptRef) -> impl Iterator<Item = (CallRef, &Call)> {
        let tool_turn = (self.turns.len() as u32).saturating_sub(1);
        let calls = self.turns.last().into_iter().flat_map(|turn| &turn.calls);
        calls.zip(0..).map(move |(call, index)| {
            let name = CallRef {
                attempt,
                tool_turn,
                index,
            };
            (name, call)
        })
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

    /// A person has to say something about a call: what became of it, whether it may be made, or
    /// what the model wants to know. Nothing of the attempt goes on meanwhile, and nobody keeps a
    /// slot for it.
    pub fn waits_for_person(&self) -> bool {
        let mut calls = self.turns.last().into_iter().flat_map(|turn| &turn.calls);
        calls.any(|call| {
            matches!(
                call.status,
                CallStatus::InDoubt { .. } | CallStatus::Asking { .. }
            )
        })
    }
}

impl Call {
    /// It has a result.
    pub fn is_finished(&self) -> bool {
        matches!(self.status, CallStatus::Finished { .. })
    }
}
