//! The JSON of the protocol. Every field of an answer may be missing or null.

use crate::ModelError;
use crate::clean::Cleaner;
use crate::server::draft::Reported;
use crate::server::extra::is_nothing;
use crate::server::{fault, from_json, lenient};
pub(super) use cairn_engine::message::Role;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

pub(super) const REASONING_CONTENT: &str = "reasoning_content";
pub(super) const REASONING: &str = "reasoning";
/// A list; the others are texts.
pub(super) const REASONING_DETAILS: &str = "reasoning_details";

/// The extra fields of a message that some server wants back. Others are of the answer alone, such as
/// `annotations`, and strict servers refuse them in a request.
pub(super) const MESSAGE_RETURNED: [&str; 2] = ["extra_content", "reasoning_opaque"];
/// The fields of a call that are read or written here. No extra field has one of these names.
pub(super) const CALL_NAMES: [&str; 4] = ["index", "id", "type", FUNCTION];
/// The same of the function of a call.
pub(super) const FUNCTION_NAMES: [&str; 2] = ["name", "arguments"];
/// The field of a call with its name and its arguments.
pub(super) const FUNCTION: &str = "function";

#[derive(Debug, Serialize)]
pub(super) struct Request<'a> {
    pub(super) model: &'a str,
    pub(super) messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_format: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream_options: Option<StreamOptions>,
}

#[derive(Debug, Serialize)]
pub(super) struct StreamOptions {
    pub(super) include_usage: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Message<'a> {
    pub(super) role: Role,
    pub(super) content: Option<MessageContent<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<Call<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_call_id: Option<String>,
    /// Reasoning and extra fields, as they came.
    #[serde(flatten)]
    pub(super) fields: Map<String, Value>,
}

/// Text alone is sent as text: not every server understands a list of parts.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum MessageContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<ContentPart<'a>>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ContentPart<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Debug, Serialize)]
pub(super) struct ImageUrl {
    pub(super) url: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Call<'a> {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: CalledFunction<'a>,
    #[serde(flatten)]
    pub(super) extra: Map<String, Value>,
}

#[derive(Debug, Serialize)]
pub(super) struct CalledFunction<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) arguments: String,
    #[serde(flatten)]
    pub(super) extra: Map<String, Value>,
}

#[derive(Debug, Serialize)]
pub(super) struct Tool<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: OfferedFunction<'a>,
}

#[derive(Debug, Serialize)]
pub(super) struct OfferedFunction<'a> {
    pub(super) name: &'a str,
    pub(super) description: &'a str,
    pub(super) parameters: &'a Value,
}

/// A whole answer, or one piece of a stream.
#[derive(Debug, Deserialize)]
pub(super) struct Reply {
    pub(super) model: Option<String>,
    pub(super) choices: Option<Vec<Choice>>,
    pub(super) usage: Option<Usage>,
    error: Option<Value>,
    /// `error` where a server puts its error in the place of an answer.
    object: Option<String>,
    /// The fields of an error in the place of an answer, at other servers.
    error_type: Option<Value>,
    error_message: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice {
    /// Of a piece of a stream.
    pub(super) delta: Option<Delta>,
    /// Of a whole answer.
    pub(super) message: Option<Delta>,
    pub(super) finish_reason: Option<String>,
    /// Why this choice failed.
    error: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Delta {
    pub(super) content: Option<Content>,
    pub(super) refusal: Option<String>,
    /// Reasoning: these fields are no part of the protocol, and some servers want them back. A server
    /// has one of them, or two.
    reasoning_content: Option<Value>,
    reasoning: Option<Value>,
    reasoning_details: Option<Value>,
    pub(super) tool_calls: Option<Vec<CallPiece>>,
    /// What `tool_calls` was before there could be several.
    pub(super) function_call: Option<FunctionPiece>,
    /// All other fields.
    #[serde(flatten)]
    pub(super) extra: Map<String, Value>,
}

/// Text, or a list of parts of which some are text.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
pub(super) struct Part {
    text: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct CallPiece {
    #[serde(default, deserialize_with = "lenient::number")]
    pub(super) index: Option<u64>,
    #[serde(default, deserialize_with = "lenient::text")]
    pub(super) id: Option<String>,
    pub(super) function: Option<FunctionPiece>,
    #[serde(flatten)]
    pub(super) extra: Map<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct FunctionPiece {
    pub(super) name: Option<String>,
    /// A text with JSON in it; some servers send the JSON itself.
    pub(super) arguments: Option<Value>,
    #[serde(flatten)]
    pub(super) extra: Map<String, Value>,
}

/// Numbers that are none are taken for not reported: usage breaks no reply.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    prompt_tokens: Value,
    completion_tokens: Value,
    prompt_tokens_details: Value,
    completion_tokens_details: Value,
}

impl Usage {
    pub(super) fn reported(&self) -> Reported {
        let cached = self.prompt_tokens_details.get("cached_tokens");
        let reasoning = self.completion_tokens_details.get("reasoning_tokens");
        Reported {
            input: self.prompt_tokens.as_u64(),
            cached: cached.and_then(Value::as_u64).unwrap_or_default(),
            cache_write: 0,
            output: self.completion_tokens.as_u64(),
            reasoning: reasoning.and_then(Value::as_u64).unwrap_or_default(),
        }
    }
}

impl Reply {
    /// Reads an answer or a piece; an error in it is returned as one.
    pub(super) fn parse(json: &[u8], cleaner: &Cleaner) -> Result<Self, ModelError> {
        if json.trim_ascii_start().starts_with(b"[") {
            return Err(fault::of_list(json, cleaner));
        }
        let reply: Self = from_json(json, cleaner)?;
        let mut choices = reply.choices.iter().flatten();
        let of_choice = choices.find_map(|choice| choice.error.as_ref());
        let errors = reply.error.iter().chain(of_choice);
        if let Some(error) = errors.into_iter().find(|error| !is_nothing(error)) {
            return Err(fault::of_answer(error, cleaner));
        }
        let beside = [&reply.error_type, &reply.error_message];
        let is_beside = beside.into_iter().flatten().any(|error| !is_nothing(error));
        if is_beside || reply.object.as_deref() == Some("error") {
            let error: Value = from_json(json, cleaner)?;
            return Err(fault::of_answer(&error, cleaner));
        }
        Ok(reply)
    }
}

impl Delta {
    /// The reasoning by the names of its fields.
    pub(super) fn reasoning_mut(&mut self) -> [(&'static str, &mut Option<Value>); 3] {
        [
            (REASONING_CONTENT, &mut self.reasoning_content),
            (REASONING, &mut self.reasoning),
            (REASONING_DETAILS, &mut self.reasoning_details),
        ]
    }
}

impl Content {
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Parts(parts) => parts.into_iter().filter_map(|part| part.text).collect(),
        }
    }
}
