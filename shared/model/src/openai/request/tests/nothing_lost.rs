//! The messages that a list of messages has to become, made in another way than the encoder does. Equal
//! lists mean that nothing is lost, sent twice or moved.

use super::MODEL;
use crate::server::conversation::left_out;
use crate::server::conversation::random::sent_name;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cairn_engine::message::{Media, Message, Notice, Opaque, Part, Role, ToolCall, ToolResult};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

/// The messages that have to be sent of these.
pub(super) fn expected(messages: &[Message]) -> Vec<Value> {
    let mut expected = Expected::default();
    for message in messages {
        let rest = expected.add_results(message);
        match message.role {
            Role::Assistant => expected.add_reply(&message.parts),
            Role::System => {
                let parts = parts(&rest, |media| text(&left_out(media)));
                expected.add("system", &parts);
            }
            Role::User | Role::Tool => expected.add("user", &parts(&rest, file)),
        }
    }
    expected.messages
}

#[derive(Default)]
struct Expected<'a> {
    messages: Vec<Value>,
    /// The results that the newest reply lacks: their positions, and the ids of their calls as asked.
    open: Vec<(usize, &'a str)>,
    /// The results that it has, by their positions.
    results: BTreeMap<usize, Answered>,
    /// The message with their pictures, if there is one.
    pictures: Range<usize>,
    ids: HashSet<String>,
}

/// The texts of a result, and its pictures.
struct Answered {
    texts: Vec<String>,
    pictures: Vec<Value>,
}

impl<'a> Expected<'a> {
    /// Takes the results of a message, and the media behind them in a message of a tool. Returns the rest.
    fn add_results(&mut self, message: &Message) -> Vec<Part> {
        let (mut rest, mut lost, mut at) = (Vec::new(), Vec::new(), None);
        for part in &message.parts {
            if let Part::Result(result) = part {
                let answered = self.add_result(result);
                lost.extend(answered.is_none().then(|| lost_result(result)));
                at = answered.filter(|_| message.role == Role::Tool);
                continue;
            }
            match (part, at.and_then(|at| self.results.get_mut(&at))) {
                (Part::Media(media), Some(answered)) => {
                    let part = file(media);
                    match part["text"].as_str() {
                        Some(text) => answered.texts.push(text.to_owned()),
                        None => answered.pictures.push(part),
                    }
                }
                _ => rest.push(part.clone()),
            }
        }
        self.write_results();
        self.add("user", &lost);
        rest
    }

    /// A result belongs to the first open call of its id in the newest reply.
    fn add_result(&mut self, result: &ToolResult) -> Option<usize> {
        let mut open = self.open.iter();
        let at = open.position(|(_, id)| *id == result.call_id)?;
        let (position, _) = self.open.remove(at);
        let text = match result.is_error {
            // The protocol has no mark for it.
            true => format!("error: {}", result.text),
            false => result.text.clone(),
        };
        let answered = Answered {
            texts: vec![text],
            pictures: Vec::new(),
        };
        self.results.insert(position, answered);
        Some(position)
    }

    fn write_results(&mut self) {
        self.messages.drain(self.pictures.clone());
        let mut pictures = Vec::new();
        for (position, answered) in &self.results {
            let message = &mut self.messages[*position];
            let texts = answered.texts.iter().filter(|text| !text.trim().is_empty());
            let texts: Vec<&str> = texts.map(String::as_str).collect();
            message["content"] = match texts.as_slice() {
                [] => json!("(empty)"),
                texts => json!(texts.join("\n\n")),
            };
            if !answered.pictures.is_empty() {
                let id = message["tool_call_id"].as_str().expect("an id");
                pictures.push(text(&format!("[from the result of the tool call {id}]")));
                pictures.extend(answered.pictures.iter().cloned());
            }
        }
        let message = json!({"role": "user", "content": pictures});
        let message = (!pictures.is_empty()).then_some(message);
        let at = self.pictures.start;
        self.pictures = at..at + usize::from(message.is_some());
        self.messages.splice(at..at, message);
    }

    /// Texts alone are one text.
    fn add(&mut self, role: &str, parts: &[Value]) {
        if parts.is_empty() {
            return;
        }
        let texts: Option<Vec<_>> = parts.iter().map(|part| part["text"].as_str()).collect();
        let content = match texts {
            Some(texts) => json!(texts.join("\n\n")),
            None => json!(parts),
        };
        self.messages
            .push(json!({"role": role, "content": content}));
    }

    fn add_reply(&mut self, parts: &'a [Part]) {
        let (mut text, mut calls, mut asked) = (String::new(), Vec::new(), Vec::new());
        let (mut reasoning, mut is_reply) = (Map::new(), false);
        for part in parts {
            match part {
                Part::Text(said) | Part::Notice(Notice { text: said, .. })
                    if !said.trim().is_empty() =>
                {
                    text += said
                }
                Part::Media(media) => text += &left_out(media),
                Part::Call(call) => {
                    let id = self.new_id(&call.id);
                    calls.push(tool_call(&id, call));
                    asked.push((id, call.id.as_str()));
                }
                Part::Opaque(opaque) if is_own(opaque) && opaque.kind == "call_fields" => {
                    let call: Option<&mut Value> = calls.last_mut();
                    if let Some(call) = call {
                        call["extra"] = extra(opaque);
                    }
                }
                Part::Opaque(opaque) if is_own(opaque) => {
                    // A real reply has each field once, so no part takes the place of another.
                    reasoning.extend(field(opaque));
                    is_reply = true;
                }
                Part::Text(_) | Part::Notice(_) | Part::Opaque(_) | Part::Result(_) => {}
            }
        }
        let is_said = !text.is_empty() || !calls.is_empty();
        if is_reply || is_said {
            self.open.clear();
            self.results.clear();
            self.pictures = self.messages.len()..self.messages.len();
        }
        // Some servers refuse a reply that is reasoning alone.
        if !is_said {
            return;
        }
        let text = (!text.is_empty()).then_some(text);
        let mut message = json!({"role": "assistant", "content": text});
        if !calls.is_empty() {
            message["tool_calls"] = json!(calls);
        }
        let fields = message.as_object_mut().expect("an object");
        fields.extend(reasoning);
        self.messages.push(message);
        for (id, asked) in asked {
            self.open.push((self.messages.len(), asked));
            let removed = json!({"role": "tool", "tool_call_id": id, "content": "removed"});
            self.messages.push(removed);
        }
        self.results.clear();
        self.pictures = self.messages.len()..self.messages.len();
    }

    /// The id, with a number if another call has it.
    fn new_id(&mut self, id: &str) -> String {
        let id = if id.is_empty() { "call" } else { id };
        let numbered = (2..).map(|number| format!("{id}_{number}"));
        let mut ids = std::iter::once(id.to_owned()).chain(numbered);
        ids.find(|id| self.ids.insert(id.clone())).expect("an id")
    }
}

/// The text of a result without its call.
fn lost_result(result: &ToolResult) -> Value {
    let kind = if result.is_error { "Error" } else { "Result" };
    let ToolResult { call_id, text, .. } = result;
    self::text(&format!("{kind} of the tool call {call_id}: {text}"))
}

/// What is sent of another message than a reply. Calls and opaque parts are the assistant's alone.
fn parts(parts: &[Part], file: impl Fn(&Media) -> Value) -> Vec<Value> {
    let parts = parts.iter().filter_map(|part| match part {
        Part::Text(said) | Part::Notice(Notice { text: said, .. }) if !said.trim().is_empty() => {
            Some(text(said))
        }
        Part::Media(media) => Some(file(media)),
        _ => None,
    });
    parts.collect()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// A picture; the name of any other file, and of an empty one.
fn file(media: &Media) -> Value {
    let Media { mime, data } = media;
    if mime != "image/png" || data.is_empty() {
        return text(&left_out(media));
    }
    let url = format!("data:image/png;base64,{}", STANDARD.encode(data));
    json!({"type": "image_url", "image_url": {"url": url}})
}

/// Arguments that are no object are shown to the model as it wrote them.
fn tool_call(id: &str, call: &ToolCall) -> Value {
    let ToolCall {
        name, arguments, ..
    } = call;
    let arguments = match serde_json::from_str(arguments) {
        Ok(Value::Object(_)) => arguments.clone(),
        _ if arguments.is_empty() => "{}".to_owned(),
        _ => json!({"invalid_json": arguments}).to_string(),
    };
    let name = sent_name(name);
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn is_own(opaque: &Opaque) -> bool {
    opaque.provider == "openai" && opaque.model == MODEL
}

/// The one field that the protocol does not name.
fn extra(opaque: &Opaque) -> Value {
    let fields: Value = serde_json::from_str(&opaque.json).expect("JSON");
    fields["extra"].clone()
}

/// Reasoning by the name of its field, or another field of the message. A value of another kind than the
/// field has is left out.
fn field(opaque: &Opaque) -> Option<(String, Value)> {
    if opaque.kind == "message_fields" {
        let fields: Value = serde_json::from_str(&opaque.json).expect("JSON");
        return Some(("extra_content".to_owned(), fields["extra_content"].clone()));
    }
    let value: Value = serde_json::from_str(&opaque.json).expect("JSON");
    let fits = match &*opaque.kind {
        "reasoning_content" | "reasoning" => value.is_string(),
        "reasoning_details" => value.is_array(),
        _ => false,
    };
    fits.then(|| (opaque.kind.clone(), value))
}
