//! Questions to models as they are traced, for all who ask them.
//!
//! Names and attributes are those of OpenTelemetry's conventions for generative AI; Cairn's own are
//! under `cairn.`. What is said to a model and by it is left out unless the caller wants it.

use crate::{ChatReply, ChatRequest, Model, ModelError};
use cairn_engine::message::{FinishReason, Message, Role};
use serde_json::json;
use std::borrow::Borrow;
use tracing::Span;
use tracing::field::Empty;

/// The target of what is for traces only: that of `cairn_rpc::trace`, which is below this library.
pub const TARGET: &str = "cairn::trace";

/// Most bytes of what is said that one span carries: many spans go in one message to a collector,
/// and wait in memory while it is away.
const MOST_CONTENT: usize = 16 * 1024;

/// One question to a model, retries included.
pub fn question(model: &dyn Model, request: &ChatRequest, with_content: bool) -> Span {
    let info = model.describe();
    let span = tracing::info_span!(
        target: TARGET,
        "chat",
        otel.name = format!("chat {}", info.name),
        otel.kind = "client",
        otel.status_code = Empty,
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = info.provider,
        gen_ai.request.model = info.name,
        gen_ai.response.model = Empty,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        cairn.cached_input_tokens = Empty,
        cairn.cache_write_tokens = Empty,
        cairn.reasoning_tokens = Empty,
        gen_ai.input.messages = Empty,
        gen_ai.output.messages = Empty,
        cairn.cost_nano_usd = Empty,
        error.type = Empty,
    );
    if with_content && !span.is_disabled() {
        span.record("gen_ai.input.messages", shown(&request.messages));
    }
    span
}

/// The hook point PreRequest, in the span of the question: `tool_turn` is the number of the request in its attempt,
/// from 0.
pub fn before_request(tool_turn: u32) {
    tracing::info!(target: TARGET, { cairn.tool_turn = tool_turn }, "PreRequest");
}

/// The hook point PostRequest: the model replied.
pub fn after_request(tool_turn: u32) {
    tracing::info!(target: TARGET, { cairn.tool_turn = tool_turn }, "PostRequest");
}

/// The hook point OnRetry of the question that is being asked. `attempt` counts from 1 how often it was asked.
pub fn retry(attempt: u32, error: &ModelError) {
    let reason = error.reason();
    tracing::info!(target: TARGET, attempt, reason, "OnRetry");
}

/// What came of a question.
pub fn answered(span: &Span, answer: &Result<ChatReply, ModelError>, with_content: bool) {
    if span.is_disabled() {
        return;
    }
    let reply = match answer {
        Ok(reply) => reply,
        Err(error) => {
            span.record("error.type", error.reason());
            span.record("otel.status_code", "ERROR");
            return;
        }
    };
    span.record("gen_ai.response.model", reply.model.as_str());
    span.record("gen_ai.response.finish_reasons", finish(reply.finish));
    let usage = &reply.usage;
    span.record("gen_ai.usage.input_tokens", usage.input_tokens);
    span.record("gen_ai.usage.output_tokens", usage.output_tokens);
    span.record("cairn.cached_input_tokens", usage.cached_input_tokens);
    span.record("cairn.cache_write_tokens", usage.cache_write_tokens);
    span.record("cairn.reasoning_tokens", usage.reasoning_tokens);
    span.record("cairn.cost_nano_usd", usage.cost_nano_usd);
    if with_content {
        let message = std::slice::from_ref(&reply.message);
        span.record("gen_ai.output.messages", shown(message));
    }
}

fn finish(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::ToolCalls => "tool_call",
        FinishReason::Length => "length",
        FinishReason::Refusal => "content_filter",
        FinishReason::Other => "other",
    }
}

fn shown<M: Borrow<Message>>(messages: &[M]) -> String {
    let shown = messages.iter().map(|message| {
        let message: &Message = message.borrow();
        let role = match message.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        };
        let calls = message
            .calls()
            .map(|call| json!({"id": call.id, "name": call.name, "arguments": call.arguments}));
        json!({"role": role, "content": message.text(), "tool_calls": calls.collect::<Vec<_>>()})
    });
    let mut text = serde_json::Value::from_iter(shown).to_string();
    if text.len() > MOST_CONTENT {
        text.truncate(text.floor_char_boundary(MOST_CONTENT));
        text.push('…');
    }
    text
}
