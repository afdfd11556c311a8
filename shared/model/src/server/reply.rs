//! From a draft to the reply.

use super::Provider;
use super::draft::{CallDraft, Draft, PartDraft};
use super::extra::{CALL_FIELDS, Extra, MESSAGE_FIELDS};
use crate::clean::Cleaner;
use crate::tokens::{estimate_request, estimate_tokens};
use crate::{ChatReply, ChatRequest, FinishReason, ModelError, ModelInfo};
use cairn_engine::message::{Message, Opaque, Part, Role, ToolCall, Usage};
use serde::de::IgnoredAny;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};

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
        let messages = request.messages.iter();
        let calls = messages.flat_map(|message| message.calls());
        Self {
            round: replies.count(),
            call_ids: calls.map(|call| call.id.clone()).collect(),
            tokens: estimate_request(request),
        }
    }
}

impl Draft {
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
        if self.finish == Some(FinishReason::Length) {
            self.drop_cut_calls();
        }
        self.redact(&provider.cleaner);
        let finish = self.finish_reason();
        let message = Message {
            role: Role::Assistant,
            parts: parts(self.parts, self.extra, asked, &provider.info)?,
        };
        // No question has no tokens: servers that count nothing say 0.
        let input = self.usage.input.filter(|count| *count > 0);
        let is_empty = message.parts.is_empty();
        let output = self.usage.output.filter(|count| *count > 0 || is_empty);
        let estimated = || estimate_tokens(std::slice::from_ref(&message));
        let mut usage = Usage {
            input_tokens: input.unwrap_or(asked.tokens),
            cached_input_tokens: self.usage.cached,
            cache_write_tokens: self.usage.cache_write,
            output_tokens: output.unwrap_or_else(estimated),
            reasoning_tokens: self.usage.reasoning,
            model_calls: 1,
            ..Usage::default()
        };
        provider.info.price(&mut usage);
        let model = self.model.filter(|model| !model.is_empty());
        Ok(ChatReply {
            message,
            usage,
            finish,
            model: model.map_or_else(
                || provider.info.name.clone(),
                |model| provider.cleaner.clean(&model),
            ),
        })
    }

    /// Drops the calls of a reply that was cut at its length if their arguments are incomplete: they
    /// could do something else than the model meant.
    fn drop_cut_calls(&mut self) {
        self.parts.retain(|part| match part {
            PartDraft::Call(call) => serde_json::from_str::<IgnoredAny>(&call.arguments).is_ok(),
            PartDraft::Text(_) | PartDraft::Opaque(_) => true,
        });
    }

    fn redact(&mut self, cleaner: &Cleaner) {
        self.extra.redact(cleaner);
        let text = cleaner.redact(self.text());
        for part in &mut self.parts {
            match part {
                PartDraft::Text(text) => redact(cleaner, text),
                PartDraft::Call(call) => {
                    for text in [&mut call.id, &mut call.name, &mut call.arguments] {
                        redact(cleaner, text);
                    }
                    call.extra.redact(cleaner);
                }
                PartDraft::Opaque(opaque) => {
                    redact(cleaner, &mut opaque.kind);
                    cleaner.redact_json(&mut opaque.json);
                }
            }
        }
        // A secret that reaches over two parts: then the text is one part.
        if self.text() != text {
            let mut text = Some(text);
            self.parts.retain_mut(|part| match part {
                PartDraft::Text(part) => text.take().map(|text| *part = text).is_some(),
                PartDraft::Call(_) | PartDraft::Opaque(_) => true,
            });
        }
    }

    fn finish_reason(&self) -> FinishReason {
        let has_calls = self.calls().next().is_some();
        match self.finish.unwrap_or(FinishReason::Other) {
            _ if self.refused => FinishReason::Refusal,
            // Some servers say "stop" beside calls, and some announce calls that never come.
            FinishReason::Stop | FinishReason::Other if has_calls => FinishReason::ToolCalls,
            FinishReason::ToolCalls if !has_calls => FinishReason::Other,
            said => said,
        }
    }
}

fn redact(cleaner: &Cleaner, text: &mut String) {
    *text = cleaner.redact(std::mem::take(text));
}

/// The parts of the reply. Every call gets an id that no other call of the conversation has: a
/// missing or repeated one is replaced by its position.
fn parts(
    drafts: Vec<PartDraft>,
    extra: Extra,
    asked: &Asked,
    info: &ModelInfo,
) -> Result<Vec<Part>, ModelError> {
    let opaque = |kind: &str, json: &Value| {
        Part::Opaque(Opaque {
            provider: info.provider.clone(),
            model: info.name.clone(),
            kind: kind.to_owned(),
            json: json.to_string(),
        })
    };
    let mut used = asked.call_ids.clone();
    let mut parts = Vec::with_capacity(drafts.len());
    let mut at = 0;
    for draft in drafts {
        match draft {
            PartDraft::Text(text) => parts.push(Part::Text(text)),
            PartDraft::Call(mut call) => {
                let extra = std::mem::take(&mut call.extra);
                parts.push(Part::Call(named(call, at, asked, &mut used)?));
                parts.extend(extra.into_json().map(|json| opaque(CALL_FIELDS, &json)));
                at += 1;
            }
            PartDraft::Opaque(block) if block.open.is_none() => {
                parts.push(opaque(&block.kind, &block.json));
            }
            PartDraft::Opaque(_) => {}
        }
    }
    parts.extend(extra.into_json().map(|json| opaque(MESSAGE_FIELDS, &json)));
    Ok(parts)
}

fn named(
    draft: CallDraft,
    at: usize,
    asked: &Asked,
    used: &mut HashSet<String>,
) -> Result<ToolCall, ModelError> {
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
    Ok(ToolCall {
        id,
        name: draft.name,
        arguments: draft.arguments,
    })
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
