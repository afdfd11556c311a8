//! From a [`ChatRequest`] to the body of a request.

use super::wire::{ImageUrl, Message, Role, Said, SaidPart};
use super::{MaxTokensField, OpenAi, thoughts, wire};
use crate::server::conversation::{self, Call, Part, Speaker, Turn, left_out};
use crate::server::reply::valid_arguments;
use crate::server::to_body;
use crate::{ChatRequest, ModelError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairn_engine::message::Media;
use serde_json::Map;
use std::borrow::Cow;

/// What stands for the text of a result that has none: some servers refuse a message without text.
const NOTHING: &str = "(empty)";

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
    let info = model.server.info();
    // Some servers read their own ids: they come back as they were.
    let turns = conversation::turns(&request.messages, info, |_| true);
    to_body(&wire::Request {
        model: &info.name,
        messages: turns.into_iter().flat_map(messages).collect(),
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

/// The message of a turn, and the results of its calls.
fn messages(turn: Turn<'_>) -> Vec<Message<'_>> {
    match turn.speaker {
        Speaker::System => vec![plain(Role::System, said(turn.parts))],
        Speaker::User => vec![plain(Role::User, said(turn.parts))],
        Speaker::Assistant => reply(turn.parts),
    }
}

fn plain(role: Role, said: Said<'_>) -> Message<'_> {
    Message {
        role,
        content: Some(said),
        tool_calls: Vec::new(),
        tool_call_id: None,
        thoughts: Map::new(),
    }
}

/// A reply with the results of its calls. What a model only thought is no message.
fn reply(parts: Vec<Part<'_>>) -> Vec<Message<'_>> {
    let (mut text, mut calls, mut results) = (String::new(), Vec::new(), Vec::new());
    let mut thoughts = Map::new();
    for part in parts {
        match part {
            Part::Text(more) => text += &more,
            Part::Call(call) => {
                results.push(result(&call));
                calls.push(wire::Call {
                    id: call.id,
                    kind: "function",
                    function: wire::CalledFunction {
                        name: &call.call.name,
                        arguments: valid_arguments(&call.call.arguments),
                    },
                });
            }
            Part::Opaque(opaque) => thoughts::put(&mut thoughts, opaque),
            // An assistant has none.
            Part::Media(_) => {}
        }
    }
    if text.is_empty() && calls.is_empty() {
        return Vec::new();
    }
    let mut messages = vec![Message {
        role: Role::Assistant,
        // Null beside calls, where an empty text is refused by some servers.
        content: (!text.is_empty()).then_some(Said::Text(text.into())),
        tool_calls: calls,
        tool_call_id: None,
        thoughts,
    }];
    messages.append(&mut results);
    messages
}

fn result<'a>(call: &Call<'_>) -> Message<'a> {
    let text = match call.result() {
        (text, true) if !text.starts_with("error") => format!("error: {text}"),
        (text, _) if text.trim().is_empty() => NOTHING.to_owned(),
        (text, _) => text.to_owned(),
    };
    Message {
        tool_call_id: Some(call.id.clone()),
        ..plain(Role::Tool, Said::Text(text.into()))
    }
}

/// What is said in one message: its texts as paragraphs, or its parts where some are no texts.
fn said(parts: Vec<Part<'_>>) -> Said<'_> {
    let parts = parts.into_iter().filter_map(|part| match part {
        Part::Text(text) => Some(SaidPart::Text { text }),
        Part::Media(media) => Some(file(media)),
        // Only an assistant has any.
        Part::Call(_) | Part::Opaque(_) => None,
    });
    let mut parts: Vec<SaidPart<'_>> = parts.collect();
    if let [SaidPart::Text { text }] = parts.as_mut_slice() {
        return Said::Text(std::mem::take(text));
    }
    let texts = parts.iter().map(|part| match part {
        SaidPart::Text { text } => Some(text.as_ref()),
        SaidPart::ImageUrl { .. } => None,
    });
    match texts.collect::<Option<Vec<&str>>>() {
        Some(texts) => Said::Text(Cow::Owned(texts.join("\n\n"))),
        None => Said::Parts(parts),
    }
}

fn file(media: &Media) -> SaidPart<'_> {
    let Media { mime, data } = media;
    match mime.as_str() {
        "image/png" | "image/jpeg" | "image/gif" | "image/webp" if !data.is_empty() => {
            let url = format!("data:{mime};base64,{}", STANDARD.encode(data));
            SaidPart::ImageUrl {
                image_url: ImageUrl { url },
            }
        }
        _ => SaidPart::Text {
            text: left_out(media).into(),
        },
    }
}

#[cfg(test)]
mod tests;
