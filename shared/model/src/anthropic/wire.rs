//! The JSON of the protocol. Every field of an answer may be missing or null, and blocks of
//! kinds that are not known are kept as they are.

use crate::server::draft::Reported;
use crate::server::lenient;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// A block or a piece of one, as it is.
pub(super) type Fields = Map<String, Value>;

/// The fields of a call that are read or written here. No extra field has one of these names.
/// `caller` is of the answer alone: some hosts refuse it in a request.
pub(super) const CALL_NAMES: [&str; 6] = ["type", "id", "name", "input", "cache_control", "caller"];

#[derive(Debug, Serialize)]
pub(super) struct Request<'a> {
    pub(super) model: &'a str,
    pub(super) max_tokens: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) system: Vec<Block<'a>>,
    pub(super) messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_config: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) stream: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Message<'a> {
    pub(super) role: Role,
    pub(super) content: Vec<Block<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Role {
    User,
    Assistant,
}

/// A part of a message, and whether everything up to it is to be kept in the cache.
#[derive(Debug, Serialize)]
pub(super) struct Block<'a> {
    #[serde(flatten)]
    pub(super) part: Part<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_control: Option<CacheControl>,
    /// Position of the message of the conversation that it is from.
    #[serde(skip)]
    pub(super) source: usize,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
    },
    ToolUse {
        id: String,
        name: Cow<'a, str>,
        input: Value,
        #[serde(flatten)]
        extra: Fields,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(skip_serializing_if = "ResultContent::is_empty")]
        content: ResultContent<'a>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    /// As the server made it.
    #[serde(untagged)]
    Opaque(Fields),
}

/// Text alone is sent as text.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum ResultContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

impl ResultContent<'_> {
    fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Parts(parts) => parts.is_empty(),
        }
    }
}

/// The bytes of a file.
#[derive(Debug, Serialize)]
pub(super) struct Source<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) media_type: &'a str,
    pub(super) data: String,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
}

impl CacheControl {
    /// For five minutes, prolonged by each use.
    pub(super) const EPHEMERAL: Self = Self { kind: "ephemeral" };
}

#[derive(Debug, Serialize)]
pub(super) struct Tool<'a> {
    pub(super) name: &'a str,
    pub(super) description: &'a str,
    pub(super) input_schema: &'a Value,
}

impl<'a> Part<'a> {
    /// A block of this part, from the message at the position `source`.
    pub(super) fn from(self, source: usize) -> Block<'a> {
        Block {
            part: self,
            cache_control: None,
            source,
        }
    }
}

/// A whole answer, or the message that a stream begins with.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Answer {
    pub(super) model: Option<String>,
    pub(super) content: Option<Vec<Fields>>,
    pub(super) stop_reason: Option<String>,
    pub(super) usage: Option<Usage>,
    pub(super) error: Option<Value>,
}

/// One event of a stream.
#[derive(Debug, Deserialize)]
pub(super) struct Event {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    #[serde(default, deserialize_with = "lenient::number")]
    pub(super) index: Option<u64>,
    pub(super) message: Option<Answer>,
    pub(super) content_block: Option<Fields>,
    pub(super) delta: Option<Fields>,
    pub(super) usage: Option<Usage>,
    pub(super) error: Option<Value>,
}

/// Numbers that are none are taken for not reported: usage breaks no reply.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    input_tokens: Value,
    cache_read_input_tokens: Value,
    cache_creation_input_tokens: Value,
    output_tokens: Value,
}

impl Usage {
    /// Adds what is known now: a stream says at its beginning what was sent, and at its end what
    /// was received, and what it says later holds.
    pub(super) fn report(&self, reported: &mut Reported) {
        // The protocol counts as input only what was neither read from the cache nor written to it.
        let plain = reported
            .input
            .map(|all| all.saturating_sub(reported.cached.saturating_add(reported.cache_write)));
        let plain = self.input_tokens.as_u64().or(plain);
        let number = |value: &Value, before: u64| value.as_u64().unwrap_or(before);
        reported.cached = number(&self.cache_read_input_tokens, reported.cached);
        reported.cache_write = number(&self.cache_creation_input_tokens, reported.cache_write);
        let cache = reported.cached.saturating_add(reported.cache_write);
        reported.input = plain.map(|plain| plain.saturating_add(cache));
        reported.output = self.output_tokens.as_u64().or(reported.output);
    }
}
