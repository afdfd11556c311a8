//! The reasoning of an OpenAI-compatible server: kept, and sent back.

use crate::support::{ask, call, calls_of, opaque, scripted, streamed, text_of, whole};
use cairn_engine::message::Part;
use cairn_http::test_server::Reply;
use cairn_model::{FinishReason, Model};
use serde_json::{Value, json};
use std::sync::Arc;

fn piece(delta: &Value) -> String {
    format!("data: {}\n\n", json!({"choices": [{"delta": delta}]}))
}

fn end(reason: &str) -> String {
    let end = json!({"choices": [{"delta": {}, "finish_reason": reason}]});
    format!("data: {end}\n\ndata: [DONE]\n\n")
}

#[tokio::test]
async fn reasoning_is_kept_and_goes_back_in_the_field_in_which_it_came() {
    let details = json!([{"type": "reasoning.encrypted", "data": "x", "index": 0}]);
    let message = json!({"content": "So.", "reasoning_content": "hm", "reasoning": "ah",
        "reasoning_details": details});
    let body = json!({"choices": [{"message": message, "finish_reason": "stop"}]}).to_string();
    let script = vec![Reply::json(200, &body), Reply::json(200, &body)];
    let (server, model) = scripted(script).await;
    let mut request = ask("x");
    let reply = model.chat(&request).await.expect("a reply");
    let expected = [
        opaque("openai", "reasoning_content", &json!("hm")),
        opaque("openai", "reasoning", &json!("ah")),
        opaque("openai", "reasoning_details", &details),
        Part::Text("So.".to_owned()),
    ];
    assert_eq!(reply.message.parts, expected);

    request.messages.push(Arc::new(reply.message));
    model.chat(&request).await.expect("a reply");
    let sent: Value = serde_json::from_str(&server.requests()[1].body).expect("JSON");
    let mut said = message;
    said["role"] = json!("assistant");
    assert_eq!(sent["messages"][1], said);
}

#[tokio::test]
async fn reasoning_comes_in_pieces() {
    let text = |text: &str| json!({"type": "reasoning.text", "text": text, "index": 0});
    let signed = json!({"type": "reasoning.text", "signature": "s", "text": null, "index": 0});
    let sealed = json!({"type": "reasoning.encrypted", "data": "x", "index": 0});
    let body = [
        piece(&json!({"reasoning": "h", "reasoning_details": [text("h")]})),
        piece(&json!({"reasoning": "m", "reasoning_details": [text("m"), signed]})),
        piece(&json!({"reasoning": null, "reasoning_details": [sealed]})),
        piece(&json!({"reasoning": 3, "reasoning_details": "odd", "reasoning_content": []})),
        piece(&json!({"content": "So."})),
        end("stop"),
    ]
    .concat();
    let (_server, model) = scripted(vec![Reply::events(&[body])]).await;
    let events = streamed(&model).await;
    assert_eq!(text_of(&events), "So.");
    let all = json!([
        {"type": "reasoning.text", "text": "hm", "index": 0, "signature": "s"},
        {"type": "reasoning.encrypted", "data": "x", "index": 0},
    ]);
    let expected = [
        opaque("openai", "reasoning", &json!("hm")),
        opaque("openai", "reasoning_details", &all),
        Part::Text("So.".to_owned()),
    ];
    assert_eq!(whole(&events).message.parts, expected);
}

#[tokio::test]
async fn calls_that_are_cut_at_the_length_are_dropped() {
    let called = |index: u32, id: &str, arguments: &str| {
        let function = json!({"name": "read", "arguments": arguments});
        piece(&json!({"tool_calls": [{"index": index, "id": id, "function": function}]}))
    };
    let body = |reason: &str| {
        let calls = [called(0, "a", "{\"a\":1}"), called(1, "b", "{\"a\"")];
        [calls.concat(), end(reason)].concat()
    };
    for (reason, finish, kept) in [
        ("length", FinishReason::Length, 1),
        ("stop", FinishReason::ToolCalls, 2),
    ] {
        let (_server, model) = scripted(vec![Reply::events(&[body(reason)])]).await;
        let events = streamed(&model).await;
        assert_eq!(whole(&events).finish, finish);
        let calls = [call("a", "read", "{\"a\":1}"), call("b", "read", "{\"a\"")];
        assert_eq!(calls_of(&events), calls[..kept]);
    }
}
