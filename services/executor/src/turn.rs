//! The calls of one tool turn: which may be sent, which have ended. No I/O.

use crate::error::invalid;
use crate::replica::LastCall;
use crate::tools::Call;
use cairn_engine::event::{AttemptRef, CallFinished, CallRef};
use cairn_engine::message::{Media, Message, ToolCall};
use cairn_proto::convert::required;
use cairn_proto::event;
use cairn_proto::executor::{Acknowledgement, CallResult, PermittedCall};
use cairn_rpc::RpcError;

/// What the model is told of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The text.
    pub(crate) output: String,
    /// The text tells of a failure.
    pub(crate) is_error: bool,
    /// It has not ended, so the owner may have the call sent: nothing was done, or its tool asks a person.
    pub(crate) is_open: bool,
    /// Pictures and files that it gets with the text. The owner says which.
    pub(crate) media: Vec<Media>,
}

impl Answer {
    /// The answer that a result holds.
    pub(crate) fn of(result: &CallResult) -> Self {
        Self {
            output: result.output.clone(),
            is_error: result.is_error,
            is_open: result.reason == CallFinished::NOT_SENT || result.question.is_some(),
            media: result
                .media
                .iter()
                .filter(|media| media.is_shown)
                .map(shown)
                .collect(),
        }
    }
}

fn shown(media: &event::CallMedia) -> Media {
    Media {
        mime: media.mime_type.clone(),
        data: media.data.clone(),
    }
}

/// The calls of one reply, or the one call of a tool step, until all have an answer.
#[derive(Debug)]
pub(crate) struct Turn {
    attempt: AttemptRef,
    number: u32,
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Slot {
    id: String,
    state: State,
}

#[derive(Debug)]
enum State {
    /// For the owner to permit, to answer or to hold.
    Waiting,
    /// The owner permits or answers it later.
    Held,
    /// Sent; an answer will come.
    Running,
    /// Its result is too long for the model or has media, or hooks are asked about it. The owner sends what the model
    /// gets.
    Reported,
    Answered(Answer),
}

impl Turn {
    /// A turn whose calls all wait for the owner.
    pub(crate) fn new(attempt: AttemptRef, number: u32, calls: &[ToolCall]) -> Self {
        let waiting = |call: &ToolCall| Slot {
            id: call.id.clone(),
            state: State::Waiting,
        };
        Self {
            attempt,
            number,
            slots: calls.iter().map(waiting).collect(),
        }
    }

    /// The turn of a tool step.
    pub(crate) fn of_tool_step(attempt: AttemptRef) -> Self {
        let slot = Slot {
            id: String::new(),
            state: State::Waiting,
        };
        Self {
            attempt,
            number: 0,
            slots: vec![slot],
        }
    }

    /// The turn of a reply of which some calls may have their results already.
    pub(crate) fn resumed(attempt: AttemptRef, number: u32, calls: Vec<LastCall>) -> Self {
        let slot = |(id, result): LastCall| Slot {
            id,
            state: match result {
                Some(answer) => State::Answered(answer),
                None => State::Waiting,
            },
        };
        Self {
            attempt,
            number,
            slots: calls.into_iter().map(slot).collect(),
        }
    }

    fn call_ref(&self, index: usize) -> CallRef {
        CallRef {
            attempt: self.attempt,
            tool_turn: self.number,
            index: u32::try_from(index).unwrap_or(u32::MAX),
        }
    }

    /// The call at a position is sent without a permit, because it is pure. Returns its name.
    pub(crate) fn start(&mut self, index: usize) -> CallRef {
        self.slots[index].state = State::Running;
        self.call_ref(index)
    }

    /// A call has got its answer. Returns whether it still waited for one: the owner may have
    /// answered it in the meantime, and the owner's word holds.
    pub(crate) fn answer(&mut self, call: CallRef, answer: Answer) -> bool {
        let slot = &mut self.slots[call.index as usize];
        let waited = !matches!(slot.state, State::Answered(_));
        if waited {
            slot.state = State::Answered(answer);
        }
        waited
    }

    /// A call has a result of which the owner says what the model gets. Returns whether it still waited for one.
    pub(crate) fn leave_to_owner(&mut self, call: CallRef) -> bool {
        let slot = &mut self.slots[call.index as usize];
        let waited = !matches!(slot.state, State::Answered(_));
        if waited {
            slot.state = State::Reported;
        }
        waited
    }

    /// Takes in what an acknowledgement says of this turn's calls, and returns those to be sent.
    ///
    /// A call that ended as not sent may be permitted anew. A permit for one that was sent
    /// already changes nothing.
    pub(crate) fn acknowledge(&mut self, ack: Acknowledgement) -> Result<Vec<Call>, RpcError> {
        for result in &ack.results {
            self.take_result(result)?;
        }
        self.hold(ack.held_calls)?;
        self.permit(ack.permitted_calls)
    }

    /// Marks calls that are not to be made now, also those that ended as not sent.
    pub(crate) fn hold(&mut self, held: Vec<event::CallRef>) -> Result<(), RpcError> {
        for call in held {
            let index = self.index_of(Some(call), "held_calls")?;
            let state = &mut self.slots[index].state;
            let may_be_held = match state {
                State::Waiting => true,
                State::Held | State::Running | State::Reported => false,
                State::Answered(answer) => answer.is_open,
            };
            if may_be_held {
                *state = State::Held;
            }
        }
        Ok(())
    }

    /// Takes in permits, and returns the calls to be sent.
    pub(crate) fn permit(&mut self, permitted: Vec<PermittedCall>) -> Result<Vec<Call>, RpcError> {
        let mut calls = Vec::with_capacity(permitted.len());
        for permit in permitted {
            let index = self.index_of(permit.call, "permitted_calls.call")?;
            let slot = &mut self.slots[index];
            let may_start = match &slot.state {
                State::Waiting | State::Held => true,
                State::Running | State::Reported => false,
                State::Answered(answer) => answer.is_open,
            };
            if may_start {
                slot.state = State::Running;
                calls.push(Call::permitted(self.call_ref(index), permit)?);
            }
        }
        Ok(calls)
    }

    /// Whether every call has its answer.
    pub(crate) fn is_answered(&self) -> bool {
        let answered = |slot: &Slot| matches!(slot.state, State::Answered(_));
        self.slots.iter().all(answered)
    }

    /// Fails if a call is neither sent, answered nor held although the owner has acknowledged
    /// everything: the turn would never end.
    pub(crate) fn refuse_waiting(&self) -> Result<(), RpcError> {
        let waiting = |slot: &Slot| matches!(slot.state, State::Waiting);
        match self.slots.iter().position(waiting) {
            Some(index) => {
                let problem = format!("does not say what becomes of call {index}");
                Err(RpcError::invalid("permitted_calls", problem)
                    .allowed("each call that is not sent: there, in results or in held_calls"))
            }
            None => Ok(()),
        }
    }

    /// The results for the conversation, in the order in which the calls were asked for.
    pub(crate) fn into_results(self) -> impl Iterator<Item = Message> {
        self.slots.into_iter().filter_map(|slot| match slot.state {
            State::Answered(answer) => {
                let result = Message::tool(slot.id, answer.output, answer.is_error);
                Some(result.with_media(answer.media))
            }
            State::Waiting | State::Held | State::Running | State::Reported => None,
        })
    }

    fn take_result(&mut self, result: &CallResult) -> Result<(), RpcError> {
        let index = self.index_of(result.call, "results.call")?;
        self.slots[index].state = State::Answered(Answer::of(result));
        Ok(())
    }

    fn index_of(&self, call: Option<event::CallRef>, field: &str) -> Result<usize, RpcError> {
        let call: CallRef = required(field, call).map_err(|error| invalid(&error))?;
        let index = usize::try_from(call.index).unwrap_or(usize::MAX);
        if call != self.call_ref(index) || index >= self.slots.len() {
            let problem = format!(
                "names call {} of tool turn {} in attempt {} at step {} of run {}",
                call.index,
                call.tool_turn,
                call.attempt.attempt,
                call.attempt.step,
                call.attempt.run
            );
            return Err(RpcError::invalid(field, problem)
                .allowed("the calls of the reply that is acknowledged"));
        }
        Ok(index)
    }
}

/// Gives an id to every call that has none of its own: results refer to calls by them, and not
/// every model's server sends them, or takes care that they differ.
pub(crate) fn give_ids(tool_turn: u32, calls: &mut [ToolCall]) {
    for index in 0..calls.len() {
        let (before, rest) = calls.split_at_mut(index);
        let call = &mut rest[0];
        let is_taken = |id: &str| id.is_empty() || before.iter().any(|other| other.id == id);
        if is_taken(&call.id) {
            call.id = format!("call_{tool_turn}_{index}");
        }
        while is_taken(&call.id) {
            call.id.push('_');
        }
    }
}
