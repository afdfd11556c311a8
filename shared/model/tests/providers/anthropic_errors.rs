//! Errors of Anthropic's Messages API.

use crate::support::{CANARY, anthropic, ask, assert_reason, at_once};
use cairn_engine::failure::Failure;
use cairn_http::test_server::Reply;
use cairn_model::{Model, chat_with_retry};
use serde_json::json;
use std::time::Duration;

fn fault(status: u16, kind: &str, message: &str) -> Reply {
    let error = json!({"type": "error", "error": {"type": kind, "message": message},
        "request_id": "req_1"});
    Reply::json(status, error.to_string())
}

/// Status, type and message of an error; what it becomes, and whether it is recoverable.
const SAID: [(u16, &str, &str, &str, bool); 12] = [
    (
        400,
        "invalid_request_error",
        "bad field",
        "BadRequest",
        false,
    ),
    (
        400,
        "invalid_request_error",
        "prompt is too long: 9 tokens > 8 maximum",
        "ContextLength",
        false,
    ),
    (
        400,
        "invalid_request_error",
        "input length and `max_tokens` exceed context limit: 1 + 2 > 2",
        "ContextLength",
        false,
    ),
    (
        401,
        "authentication_error",
        "invalid x-api-key",
        "Auth",
        false,
    ),
    (402, "billing_error", "pay first", "Auth", false),
    (403, "permission_error", "not yours", "Auth", false),
    (
        404,
        "not_found_error",
        "model: claude-9",
        "BadRequest",
        false,
    ),
    (
        413,
        "request_too_large",
        "too large",
        "ContextLength",
        false,
    ),
    (429, "rate_limit_error", "slow down", "RateLimit", true),
    (500, "api_error", "oops", "Server", true),
    (504, "timeout_error", "late", "Timeout", true),
    (529, "overloaded_error", "Overloaded", "RateLimit", true),
];

#[tokio::test]
async fn a_status_becomes_an_error_of_its_kind() {
    let plain = (Reply::pieces(529, &["overloaded"]), "RateLimit", true);
    let said = SAID.map(|(status, kind, message, reason, recoverable)| {
        (fault(status, kind, message), reason, recoverable)
    });
    for (reply, reason, recoverable) in said.into_iter().chain([plain]) {
        let (_server, model) = anthropic(vec![reply], |_| {}).await;
        let error = model.chat(&ask("x")).await.expect_err("an error");
        assert_reason(&error, reason);
        assert_eq!(
            Failure::from(error).is_recoverable(),
            recoverable,
            "{reason}"
        );
    }
}

#[tokio::test]
async fn a_busy_server_is_asked_again_when_it_says() {
    for status in [429, 529] {
        let busy = fault(status, "overloaded_error", "Overloaded").header("retry-after", "4");
        let (_server, model) = anthropic(vec![busy], |_| {}).await;
        let error = model.chat(&ask("x")).await.expect_err("busy");
        assert_eq!(error.retry_after(), Some(Duration::from_secs(4)));
        assert!(error.is_retryable());
    }
    let good = json!({"content": [{"type": "text", "text": "at last"}], "stop_reason": "end_turn"});
    let script = vec![
        fault(529, "overloaded_error", "Overloaded"),
        Reply::json(200, good.to_string()),
    ];
    let (server, model) = anthropic(script, |_| {}).await;
    let reply = chat_with_retry(&model, &ask("x"), &at_once(), |_, _, _| {}).await;
    assert_eq!(reply.expect("a reply").message.text(), "at last");
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn an_answer_spoiled_on_its_way_is_asked_for_again_and_a_senseless_one_is_not() {
    let good = json!({"content": [{"type": "text", "text": "whole"}], "stop_reason": "end_turn"});
    let good = good.to_string();
    for body in ["", "{\"content\": [{\"ty", "{malformed json: <<<"] {
        let script = vec![Reply::json(200, body), Reply::json(200, &good)];
        let (server, model) = anthropic(script, |_| {}).await;
        let reply = chat_with_retry(&model, &ask("x"), &at_once(), |_, error, _| {
            assert_reason(error, "Stream");
        })
        .await;
        assert_eq!(reply.expect("a reply").message.text(), "whole");
        assert_eq!(server.requests().len(), 2);
    }
    for (body, text) in [
        ("{\"ok\": true}", "no content: {\"ok\": true}"),
        ("{\"content\": 3}", "column 13: {\"content\": 3}"),
        ("moved", "it is no JSON; check the base URL: moved"),
    ] {
        let script = vec![Reply::json(200, body), Reply::json(200, &good)];
        let (server, model) = anthropic(script, |_| {}).await;
        let error = chat_with_retry(&model, &ask("x"), &at_once(), |_, _, _| {}).await;
        let error = error.expect_err("no sense");
        assert_reason(&error, "BadAnswer");
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn no_error_shows_the_key_or_a_header() {
    let echo = format!("x-api-key: {CANARY} and canary-header are wrong");
    for reply in [
        fault(401, "authentication_error", &echo),
        fault(500, CANARY, &echo),
        Reply::pieces(502, &[format!("<html>{echo}</html>")]),
        Reply::json(
            200,
            json!({"type": "error", "error": {"message": echo}}).to_string(),
        ),
        Reply::json(200, json!({"content": echo}).to_string()),
    ] {
        let (server, model) = anthropic(vec![reply], |config| {
            config.server.extra_headers = vec![("x-more".to_owned(), "canary-header".into())];
            let shown = format!("{config:?} {config:#?}");
            assert!(!shown.contains("canary"), "{shown}");
        })
        .await;
        for error in [
            model.chat(&ask("x")).await.expect_err("an error"),
            model.chat_stream(&ask("x")).await.err().expect("an error"),
        ] {
            let shown = format!("{error} {error:?} {model:?}");
            assert!(!shown.contains("canary"), "{shown}");
        }
        assert_eq!(server.requests()[0].header("x-more"), Some("canary-header"));
    }
}
