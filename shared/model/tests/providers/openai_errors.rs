//! Errors of an OpenAI-compatible server.

use crate::support::{answer, ask, assert_reason, at_once, configured, fault, scripted};
use cairn_engine::failure::Failure;
use cairn_http::test_server::Reply;
use cairn_model::{Model, OpenAi, OpenAiConfig, chat_with_retry};
use std::time::Duration;

/// Asserts the kind of error that each reply becomes, and a part of its text.
async fn assert_errors<const N: usize>(cases: [(Reply, &str, &str); N]) {
    for (reply, reason, text) in cases {
        let (_server, model) = scripted(vec![reply]).await;
        let error = model.chat(&ask("x")).await.expect_err("an error");
        assert_reason(&error, reason);
        assert!(error.to_string().contains(text), "{error} has no {text:?}");
    }
}

#[tokio::test]
async fn a_status_becomes_an_error_of_its_kind() {
    let words = "the prompt exceeds the context window";
    assert_errors([
        (
            fault(401, "invalid_api_key", "wrong key"),
            "Auth",
            "wrong key",
        ),
        (fault(403, "", "not yours"), "Auth", "not yours"),
        (
            fault(429, "rate_limit_exceeded", "slow down"),
            "RateLimit",
            "slow down",
        ),
        (
            fault(429, "insufficient_quota", "pay first"),
            "Auth",
            "pay first",
        ),
        (fault(408, "", "late"), "Timeout", "no answer within"),
        (fault(504, "", "late"), "Timeout", "no answer within"),
        (
            fault(400, "context_length_exceeded", "long"),
            "ContextLength",
            "long",
        ),
        (fault(400, "", words), "ContextLength", words),
        (
            fault(400, "", "unknown field"),
            "BadRequest",
            "unknown field",
        ),
        (
            fault(404, "", "no such model"),
            "BadRequest",
            "no such model",
        ),
        (fault(500, "", "oops"), "Server", "status 500: oops"),
        (Reply::json(204, ""), "BadAnswer", "No Content"),
    ])
    .await;
}

#[tokio::test]
async fn the_explanation_is_found_in_whatever_shape_it_comes() {
    let list = "[{\"error\":{\"message\":\"full\"}}]";
    let inside = "{\"error\":{\"message\":\"full\",\"code\":429}}";
    let moved = Reply::json(308, "").header("location", "https://x.example/v2");
    assert_errors([
        (
            Reply::pieces(502, &["<html>Bad gateway</html>"]),
            "Server",
            "status 502: Bad gateway",
        ),
        (
            Reply::pieces(
                503,
                &["<!doctype html>\n<title>Busy</title><p class='a>'>Later"],
            ),
            "Server",
            "Busy",
        ),
        (Reply::json(503, list), "Server", "full"),
        (
            Reply::json(422, "{\"detail\":[{\"loc\":\"x\"}]}"),
            "BadRequest",
            "loc",
        ),
        (
            Reply::json(400, "{\"error\":\"plain\"}"),
            "BadRequest",
            "plain",
        ),
        (
            Reply::pieces::<&str>(500, &[]),
            "Server",
            "Internal Server Error",
        ),
        (moved, "BadRequest", "x.example/v2"),
        (Reply::json(200, inside), "RateLimit", "full"),
        (
            Reply::pieces(500, &["x".repeat(70_000)]),
            "Server",
            "larger than 65536 bytes",
        ),
    ])
    .await;
}

/// Errors as common servers send them: status, body, what they become, a part of what is said.
const SAID: [(u16, &str, &str, &str); 12] = [
    // OpenAI
    (
        400,
        r#"{"error": {"message": "This model's maximum context length is 8 tokens.",
            "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}}"#,
        "ContextLength",
        "shorten it",
    ),
    (
        429,
        r#"{"error": {"message": "Request too large for m on tokens per min (TPM)",
            "type": "tokens", "param": null, "code": "rate_limit_exceeded"}}"#,
        "ContextLength",
        "too large",
    ),
    (
        429,
        r#"{"error": {"message": "You exceeded your quota", "type": "insufficient_quota",
            "param": null, "code": null}}"#,
        "Auth",
        "quota",
    ),
    // vLLM, also with its error in the place of the answer
    (
        400,
        r#"{"object": "error", "message": "Please reduce the length of the messages",
            "type": "BadRequestError", "param": null, "code": 400}"#,
        "ContextLength",
        "reduce",
    ),
    (
        200,
        r#"{"object": "error", "message": "no such model", "type": "NotFoundError", "code": 404}"#,
        "BadRequest",
        "no such model",
    ),
    // llama.cpp
    (
        400,
        r#"{"error": {"code": 400, "message": "the request is too large",
            "type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 8}}"#,
        "ContextLength",
        "too large",
    ),
    (
        503,
        r#"{"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}"#,
        "Server",
        "Loading model",
    ),
    // Ollama
    (
        404,
        r#"{"error": {"message": "model \"x\" not found", "type": "api_error", "code": null}}"#,
        "BadRequest",
        "not found",
    ),
    // LiteLLM
    (
        400,
        r#"{"error": {"message": "litellm.ContextWindowExceededError: the context window",
            "type": null, "param": null, "code": "400"}}"#,
        "ContextLength",
        "litellm",
    ),
    (
        429,
        r#"{"error": {"message": "No deployments available", "type": "None", "code": "429"}}"#,
        "RateLimit",
        "deployments",
    ),
    // OpenRouter with its credits used up; a proxy in plain text
    (
        402,
        r#"{"error": {"message": "Insufficient credits", "code": 402}}"#,
        "Auth",
        "credits",
    ),
    (
        500,
        "upstream connect error\n",
        "Server",
        "upstream connect error",
    ),
];

#[tokio::test]
async fn errors_of_common_servers_are_reported_apart() {
    assert_errors(
        SAID.map(|(status, body, reason, text)| (Reply::json(status, body), reason, text)),
    )
    .await;
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_not_sent_again() {
    let words = "the prompt exceeds the context window";
    let (server, model) = scripted(vec![fault(400, "", words)]).await;
    let error = chat_with_retry(&model, &ask("x"), &at_once(), |_, _, _| {}).await;
    let failure = Failure::from(error.expect_err("too long"));
    assert_eq!(server.requests().len(), 1);
    assert_eq!(failure.reason, "ContextLength");
    assert!(!failure.is_recoverable());
}

#[tokio::test]
async fn a_provider_that_asks_to_wait_is_received() {
    let date = "Wed, 21 Oct 2026 07:28:00 GMT";
    let limit = || fault(429, "", "slow down");
    let cases = [
        (
            limit().header("retry-after", "3"),
            Some(Duration::from_secs(3)),
        ),
        (
            limit()
                .header("retry-after", "Wed, 21 Oct 2026 07:28:09 GMT")
                .header("date", date),
            Some(Duration::from_secs(9)),
        ),
        (limit(), None),
        (
            fault(503, "", "busy").header("retry-after", "2"),
            Some(Duration::from_secs(2)),
        ),
    ];
    for (reply, expected) in cases {
        let (_server, model) = scripted(vec![reply]).await;
        let error = model.chat(&ask("x")).await.expect_err("limited");
        assert_eq!(error.retry_after(), expected);
    }
}

#[tokio::test]
async fn a_server_that_recovers_is_asked_again() {
    let script = vec![
        fault(500, "", "oops"),
        fault(429, "", "wait"),
        answer("at last"),
    ];
    let (server, model) = scripted(script).await;
    let mut retries = Vec::new();

    let reply = chat_with_retry(&model, &ask("x"), &at_once(), |attempt, error, _| {
        retries.push((attempt, error.reason()));
    })
    .await
    .expect("a reply");

    assert_eq!(reply.message.text(), "at last");
    assert_eq!(retries, [(1, "Server"), (2, "RateLimit")]);
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn what_cannot_be_read_is_said_and_not_asked_again() {
    let cases = [
        (
            Reply::json(200, "not JSON"),
            "it is no JSON; check the base URL: not JSON",
        ),
        (
            Reply::pieces(200, &["<html><p>Please log in</p></html>"]),
            "Please log in",
        ),
        (Reply::json(200, "{\"choices\": []}"), "no choice"),
        (
            Reply::json(200, "{\"ok\": true}"),
            "no choice with a message: {\"ok\": true}",
        ),
        (
            Reply::json(200, "{\"choices\": \"three\"}"),
            "expected a sequence at line 1 column 19: {\"choices\": \"three\"}",
        ),
        (
            Reply::json(
                200,
                "{\"choices\":[{\"message\":{\"tool_calls\":[{\"id\":\"c\"}]}}]}",
            ),
            "no name",
        ),
    ];
    for (reply, text) in cases {
        let (server, model) = scripted(vec![reply]).await;
        let error = chat_with_retry(&model, &ask("x"), &at_once(), |_, _, _| {}).await;
        let error = error.expect_err("unreadable");
        assert_reason(&error, "BadAnswer");
        assert!(error.to_string().contains(text), "{error} has no {text:?}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_answer_that_was_spoiled_on_its_way_is_asked_for_again() {
    let cases = [
        ("{\"choices\": [{\"mess", "EOF"),
        ("{malformed json: <<<", "key must be a string"),
        ("{\"choices\": \"three\", \"mod", "EOF"),
        ("{\"choices\": []}{\"choices\": []}", "trailing"),
        ("", "what came is empty"),
    ];
    for (body, text) in cases {
        let (server, model) = scripted(vec![Reply::json(200, body), answer("whole")]).await;
        let mut errors = Vec::new();
        let reply = chat_with_retry(&model, &ask("x"), &at_once(), |_, error, _| {
            errors.push(error.clone());
        })
        .await
        .expect("a reply");
        assert_eq!(reply.message.text(), "whole", "{body}");
        assert_reason(&errors[0], "Stream");
        let said = errors[0].to_string();
        assert!(said.contains(text), "{said}");
        assert!(!said.contains("choices"), "{said} shows a part of a reply");
        assert!(Failure::from(errors[0].clone()).is_recoverable());
        assert_eq!(server.requests().len(), 2);
    }
}

#[tokio::test]
async fn a_cut_or_silent_connection_is_an_error_that_may_be_retried() {
    let (_server, model) = scripted(vec![Reply::json(200, "{\"choices\"").then_cut()]).await;
    let error = model.chat(&ask("x")).await.expect_err("cut");
    assert_reason(&error, "Stream");
    assert!(error.is_retryable());

    let silent = vec![Reply::json(200, "{").then_silence()];
    let limit = Duration::from_millis(60);
    let (_server, model) = configured(silent, |config| config.server.total_timeout = limit).await;
    let error = model.chat(&ask("x")).await.expect_err("silent");
    assert_reason(&error, "Timeout");
    assert!(error.to_string().contains("60ms"), "{error}");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn an_address_of_this_machine_where_nothing_listens_is_tried_twice() {
    for address in ["127.0.0.1:1", "localhost:1"] {
        let config = OpenAiConfig::new(format!("http://{address}/v1"), "small-1");
        let model = OpenAi::new(config).expect("a model");
        let mut retries = 0;
        let error = chat_with_retry(&model, &ask("x"), &at_once(), |_, _, _| retries += 1).await;
        let error = error.expect_err("nothing listens");
        assert_eq!(retries, 1, "{address}");
        assert_reason(&error, "ConnectionRefused");
        let shown = error.to_string();
        assert!(shown.contains(":1"), "{shown}");
        assert!(shown.contains("base_url"), "{shown}");
        assert!(Failure::from(error).is_recoverable());
    }
}
