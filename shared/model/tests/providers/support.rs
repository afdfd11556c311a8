//! What the tests of a provider share.

use cairn_engine::message::Message;
use cairn_http::test_server::{Reply, TestServer};
use cairn_model::{ChatRequest, ModelError, OpenAi, OpenAiConfig, RetryPolicy};
use std::time::Duration;

/// A secret that must never be seen anywhere.
pub(crate) const CANARY: &str = "sk-canary-4f1b9d2c7e";

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
    config.api_key = Some(CANARY.into());
    // 2.50 and 10 dollars a million.
    config.input_nano_usd_per_million = 2_500_000_000;
    config.output_nano_usd_per_million = 10_000_000_000;
    change(&mut config);
    let model = OpenAi::new(config).expect("a model");
    (server, model)
}

/// A question.
pub(crate) fn ask(text: &str) -> ChatRequest {
    ChatRequest {
        messages: vec![Message::user(text)],
        ..ChatRequest::default()
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
