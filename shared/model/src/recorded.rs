//! A model that answers from a file of exchanges: for tests, examples and benchmarks.
//!
//! The file has one JSON object a line; blank lines are skipped. An exchange says which requests
//! it is for and what is replied:
//!
//! ```json
//! {"match": {"contains": "count the files"}, "reply": {"text": "{\"steps\": [{\"title\": \"Count\", \"description\": \"Count them.\"}]}"}}
//! {"match": {"step": "Count"}, "replies": [
//!   {"tool_calls": [{"name": "list_files", "arguments": {"path": "."}}]},
//!   {"tool_calls": [{"name": "step", "arguments": {"complete": true, "summary": "3 files"}}]}]}
//! ```
//!
//! (Shown on several lines here; in the file each exchange is on one.)
//!
//! # How a reply is chosen
//!
//! By the request alone: the model counts nothing and remembers nothing, so that a run which is
//! killed and continued by another process gets the replies that it would have got.
//!
//! An exchange looks for its *anchor*: the newest user message that fulfils `contains` and `step`
//! (without either, the newest user message). The replies given since the anchor, that is the
//! assistant messages after it, are the *turn*, counted from 0, and `replies[turn]` is the answer.
//! Of several exchanges that have an answer, the one with the newest anchor is taken, and among
//! those the one that stands first in the file.
//!
//! # Fields
//!
//! `match`, all of it optional and all of it to be fulfilled:
//!
//! | field | meaning |
//! |---|---|
//! | `contains` | text in the anchor |
//! | `step` | text in the current step's part of a step context, its title and description; `""` fits every step. An exchange **without** it is for requests that are no steps: planning and conversation |
//! | `system` | text in a system message |
//! | `last` | text in the last message of the conversation, such as a tool's result |
//! | `turn` | the turn that the first reply is for; 0 if it is not said |
//!
//! Beside `match`: `reply` (one) or `replies` (a list, one a turn), `repeat` (true: the last reply
//! also answers every later turn), `usage` (for replies that have none of their own) and `note`
//! (for the reader).
//!
//! A reply has `text`, `tool_calls` (each a `name`, `arguments` as an object, or as a text to play
//! a model that writes bad JSON, and if wanted an `id`), `opaque` (parts that only a provider can
//! read, before the text: each a `kind` and its `json`, and if wanted the `provider` and `model`
//! that they are from), `finish` (`stop`, `tool_calls`, `length`, `refusal`, `other`), `usage`
//! (`input_tokens` and of them `cached_input_tokens` and `cache_write_tokens`, `output_tokens` and
//! of them `reasoning_tokens`, `cost_nano_usd`; all 0 if it is not said), `delay_ms` (what the
//! answer takes), and in place of all that `error`: one of `rate_limit`, `timeout`, `stream`,
//! `server`, `auth`, `context_length`, `bad_request`, with `text` as its message.
//!
//! A line `{"model": {"name": "…", "window_tokens": 8000}}` describes the model; it may also give
//! `input_nano_usd_per_million` and `output_nano_usd_per_million`, from which the cost is computed
//! where a usage does not say it, and `"vision": true` for a model that sees.
//!
//! When older messages are summarised, the turn is counted in what is left: use `last` and
//! `repeat` there.

mod choose;
mod format;

use crate::prices::Prices;
use crate::stream::word_events;
use crate::tokens::estimate_tokens;
use crate::{ChatReply, ChatRequest, FinishReason, Model, ModelError, ModelInfo, StreamEvent};
use async_trait::async_trait;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::{Message, Opaque, Part, Role, ToolCall, Usage};
use format::{Arguments, Recording, Reply};
use futures::stream::BoxStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A model that answers from a recording. See the module for the file's format.
#[derive(Debug, Clone)]
pub struct Recorded {
    recording: Recording,
    info: ModelInfo,
}

impl Recorded {
    /// Reads a recording from a file; the model is named after it unless the file says otherwise.
    ///
    /// # Errors
    /// A failure of kind Config: the file cannot be read, or a line is wrong; it is named.
    pub fn from_file(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let message = format!("the recording {} cannot be read: {error}", path.display());
            Failure::new(FailureKind::Config, "unreadable", message)
        })?;
        let name = path.file_stem().unwrap_or_default();
        Self::parse(&name.to_string_lossy(), &text)
    }

    /// Takes a recording from a text.
    ///
    /// # Errors
    /// A failure of kind Config that names the line.
    pub fn parse(name: &str, text: &str) -> Result<Self, Failure> {
        let recording = format::parse(text).map_err(|message| {
            let message = format!("the recording {name:?} is wrong: {message}");
            Failure::new(FailureKind::Config, "invalid", message)
        })?;
        let about = recording.about.clone();
        let info = ModelInfo {
            provider: "recorded".to_owned(),
            name: about.name.unwrap_or_else(|| name.to_owned()),
            window_tokens: about.window_tokens,
            vision: about.vision,
            prices: Some(Prices::flat(
                about.input_nano_usd_per_million,
                about.output_nano_usd_per_million,
            )),
        };
        Ok(Self { recording, info })
    }

    async fn answer(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        let (exchange, reply) = choose::reply(&self.recording.exchanges, request)
            .ok_or_else(|| self.unknown(request))?;
        if reply.delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(reply.delay_ms)).await;
        }
        if let Some(error) = reply.error {
            return Err(error.into_error(reply.text.clone()));
        }
        let mut message = Message::assistant(reply.text.clone(), calls(reply, request));
        message.parts.splice(..0, self.opaque(reply));
        let recorded = reply.usage.or(exchange.usage).unwrap_or_default();
        let mut usage = Usage {
            input_tokens: recorded.input_tokens,
            cached_input_tokens: recorded.cached_input_tokens,
            cache_write_tokens: recorded.cache_write_tokens,
            output_tokens: recorded.output_tokens,
            reasoning_tokens: recorded.reasoning_tokens,
            model_calls: 1,
            ..Usage::default()
        };
        match recorded.cost_nano_usd {
            Some(cost) => usage.cost_nano_usd = cost,
            None => self.info.price(&mut usage),
        }
        Ok(ChatReply {
            finish: finish(reply),
            message,
            usage,
            model: self.info.name.clone(),
        })
    }

    fn opaque(&self, reply: &Reply) -> Vec<Part> {
        let opaque = reply.opaque.iter().cloned().map(|opaque| {
            Part::Opaque(Opaque {
                provider: opaque
                    .provider
                    .unwrap_or_else(|| self.info.provider.clone()),
                model: opaque.model.unwrap_or_else(|| self.info.name.clone()),
                kind: opaque.kind,
                json: opaque.json.to_string(),
            })
        });
        opaque.collect()
    }

    fn unknown(&self, request: &ChatRequest) -> ModelError {
        ModelError::BadAnswer {
            message: format!(
                "the recording {:?} has no reply to {}",
                self.info.name,
                choose::describe(request)
            ),
        }
    }
}

/// The calls of a reply; their ids follow from the place in the conversation.
fn calls(reply: &Reply, request: &ChatRequest) -> Vec<ToolCall> {
    let replies = request.messages.iter();
    let round = replies
        .filter(|message| message.role == Role::Assistant)
        .count();
    let calls = reply.tool_calls.iter().enumerate();
    let call = |(at, call): (usize, &format::Call)| ToolCall {
        id: call
            .id
            .clone()
            .unwrap_or_else(|| format!("call_{round}_{at}")),
        name: call.name.clone(),
        arguments: match &call.arguments {
            Arguments::Text(text) => text.clone(),
            Arguments::Object(object) => serde_json::Value::Object(object.clone()).to_string(),
        },
    };
    calls.map(call).collect()
}

fn finish(reply: &Reply) -> FinishReason {
    match reply.finish {
        Some(finish) => finish.into(),
        None if reply.tool_calls.is_empty() => FinishReason::Stop,
        None => FinishReason::ToolCalls,
    }
}

#[async_trait]
impl Model for Recorded {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        self.answer(request).await
    }

    /// The text comes word by word.
    async fn chat_stream(
        &self,
        request: &ChatRequest,
    ) -> Result<BoxStream<'static, StreamEvent>, ModelError> {
        let reply = self.answer(request).await?;
        Ok(Box::pin(futures::stream::iter(word_events(reply))))
    }

    fn estimate_tokens(&self, messages: &[Arc<Message>]) -> u64 {
        estimate_tokens(messages)
    }

    fn describe(&self) -> ModelInfo {
        self.info.clone()
    }
}
