//! Whole replies of an OpenAI-compatible server.

#![allow(clippy::expect_used, reason = "a test may panic")]

mod support;

use cairn_engine::message::{Message, ToolCall, Usage};
use cairn_http::test_server::Reply;
use cairn_model::openai::MaxTokensField;
use cairn_model::{ChatOptions, ChatRequest, FinishReason, Model, OfferedTool, chat_with_retry};
use serde_json::{Value, json};
use std::time::Duration;
use support::{answer, ask, assert_reason, at_once, configured, fault, scripted};

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    }
}

#[tokio::test]
async fn a_reply_comes_with_usage_and_cost() {
    let (server, model) = scripted(vec![answer("Grüße.")]).await;

    let reply = model.chat(&ask("Hello?")).await.expect("a reply");

    assert_eq!(reply.message, Message::assistant("Grüße.", vec![]));
    assert_eq!(reply.finish, FinishReason::Stop);
    assert_eq!(reply.model, "small-1-2026");
    let usage = Usage {
        input_tokens: 1000,
        output_tokens: 100,
        cost_nano_usd: 3_500_000,
        model_calls: 1,
    };
    assert_eq!(reply.usage, usage);
    let seen = &server.requests()[0];
    assert_eq!(seen.line, "POST /v1/chat/completions HTTP/1.1");
    assert_eq!(
        seen.header("authorization"),
        Some(&*format!("Bearer {}", support::CANARY))
    );
    let body: Value = serde_json::from_str(&seen.body).expect("JSON");
    let expected = json!({
        "model": "small-1", "messages": [{"role": "user", "content": "Hello?"}]
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn a_conversation_with_tools_is_sent_as_the_protocol_wants_it() {
    let (server, model) = configured(vec![answer("ok")], |config| {
        config.extra_headers = vec![("x-org".to_owned(), "acme".into())];
    })
    .await;
    let calls = vec![
        call("c1", "read", "{\"a\":1}"),
        call("c2", "read", ""),
        call("c3", "read", "{\"a\""),
    ];
    let request = ChatRequest {
        messages: vec![
            Message::system("Be brief."),
            Message::user("Read."),
            Message::assistant("", calls),
            Message::tool("c1", "text", false),
            Message::tool("c2", "no such file", true),
        ],
        tools: vec![OfferedTool {
            name: "read".to_owned(),
            description: "Reads.".to_owned(),
            parameters: json!({"type": "object"}),
        }],
        options: ChatOptions {
            max_output_tokens: Some(50),
            temperature: Some(0.2),
        },
    };

    model.chat(&request).await.expect("a reply");

    let seen = &server.requests()[0];
    assert_eq!(seen.header("x-org"), Some("acme"));
    let body: Value = serde_json::from_str(&seen.body).expect("JSON");
    let function = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "read", "arguments": arguments}});
    let expected = json!({
        "model": "small-1",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Read."},
            {"role": "assistant", "content": null, "tool_calls": [
                function("c1", "{\"a\":1}"),
                function("c2", "{}"),
                function("c3", "{\"invalid_json\":\"{\\\"a\\\"\"}"),
            ]},
            {"role": "tool", "content": "text", "tool_call_id": "c1"},
            {"role": "tool", "content": "error: no such file", "tool_call_id": "c2"},
        ],
        "tools": [{"type": "function", "function": {
            "name": "read", "description": "Reads.", "parameters": {"type": "object"}
        }}],
        "max_tokens": 50,
        "temperature": body["temperature"],
    });
    assert_eq!(body, expected);
    assert!((body["temperature"].as_f64().expect("a number") - 0.2).abs() < 1e-6);
}

#[tokio::test]
async fn the_limit_of_a_reply_has_the_name_that_the_server_knows() {
    let (server, model) = configured(vec![answer("ok")], |config| {
        config.max_tokens_field = MaxTokensField::MaxCompletionTokens;
    })
    .await;
    let mut request = ask("x");
    request.options.max_output_tokens = Some(7);
    model.chat(&request).await.expect("a reply");
    let body: Value = serde_json::from_str(&server.requests()[0].body).expect("JSON");
    assert_eq!(
        (&body["max_completion_tokens"], &body["max_tokens"]),
        (&json!(7), &Value::Null)
    );
}

#[tokio::test]
async fn calls_come_whole_with_ids_of_their_own() {
    let calls = json!([
        {"id": "c1", "function": {"name": "read", "arguments": "{\"path\":\"a\"}"}},
        {"id": "c1", "function": {"name": "read", "arguments": {"path": "b"}}},
        {"function": {"name": "list"}},
        {"id": "used", "function": {"name": "list", "arguments": ""}},
    ]);
    let body = json!({"choices": [{"message": {"content": null, "tool_calls": calls}, "finish_reason": "stop"}]});
    let (_server, model) = scripted(vec![Reply::json(200, body.to_string())]).await;
    let mut request = ask("Read.");
    let before = vec![call("used", "list", "{}")];
    request.messages.push(Message::assistant("", before));

    let reply = model.chat(&request).await.expect("a reply");

    let expected = vec![
        call("c1", "read", "{\"path\":\"a\"}"),
        call("call_1_1_0", "read", "{\"path\":\"b\"}"),
        call("call_1_2_0", "list", ""),
        call("call_1_3_0", "list", ""),
    ];
    assert_eq!(reply.message.tool_calls, expected);
    assert_eq!(reply.finish, FinishReason::ToolCalls);
    assert_eq!(reply.model, "small-1");
    assert!(
        reply.usage.input_tokens > 0 && reply.usage.output_tokens > 0,
        "{:?}",
        reply.usage
    );
    assert!(reply.usage.cost_nano_usd > 0);
}

#[tokio::test]
async fn unusual_answers_are_understood() {
    let parts = json!([{"type": "thinking", "thinking": []}, {"type": "text", "text": "par"}, {"text": "ts"}]);
    let cases = [
        (
            json!({"content": parts}),
            "length",
            "parts",
            FinishReason::Length,
        ),
        (
            json!({"content": null, "refusal": "No."}),
            "stop",
            "No.",
            FinishReason::ContentFilter,
        ),
        (
            json!({"content": "x"}),
            "content_filter",
            "x",
            FinishReason::ContentFilter,
        ),
        (json!({"content": null}), "eos", "", FinishReason::Other),
    ];
    for (message, finish, text, expected) in cases {
        let body =
            json!({"choices": [{"message": message, "finish_reason": finish}], "usage": null});
        let (_server, model) = scripted(vec![Reply::json(200, body.to_string())]).await;
        let reply = model.chat(&ask("x")).await.expect("a reply");
        assert_eq!(
            (reply.message.text.as_str(), reply.finish),
            (text, expected)
        );
    }
}

#[tokio::test]
async fn a_status_becomes_an_error_of_its_kind() {
    let html = || Reply::pieces(502, &["<html>Bad gateway</html>"]);
    let cases = [
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
            fault(400, "context_length_exceeded", "too long"),
            "ContextLength",
            "too long",
        ),
        (
            fault(400, "", "the prompt exceeds the context window"),
            "ContextLength",
            "exceeds",
        ),
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
        (html(), "Server", "<html>Bad gateway"),
        (
            Reply::json(503, "[{\"error\":{\"message\":\"full\"}}]"),
            "Server",
            "full",
        ),
        (
            Reply::json(422, "{\"detail\":[{\"loc\":\"messages\"}]}"),
            "BadRequest",
            "messages",
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
        (
            Reply::json(308, "").header("location", "https://x.example/v2"),
            "BadRequest",
            "x.example/v2",
        ),
        (Reply::json(204, ""), "BadAnswer", "No Content"),
        (
            Reply::json(200, "{\"error\":{\"message\":\"full\",\"code\":429}}"),
            "RateLimit",
            "full",
        ),
        (
            Reply::pieces(500, &["x".repeat(70_000)]),
            "Server",
            "larger than 65536 bytes",
        ),
    ];
    for (reply, reason, text) in cases {
        let (_server, model) = scripted(vec![reply]).await;
        let error = model.chat(&ask("x")).await.expect_err("an error");
        assert_reason(&error, reason);
        assert!(error.to_string().contains(text), "{error} has no {text:?}");
    }
}

#[tokio::test]
async fn a_provider_that_asks_to_wait_is_heard() {
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

    assert_eq!(reply.message.text, "at last");
    assert_eq!(retries, [(1, "Server"), (2, "RateLimit")]);
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn what_cannot_be_read_is_said_and_not_asked_again() {
    let cases = [
        (Reply::json(200, "{\"choices\": [{\"mess"), "EOF"),
        (Reply::json(200, "not JSON"), "expected"),
        (Reply::json(200, "{\"choices\": []}"), "no choice"),
        (Reply::json(200, "{}"), "no choice"),
        (
            Reply::json(
                200,
                "{\"choices\":[{\"message\":{\"tool_calls\":[{\"id\":\"c\"}]}}]}",
            ),
            "no name",
        ),
        (answer(&"x".repeat(5_000)), "larger than 4000 bytes"),
    ];
    for (reply, text) in cases {
        let (server, model) =
            configured(vec![reply], |config| config.max_response_bytes = 4_000).await;
        let error = chat_with_retry(&model, &ask("x"), &at_once(), |_, _, _| {}).await;
        let error = error.expect_err("unreadable");
        assert_reason(&error, "BadAnswer");
        assert!(error.to_string().contains(text), "{error} has no {text:?}");
        assert_eq!(server.requests().len(), 1);
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
    let (_server, model) = configured(silent, |config| config.total_timeout = limit).await;
    let error = model.chat(&ask("x")).await.expect_err("silent");
    assert_reason(&error, "Timeout");
    assert!(error.to_string().contains("60ms"), "{error}");
    assert!(error.is_retryable());

    let (server, model) = scripted(vec![answer("x")]).await;
    drop(server);
    tokio::task::yield_now().await;
    let error = model.chat(&ask("x")).await.expect_err("closed");
    assert_reason(&error, "Stream");
    assert!(
        error.to_string().contains("no connection to 127.0.0.1"),
        "{error}"
    );
}

#[test]
fn the_model_describes_itself() {
    let mut config = cairn_model::OpenAiConfig::new("https://api.openai.com/v1", "large-1");
    config.window_tokens = 9_000;
    let model = cairn_model::OpenAi::new(config).expect("a model");
    let info = model.describe();
    assert_eq!(
        (info.provider.as_str(), info.name.as_str()),
        ("openai", "large-1")
    );
    assert_eq!(info.window_tokens, 9_000);
    assert!(model.estimate_tokens(&[Message::user("Hello, world.")]) > 4);
}
