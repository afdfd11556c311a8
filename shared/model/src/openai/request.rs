//! From a [`ChatRequest`] to the body of a request.

use super::wire::{CALL_NAMES, FUNCTION, FUNCTION_NAMES, MESSAGE_RETURNED};
use super::wire::{ContentPart, ImageUrl, Message, MessageContent, Role};
use super::{OpenAi, reasoning, wire};
use crate::server::conversation::{self, Call, Part, Speaker, Turn, left_out};
use crate::server::extra::{MESSAGE_FIELDS, fields_of, returned, unnamed};
use crate::server::omitted::Omitted;
use crate::server::reply::valid_arguments;
use crate::server::{OptionalField, schema_of, to_body};
use crate::{ChatRequest, ModelError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairn_engine::command::ResponseFormat;
use cairn_engine::message::Media;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// The text of a result that has none: some servers refuse a message without text.
const NOTHING: &str = "(empty)";

pub(super) fn body(
    model: &OpenAi,
    request: &ChatRequest,
    stream: bool,
    omitted: Omitted,
) -> Result<Vec<u8>, ModelError> {
    let limit = model.server.max_output_tokens(request);
    let is_sent = |field| !omitted.has(field);
    let has_old_name = is_sent(OptionalField::MaxTokens);
    let usage = stream && is_sent(OptionalField::StreamOptions);
    let has_format = is_sent(OptionalField::ResponseFormat);
    let format = has_format.then(|| response_format(&request.options.format));
    let temperature = request.options.temperature;
    let offer = model.server.offer(request);
    let tools = offer.tools.iter().map(|tool| wire::Tool {
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
        messages: turns
            .into_iter()
            .flat_map(|turn| messages(turn, info.vision))
            .collect(),
        tools: tools.collect(),
        max_tokens: limit.filter(|_| has_old_name),
        max_completion_tokens: limit.filter(|_| !has_old_name),
        temperature: temperature.filter(|_| is_sent(OptionalField::Temperature)),
        response_format: format.flatten(),
        parallel_tool_calls: model.server.parallel_tool_calls(&offer, omitted),
        stream,
        stream_options: usage.then_some(wire::StreamOptions {
            include_usage: true,
        }),
    })
}

fn response_format(format: &ResponseFormat) -> Option<Value> {
    match format {
        ResponseFormat::Text => None,
        ResponseFormat::JsonObject => Some(json!({"type": "json_object"})),
        ResponseFormat::JsonSchema { name, schema } => Some(json!({
            "type": "json_schema",
            "json_schema": {"name": name, "schema": schema_of(schema)},
        })),
    }
}

/// The message of a turn, and the results of its calls.
fn messages(turn: Turn<'_>, sees: bool) -> Vec<Message<'_>> {
    match turn.speaker {
        Speaker::System => vec![plain(Role::System, content(turn.parts, sees))],
        Speaker::User => vec![plain(Role::User, content(turn.parts, sees))],
        Speaker::Assistant => reply(turn.parts, sees),
    }
}

fn plain(role: Role, content: MessageContent<'_>) -> Message<'_> {
    Message {
        role,
        content: Some(content),
        tool_calls: Vec::new(),
        tool_call_id: None,
        fields: Map::new(),
    }
}

/// A reply with the results of its calls. Reasoning alone is no message.
///
/// The protocol admits nothing but text in a result, and nothing but the results of all calls behind a reply. So
/// pictures of results are a message of the user behind these.
fn reply(parts: Vec<Part<'_>>, sees: bool) -> Vec<Message<'_>> {
    let (mut text, mut calls, mut results) = (String::new(), Vec::new(), Vec::new());
    let (mut fields, mut pictures) = (Map::new(), Vec::new());
    for part in parts {
        match part {
            Part::Text(more) => text += &more,
            Part::Call(call) => {
                let (result, mut of_result) = result(&call, sees);
                results.push(result);
                pictures.append(&mut of_result);
                calls.push(called(call));
            }
            Part::Opaque(opaque) if opaque.kind == MESSAGE_FIELDS => {
                fields.extend(returned(fields_of(opaque), &MESSAGE_RETURNED));
            }
            Part::Opaque(opaque) => reasoning::put(&mut fields, opaque),
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
        content: (!text.is_empty()).then_some(MessageContent::Text(text.into())),
        tool_calls: calls,
        tool_call_id: None,
        fields,
    }];
    messages.append(&mut results);
    if !pictures.is_empty() {
        messages.push(plain(Role::User, MessageContent::Parts(pictures)));
    }
    messages
}

fn called(call: Call<'_>) -> wire::Call<'_> {
    let mut extra = call.fields;
    let of_function = match extra.shift_remove(FUNCTION) {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    wire::Call {
        id: call.id,
        kind: "function",
        function: wire::CalledFunction {
            name: call.name,
            arguments: valid_arguments(&call.call.arguments),
            extra: unnamed(of_function, &FUNCTION_NAMES),
        },
        extra: unnamed(extra, &CALL_NAMES),
    }
}

/// The result of a call as text, and its pictures behind a text that names the call.
fn result<'a>(call: &Call<'a>, sees: bool) -> (Message<'a>, Vec<ContentPart<'a>>) {
    let mut text = match call.result() {
        (text, true) if !text.starts_with("error") => format!("error: {text}"),
        (text, _) => text.to_owned(),
    };
    let mut pictures = Vec::new();
    for &media in &call.media {
        match file(media, sees) {
            ContentPart::Text { text: note } if text.trim().is_empty() => text = note.into_owned(),
            ContentPart::Text { text: note } => {
                text.push_str("\n\n");
                text.push_str(&note);
            }
            picture @ ContentPart::ImageUrl { .. } => pictures.push(picture),
        }
    }
    if !pictures.is_empty() {
        let text = format!("[from the result of the tool call {}]", call.id);
        pictures.insert(0, ContentPart::Text { text: text.into() });
    }
    if text.trim().is_empty() {
        NOTHING.clone_into(&mut text);
    }
    let message = Message {
        tool_call_id: Some(call.id.clone()),
        ..plain(Role::Tool, MessageContent::Text(text.into()))
    };
    (message, pictures)
}

/// The content of a message: its texts as paragraphs, or its parts where some are no texts.
fn content(parts: Vec<Part<'_>>, sees: bool) -> MessageContent<'_> {
    let parts = parts.into_iter().filter_map(|part| match part {
        Part::Text(text) => Some(ContentPart::Text { text }),
        Part::Media(media) => Some(file(media, sees)),
        // Only an assistant has any.
        Part::Call(_) | Part::Opaque(_) => None,
    });
    let mut parts: Vec<ContentPart<'_>> = parts.collect();
    if let [ContentPart::Text { text }] = parts.as_mut_slice() {
        return MessageContent::Text(std::mem::take(text));
    }
    let texts = parts.iter().map(|part| match part {
        ContentPart::Text { text } => Some(text.as_ref()),
        ContentPart::ImageUrl { .. } => None,
    });
    match texts.collect::<Option<Vec<&str>>>() {
        Some(texts) => MessageContent::Text(Cow::Owned(texts.join("\n\n"))),
        None => MessageContent::Parts(parts),
    }
}

/// A picture for a model that sees, else a text in its place.
fn file(media: &Media, sees: bool) -> ContentPart<'_> {
    let Media { mime, data } = media;
    match mime.as_str() {
        "image/png" | "image/jpeg" | "image/gif" | "image/webp" if sees && !data.is_empty() => {
            let url = format!("data:{mime};base64,{}", STANDARD.encode(data));
            ContentPart::ImageUrl {
                image_url: ImageUrl { url },
            }
        }
        _ => ContentPart::Text {
            text: left_out(media).into(),
        },
    }
}

#[cfg(test)]
mod tests;
