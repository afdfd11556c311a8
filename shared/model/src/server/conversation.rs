//! Makes any list of messages valid to send: each result has its call, each call has one result and a name
//! that servers admit, no id comes twice, and nothing is empty.
//!
//! The turns depend on the messages alone. More messages at the end change no earlier turn, so that
//! a provider's cache still hits; the exception is a call whose result comes later.

#[cfg(test)]
pub(crate) mod kept;
#[cfg(test)]
pub(crate) mod random;

use super::extra::{self, CALL_FIELDS};
use crate::ModelInfo;
use cairn_engine::message::{self, Media, Message, Notice, Opaque, Role, ToolCall, ToolResult};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

/// The result of a call whose own result was removed from the list.
const REMOVED: &str = "removed";
/// The tool of a call that names none.
const UNNAMED: &str = "unnamed";
/// Servers refuse a longer name of a tool.
const LONGEST_NAME: usize = 64;

/// One message as it may be sent.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) speaker: Speaker,
    /// Never empty.
    pub(crate) parts: Vec<Part<'a>>,
    /// Position of the message that it was made of.
    pub(crate) source: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    System,
    User,
    Assistant,
}

#[derive(Debug)]
pub(crate) enum Part<'a> {
    /// With something in it beside blanks.
    Text(Cow<'a, str>),
    /// Only of the user.
    Media(&'a Media),
    /// Only of the assistant.
    Call(Call<'a>),
    /// Only of the assistant, and made by the model that is asked.
    Opaque(&'a Opaque),
}

/// A call with its result.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    /// An id that no other call of the conversation has.
    pub(crate) id: String,
    /// 1 to 64 letters, digits, `_` and `-`, as [OpenAI
    /// requires](https://platform.openai.com/docs/api-reference/chat/create). A model can call a tool by a
    /// name that servers refuse, and that call stays in the conversation.
    pub(crate) name: Cow<'a, str>,
    pub(crate) call: &'a ToolCall,
    /// Fields that the protocol does not name, if the model that is asked made them.
    pub(crate) fields: Map<String, Value>,
    /// Pictures and files of the result.
    pub(crate) media: Vec<&'a Media>,
    result: Option<(usize, &'a ToolResult)>,
}

impl<'a> Call<'a> {
    /// The text of the result, and whether it is an error.
    pub(crate) fn result(&self) -> (&'a str, bool) {
        self.result.map_or((REMOVED, false), |(_, result)| {
            (&result.text, result.is_error)
        })
    }

    /// Position of the message with the result, if there is one.
    pub(crate) fn result_source(&self) -> Option<usize> {
        self.result.map(|(source, _)| source)
    }
}

/// The text in the place of a picture or a file that the model cannot read.
pub(crate) fn left_out(media: &Media) -> String {
    let Media { mime, data } = media;
    format!(
        "[a file of type {mime} with {} bytes was left out: this model cannot read it]",
        data.len()
    )
}

/// The turns of a conversation with the model `info`. Characters of ids that are not `admitted` are
/// replaced: a conversation may have begun with a model of another provider.
pub(crate) fn turns<'a>(
    messages: &'a [Arc<Message>],
    info: &ModelInfo,
    admitted: fn(char) -> bool,
) -> Vec<Turn<'a>> {
    let mut turns = Turns {
        turns: Vec::with_capacity(messages.len()),
        reply: None,
        ids: HashSet::new(),
        info,
        admitted,
    };
    for (source, message) in messages.iter().enumerate() {
        turns.add(source, message);
    }
    turns.turns
}

struct Turns<'a, 'b> {
    turns: Vec<Turn<'a>>,
    /// The latest turn of the assistant: only its calls may have results now.
    reply: Option<usize>,
    ids: HashSet<String>,
    info: &'b ModelInfo,
    admitted: fn(char) -> bool,
}

impl<'a> Turns<'a, '_> {
    fn add(&mut self, source: usize, message: &'a Message) {
        let speaker = match message.role {
            Role::System => Speaker::System,
            Role::Assistant => Speaker::Assistant,
            Role::User | Role::Tool => Speaker::User,
        };
        let (mut lost, mut parts) = (Vec::new(), Vec::new());
        // The call whose result the media that follow belong to.
        let mut answered = None;
        for part in &message.parts {
            match part {
                message::Part::Text(text) | message::Part::Notice(Notice { text, .. }) => {
                    parts.extend(text_part(text));
                }
                message::Part::Result(result) => {
                    let call = self.answer(source, result);
                    if call.is_none() {
                        lost.push(Part::Text(lost_result(result).into()));
                    }
                    answered = call.filter(|_| message.role == Role::Tool);
                }
                message::Part::Media(media) => match (answered, speaker) {
                    (Some(call), _) => self.attach(call, media),
                    (None, Speaker::User) => parts.push(Part::Media(media)),
                    (None, _) => parts.push(Part::Text(left_out(media).into())),
                },
                message::Part::Call(call) if speaker == Speaker::Assistant => {
                    parts.push(Part::Call(Call {
                        id: self.new_id(&call.id),
                        name: admitted_name(&call.name),
                        call,
                        fields: Map::new(),
                        media: Vec::new(),
                        result: None,
                    }));
                }
                message::Part::Opaque(opaque) if speaker == Speaker::Assistant => {
                    if opaque.provider != self.info.provider || opaque.model != self.info.name {
                        continue;
                    }
                    if opaque.kind != CALL_FIELDS {
                        parts.push(Part::Opaque(opaque));
                    } else if let Some(call) = last_call(&mut parts) {
                        call.fields = extra::fields_of(opaque);
                    }
                }
                // Only an assistant has any.
                message::Part::Call(_) | message::Part::Opaque(_) => {}
            }
        }
        self.push(source, Speaker::User, lost);
        self.push(source, speaker, parts);
    }

    fn push(&mut self, source: usize, speaker: Speaker, parts: Vec<Part<'a>>) {
        if parts.is_empty() {
            return;
        }
        if speaker == Speaker::Assistant {
            self.reply = Some(self.turns.len());
        }
        self.turns.push(Turn {
            speaker,
            parts,
            source,
        });
    }

    /// Gives the result to its call, and returns where that is: the turn, and the part of it. None if the
    /// latest reply has no such call without a result.
    fn answer(&mut self, source: usize, result: &'a ToolResult) -> Option<(usize, usize)> {
        let reply = self.reply?;
        let mut parts = self.turns.get_mut(reply)?.parts.iter_mut().enumerate();
        parts.find_map(|(at, part)| match part {
            Part::Call(call) if call.call.id == result.call_id && call.result.is_none() => {
                call.result = Some((source, result));
                Some((reply, at))
            }
            _ => None,
        })
    }

    /// Adds to the result of the call there.
    fn attach(&mut self, (turn, part): (usize, usize), media: &'a Media) {
        let turn = self.turns.get_mut(turn);
        if let Some(Part::Call(call)) = turn.and_then(|turn| turn.parts.get_mut(part)) {
            call.media.push(media);
        }
    }

    fn new_id(&mut self, id: &str) -> String {
        let admitted = self.admitted;
        let id: String = replaced(id, admitted).collect();
        let id = if id.is_empty() { "call" } else { &id };
        let numbered = (2..).map(|number| format!("{id}_{number}"));
        let mut candidates = std::iter::once(id.to_owned()).chain(numbered);
        let free = candidates.find(|id| !self.ids.contains(id));
        let id = free.unwrap_or_default();
        self.ids.insert(id.clone());
        id
    }
}

fn last_call<'p, 'a>(parts: &'p mut [Part<'a>]) -> Option<&'p mut Call<'a>> {
    parts.iter_mut().rev().find_map(|part| match part {
        Part::Call(call) => Some(call),
        _ => None,
    })
}

fn replaced(text: &str, admitted: fn(char) -> bool) -> impl Iterator<Item = char> {
    text.chars().map(move |c| if admitted(c) { c } else { '_' })
}

/// A character that servers admit in names of tools; Anthropic also in ids.
pub(crate) fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// A name of a tool that servers admit.
pub(crate) fn is_tool_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(is_name_char)
}

fn admitted_name(name: &str) -> Cow<'_, str> {
    match name {
        "" => UNNAMED.into(),
        name if is_tool_name(name) => name.into(),
        name => replaced(name, is_name_char).take(LONGEST_NAME).collect(),
    }
}

fn text_part(text: &str) -> Option<Part<'_>> {
    (!text.trim().is_empty()).then_some(Part::Text(text.into()))
}

fn lost_result(result: &ToolResult) -> String {
    let ToolResult { call_id, text, .. } = result;
    let kind = if result.is_error { "Error" } else { "Result" };
    format!("{kind} of the tool call {call_id}: {text}")
}
