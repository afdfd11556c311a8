//! What the tests of a provider share.

use cairn_engine::message::{Message, Opaque, Part, ToolCall};
use cairn_http::test_server::{Reply, TestServer};
use cairn_model::{
    Anthropic, AnthropicConfig, ChatReply, ChatRequest, Model, ModelError, OpenAi, OpenAiConfig,
    Prices, RetryPolicy, StreamEvent,
};
use futures::StreamExt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

/// A secret that must never be seen anywhere.
pub(crate) const CANARY: &str = "sk-canary-4f1b9d2c7e";

/// 2.50 and 10 dollars a million; a tenth for what is in the cache, a fourth more to put it there.
const PRICES: Prices = Prices {
    input: 2_500_000_000,
    cached_input: 250_000_000,
    cache_write: 3_125_000_000,
    output: 10_000_000_000,
};

/// A server that follows a script, and a model that asks it.
pub(crate) async fn scripted(script: Vec<Reply>) -> (TestServer, OpenAi) {
    configured(script, |_| {}).await
}

/// As [`scripted`], with other settings.
pub(crate) async fn configured(
    script: Vec<Reply>,
    change: impl FnOnce(&mut OpenAiConfig),
) -> (TestServer, OpenAi) {
    let server = TestServer::start(script).await.expect("a server");
    let mut config = OpenAiConfig::new(format!("{}/v1", server.url()), "small-1");
    config.server.api_key = Some(CANARY.into());
    config.server.prices = Some(PRICES);
    change(&mut config);
    let model = OpenAi::new(config).expect("a model");
    (server, model)
}

/// As [`configured`], with Anthropic's protocol.
pub(crate) async fn anthropic(
    script: Vec<Reply>,
    change: impl FnOnce(&mut AnthropicConfig),
) -> (TestServer, Anthropic) {
    let server = TestServer::start(script).await.expect("a server");
    let mut config = AnthropicConfig::new(server.url(), "claude-1");
    config.server.api_key = Some(CANARY.into());
    config.server.prices = Some(PRICES);
    change(&mut config);
    let model = Anthropic::new(config).expect("a model");
    (server, model)
}

/// A question.
pub(crate) fn ask(text: &str) -> ChatRequest {
    ChatRequest::new([Message::user(text)])
}

/// Cuts bytes into pieces of one length, through the middle of characters, lines and names.
pub(crate) fn cut(text: &str, length: usize) -> Vec<Vec<u8>> {
    text.as_bytes().chunks(length).map(<[u8]>::to_vec).collect()
}

/// Everything that a streamed reply brings.
pub(crate) async fn streamed(model: &impl Model) -> Vec<StreamEvent> {
    let stream = model.chat_stream(&ask("x")).await.expect("a stream");
    stream.collect().await
}

pub(crate) fn text_of(events: &[StreamEvent]) -> String {
    let text = events.iter().filter_map(|event| match event {
        StreamEvent::AssistantTextDelta { text } => Some(text.as_str()),
        _ => None,
    });
    text.collect()
}

pub(crate) fn whole(events: &[StreamEvent]) -> &ChatReply {
    match events.last() {
        Some(StreamEvent::TurnComplete { reply }) => reply,
        other => panic!("not complete: {other:?}"),
    }
}

pub(crate) fn calls_of(events: &[StreamEvent]) -> Vec<ToolCall> {
    let calls = events.iter().filter_map(|event| match event {
        StreamEvent::ToolCall(call) => Some(call.clone()),
        _ => None,
    });
    calls.collect()
}

/// A part that only its provider can read, made by the model that the tests ask.
pub(crate) fn opaque(provider: &str, kind: &str, json: &serde_json::Value) -> Part {
    Part::Opaque(Opaque {
        provider: provider.to_owned(),
        model: match provider {
            "anthropic" => "claude-1",
            _ => "small-1",
        }
        .to_owned(),
        kind: kind.to_owned(),
        json: json.to_string(),
    })
}

/// The calls that a message asks for.
pub(crate) fn calls_in(message: &Message) -> Vec<ToolCall> {
    message.calls().cloned().collect()
}

pub(crate) fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    }
}

/// Retries at once.
pub(crate) fn at_once() -> RetryPolicy {
    RetryPolicy {
        min_delay: Duration::from_millis(1),
        max_delay: Duration::from_millis(2),
        ..RetryPolicy::default()
    }
}

/// A whole answer with this text.
pub(crate) fn answer(text: &str) -> Reply {
    Reply::json(
        200,
        serde_json::json!({
            "model": "small-1-2026",
            "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 100}
        })
        .to_string(),
    )
}

/// An error as the server sends it.
pub(crate) fn fault(status: u16, code: &str, message: &str) -> Reply {
    let error = serde_json::json!({"error": {"message": message, "code": code, "type": "t"}});
    Reply::json(status, error.to_string())
}

/// Asserts that an error is of this kind and does not show the secret.
pub(crate) fn assert_reason(error: &ModelError, reason: &str) {
    assert_eq!(error.reason(), reason, "{error:?}");
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("canary"), "{shown}");
}

/// What is logged in this thread, at any level.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Listens until the guard is dropped.
    pub(crate) fn listen() -> (Self, DefaultGuard) {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
            .with_writer(log.clone())
            .finish();
        let guard = tracing::subscriber::set_default(subscriber);
        (log, guard)
    }

    pub(crate) fn text(&self) -> String {
        let log = self.0.lock().expect("not poisoned").clone();
        String::from_utf8(log).expect("text")
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
