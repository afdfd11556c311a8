//! The blocks that a list of messages has to become, made in another way than the encoder does. Equal
//! lists mean that nothing is lost, sent twice or moved.

use super::{GO_ON, MODEL, blocks, without_mark};
use crate::server::conversation::left_out;
use crate::server::conversation::random::sent_name;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairn_engine::message::{Media, Message, Notice, Opaque, Part, Role, ToolCall, ToolResult};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

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
        let parts = expected.add_results(message);
        match message.role {
            Role::Assistant => expected.add_reply(&message.parts),
            Role::System => expected.add(&parts, |media| text(&left_out(media))),
            Role::User | Role::Tool => expected.add(&parts, file),
        }
    }
    expected.blocks
}

#[derive(Default)]
struct Expected<'a> {
    blocks: Vec<Block>,
    /// The results that the newest reply lacks: their positions, and the ids of their calls as asked.
    open: Vec<(usize, &'a str)>,
    /// The results that it has, by their positions.
    results: BTreeMap<usize, Answered>,
    /// The files of those that are errors.
    behind: Range<usize>,
    ids: HashSet<String>,
}

/// A result with its files, each as a block.
struct Answered {
    id: Value,
    texts: Vec<Value>,
    files: Vec<Value>,
    is_error: bool,
}

impl Answered {
    fn block(&self) -> Value {
        let mut block = json!({"type": "tool_result", "tool_use_id": self.id});
        if !self.files.is_empty() && !self.is_error {
            block["content"] = json!([self.texts.clone(), self.files.clone()].concat());
        } else if !self.texts.is_empty() {
            let texts = self.texts.iter().filter_map(|text| text["text"].as_str());
            block["content"] = json!(texts.collect::<Vec<_>>().join("\n\n"));
        }
        if self.is_error {
            block["is_error"] = json!(true);
        }
        block
    }
}

impl<'a> Expected<'a> {
    /// Takes the results of a message, and the media behind them in a message of a tool. Returns the rest.
    fn add_results(&mut self, message: &Message) -> Vec<Part> {
        let (mut rest, mut at) = (Vec::new(), None);
        for part in &message.parts {
            if let Part::Result(result) = part {
                let answered = self.add_result(result);
                at = answered.filter(|_| message.role == Role::Tool);
                continue;
            }
            match (part, at.and_then(|at| self.results.get_mut(&at))) {
                (Part::Media(media), Some(answered)) => {
                    let block = file(media);
                    match block["type"] == "text" {
                        true => answered.texts.push(block),
                        false => answered.files.push(block),
                    }
                }
                _ => rest.push(part.clone()),
            }
        }
        self.write_results();
        rest
    }

    /// A result belongs to the first open call of its id in the newest reply. Without one it is a text.
    fn add_result(&mut self, result: &ToolResult) -> Option<usize> {
        let ToolResult {
            call_id,
            text: output,
            is_error,
        } = result;
        let Some(at) = self.open.iter().position(|(_, id)| id == call_id) else {
            let kind = if *is_error { "Error" } else { "Result" };
            let lost = text(&format!("{kind} of the tool call {call_id}: {output}"));
            self.blocks.push((false, lost));
            return None;
        };
        let (position, _) = self.open.remove(at);
        let said = (!output.trim().is_empty()).then(|| text(output));
        let answered = Answered {
            id: self.blocks[position].1["tool_use_id"].clone(),
            texts: said.into_iter().collect(),
            files: Vec::new(),
            is_error: *is_error,
        };
        self.results.insert(position, answered);
        Some(position)
    }

    fn write_results(&mut self) {
        self.blocks.drain(self.behind.clone());
        let mut behind = Vec::new();
        for (position, answered) in &self.results {
            self.blocks[*position].1 = answered.block();
            if answered.is_error {
                behind.extend(answered.files.iter().map(|file| (false, file.clone())));
            }
        }
        let at = self.behind.start;
        self.behind = at..at + behind.len();
        self.blocks.splice(at..at, behind);
    }

    /// Calls and opaque parts are the assistant's alone.
    fn add(&mut self, parts: &[Part], file: impl Fn(&Media) -> Value) {
        for part in parts {
            let block = match part {
                Part::Text(said) | Part::Notice(Notice { text: said, .. })
                    if !said.trim().is_empty() =>
                {
                    text(said)
                }
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
                Part::Text(said) | Part::Notice(Notice { text: said, .. })
                    if !said.trim().is_empty() =>
                {
                    blocks.push(text(said))
                }
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
                Part::Text(_) | Part::Notice(_) | Part::Opaque(_) | Part::Result(_) => {}
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
        self.results.clear();
        self.behind = self.blocks.len()..self.blocks.len();
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
