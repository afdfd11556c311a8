//! From a [`ChatRequest`] to the body of a request.

use super::wire::{Block, CacheControl, Message, Part, Request, Speaker, Tool};
use super::{Anthropic, MAX_OUTPUT_TOKENS};
use crate::server::reply::valid_arguments;
use crate::server::to_body;
use crate::{ChatRequest, ModelError};
use cairn_engine::message::{Message as Said, Role};

/// What the user says where the conversation needs a word of theirs and has none.
const GO_ON: &str = "Go on.";
/// The highest temperature of the protocol.
const HOTTEST: f32 = 1.0;

pub(super) fn body(
    model: &Anthropic,
    request: &ChatRequest,
    stream: bool,
) -> Result<Vec<u8>, ModelError> {
    let limit = model.server.max_output_tokens(request);
    let tools = request.tools.iter().map(|tool| Tool {
        name: &tool.name,
        description: &tool.description,
        input_schema: &tool.parameters,
    });
    let mut body = Request {
        model: &model.server.info().name,
        max_tokens: limit.unwrap_or(MAX_OUTPUT_TOKENS),
        system: system(&request.messages),
        messages: messages(&request.messages),
        tools: tools.collect(),
        temperature: request.options.temperature.map(|heat| heat.min(HOTTEST)),
        stream,
    };
    if model.prompt_cache && !request.tools.is_empty() {
        mark(&mut body);
    }
    to_body(&body)
}

fn system(messages: &[Said]) -> Vec<Block<'_>> {
    let system = messages.iter().filter(|said| said.role == Role::System);
    let texts = system.filter_map(|said| text(&said.text));
    texts.map(Block::from).collect()
}

/// The messages beside the system's, each with another role than the one before, the user's first
/// and last.
fn messages(said: &[Said]) -> Vec<Message<'_>> {
    let mut messages: Vec<Message<'_>> = Vec::new();
    for said in said.iter().filter(|said| said.role != Role::System) {
        let (role, blocks) = match said.role {
            Role::Assistant => (Speaker::Assistant, of_assistant(said)),
            Role::Tool => (Speaker::User, vec![result(said).into()]),
            Role::User | Role::System => {
                let block = text(&said.text).map(Block::from);
                (Speaker::User, block.into_iter().collect())
            }
        };
        push(&mut messages, role, blocks);
    }
    let go_on = || Message {
        role: Speaker::User,
        content: vec![Part::Text { text: GO_ON }.into()],
    };
    let is_user = |message: Option<&Message<'_>>| {
        message.is_some_and(|message| message.role == Speaker::User)
    };
    if !is_user(messages.first()) {
        messages.insert(0, go_on());
    }
    if !is_user(messages.last()) {
        messages.push(go_on());
    }
    messages
}

fn push<'a>(messages: &mut Vec<Message<'a>>, role: Speaker, blocks: Vec<Block<'a>>) {
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

fn of_assistant(said: &Said) -> Vec<Block<'_>> {
    let calls = said.tool_calls.iter().map(|call| Part::ToolUse {
        id: id(&call.id),
        name: &call.name,
        // It is an object: that is what makes arguments valid.
        input: serde_json::from_str(&valid_arguments(&call.arguments)).unwrap_or_default(),
    });
    let parts = text(&said.text).into_iter().chain(calls);
    parts.map(Block::from).collect()
}

fn result(said: &Said) -> Part<'_> {
    Part::ToolResult {
        tool_use_id: id(&said.tool_call_id),
        content: &said.text,
        is_error: said.is_error,
    }
}

fn text(text: &str) -> Option<Part<'_>> {
    (!text.trim().is_empty()).then_some(Part::Text { text })
}

/// The id with the characters that the protocol admits: a conversation may have begun with a model
/// of another provider.
fn id(id: &str) -> String {
    let admitted = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    id.chars()
        .map(|c| if admitted(c) { c } else { '_' })
        .collect()
}

/// Marks the two places up to which the next question will be the same: the instructions (tools
/// stand before them), and the conversation so far.
fn mark(body: &mut Request<'_>) {
    let instructions = body.system.last_mut();
    let last = body.messages.last_mut();
    let conversation = last.and_then(|message| message.content.last_mut());
    for block in instructions.into_iter().chain(conversation) {
        block.cache_control = Some(CacheControl::EPHEMERAL);
    }
}
