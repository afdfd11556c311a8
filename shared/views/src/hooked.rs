//! What hooks changed, as an event with their answers has it.
//!
//! A held reply or result counts as hooks leave it. A view that shows one notes where, and puts there what [`replaced`]
//! returns.

use cairn_engine::event::{AttemptRef, CallRef, HooksAnswered};
use cairn_engine::hooks::{Mutation, Point, VerdictKind};
use cairn_engine::session::HookedResult;

/// What stands in place of something that an event before it held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replaced<'a> {
    /// The text of a reply. Its calls stay.
    Reply {
        /// The attempt that it belongs to.
        attempt: AttemptRef,
        /// The tool turn that it began.
        tool_turn: u32,
        /// The text; may be empty.
        text: &'a str,
    },
    /// The result of a call.
    Result {
        /// The call.
        call: CallRef,
        /// What the model gets.
        result: HookedResult<'a>,
    },
}

/// What hooks put in place of a held reply or result. None if it stays as it is, and for answers about anything else. A
/// reply that a hook blocked stays, and its turn or attempt fails.
pub fn replaced(answered: &HooksAnswered) -> Option<Replaced<'_>> {
    let gate = answered.gate;
    let outcome = answered.outcomes.first()?;
    match (gate.point, outcome.verdict, &outcome.mutation) {
        (Point::PostRequest, VerdictKind::Mutate, Some(Mutation::Text(text))) => {
            Some(Replaced::Reply {
                attempt: gate.attempt,
                tool_turn: gate.turn,
                text,
            })
        }
        (Point::PostToolCall, ..) => Some(Replaced::Result {
            call: gate.call_at(gate.index),
            result: HookedResult::of(outcome)?,
        }),
        _ => None,
    }
}

/// The calls that are sent with other arguments than the model wrote, each with those.
pub fn sent(answered: &HooksAnswered) -> impl Iterator<Item = (CallRef, &str)> {
    let gate = answered.gate;
    let outcomes = answered.outcomes.iter();
    let outcomes = outcomes.filter(move |_| gate.point == Point::PreToolCall);
    outcomes.filter_map(move |outcome| Some((gate.call_at(outcome.index), outcome.sent()?)))
}
