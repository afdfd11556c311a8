//! The file of a recording.

use crate::{FinishReason, ModelError};
use cairn_engine::text::without_bom;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::time::Duration;

#[derive(Debug, Clone, Default)]
pub(super) struct Recording {
    pub(super) about: About,
    pub(super) exchanges: Vec<Exchange>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct About {
    pub(super) name: Option<String>,
    pub(super) window_tokens: u64,
    pub(super) vision: bool,
    pub(super) input_nano_usd_per_million: u64,
    pub(super) output_nano_usd_per_million: u64,
}

impl Default for About {
    fn default() -> Self {
        Self {
            name: None,
            window_tokens: 128_000,
            vision: false,
            input_nano_usd_per_million: 0,
            output_nano_usd_per_million: 0,
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exchange {
    #[serde(default, rename = "match")]
    pub(super) when: Match,
    /// One reply; [`parse`] moves it into `replies`.
    reply: Option<Reply>,
    #[serde(default)]
    pub(super) replies: Vec<Reply>,
    #[serde(default)]
    pub(super) repeat: bool,
    #[serde(default)]
    pub(super) usage: Option<RecordedUsage>,
    #[serde(default, rename = "note")]
    _note: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Match {
    pub(super) contains: Option<String>,
    pub(super) step: Option<String>,
    pub(super) system: Option<String>,
    pub(super) last: Option<String>,
    pub(super) turn: usize,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Reply {
    pub(super) opaque: Vec<RecordedOpaque>,
    pub(super) text: String,
    pub(super) tool_calls: Vec<Call>,
    pub(super) finish: Option<Finish>,
    pub(super) usage: Option<RecordedUsage>,
    pub(super) delay_ms: u64,
    pub(super) error: Option<PlayedError>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    pub(super) name: String,
    #[serde(default)]
    pub(super) arguments: Arguments,
    #[serde(default)]
    pub(super) id: Option<String>,
}

/// What only a provider can read; that is the recording itself if no other is named.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordedOpaque {
    pub(super) kind: String,
    pub(super) json: Value,
    pub(super) provider: Option<String>,
    pub(super) model: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Arguments {
    Object(Map<String, Value>),
    Text(String),
}

impl Default for Arguments {
    fn default() -> Self {
        Self::Object(Map::new())
    }
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RecordedUsage {
    pub(super) input_tokens: u64,
    pub(super) cached_input_tokens: u64,
    pub(super) cache_write_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) reasoning_tokens: u64,
    pub(super) cost_nano_usd: Option<u64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Finish {
    Stop,
    ToolCalls,
    Length,
    Refusal,
    Other,
}

impl From<Finish> for FinishReason {
    fn from(finish: Finish) -> Self {
        match finish {
            Finish::Stop => Self::Stop,
            Finish::ToolCalls => Self::ToolCalls,
            Finish::Length => Self::Length,
            Finish::Refusal => Self::Refusal,
            Finish::Other => Self::Other,
        }
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PlayedError {
    RateLimit,
    Timeout,
    Stream,
    Server,
    Auth,
    ContextLength,
    BadRequest,
}

impl PlayedError {
    pub(super) fn into_error(self, message: String) -> ModelError {
        match self {
            Self::RateLimit => ModelError::RateLimit {
                message,
                retry_after: None,
            },
            Self::Timeout => ModelError::Timeout {
                after: Duration::ZERO,
            },
            Self::Stream => ModelError::Stream { message },
            Self::Server => ModelError::Server {
                status: 500,
                message,
            },
            Self::Auth => ModelError::Auth { message },
            Self::ContextLength => ModelError::ContextLength { message },
            Self::BadRequest => ModelError::BadRequest { message },
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AboutLine {
    model: About,
}

/// Reads a recording; an error names the line, from 1.
pub(super) fn parse(text: &str) -> Result<Recording, String> {
    let mut recording = Recording::default();
    for (at, line) in without_bom(text).lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let read = parse_line(line, &mut recording);
        read.map_err(|error| format!("line {}: {error}", at + 1))?;
    }
    if recording.exchanges.is_empty() {
        return Err("it has no exchange".to_owned());
    }
    Ok(recording)
}

fn parse_line(line: &str, recording: &mut Recording) -> Result<(), String> {
    let json: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    if json.get("model").is_some() {
        let about: AboutLine = serde_json::from_str(line).map_err(|error| error.to_string())?;
        recording.about = about.model;
        return Ok(());
    }
    // From the text: a number that goes through a value may be spelled anew.
    let mut exchange: Exchange = serde_json::from_str(line).map_err(|error| error.to_string())?;
    match (exchange.reply.take(), exchange.replies.is_empty()) {
        (Some(reply), true) => exchange.replies.push(reply),
        (None, false) => {}
        (Some(_), false) => return Err("it has both 'reply' and 'replies'".to_owned()),
        (None, true) => return Err("it lacks 'reply' or 'replies'".to_owned()),
    }
    recording.exchanges.push(exchange);
    Ok(())
}
