//! Optional fields that a server refuses by name.

use crate::support::{answer, anthropic, assert_reason, configured, scripted};
use cairn_engine::message::Message;
use cairn_http::test_server::{Reply, TestServer};
use cairn_model::{ChatOptions, ChatRequest, Model, ModelError, OfferedTool, OpenAiConfig};
use serde_json::{Value, json};
use std::sync::Arc;

/// A request with every optional field that a server may refuse.
fn request() -> ChatRequest {
    let tool = OfferedTool {
        name: "look".to_owned(),
        description: "Looks.".to_owned(),
        parameters: json!({"type": "object"}),
    };
    ChatRequest {
        tools: Arc::from([tool]),
        options: ChatOptions {
            temperature: Some(0.2),
            max_output_tokens: Some(50),
            ..ChatOptions::default()
        },
        ..ChatRequest::new([Message::system("s"), Message::user("x")])
    }
}

fn bodies(server: &TestServer) -> Vec<Value> {
    let requests = server.requests();
    let read = |body: &str| serde_json::from_str(body).expect("JSON");
    requests.iter().map(|seen| read(&seen.body)).collect()
}

/// Whether a field of this name is anywhere in a body.
fn has(body: &Value, name: &str) -> bool {
    match body {
        Value::Object(fields) => {
            fields.contains_key(name) || fields.values().any(|value| has(value, name))
        }
        Value::Array(items) => items.iter().any(|item| has(item, name)),
        _ => false,
    }
}

async fn stream(model: &dyn Model) -> Result<(), ModelError> {
    model.chat_stream(&request()).await.map(drop)
}

/// Answers of servers that refuse a field, with its name.
fn refusals() -> [(&'static str, u16, Value); 8] {
    [
        (
            "stream_options",
            422,
            json!({"object": "error", "message": {"detail": [{
                "type": "extra_forbidden", "loc": ["body", "stream_options"],
                "msg": "Extra inputs are not permitted", "input": {"include_usage": true}}]}}),
        ),
        (
            "stream_options",
            400,
            json!({"error": {"message": "Unrecognized request argument supplied: stream_options"}}),
        ),
        (
            "stream_options",
            400,
            json!({"error": {"message": "unknown parameter", "param": "stream_options"}}),
        ),
        (
            "stream_options",
            422,
            json!({"detail": [{"loc": ["body", "stream_options"], "msg": "extra fields not permitted"}]}),
        ),
        (
            "temperature",
            400,
            json!({"error": {"code": "unsupported_value", "param": "temperature", "message":
                "Unsupported value: 'temperature' does not support 0.2 with this model."}}),
        ),
        (
            "max_tokens",
            400,
            json!({"error": {"code": "unsupported_parameter", "param": "max_tokens", "message":
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use \
                 'max_completion_tokens' instead."}}),
        ),
        (
            "temperature",
            400,
            json!({"message": "request.temperature: not allowed"}),
        ),
        (
            "parallel_tool_calls",
            400,
            json!({"error": {"code": "unsupported_parameter", "param": "parallel_tool_calls", "message":
                "Unsupported parameter: 'parallel_tool_calls' is not supported with this model."}}),
        ),
    ]
}

#[tokio::test]
async fn a_field_that_the_server_refuses_by_name_is_left_out_from_then_on() {
    for (field, status, body) in refusals() {
        let refusal = Reply::json(status, body.to_string());
        let script = vec![refusal, answer("a"), answer("b")];
        let set = |config: &mut OpenAiConfig| config.server.parallel_tool_calls = Some(false);
        let (server, model) = configured(script, set).await;
        for _ in 0..2 {
            stream(&model).await.expect("a reply");
        }
        let had: Vec<bool> = bodies(&server)
            .iter()
            .map(|body| has(body, field))
            .collect();
        assert_eq!(had, [true, false, false], "{body}");
        // The limit travels by its other name.
        let last = &bodies(&server)[2];
        assert!(has(last, "max_tokens") || has(last, "max_completion_tokens"));
    }
}

#[tokio::test]
async fn another_temperature_is_sent_after_one_was_refused() {
    let error = json!({"error": {"message": "temperature must be at most 1.5"}});
    let refusal = Reply::json(400, error.to_string());
    let script = vec![refusal, answer("a"), answer("b"), answer("c")];
    let (server, model) = scripted(script).await;
    for temperature in [1.8, 0.2, 1.8] {
        let mut request = request();
        request.options.temperature = Some(temperature);
        let reply = model.chat_stream(&request).await.map(drop);
        reply.expect("a reply");
    }
    let had: Vec<bool> = bodies(&server)
        .iter()
        .map(|body| has(body, "temperature"))
        .collect();
    assert_eq!(had, [true, false, true, false]);
}

#[tokio::test]
async fn several_refused_fields_are_left_out_one_after_another() {
    let refuse = |name: &str| {
        let error =
            json!({"error": {"message": format!("{name}: extra inputs are not permitted")}});
        Reply::json(400, error.to_string())
    };
    let script = vec![refuse("stream_options"), refuse("temperature"), answer("a")];
    let (server, model) = scripted(script).await;
    stream(&model).await.expect("a reply");
    let bodies = bodies(&server);
    assert_eq!(bodies.len(), 3);
    assert!(has(&bodies[1], "temperature") && !has(&bodies[1], "stream_options"));
    assert!(!has(&bodies[2], "temperature") && !has(&bodies[2], "stream_options"));
}

#[tokio::test]
async fn fields_of_anthropics_protocol_are_left_out_too() {
    for field in [
        "cache_control",
        "temperature",
        "tool_choice",
        "disable_parallel_tool_use",
    ] {
        let message = format!("system.0.{field}: Extra inputs are not permitted");
        let error = json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
        let whole = json!({"content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn"});
        let whole = Reply::json(200, whole.to_string());
        let script = vec![Reply::json(400, error.to_string()), whole];
        let (server, model) = anthropic(script, |config| {
            config.server.parallel_tool_calls = Some(false);
        })
        .await;
        model.chat(&request()).await.expect("a reply");
        let had: Vec<bool> = bodies(&server)
            .iter()
            .map(|body| has(body, field))
            .collect();
        assert_eq!(had, [true, false]);
    }
}

#[tokio::test]
async fn a_refusal_that_has_another_cause_stays_as_it_is() {
    for (status, message, reason) in [
        (400, "the messages are in no order", "BadRequest"),
        (400, "my_temperature_scale is unknown", "BadRequest"),
        (400, "response_format is not supported", "BadRequest"),
        (400, "max_tokens is too large", "BadRequest"),
        (500, "stream_options broke us", "Server"),
        (401, "stream_options are not for this key", "Auth"),
        (
            400,
            "maximum context length is 5 tokens, but max_tokens and max_completion_tokens are 9",
            "ContextLength",
        ),
    ] {
        let error = json!({"error": {"message": message}}).to_string();
        let (server, model) = scripted(vec![Reply::json(status, error), answer("a")]).await;
        let error = stream(&model).await.expect_err(message);
        assert_reason(&error, reason);
        assert_eq!(server.requests().len(), 1, "{message}");
    }
}

#[tokio::test]
async fn a_field_is_kept_if_its_absence_does_not_help() {
    let refusal = || {
        let error = json!({"error": {"message": "temperature: no"}});
        Reply::json(400, error.to_string())
    };
    let (server, model) = scripted(vec![refusal(), refusal(), answer("a")]).await;
    let error = stream(&model).await.expect_err("refused again");
    assert_reason(&error, "BadRequest");
    stream(&model).await.expect("a reply");
    let had: Vec<bool> = bodies(&server)
        .iter()
        .map(|body| has(body, "temperature"))
        .collect();
    assert_eq!(had, [true, false, true]);
}
