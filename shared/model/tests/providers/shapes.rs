//! Shapes of streams that servers and proxies send, as a table: `shapes.json`.
//!
//! An entry has the body as it travels, one string for each write, and the outcome that the model crate
//! must make of it. Its fields:
//!
//! - `source`: a public page that shows or describes the shape; empty where no page was found;
//! - `content_type`: `text/event-stream` by default, and no header if it is empty; `status`: 200 by
//!   default. The server answers every request of an entry in the same way;
//! - `expect`: a `reply` or an `error`.
//!
//! A `reply` is the [`ChatReply`] of the first request. `end` is its [`FinishReason`]: `stop` is `Stop`,
//! `calls` is `ToolCalls`, `length` is `Length`, `refusal` is `Refusal`, `other` is `Other`.
//! `thinking` is the readable reasoning of its opaque parts. A call has `arguments` as a value, where
//! no text at all counts as `{}`, or `arguments_text` as the exact text; its id counts only if it is
//! given. `usage` has a number, or `some` for any number above 0. `sent_back` has JSON pointers into the
//! next request's body, and the values there. `not_sent_back` has pointers to nothing.
//!
//! An `error` is the [`ModelError`] that remains after all retries. `kind` is its
//! [`ModelError::reason`]. `retried` is true if the server got more than one request, and `requests` is
//! their exact number. `says` is a part of the message, in any case.
//! `|` separates alternatives in `end`, `kind` and `says`.

use crate::support::{anthropic, ask, at_once, scripted};
use cairn_engine::message::{Message, Part, Usage};
use cairn_http::test_server::{Reply, TestServer};
use cairn_model::{
    ChatReply, FinishReason, Model, ModelError, Progress, RetryPolicy, stream_with_retry,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Debug;
use std::future::ready;
use std::sync::Arc;

const TABLE: &str = include_str!("shapes.json");
/// More than one, so that the test sees whether an empty reply is requested exactly once more.
const RETRIES: u32 = 3;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    name: String,
    dialect: Dialect,
    source: String,
    #[serde(default = "event_stream")]
    content_type: String,
    #[serde(default = "ok")]
    status: u16,
    body: Vec<String>,
    expect: Outcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Dialect {
    OpenAi,
    Anthropic,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Reply(ExpectedReply),
    Error(ExpectedError),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedReply {
    #[serde(default)]
    text: String,
    thinking: Option<String>,
    #[serde(default)]
    calls: Vec<ExpectedCall>,
    end: String,
    #[serde(default)]
    usage: BTreeMap<String, Value>,
    #[serde(default)]
    sent_back: BTreeMap<String, Value>,
    #[serde(default)]
    not_sent_back: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedCall {
    id: Option<String>,
    name: String,
    #[serde(default)]
    arguments: Value,
    arguments_text: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedError {
    kind: String,
    retried: bool,
    requests: Option<usize>,
    says: String,
}

fn event_stream() -> String {
    "text/event-stream".to_owned()
}

fn ok() -> u16 {
    200
}

fn table() -> Vec<Shape> {
    serde_json::from_str(TABLE).expect("a table of shapes")
}

/// The outcome of an entry.
#[derive(Debug)]
struct Observed {
    outcome: Result<ChatReply, ModelError>,
    /// The text that a caller saw come, without that of failed attempts.
    shown: String,
    /// Requests until the outcome.
    requests: usize,
    /// The body of the request that continues the conversation after a reply.
    next_request: Value,
}

async fn observe(server: &TestServer, model: &dyn Model) -> Observed {
    let policy = RetryPolicy {
        max_retries: RETRIES,
        ..at_once()
    };
    let mut request = ask("x");
    let mut shown = String::new();
    let outcome = stream_with_retry(model, &request, &policy, |progress| {
        match progress {
            Progress::Text(text) => shown.push_str(text),
            Progress::Retry { .. } => shown.clear(),
        }
        ready(())
    })
    .await;
    let requests = server.requests().len();
    let mut next_request = Value::Null;
    if let Ok(reply) = &outcome {
        request.messages.push(Arc::new(reply.message.clone()));
        for call in reply.message.calls() {
            let result = Message::tool(call.id.as_str(), "done", false);
            request.messages.push(Arc::new(result));
        }
        request.messages.push(Arc::new(Message::user("go on")));
        drop(model.chat_stream(&request).await);
        let sent = server.requests();
        let body = sent.last().map_or("", |seen| seen.body.as_str());
        next_request = serde_json::from_str(body).unwrap_or_default();
    }
    Observed {
        outcome,
        shown,
        requests,
        next_request,
    }
}

async fn differences(shape: &Shape) -> Vec<String> {
    let mut served = Reply::pieces(shape.status, &shape.body);
    if !shape.content_type.is_empty() {
        served = served.header("content-type", &shape.content_type);
    }
    let observed = match shape.dialect {
        Dialect::OpenAi => {
            let (server, model) = scripted(vec![served]).await;
            observe(&server, &model).await
        }
        Dialect::Anthropic => {
            let (server, model) = anthropic(vec![served], |_| {}).await;
            observe(&server, &model).await
        }
    };
    shape.expect.differences(&observed)
}

impl Outcome {
    fn differences(&self, observed: &Observed) -> Vec<String> {
        match (self, &observed.outcome) {
            (Self::Reply(expected), Ok(reply)) => expected.differences(reply, observed),
            (Self::Error(expected), Err(error)) => expected.differences(error, observed.requests),
            (Self::Reply(_), Err(error)) => vec![format!(
                "expected a reply, got {} after {} requests: {error}",
                error.reason(),
                observed.requests
            )],
            (Self::Error(_), Ok(reply)) => vec![format!(
                "expected an error, got a reply that ends with {}: {:?}",
                end_of(reply.finish),
                reply.message.parts
            )],
        }
    }
}

impl ExpectedReply {
    fn differences(&self, reply: &ChatReply, observed: &Observed) -> Vec<String> {
        let mut found = Vec::new();
        let message = &reply.message;
        differ(&mut found, "text", &self.text, &message.text());
        differ(&mut found, "shown text", &self.text, &observed.shown);
        differ(&mut found, "requests", &1, &observed.requests);
        if let Some(thinking) = &self.thinking {
            differ(&mut found, "thinking", thinking, &thinking_of(message));
        }
        let end = end_of(reply.finish);
        if !alternatives(&self.end).any(|expected| expected == end) {
            found.push(format!("end: expected {}, got {end}", self.end));
        }
        self.compare_calls(message, &mut found);
        for (name, expected) in &self.usage {
            let count = count_of(&reply.usage, name);
            let fits = match expected {
                Value::Number(number) => number.as_u64() == Some(count),
                _ => count > 0,
            };
            if !fits {
                found.push(format!("usage: expected {expected} {name}, got {count}"));
            }
        }
        for pointer in &self.not_sent_back {
            let sent = observed.next_request.pointer(pointer);
            differ(&mut found, pointer, &None, &sent);
        }
        for (pointer, expected) in &self.sent_back {
            let sent = observed.next_request.pointer(pointer);
            differ(&mut found, pointer, &Some(expected), &sent);
        }
        found
    }

    fn compare_calls(&self, message: &Message, found: &mut Vec<String>) {
        let calls: Vec<_> = message.calls().collect();
        differ(found, "number of calls", &self.calls.len(), &calls.len());
        for (expected, call) in self.calls.iter().zip(&calls) {
            differ(found, "name", &expected.name, &call.name);
            if let Some(id) = &expected.id {
                differ(found, "id", id, &call.id);
            }
            match &expected.arguments_text {
                Some(text) => differ(found, "arguments", text, &call.arguments),
                None => {
                    let arguments = arguments_of(&call.arguments);
                    differ(found, "arguments", &expected.arguments, &arguments);
                }
            }
        }
        let ids: HashSet<&str> = calls.iter().map(|call| call.id.as_str()).collect();
        if ids.len() != calls.len() || ids.contains("") {
            found.push(format!("ids of calls are empty or not unique: {ids:?}"));
        }
    }
}

impl ExpectedError {
    fn differences(&self, error: &ModelError, requests: usize) -> Vec<String> {
        let mut found = Vec::new();
        let shown = error.to_string();
        if !alternatives(&self.kind).any(|kind| kind == error.reason()) {
            let (kind, reason) = (&self.kind, error.reason());
            found.push(format!("kind: expected {kind}, got {reason}: {shown}"));
        }
        differ(&mut found, "retried", &self.retried, &(requests > 1));
        if let Some(expected) = &self.requests {
            differ(&mut found, "requests", expected, &requests);
        }
        let (says, lower) = (&self.says, shown.to_lowercase());
        if !alternatives(says).any(|part| lower.contains(&part.to_lowercase())) {
            found.push(format!("the error does not contain {says:?}: {shown}"));
        }
        found
    }
}

fn differ<T: PartialEq + Debug>(found: &mut Vec<String>, what: &str, expected: &T, got: &T) {
    if expected != got {
        found.push(format!("{what}: expected {expected:?}, got {got:?}"));
    }
}

fn alternatives(list: &str) -> impl Iterator<Item = &str> {
    list.split('|')
}

fn end_of(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::Stop => "stop",
        FinishReason::ToolCalls => "calls",
        FinishReason::Length => "length",
        FinishReason::Refusal => "refusal",
        FinishReason::Other => "other",
    }
}

fn count_of(usage: &Usage, name: &str) -> u64 {
    match name {
        "input" => usage.input_tokens,
        "output" => usage.output_tokens,
        "cached" => usage.cached_input_tokens,
        "cache_write" => usage.cache_write_tokens,
        "reasoning" => usage.reasoning_tokens,
        other => panic!("usage has no count {other:?}"),
    }
}

/// Arguments as a value. Some servers send an empty text for no arguments.
fn arguments_of(text: &str) -> Value {
    if text.trim().is_empty() {
        return json!({});
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

/// The reasoning that a person can read. OpenRouter sends the same text in two fields, so one of them
/// is left out.
fn thinking_of(message: &Message) -> String {
    let texts = message.parts.iter().filter_map(|part| {
        let Part::Opaque(opaque) = part else {
            return None;
        };
        let json: Value = serde_json::from_str(&opaque.json).unwrap_or_default();
        let text = match opaque.kind.as_str() {
            "reasoning_content" | "reasoning" => &json,
            "thinking" => &json["thinking"],
            _ => return None,
        };
        text.as_str().map(str::to_owned)
    });
    texts.collect()
}

#[tokio::test]
async fn streams_of_real_servers_are_read_as_the_table_expects() {
    let shapes = table();
    let mut failed = Vec::new();
    for shape in &shapes {
        let found = differences(shape).await;
        if !found.is_empty() {
            let Shape { name, dialect, .. } = shape;
            failed.push(format!(
                "{dialect:?}, {name}:\n    {}",
                found.join("\n    ")
            ));
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {} shapes differ:\n{}",
        failed.len(),
        shapes.len(),
        failed.join("\n")
    );
}

#[test]
fn the_table_has_enough_shapes_of_both_dialects_and_their_sources() {
    let shapes = table();
    let count = |fits: fn(&Shape) -> bool| shapes.iter().map(fits).filter(|fits| *fits).count();
    assert!(shapes.len() >= 40);
    assert!(count(|shape| !shape.source.is_empty()) >= 25);
    assert!(count(|shape| shape.dialect == Dialect::OpenAi) >= 20);
    assert!(count(|shape| shape.dialect == Dialect::Anthropic) >= 20);
    let is_source = |shape: &Shape| shape.source.is_empty() || shape.source.starts_with("https://");
    assert!(
        shapes.iter().all(is_source),
        "a source is an address or empty"
    );
    let names: HashSet<_> = shapes
        .iter()
        .map(|shape| (shape.dialect == Dialect::OpenAi, &shape.name))
        .collect();
    assert_eq!(names.len(), shapes.len(), "names are unique in a dialect");
}
