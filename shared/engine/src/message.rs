//! What goes to a language model and comes back: messages with parts, tool calls, usage.

use serde::{Deserialize, Serialize};

/// Who speaks in a [`Message`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions that hold for the whole conversation.
    System,
    /// The person, or Cairn in their place (requirement, step context, reminders).
    User,
    /// The model.
    Assistant,
    /// The result of one tool call.
    Tool,
}

/// A call of a tool that a model requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Names the call within its attempt; the result refers to it.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// The arguments as JSON text, as the model wrote them: possibly invalid.
    pub arguments: String,
}

/// What a tool call came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call that this is the result of.
    pub call_id: String,
    /// What the model gets.
    pub text: String,
    /// The text tells of a failure.
    pub is_error: bool,
}

/// A picture or a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// What it is, such as `image/png`.
    pub mime: String,
    /// Its bytes.
    pub data: Vec<u8>,
}

/// Something that a provider wants back as it gave it, such as a thinking block with its signature.
/// It goes back only to the provider and the model that made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opaque {
    /// The provider that made it.
    pub provider: String,
    /// The model that made it, as the settings name it.
    pub model: String,
    /// What the provider calls it, such as `thinking`.
    pub kind: String,
    /// JSON text as the provider gave it.
    pub json: String,
}

/// The kind of an [`Opaque`] with fields of the call before it that the protocol does not name.
pub const CALL_FIELDS: &str = "call_fields";
/// The kind of an [`Opaque`] with such fields of its message.
pub const MESSAGE_FIELDS: &str = "message_fields";

impl Opaque {
    /// It has extra fields, and nothing that the model said or thought.
    pub fn is_fields(&self) -> bool {
        self.kind == CALL_FIELDS || self.kind == MESSAGE_FIELDS
    }
}

/// Where an [`Opaque`] stands in a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedOpaque {
    /// Calls of the reply before it.
    pub calls: u32,
    /// Bytes of the reply's text before it.
    pub text_bytes: u32,
    /// What stands there.
    pub opaque: Opaque,
}

/// A text that Cairn adds to the messages of the user. Models read it as any other text there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// As the model reads it.
    pub text: String,
    /// It holds what a file of the workspace says. The person in the conversation may not have written that.
    pub is_of_workspace: bool,
}

/// A part of a [`Message`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// Something that is said.
    Text(String),
    /// A call that is asked for; only an assistant has any.
    Call(ToolCall),
    /// What a call came to; only with [`Role::Tool`].
    Result(ToolResult),
    /// A picture or a file.
    Media(Media),
    /// What only its provider can read; only an assistant has any.
    Opaque(Opaque),
    /// A text of Cairn, such as a reminder; only with [`Role::User`].
    Notice(Notice),
}

/// What a message, and each of its parts, counts beside its bytes.
const OVERHEAD: usize = 16;

/// One message of a conversation with a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub parts: Vec<Part>,
}

impl Message {
    /// Instructions for the whole conversation.
    pub fn system(text: impl Into<String>) -> Self {
        Self::plain(Role::System, text.into())
    }

    /// What the person says.
    pub fn user(text: impl Into<String>) -> Self {
        Self::plain(Role::User, text.into())
    }

    /// A model's reply with the calls that it asks for.
    pub fn assistant(text: impl Into<String>, calls: Vec<ToolCall>) -> Self {
        let mut message = Self::plain(Role::Assistant, text.into());
        message.parts.extend(calls.into_iter().map(Part::Call));
        message
    }

    /// A model's reply of these parts, in the order in which they came. [`Message::into_reply`] takes it
    /// apart again. Of text and calls between two opaque parts, the text comes first.
    pub fn reply(text: String, calls: Vec<ToolCall>, opaque: Vec<PlacedOpaque>) -> Self {
        if opaque.is_empty() {
            return Self::assistant(text, calls);
        }
        let mut parts = Vec::with_capacity(1 + calls.len() + 2 * opaque.len());
        let (all, mut calls, mut from) = (calls.len(), calls.into_iter(), 0);
        for placed in opaque {
            let to = text
                .floor_char_boundary(placed.text_bytes as usize)
                .max(from);
            parts.extend(text_part(&text[from..to]));
            let before = all - calls.len();
            let more = (placed.calls as usize).saturating_sub(before);
            parts.extend(calls.by_ref().take(more).map(Part::Call));
            parts.push(Part::Opaque(placed.opaque));
            from = to;
        }
        parts.extend(text_part(&text[from..]));
        parts.extend(calls.map(Part::Call));
        Self {
            role: Role::Assistant,
            parts,
        }
    }

    /// The text, the calls and the rest of a model's reply. The parts of its text become one.
    pub fn into_reply(self) -> (String, Vec<ToolCall>, Vec<PlacedOpaque>) {
        let (mut text, mut calls, mut opaque) = (String::new(), Vec::new(), Vec::new());
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        for part in self.parts {
            match part {
                Part::Text(more) | Part::Notice(Notice { text: more, .. }) => text.push_str(&more),
                Part::Call(call) => calls.push(call),
                Part::Opaque(part) => opaque.push(PlacedOpaque {
                    calls: count(calls.len()),
                    text_bytes: count(text.len()),
                    opaque: part,
                }),
                Part::Result(_) | Part::Media(_) => {}
            }
        }
        (text, calls, opaque)
    }

    /// The result of the call `call_id`.
    pub fn tool(call_id: impl Into<String>, text: impl Into<String>, is_error: bool) -> Self {
        let result = ToolResult {
            call_id: call_id.into(),
            text: text.into(),
            is_error,
        };
        Self {
            role: Role::Tool,
            parts: vec![Part::Result(result)],
        }
    }

    /// The same message with pictures and files of the result, which stand behind its text.
    #[must_use]
    pub fn with_media(mut self, media: impl IntoIterator<Item = Media>) -> Self {
        self.parts.extend(media.into_iter().map(Part::Media));
        self
    }

    /// The same reply with another text in place of its own. Its calls and what only its provider reads stay.
    #[must_use]
    pub(crate) fn saying(mut self, text: &str) -> Self {
        let is_text = |part: &Part| matches!(part, Part::Text(_));
        let is_call = |part: &Part| matches!(part, Part::Call(_));
        let place = self.parts.iter().position(is_text);
        let place = place.or_else(|| self.parts.iter().position(is_call));
        let place = place.unwrap_or(self.parts.len());
        self.parts.retain(|part| !is_text(part));
        // A text with nothing in it is no part.
        if !text.is_empty() {
            self.parts.insert(place, Part::Text(text.to_owned()));
        }
        self
    }

    fn plain(role: Role, text: String) -> Self {
        // A text with nothing in it is no part.
        let text = (!text.is_empty()).then_some(Part::Text(text));
        Self {
            role,
            parts: text.into_iter().collect(),
        }
    }

    /// The bytes of its parts, as they count for the size of a context.
    pub fn bytes(&self) -> u64 {
        let bytes = self.parts.iter().map(|part| {
            OVERHEAD
                + match part {
                    Part::Text(text) | Part::Notice(Notice { text, .. }) => text.len(),
                    Part::Call(call) => call.id.len() + call.name.len() + call.arguments.len(),
                    Part::Result(result) => result.call_id.len() + result.text.len(),
                    Part::Media(media) => media.mime.len() + media.data.len(),
                    Part::Opaque(it) => {
                        it.json.len() + it.kind.len() + it.model.len() + it.provider.len()
                    }
                }
        });
        (OVERHEAD + bytes.sum::<usize>()) as u64
    }

    /// All texts and results, one after the other: what a model reads, notices of Cairn included.
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Notice(notice) => Some(notice.text.as_str()),
            part => said_in(part),
        });
        texts.collect()
    }

    /// The same without the notices of Cairn: what the author of the message said.
    pub fn said(&self) -> String {
        self.parts.iter().filter_map(said_in).collect()
    }

    /// The calls that it asks for, in order.
    pub fn calls(&self) -> impl DoubleEndedIterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            _ => None,
        })
    }

    /// The results that it has, in order.
    pub fn results(&self) -> impl Iterator<Item = &ToolResult> {
        self.parts.iter().filter_map(|part| match part {
            Part::Result(result) => Some(result),
            _ => None,
        })
    }
}

/// The text of a part that its author wrote.
fn said_in(part: &Part) -> Option<&str> {
    match part {
        Part::Text(text) => Some(text),
        Part::Result(result) => Some(&result.text),
        Part::Call(_) | Part::Media(_) | Part::Opaque(_) | Part::Notice(_) => None,
    }
}

/// A text with nothing in it is no part.
fn text_part(text: &str) -> Option<Part> {
    (!text.is_empty()).then(|| Part::Text(text.to_owned()))
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FinishReason {
    /// The model was done.
    Stop,
    /// The model waits for the results of its tool calls.
    ToolCalls,
    /// The reply was cut at the limit of its length.
    Length,
    /// The model or its provider refused to answer.
    Refusal,
    /// The provider said something else, or nothing.
    #[default]
    Other,
}

/// What model calls used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens sent, those of the provider's cache included.
    pub input_tokens: u64,
    /// Those of them that were read from the provider's cache.
    pub cached_input_tokens: u64,
    /// Those of them that were written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Tokens received, those of reasoning included.
    pub output_tokens: u64,
    /// Those of them that the model only thought, where the provider says so.
    pub reasoning_tokens: u64,
    /// Price in 10⁻⁹ US dollars, of tokens with a known price.
    pub cost_nano_usd: u64,
    /// Tokens in and out without a known price.
    pub unpriced_tokens: u64,
    /// Calls of a model that were answered.
    pub model_calls: u32,
}

impl Usage {
    /// Of a question whose answer is lost. What it used up is not known, so it counts as it was estimated.
    pub fn of_lost_answer(estimated_tokens: u64) -> Self {
        Self {
            input_tokens: estimated_tokens,
            unpriced_tokens: estimated_tokens,
            model_calls: 1,
            ..Self::default()
        }
    }

    /// Tokens in and out.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Adds `other` to this, stopping at the largest number.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.input_tokens, other.input_tokens),
            (&mut self.cached_input_tokens, other.cached_input_tokens),
            (&mut self.cache_write_tokens, other.cache_write_tokens),
            (&mut self.output_tokens, other.output_tokens),
            (&mut self.reasoning_tokens, other.reasoning_tokens),
            (&mut self.cost_nano_usd, other.cost_nano_usd),
            (&mut self.unpriced_tokens, other.unpriced_tokens),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.model_calls = self.model_calls.saturating_add(other.model_calls);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_text_for_the_model_and_nothing_that_a_person_said() {
        let mut message = Message::user("Look.");
        let before = message.bytes();
        message.parts.push(Part::Notice(Notice {
            text: "Memory changed.".to_owned(),
            is_of_workspace: false,
        }));
        assert_eq!(message.text(), "Look.Memory changed.");
        assert_eq!(message.said(), "Look.");
        assert_eq!(message.bytes(), before + OVERHEAD as u64 + 15);
        assert_eq!(message.into_reply().0, "Look.Memory changed.");
    }

    #[test]
    fn a_result_is_said() {
        let message = Message::tool("call", "seen", false);
        assert_eq!(
            (message.text(), message.said()),
            ("seen".into(), "seen".into())
        );
    }
}
