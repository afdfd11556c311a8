//! The calls of one tool turn: which may be sent, which have ended. No I/O.

use crate::convert;
use crate::tools::Call;
use cairn_engine::event::{AttemptRef, CallRef, Effect};
use cairn_engine::message::{Message, ToolCall};
use cairn_proto::executor::{Acknowledgement, CallResult, PermittedCall};
use cairn_rpc::RpcError;

/// The reason of a result that says for certain that nothing was done.
pub(crate) const NOT_SENT: &str = "NotSent";

/// What the model is told of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The text.
    pub(crate) output: String,
    /// The text tells of a failure.
    pub(crate) is_error: bool,
    /// Nothing was done, so the owner may have the call sent again.
    pub(crate) not_sent: bool,
}

impl Answer {
    /// The answer that a result holds.
    pub(crate) fn new(output: String, is_error: bool, reason: &str) -> Self {
        Self {
            output,
            is_error,
            not_sent: reason == NOT_SENT,
        }
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
    /// For the owner to permit or to answer.
    Waiting,
    /// Sent; an answer will come.
    Running,
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

    /// Names the call at a position.
    pub(crate) fn call_ref(&self, index: usize) -> CallRef {
        CallRef {
            attempt: self.attempt,
            tool_turn: self.number,
            index: u32::try_from(index).unwrap_or(u32::MAX),
        }
    }

    /// A call is sent without a permit, because it is pure.
    pub(crate) fn start(&mut self, index: usize) {
        self.slots[index].state = State::Running;
    }

    /// A call has got its answer. Returns whether it still waited for one: the owner may have
    /// answered it in the meantime, and the owner's word holds.
    pub(crate) fn answer(&mut self, index: usize, answer: Answer) -> bool {
        let slot = &mut self.slots[index];
        let waited = !matches!(slot.state, State::Answered(_));
        if waited {
            slot.state = State::Answered(answer);
        }
        waited
    }

    /// Takes in what an acknowledgement says of this turn's calls, and returns those to be sent.
    ///
    /// A call that ended as not sent may be permitted anew. A permit for one that was sent
    /// already changes nothing.
    pub(crate) fn acknowledge(&mut self, ack: Acknowledgement) -> Result<Vec<Call>, RpcError> {
        for result in ack.results {
            self.take_result(result)?;
        }
        self.permit(ack.permitted_calls)
    }

    /// Takes in permits, and returns the calls to be sent.
    pub(crate) fn permit(&mut self, permitted: Vec<PermittedCall>) -> Result<Vec<Call>, RpcError> {
        let mut calls = Vec::with_capacity(permitted.len());
        for permit in permitted {
            let index = self.index_of(permit.call.as_ref(), "permitted_calls")?;
            let slot = &mut self.slots[index];
            let may_start = match &slot.state {
                State::Waiting => true,
                State::Running => false,
                State::Answered(answer) => answer.not_sent,
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

    /// The first call that was neither sent nor answered.
    pub(crate) fn first_waiting(&self) -> Option<CallRef> {
        let waiting = |slot: &Slot| matches!(slot.state, State::Waiting);
        let index = self.slots.iter().position(waiting)?;
        Some(self.call_ref(index))
    }

    /// The results for the conversation, in the order in which the calls were asked for.
    pub(crate) fn into_results(self) -> impl Iterator<Item = Message> {
        self.slots.into_iter().filter_map(|slot| match slot.state {
            State::Answered(answer) => {
                Some(Message::tool(slot.id, answer.output, answer.is_error))
            }
            State::Waiting | State::Running => None,
        })
    }

    fn take_result(&mut self, result: CallResult) -> Result<(), RpcError> {
        let index = self.index_of(result.call.as_ref(), "results")?;
        let answer = Answer::new(result.output, result.is_error, &result.reason);
        self.slots[index].state = State::Answered(answer);
        Ok(())
    }

    fn index_of(
        &self,
        call: Option<&cairn_proto::event::CallRef>,
        field: &str,
    ) -> Result<usize, RpcError> {
        let call = convert::call_ref(call.ok_or_else(|| RpcError::missing(format!("{field}.call")))?)?;
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
            return Err(RpcError::invalid(format!("{field}.call"), problem)
                .allowed("the calls of the reply that is acknowledged"));
        }
        Ok(index)
    }
}
