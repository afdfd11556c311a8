//! The blocks that a list of messages has to become, made in another way than the encoder does. Equal
//! lists mean that nothing is lost, sent twice or moved.

use super::{GO_ON, MODEL, blocks, without_mark};
use crate::server::conversation::left_out;
use crate::server::conversation::random::sent_name;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairn_engine::message::{Media, Message, Opaque, Part, Role, ToolCall, ToolResult};
use serde_json::{Value, json};
use std::collections::HashSet;

/// A block, and whether the assistant says it. The system prompt counts as the user's: which messages
/// of the system stand there depends on what comes before them.
type Block = (bool, Value);

/// All blocks of a body, without those that only the protocol needs.
pub(super) fn sent(body: &Value) -> Vec<Block> {
    let system = body["system"].as_array().into_iter().flatten();
    let system = system.map(|block| (false, without_mark(block)));
    let messages = blocks(body).into_iter();
    let messages = messages.map(|(role, block)| (role == "assistant", block));
    let all = system.chain(messages);
    all.filter(|(_, block)| block["text"] != GO_ON).collect()
}

/// The blocks that have to be sent of these messages.
pub(super) fn expected(messages: &[Message]) -> Vec<Block> {
    let mut expected = Expected::default();
    for message in messages {
        for result in message.results() {
            expected.add_result(result);
        }
        match message.role {
            Role::Assistant => expected.add_reply(&message.parts),
            Role::System => expected.add(&message.parts, |media| text(&left_out(media))),
            Role::User | Role::Tool => expected.add(&message.parts, file),
        }
    }
    expected.blocks
}

#[derive(Default)]
struct Expected<'a> {
    blocks: Vec<Block>,
    /// The results that the newest reply lacks: their positions, and the ids of their calls as asked.
    open: Vec<(usize, &'a str)>,
    ids: HashSet<String>,
}

impl<'a> Expected<'a> {
    /// A result belongs to the first open call of its id in the newest reply. Without one it is a text.
    fn add_result(&mut self, result: &ToolResult) {
        let ToolResult {
            call_id,
            text: output,
            is_error,
        } = result;
        let Some(at) = self.open.iter().position(|(_, id)| id == call_id) else {
            let kind = if *is_error { "Error" } else { "Result" };
            let lost = text(&format!("{kind} of the tool call {call_id}: {output}"));
            self.blocks.push((false, lost));
            return;
        };
        let (position, _) = self.open.remove(at);
        let (_, block) = &mut self.blocks[position];
        let mut answered = json!({"type": "tool_result", "tool_use_id": block["tool_use_id"]});
        if !output.trim().is_empty() {
            answered["content"] = json!(output);
        }
        if *is_error {
            answered["is_error"] = json!(true);
        }
        *block = answered;
    }

    /// Calls and opaque parts are the assistant's alone.
    fn add(&mut self, parts: &[Part], file: impl Fn(&Media) -> Value) {
        for part in parts {
            let block = match part {
                Part::Text(said) if !said.trim().is_empty() => text(said),
                Part::Media(media) => file(media),
                _ => continue,
            };
            self.blocks.push((false, block));
        }
    }

    fn add_reply(&mut self, parts: &'a [Part]) {
        let (mut blocks, mut calls, mut is_reply) = (Vec::new(), Vec::new(), false);
        for part in parts {
            match part {
                Part::Text(said) if !said.trim().is_empty() => blocks.push(text(said)),
                Part::Media(media) => blocks.push(text(&left_out(media))),
                Part::Call(call) => {
                    let id = self.new_id(&call.id);
                    blocks.push(tool_use(&id, call));
                    calls.push((id, call.id.as_str()));
                }
                Part::Opaque(opaque) if is_own(opaque) && opaque.kind == "call_fields" => {
                    let is_call = |block: &&mut Value| block["type"] == "tool_use";
                    if let Some(call) = blocks.iter_mut().rfind(is_call) {
                        call["extra"] = extra(opaque);
                    }
                }
                Part::Opaque(opaque) if is_own(opaque) => {
                    blocks.extend(opaque_block(opaque));
                    is_reply = true;
                }
                Part::Text(_) | Part::Opaque(_) | Part::Result(_) => {}
            }
        }
        is_reply |= !blocks.is_empty();
        if !is_reply {
            return;
        }
        // The server refuses a reply that ends with thinking.
        while blocks
            .last()
            .is_some_and(|block| block["type"] == "thinking")
        {
            blocks.pop();
        }
        self.blocks
            .extend(blocks.into_iter().map(|block| (true, block)));
        self.open.clear();
        for (id, asked) in calls {
            let removed = json!({"type": "tool_result", "tool_use_id": id, "content": "removed"});
            self.open.push((self.blocks.len(), asked));
            self.blocks.push((false, removed));
        }
    }

    /// The id in the characters that the server admits, with a number if another call has it.
    fn new_id(&mut self, id: &str) -> String {
        let admitted = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        let id: String = id
            .chars()
            .map(|c| if admitted(c) { c } else { '_' })
            .collect();
        let id = if id.is_empty() { "call" } else { &id };
        let numbered = (2..).map(|number| format!("{id}_{number}"));
        let mut ids = std::iter::once(id.to_owned()).chain(numbered);
        ids.find(|id| self.ids.insert(id.clone())).expect("an id")
    }
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// A file that the server reads; the name of any other, and of an empty one.
fn file(media: &Media) -> Value {
    let kind = match &*media.mime {
        "image/png" if !media.data.is_empty() => "image",
        "application/pdf" if !media.data.is_empty() => "document",
        _ => return text(&left_out(media)),
    };
    let data = STANDARD.encode(&media.data);
    json!({"type": kind, "source": {"type": "base64", "media_type": media.mime, "data": data}})
}

/// Arguments that are no object are shown to the model as it wrote them.
fn tool_use(id: &str, call: &ToolCall) -> Value {
    let input = match serde_json::from_str(&call.arguments) {
        Ok(Value::Object(fields)) => Value::Object(fields),
        _ if call.arguments.is_empty() => json!({}),
        _ => json!({"invalid_json": call.arguments}),
    };
    json!({"type": "tool_use", "id": id, "name": sent_name(&call.name), "input": input})
}

fn is_own(opaque: &Opaque) -> bool {
    opaque.provider == "anthropic" && opaque.model == MODEL
}

/// The one field that the protocol does not name.
fn extra(opaque: &Opaque) -> Value {
    let fields: Value = serde_json::from_str(&opaque.json).expect("JSON");
    fields["extra"].clone()
}

/// A block as the server made it. A call of a tool is none: it would have no result.
fn opaque_block(opaque: &Opaque) -> Option<Value> {
    let block: Value = serde_json::from_str(&opaque.json).expect("JSON");
    (block["type"] == opaque.kind && opaque.kind != "tool_use").then_some(block)
}
