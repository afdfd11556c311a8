//! The JSON of the protocol. Every field of an answer may be missing or null, and kinds that are
//! not known are passed over, as the protocol wants it.

use crate::server::reply::Reported;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) stream: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Message<'a> {
    pub(super) role: Speaker,
    pub(super) content: Vec<Block<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Speaker {
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
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part<'a> {
    Text {
        text: &'a str,
    },
    ToolUse {
        id: String,
        name: &'a str,
        input: Value,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(skip_serializing_if = "str::is_empty")]
        content: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
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

impl<'a> From<Part<'a>> for Block<'a> {
    fn from(part: Part<'a>) -> Self {
        Self {
            part,
            cache_control: None,
        }
    }
}

/// A whole answer, or the message that a stream begins with.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Answer {
    pub(super) model: Option<String>,
    pub(super) content: Option<Vec<Content>>,
    pub(super) stop_reason: Option<String>,
    pub(super) usage: Option<Usage>,
    pub(super) error: Option<Value>,
}

/// A part of an answer, whole or at its beginning.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Content {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    pub(super) text: Option<String>,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) input: Option<Value>,
}

/// One event of a stream.
#[derive(Debug, Deserialize)]
pub(super) struct Event {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    pub(super) index: Option<u64>,
    pub(super) message: Option<Answer>,
    pub(super) content_block: Option<Content>,
    pub(super) delta: Option<Delta>,
    pub(super) usage: Option<Usage>,
    pub(super) error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Delta {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    pub(super) text: Option<String>,
    pub(super) partial_json: Option<String>,
    pub(super) stop_reason: Option<String>,
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
            .map(|all| all.saturating_sub(reported.cached + reported.cache_write));
        let plain = self.input_tokens.as_u64().or(plain);
        let number = |value: &Value, before: u64| value.as_u64().unwrap_or(before);
        reported.cached = number(&self.cache_read_input_tokens, reported.cached);
        reported.cache_write = number(&self.cache_creation_input_tokens, reported.cache_write);
        let cache = reported.cached.saturating_add(reported.cache_write);
        reported.input = plain.map(|plain| plain.saturating_add(cache));
        reported.output = self.output_tokens.as_u64().or(reported.output);
    }
}
