//! From a [`ChatRequest`] to the body of a request.

use super::wire::CALL_NAMES;
use super::wire::{Block, CacheControl, Fields, Message, Part, Request, ResultContent, Role};
use super::wire::{Source, Tool};
use super::{Anthropic, MAX_OUTPUT_TOKENS};
use crate::server::conversation::{self, Call, Speaker, Turn, left_out};
use crate::server::extra::unnamed;
use crate::server::omitted::Omitted;
use crate::server::reply::valid_arguments;
use crate::server::{OptionalField, schema_of, to_body};
use crate::{ChatRequest, ModelError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairn_engine::command::ResponseFormat;
use cairn_engine::message::{Media, Opaque};
use serde_json::{Value, json};
use std::borrow::Cow;

/// The text of a user message that the protocol requires and the conversation lacks.
const GO_ON: &str = "Go on.";
/// The highest temperature of the protocol.
const HOTTEST: f32 = 1.0;
/// How many of the user's newest messages end with a cache breakpoint: the newest for the next
/// request, and the one before, which the last request left in the cache.
const NEWEST_USERS: usize = 2;
/// The source of a block that is not from a message: it may change with every request.
const NO_SOURCE: usize = usize::MAX;

pub(super) fn body(
    model: &Anthropic,
    request: &ChatRequest,
    stream: bool,
    omitted: Omitted,
) -> Result<Vec<u8>, ModelError> {
    let is_sent = |field| !omitted.has(field);
    let heat = request.options.temperature;
    let heat = heat.filter(|_| is_sent(OptionalField::Temperature));
    let has_format = is_sent(OptionalField::ResponseFormat);
    let format = has_format.then(|| output_config(&request.options.format));
    let limit = model.server.max_output_tokens(request);
    let offer = model.server.offer(request);
    let tools = offer.tools.iter().map(|tool| Tool {
        name: &tool.name,
        description: &tool.description,
        input_schema: &tool.parameters,
    });
    let choice = model.server.parallel_tool_calls(&offer, omitted);
    let info = model.server.info();
    let mut turns = conversation::turns(&request.messages, info, conversation::is_name_char)
        .into_iter()
        .peekable();
    let mut system = Vec::new();
    while let Some(turn) = turns.next_if(|turn| turn.speaker == Speaker::System) {
        system.extend(blocks(turn, info.vision).0);
    }
    let mut body = Request {
        model: &info.name,
        max_tokens: limit.unwrap_or(MAX_OUTPUT_TOKENS),
        system,
        messages: messages(turns, info.vision),
        tools: tools.collect(),
        temperature: heat.map(|heat| heat.min(HOTTEST)),
        output_config: format.flatten(),
        tool_choice: choice.and_then(tool_choice),
        stream,
    };
    let has_marks = is_sent(OptionalField::CacheControl);
    if has_marks && (!request.tools.is_empty() || request.stable > 0) {
        set_breakpoints(&mut body, request.stable);
    }
    to_body(&body)
}

/// Several calls in a reply are the protocol's default, so only the contrary is said.
fn tool_choice(parallel: bool) -> Option<Value> {
    (!parallel).then(|| json!({"type": "auto", "disable_parallel_tool_use": true}))
}

/// The protocol knows no other form than that of a schema.
fn output_config(format: &ResponseFormat) -> Option<Value> {
    let schema = match format {
        ResponseFormat::Text => return None,
        ResponseFormat::JsonObject => json!({"type": "object"}),
        ResponseFormat::JsonSchema { schema, .. } => schema_of(schema),
    };
    Some(json!({"format": {"type": "json_schema", "schema": schema}}))
}

/// The messages after the instructions, each with another role than the one before, the user's
/// first and last. Instructions in the middle become the user's: the protocol has no other place
/// for them.
fn messages<'a>(turns: impl Iterator<Item = Turn<'a>>, sees: bool) -> Vec<Message<'a>> {
    let mut messages: Vec<Message<'a>> = Vec::new();
    for turn in turns {
        let role = match turn.speaker {
            Speaker::Assistant => Role::Assistant,
            Speaker::User | Speaker::System => Role::User,
        };
        let (blocks, results) = blocks(turn, sees);
        push(&mut messages, role, blocks);
        push(&mut messages, Role::User, results);
    }
    let go_on = || Message {
        role: Role::User,
        content: vec![Part::Text { text: GO_ON.into() }.from(NO_SOURCE)],
    };
    let is_user =
        |message: Option<&Message<'_>>| message.is_some_and(|message| message.role == Role::User);
    if !is_user(messages.first()) {
        messages.insert(0, go_on());
    }
    if !is_user(messages.last()) {
        messages.push(go_on());
    }
    messages
}

fn push<'a>(messages: &mut Vec<Message<'a>>, role: Role, blocks: Vec<Block<'a>>) {
    if blocks.is_empty() {
        return;
    }
    match messages.last_mut().filter(|last| last.role == role) {
        Some(last) => last.content.extend(blocks),
        None => messages.push(Message {
            role,
            content: blocks,
        }),
    }
}

/// The blocks of a turn, and those of the message that has to follow it at once.
fn blocks(turn: Turn<'_>, sees: bool) -> (Vec<Block<'_>>, Vec<Block<'_>>) {
    let (mut blocks, mut results, mut behind) = (Vec::new(), Vec::new(), Vec::new());
    for part in turn.parts {
        let part = match part {
            conversation::Part::Text(text) => Some(Part::Text { text }),
            conversation::Part::Media(media) => Some(file(media, sees)),
            conversation::Part::Opaque(opaque) => opaque_block(opaque),
            conversation::Part::Call(call) => {
                let source = call.result_source().unwrap_or(turn.source);
                let (result, files) = result(&call, sees);
                results.push(result.from(source));
                behind.extend(files.into_iter().map(|file| file.from(source)));
                Some(Part::ToolUse {
                    id: call.id,
                    name: call.name,
                    // It is an object: that is what makes arguments valid.
                    input: serde_json::from_str(&valid_arguments(&call.call.arguments))
                        .unwrap_or_default(),
                    extra: unnamed(call.fields, &CALL_NAMES),
                })
            }
        };
        blocks.extend(part.map(|part| part.from(turn.source)));
    }
    // The protocol refuses a message that ends with thinking, as the message of a cut reply does.
    while blocks.last().is_some_and(is_thinking) {
        blocks.pop();
    }
    results.append(&mut behind);
    (blocks, results)
}

fn is_thinking(block: &Block<'_>) -> bool {
    let Part::Opaque(fields) = &block.part else {
        return false;
    };
    let kind = fields.get("type").and_then(Value::as_str);
    matches!(kind, Some("thinking" | "redacted_thinking"))
}

/// The result of a call, and what has to stand behind all results: the protocol admits nothing but text in a
/// result that tells of a failure.
fn result<'a>(call: &Call<'a>, sees: bool) -> (Part<'a>, Vec<Part<'a>>) {
    let (text, is_error) = call.result();
    let files = call.media.iter().copied();
    let files = files.map(|media| file(media, sees));
    let is_text = |part: &Part<'a>| matches!(part, Part::Text { .. });
    let (notes, files): (Vec<_>, Vec<_>) = files.partition(is_text);
    let said = (!text.trim().is_empty()).then(|| Part::Text { text: text.into() });
    let texts = said.into_iter().chain(notes);
    let has_files = !files.is_empty() && !is_error;
    let (content, behind) = match has_files {
        true => (
            ResultContent::Parts(texts.chain(files).collect()),
            Vec::new(),
        ),
        false => (ResultContent::Text(joined(texts)), files),
    };
    let result = Part::ToolResult {
        tool_use_id: call.id.clone(),
        content,
        is_error,
    };
    (result, behind)
}

/// The texts of these parts as paragraphs.
fn joined<'a>(parts: impl Iterator<Item = Part<'a>>) -> Cow<'a, str> {
    let texts = parts.filter_map(|part| match part {
        Part::Text { text } => Some(text),
        _ => None,
    });
    texts
        .reduce(|before, text| format!("{before}\n\n{text}").into())
        .unwrap_or_default()
}

/// The block as the server made it; none if it is no such block. Kinds that are encoded here are
/// never opaque.
fn opaque_block<'a>(opaque: &Opaque) -> Option<Part<'a>> {
    let fields: Fields = serde_json::from_str(&opaque.json).ok()?;
    let kind = fields.get("type")?.as_str()?;
    let known = ["text", "image", "document", "tool_use", "tool_result"];
    (kind == opaque.kind && !known.contains(&kind)).then_some(Part::Opaque(fields))
}

/// A picture or a document for a model that sees, else a text in its place.
fn file(media: &Media, sees: bool) -> Part<'_> {
    let source = || Source {
        kind: "base64",
        media_type: &media.mime,
        data: STANDARD.encode(&media.data),
    };
    match media.mime.as_str() {
        _ if !sees || media.data.is_empty() => Part::Text {
            text: left_out(media).into(),
        },
        "image/png" | "image/jpeg" | "image/gif" | "image/webp" => Part::Image { source: source() },
        "application/pdf" => Part::Document { source: source() },
        _ => Part::Text {
            text: left_out(media).into(),
        },
    }
}

/// Sets cache breakpoints where a later request will be the same up to there: after the instructions
/// (tools stand before them), the messages that never change, and the user's newest messages. The
/// protocol allows four.
fn set_breakpoints(body: &mut Request<'_>, stable: usize) {
    let mut places: Vec<_> = end_of_stable(&body.messages, stable).into_iter().collect();
    let last = body.messages.len().saturating_sub(1);
    let newest = (0..=last).rev().step_by(2).take(NEWEST_USERS);
    places.extend(newest.map(|at| (at, usize::MAX)));
    for (at, end) in places {
        let message = body.messages.get_mut(at);
        let blocks = message.into_iter().flat_map(|message| &mut message.content);
        let blocks = blocks.take(end);
        // The protocol allows none after thinking.
        let markable = blocks.filter(|block| !matches!(block.part, Part::Opaque(_)));
        if let Some(block) = markable.last() {
            block.cache_control = Some(CacheControl::EPHEMERAL);
        }
    }
    if let Some(block) = body.system.last_mut() {
        block.cache_control = Some(CacheControl::EPHEMERAL);
    }
}

/// The message in which the first `stable` messages end, and how many of its blocks are of them.
fn end_of_stable(messages: &[Message<'_>], stable: usize) -> Option<(usize, usize)> {
    let mut end = None;
    for (at, message) in messages.iter().enumerate() {
        let is_stable = |block: &&Block<'_>| block.source < stable;
        let count = message.content.iter().take_while(is_stable).count();
        if count > 0 {
            end = Some((at, count));
        }
        if count < message.content.len() {
            break;
        }
    }
    end
}

#[cfg(test)]
mod tests;
