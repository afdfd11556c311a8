//! A reply while it is put together, whole or from pieces.

use super::{Provider, wire};
use crate::tokens::{estimate_request, estimate_tokens};
use crate::{ChatReply, ChatRequest, FinishReason, ModelError};
use cairn_engine::message::{Message, Role, ToolCall, Usage};
use serde_json::Value;
use std::collections::HashSet;

/// More calls than this in one reply are an attack or a model gone astray.
const MAX_CALLS: usize = 128;

/// What a reply needs to know of its request.
#[derive(Debug)]
pub(super) struct Asked {
    round: usize,
    call_ids: HashSet<String>,
    tokens: u64,
}

impl Asked {
    pub(super) fn of(request: &ChatRequest) -> Self {
        let replies = request.messages.iter();
        let replies = replies.filter(|message| message.role == Role::Assistant);
        let calls = request
            .messages
            .iter()
            .flat_map(|message| &message.tool_calls);
        Self {
            round: replies.count(),
            call_ids: calls.map(|call| call.id.clone()).collect(),
            tokens: estimate_request(request),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Draft {
    text: String,
    refused: bool,
    calls: Vec<CallDraft>,
    finish: Option<String>,
    usage: Option<Value>,
    model: Option<String>,
}

#[derive(Debug, Default)]
struct CallDraft {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

impl Draft {
    pub(super) fn of_whole(mut reply: wire::Reply) -> Result<Self, ModelError> {
        let choice = reply.choices.iter_mut().flatten().next();
        let Some(delta) = choice.and_then(|choice| choice.message.as_mut()) else {
            return Err(ModelError::BadAnswer {
                message: "it has no choice with a message".to_owned(),
            });
        };
        // Calls of a whole answer carry no index; each is a call of its own.
        for (at, call) in (0..).zip(delta.tool_calls.iter_mut().flatten()) {
            call.index = Some(at);
        }
        let mut draft = Self::default();
        draft.add(reply)?;
        Ok(draft)
    }

    /// Adds a piece; returns the text that it brought.
    pub(super) fn add(&mut self, piece: wire::Reply) -> Result<String, ModelError> {
        self.usage = piece.usage.or(self.usage.take());
        self.model = self.model.take().or(piece.model);
        let Some(choice) = piece.choices.into_iter().flatten().next() else {
            return Ok(String::new());
        };
        let reason = choice.finish_reason.filter(|reason| !reason.is_empty());
        self.finish = self.finish.take().or(reason);
        let delta = choice.delta.or(choice.message).unwrap_or_default();
        let mut text = delta
            .content
            .map(wire::Content::into_text)
            .unwrap_or_default();
        if let Some(refusal) = delta.refusal {
            self.refused = true;
            text.push_str(&refusal);
        }
        self.text.push_str(&text);
        for call in delta.tool_calls.into_iter().flatten() {
            self.add_call(call)?;
        }
        Ok(text)
    }

    /// The server said why the reply ended: nothing of it is missing.
    pub(super) fn is_whole(&self) -> bool {
        self.finish.is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.calls.is_empty()
    }

    fn add_call(&mut self, piece: wire::CallPiece) -> Result<(), ModelError> {
        let id = piece.id.unwrap_or_default();
        let function = piece.function.unwrap_or_default();
        let name = function.name.unwrap_or_default();
        let at = match self.open_call(piece.index, &id, &name) {
            Some(at) => at,
            None if self.calls.len() < MAX_CALLS => {
                self.calls.push(CallDraft {
                    index: piece.index,
                    ..CallDraft::default()
                });
                self.calls.len() - 1
            }
            None => {
                return Err(ModelError::BadAnswer {
                    message: format!("it has more than {MAX_CALLS} tool calls"),
                });
            }
        };
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = id;
        }
        // Some servers repeat the name in every piece, some send it once, in the first.
        if call.name != name {
            call.name.push_str(&name);
        }
        match function.arguments {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => call.arguments.push_str(&text),
            Some(json) => call.arguments.push_str(&json.to_string()),
        }
        Ok(())
    }

    /// The call that a piece goes on with. Servers that number all calls 0 tell them apart by id;
    /// those that do not number them begin each with its name.
    fn open_call(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let goes_on = |call: &CallDraft| {
            let same_id = id.is_empty() || call.id.is_empty() || call.id == id;
            match index {
                Some(_) => call.index == index && same_id,
                None if id.is_empty() => name.is_empty(),
                None => call.id == id,
            }
        };
        self.calls.iter().rposition(goes_on)
    }

    pub(super) fn finish(
        self,
        asked: &Asked,
        provider: &Provider,
    ) -> Result<ChatReply, ModelError> {
        let finish = self.finish_reason();
        let reported = self.usage.as_ref().map(tokens_of);
        let calls = name_calls(self.calls, asked)?;
        let message = Message::assistant(self.text, calls);
        let (input, output) = reported.unwrap_or_default();
        let input_tokens = input.unwrap_or(asked.tokens);
        let output_tokens =
            output.unwrap_or_else(|| estimate_tokens(std::slice::from_ref(&message)));
        let model = self.model.filter(|model| !model.is_empty());
        Ok(ChatReply {
            message,
            usage: Usage {
                input_tokens,
                output_tokens,
                cost_nano_usd: provider.info.cost_nano_usd(input_tokens, output_tokens),
                model_calls: 1,
            },
            finish,
            model: model.map_or_else(
                || provider.info.name.clone(),
                |model| provider.cleaner.clean(&model),
            ),
        })
    }

    fn finish_reason(&self) -> FinishReason {
        let said = match self.finish.as_deref() {
            Some("stop") => FinishReason::Stop,
            Some("tool_calls" | "function_call") => FinishReason::ToolCalls,
            Some("length") => FinishReason::Length,
            Some("content_filter") => FinishReason::ContentFilter,
            _ => FinishReason::Other,
        };
        match said {
            _ if self.refused => FinishReason::ContentFilter,
            // Some servers say "stop" beside calls.
            FinishReason::Stop | FinishReason::Other if !self.calls.is_empty() => {
                FinishReason::ToolCalls
            }
            said => said,
        }
    }
}

fn tokens_of(usage: &Value) -> (Option<u64>, Option<u64>) {
    let number = |name| usage.get(name).and_then(Value::as_u64);
    (number("prompt_tokens"), number("completion_tokens"))
}

/// Gives every call an id that no other call of the conversation has: a missing or repeated one is
/// replaced by its position.
fn name_calls(drafts: Vec<CallDraft>, asked: &Asked) -> Result<Vec<ToolCall>, ModelError> {
    let mut used = asked.call_ids.clone();
    let mut calls = Vec::with_capacity(drafts.len());
    for (at, draft) in drafts.into_iter().enumerate() {
        if draft.name.is_empty() {
            return Err(ModelError::BadAnswer {
                message: format!("tool call {at} has no name"),
            });
        }
        let position = (0..).map(|again| format!("call_{}_{at}_{again}", asked.round));
        let mut candidates = std::iter::once(draft.id).chain(position);
        let free = candidates.find(|id| !id.is_empty() && !used.contains(id));
        let id = free.unwrap_or_default();
        used.insert(id.clone());
        calls.push(ToolCall {
            id,
            name: draft.name,
            arguments: draft.arguments,
        });
    }
    Ok(calls)
}
