//! From a [`ChatRequest`] to the body of a request.

use super::{MaxTokensField, OpenAi, wire};
use crate::server::reply::valid_arguments;
use crate::server::to_body;
use crate::{ChatRequest, ModelError};
use cairn_engine::message::{Message, Role, ToolCall};

pub(super) fn body(
    model: &OpenAi,
    request: &ChatRequest,
    stream: bool,
) -> Result<Vec<u8>, ModelError> {
    let limit = model.server.max_output_tokens(request);
    let limit_of = |field| limit.filter(|_| model.max_tokens_field == field);
    let usage = stream && model.stream_usage;
    let tools = request.tools.iter().map(|tool| wire::Tool {
        kind: "function",
        function: wire::OfferedFunction {
            name: &tool.name,
            description: &tool.description,
            parameters: &tool.parameters,
        },
    });
    to_body(&wire::Request {
        model: &model.server.info().name,
        messages: request.messages.iter().map(message).collect(),
        tools: tools.collect(),
        max_tokens: limit_of(MaxTokensField::MaxTokens),
        max_completion_tokens: limit_of(MaxTokensField::MaxCompletionTokens),
        temperature: request.options.temperature,
        stream,
        stream_options: usage.then_some(wire::StreamOptions {
            include_usage: true,
        }),
    })
}

fn message(message: &Message) -> wire::Message<'_> {
    let content = match message.role {
        // Null beside calls, where an empty text is refused by some servers.
        Role::Assistant if message.text.is_empty() && !message.tool_calls.is_empty() => None,
        Role::Tool if message.is_error && !message.text.starts_with("error") => {
            Some(format!("error: {}", message.text))
        }
        _ => Some(message.text.clone()),
    };
    wire::Message {
        role: message.role,
        content,
        tool_calls: message.tool_calls.iter().map(call).collect(),
        tool_call_id: &message.tool_call_id,
    }
}

fn call(call: &ToolCall) -> wire::Call<'_> {
    wire::Call {
        id: &call.id,
        kind: "function",
        function: wire::CalledFunction {
            name: &call.name,
            arguments: valid_arguments(&call.arguments),
        },
    }
}
