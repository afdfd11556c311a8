//! The executor's replica of a conversation. No I/O; it invents nothing: the owner's changes and the
//! replies and results that are reported keep it equal to what the owner folds from the journal.

use crate::error::invalid;
use crate::turn::Answer;
use cairn_engine::conversation::{CompactedMessages, CompactionKind, Conversation, Entry, Op};
use cairn_engine::event::CallRef;
use cairn_engine::message::{Message, Usage};
use cairn_proto::convert::{repeated, required};
use cairn_proto::executor::{AttemptStart, CallResult};
use cairn_rpc::RpcError;
use std::collections::VecDeque;
use std::sync::Arc;

/// A conversation with a model, as far as it has come.
#[derive(Debug)]
pub(crate) struct Replica {
    conversation: Conversation,
    /// Changes that no request was built with.
    waiting: VecDeque<Op>,
    ops_through: u64,
    tool_turns: u32,
}

/// A call of the last reply, by its id, with its result if it has one.
pub(crate) type LastCall = (String, Option<Answer>);

impl Replica {
    /// Takes what an attempt begins with. The calls of the last reply are returned with their results,
    /// which are still to be [added](Self::add_results).
    pub(crate) fn new(start: &mut AttemptStart) -> Result<(Self, Vec<LastCall>), RpcError> {
        let conversation = start.conversation.take();
        let conversation: Conversation =
            required("start.conversation", conversation).map_err(|error| invalid(&error))?;
        let ops = std::mem::take(&mut start.ops);
        let waiting: Vec<Op> = repeated("start.ops", ops).map_err(|error| invalid(&error))?;
        let mut calls = Vec::new();
        if start.tool_turns > 0 {
            let reply = conversation.behind.last();
            let reply = reply.ok_or_else(|| {
                RpcError::invalid("start.conversation", "does not end with the last reply")
            })?;
            let asked = reply.message.calls();
            calls.extend(asked.map(|call| (call.id.clone(), None)));
        }
        for result in std::mem::take(&mut start.results) {
            let index = last_call(start, &result)?;
            let (_, known) = calls.get_mut(index).ok_or_else(|| {
                RpcError::invalid("start.results", "names no call of the last reply")
            })?;
            *known = Some(Answer::of(&result));
        }
        let replica = Self {
            conversation,
            waiting: waiting.into(),
            ops_through: start.ops_through,
            tool_turns: start.tool_turns,
        };
        Ok((replica, calls))
    }

    /// The owner has changed the conversation.
    pub(crate) fn take_ops(&mut self, ops: impl IntoIterator<Item = Op>) {
        self.waiting.extend(ops);
    }

    /// What the provider has counted for the last request, whose reply is not added yet. As the owner's fold
    /// of the reply does.
    pub(crate) fn measure(&mut self, model: &str, usage: &Usage, estimated_tokens: u64) {
        self.conversation.measure(model, usage, estimated_tokens);
    }

    /// The model has replied.
    pub(crate) fn add_reply(&mut self, reply: Message) {
        self.tool_turns += 1;
        self.conversation.append(reply);
    }

    /// All calls of the last reply have their results, here in the order of the calls.
    pub(crate) fn add_results(&mut self, results: impl IntoIterator<Item = Message>) {
        for result in results {
            self.conversation.append(result);
        }
    }

    /// The messages of the next request, and how many of them never change. All changes so far are in
    /// them.
    pub(crate) fn messages(&mut self) -> Result<(Vec<Arc<Message>>, usize), RpcError> {
        for op in self.waiting.drain(..) {
            let applied = self.conversation.apply(op);
            applied.map_err(|error| RpcError::invalid("ops", error.to_string()))?;
            self.ops_through += 1;
        }
        Ok((self.conversation.messages(), self.conversation.stable()))
    }

    /// The conversation with all changes that a request was built with.
    pub(crate) fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// The messages of a question for a summary, the prompt last, and how many of them never change. All that
    /// stands before the messages to sum up is in it, so that a provider's cache has its beginning. `is_short`
    /// leaves out what stands between the compressed messages and these.
    pub(crate) fn for_summary(
        &self,
        messages: &CompactedMessages,
        prompt: &str,
        is_short: bool,
    ) -> Result<(Vec<Arc<Message>>, usize), RpcError> {
        let named = self
            .conversation
            .replaced_by(CompactionKind::Summary, messages);
        named.map_err(|error| RpcError::invalid("start.summary.messages", error.to_string()))?;
        let mut said = self.conversation.clone();
        said.scratch.clear();
        if messages.behind_mark {
            said.behind
                .truncate(place_after(&said.behind, messages.through));
            if is_short {
                let first = place_after(&said.behind, messages.after);
                said.behind.drain(..first);
                said.incremental.clear();
            }
        } else {
            said.behind.clear();
            said.incremental
                .truncate(place_after(&said.incremental, messages.through));
        }
        let (mut asked, stable) = (said.messages(), said.stable());
        asked.push(Arc::new(Message::user(prompt)));
        Ok((asked, stable))
    }

    /// The last change that the next request is built with.
    pub(crate) fn ops_through(&self) -> u64 {
        self.ops_through
    }

    /// Replies so far, which is also the number of the next tool turn.
    pub(crate) fn tool_turns(&self) -> u32 {
        self.tool_turns
    }
}

/// Behind the message of that number; at the beginning for 0.
fn place_after(entries: &[Entry], number: u32) -> usize {
    let place = entries.iter().position(|entry| entry.number == number);
    place.map_or(0, |place| place + 1)
}

fn last_call(start: &AttemptStart, result: &CallResult) -> Result<usize, RpcError> {
    let call: CallRef =
        required("start.results.call", result.call).map_err(|error| invalid(&error))?;
    if call.tool_turn.checked_add(1) != Some(start.tool_turns) {
        let problem = format!("names tool turn {}", call.tool_turn);
        let last = format!("the last, {}", start.tool_turns.saturating_sub(1));
        return Err(RpcError::invalid("start.results.call", problem).allowed(last));
    }
    Ok(call.index as usize)
}
