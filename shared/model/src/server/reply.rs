//! A reply while it is put together, whole or from pieces.

use super::Provider;
use crate::clean::Cleaner;
use crate::prices::Tokens;
use crate::tokens::{estimate_request, estimate_tokens};
use crate::{ChatReply, ChatRequest, FinishReason, ModelError};
use cairn_engine::message::{Message, Role, ToolCall, Usage};
use serde::de::IgnoredAny;
use std::collections::{BTreeMap, HashSet};

/// More calls than this in one reply are an attack or a model gone astray.
const MAX_CALLS: usize = 128;

/// What a reply needs to know of its request.
#[derive(Debug)]
pub(crate) struct Asked {
    round: usize,
    call_ids: HashSet<String>,
    tokens: u64,
}

impl Asked {
    pub(crate) fn of(request: &ChatRequest) -> Self {
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
pub(crate) struct Draft {
    pub(crate) text: String,
    /// The model said no in a field of its own.
    pub(crate) refused: bool,
    pub(crate) calls: Vec<CallDraft>,
    /// Why it ended, once the server has said so.
    pub(crate) finish: Option<FinishReason>,
    pub(crate) usage: Reported,
    pub(crate) model: Option<String>,
    /// Blocks that have begun and not ended, and whose kind is not known here: nothing of them is a
    /// part of the reply. Only some protocols have blocks.
    pub(crate) other_blocks: Vec<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct CallDraft {
    /// What the server numbers it with.
    pub(crate) index: Option<u64>,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// Tokens as far as the server reported them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reported {
    /// All that were sent, those of the cache included.
    pub(crate) input: Option<u64>,
    pub(crate) cached: u64,
    pub(crate) cache_write: u64,
    pub(crate) output: Option<u64>,
}

impl Draft {
    /// The server said why the reply ended: nothing of it is missing.
    pub(crate) fn is_whole(&self) -> bool {
        self.finish.is_some()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.calls.is_empty()
    }

    /// Bytes that are gathered.
    pub(crate) fn bytes(&self) -> usize {
        let calls = self.calls.iter();
        let calls = calls.map(|call| call.id.len() + call.name.len() + call.arguments.len());
        self.text.len() + calls.sum::<usize>()
    }

    /// Begins a block whose kind is not known here.
    pub(crate) fn begin_other_block(&mut self, index: u64) -> Result<(), ModelError> {
        if self.other_blocks.len() >= MAX_CALLS {
            return Err(ModelError::BadAnswer {
                message: format!("it has more than {MAX_CALLS} unknown blocks at a time"),
            });
        }
        self.other_blocks.push(index);
        Ok(())
    }

    /// Begins a call.
    pub(crate) fn new_call(&mut self, index: Option<u64>) -> Result<&mut CallDraft, ModelError> {
        if self.calls.len() >= MAX_CALLS {
            return Err(ModelError::BadAnswer {
                message: format!("it has more than {MAX_CALLS} tool calls"),
            });
        }
        self.calls.push(CallDraft {
            index,
            ..CallDraft::default()
        });
        let last = self.calls.len() - 1;
        Ok(&mut self.calls[last])
    }

    /// The reply, without the provider's secrets: what is in a reply is kept and shown.
    ///
    /// # Errors
    /// [`ModelError::TooLarge`]; [`ModelError::BadAnswer`] if a call has no name.
    pub(crate) fn finish(
        mut self,
        asked: &Asked,
        provider: &Provider,
    ) -> Result<ChatReply, ModelError> {
        provider.check_size(self.bytes())?;
        self.redact(&provider.cleaner);
        let finish = self.finish_reason();
        let calls = name_calls(self.calls, asked)?;
        let message = Message::assistant(self.text, calls);
        let is_empty = message.text.is_empty() && message.tool_calls.is_empty();
        // No question has no tokens: servers that count nothing say 0.
        let input = self.usage.input.filter(|count| *count > 0);
        let output = self.usage.output.filter(|count| *count > 0 || is_empty);
        let estimated = || estimate_tokens(std::slice::from_ref(&message));
        let tokens = Tokens {
            input: input.unwrap_or(asked.tokens),
            cached_input: self.usage.cached,
            cache_write: self.usage.cache_write,
            output: output.unwrap_or_else(estimated),
        };
        let model = self.model.filter(|model| !model.is_empty());
        Ok(ChatReply {
            message,
            usage: Usage {
                input_tokens: tokens.input,
                output_tokens: tokens.output,
                cost_nano_usd: provider.info.cost_nano_usd(&tokens),
                model_calls: 1,
            },
            finish,
            model: model.map_or_else(
                || provider.info.name.clone(),
                |model| provider.cleaner.clean(&model),
            ),
        })
    }

    fn redact(&mut self, cleaner: &Cleaner) {
        let calls = self.calls.iter_mut();
        let texts = calls.flat_map(|call| [&mut call.id, &mut call.name, &mut call.arguments]);
        for text in texts.chain([&mut self.text]) {
            *text = cleaner.redact(std::mem::take(text));
        }
    }

    fn finish_reason(&self) -> FinishReason {
        match self.finish.unwrap_or(FinishReason::Other) {
            _ if self.refused => FinishReason::ContentFilter,
            // Some servers say "stop" beside calls, and some announce calls that never come.
            FinishReason::Stop | FinishReason::Other if !self.calls.is_empty() => {
                FinishReason::ToolCalls
            }
            FinishReason::ToolCalls if self.calls.is_empty() => FinishReason::Other,
            said => said,
        }
    }
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

/// The arguments if they are a JSON object, else an object that shows the model what it wrote.
pub(crate) fn valid_arguments(arguments: &str) -> String {
    if arguments.trim().is_empty() {
        return "{}".to_owned();
    }
    match serde_json::from_str::<BTreeMap<String, IgnoredAny>>(arguments) {
        Ok(_) => arguments.to_owned(),
        Err(_) => serde_json::json!({ "invalid_json": arguments }).to_string(),
    }
}
