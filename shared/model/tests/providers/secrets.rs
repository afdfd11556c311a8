//! The key is nowhere to be seen, whatever a server does with it.

use crate::support::{
    CANARY, Log, answer, anthropic, ask, at_once, calls_in, configured, fault, opaque, streamed,
    text_of, whole,
};
use cairn_engine::failure::Failure;
use cairn_http::test_server::Reply;
use cairn_model::{Model, ModelError, ModelRegistry, StreamEvent, chat_with_retry};
use futures::StreamExt;
use serde_json::json;
use std::sync::Arc;

const HEADER: &str = "canary-header-value";

/// Every way in which a server may show the key again.
fn echoes() -> Vec<Reply> {
    let spread: String = CANARY
        .chars()
        .flat_map(|letter| [letter, '\u{200b}'])
        .collect();
    let mut echoes: Vec<_> = [400, 401, 404, 429, 500, 503]
        .into_iter()
        .map(|status| fault(status, "c", &format!("key {CANARY} or {HEADER} is wrong")))
        .collect();
    echoes.extend([
        fault(401, "c", &format!("{}{CANARY}", "x".repeat(495))),
        fault(401, "c", &spread),
        fault(401, CANARY, ""),
        Reply::pieces(
            500,
            &[format!("<pre>Authorization: Bearer {CANARY}\r\n</pre>")],
        ),
        Reply::pieces(500, &[format!("{}{CANARY}", "y".repeat(65_530))]),
        Reply::json(301, "").header("location", &format!("https://x.example/?key={CANARY}")),
        Reply::json(200, format!("{{\"error\":{{\"message\":\"{CANARY}\"}}}}")),
        Reply::json(200, format!("{{\"choices\":\"{CANARY}\"}}")),
        Reply::json(
            200,
            format!("{{\"choices\":[{{\"message\":\"{HEADER}\"}}]}}"),
        ),
    ]);
    echoes
}

fn assert_clean(shown: &str) {
    assert!(!shown.contains("canary"), "{shown}");
}

async fn model(script: Vec<Reply>) -> (cairn_http::test_server::TestServer, cairn_model::OpenAi) {
    configured(script, |config| {
        config.server.extra_headers = vec![("x-token".to_owned(), HEADER.into())];
        assert_clean(&format!("{config:?} {config:#?}"));
    })
    .await
}

#[tokio::test]
async fn no_error_shows_an_echoed_key() {
    for reply in echoes() {
        let (_server, model) = model(vec![reply.clone()]).await;
        let whole = model.chat(&ask("x")).await.expect_err("an error");
        let streamed = model.chat_stream(&ask("x")).await.err().expect("an error");
        for error in [whole, streamed] {
            assert_clean(&format!("{error} {error:?} {error:#?}"));
            let failure = Failure::from(error);
            assert_clean(&format!("{failure} {failure:?}"));
        }
    }
}

#[tokio::test]
async fn no_event_shows_an_echoed_key() {
    let begun = "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n";
    for echo in [
        format!("data: {{\"error\":{{\"message\":\"{CANARY}\"}}}}\n\n"),
        format!("data: {{\"choices\":\"{CANARY}\"}}\n\n"),
        format!("error: {CANARY}\n\n"),
        format!("event: error\ndata: {CANARY}\n\n"),
        format!("{{\"error\":{{\"message\":\"{CANARY}\"}}}}\n\n"),
        format!("{{\n\"error\": {{\n\"message\": \"{CANARY}\"\n}}\n}}\n\n"),
        format!("data: {{\"choices\":[{{\"error\":{{\"code\":\"{CANARY}\"}}}}]}}\n\n"),
    ] {
        let (_server, model) = model(vec![Reply::events(&[begun, &echo])]).await;
        let stream = model.chat_stream(&ask("x")).await.expect("a stream");
        let events: Vec<_> = stream.collect().await;
        assert!(matches!(events.last(), Some(StreamEvent::Error { .. })));
        assert_clean(&format!("{events:?}"));
    }
}

/// A reply in which a server shows the key and a header again: in text, and in all parts of a call.
fn echoing(text: &str) -> serde_json::Value {
    let function =
        json!({"name": format!("read-{HEADER}"), "arguments": format!("{{\"a\":\"{text}\"}}")});
    json!({"content": text, "tool_calls": [{"index": 0, "id": text, "function": function}]})
}

#[tokio::test]
async fn no_reply_shows_an_echoed_key() {
    let said = format!("key {CANARY}, header {HEADER}");
    let message = json!({"choices": [{"message": echoing(&said), "finish_reason": "stop"}]});
    let (_server, model) = model(vec![Reply::json(200, message.to_string())]).await;
    let whole = model.chat(&ask("x")).await.expect("a reply");
    let events = streamed(&model).await;
    assert_clean(&format!("{whole:?} {events:?}"));
    assert_eq!(whole.message.text(), "key [secret], header [secret]");
    let call = &calls_in(&whole.message)[0];
    assert_eq!(
        (call.name.as_str(), call.arguments.as_str()),
        ("read-[secret]", "{\"a\":\"key [secret], header [secret]\"}")
    );
    assert_eq!(self::whole(&events).message, whole.message);
}

#[tokio::test]
async fn no_extra_field_of_a_reply_shows_an_echoed_key() {
    let escaped: String = CANARY
        .bytes()
        .map(|byte| format!("\\u{byte:04x}"))
        .collect();
    let extra = format!("{{\"{CANARY}\":\"{escaped}\"}}");
    let call = format!(
        "{{\"index\":0,\"id\":\"c\",\"extra_content\":{extra},\
         \"function\":{{\"name\":\"read\",\"arguments\":\"{{}}\",\"more\":{extra}}}}}"
    );
    let delta = format!("{{\"extra_content\":{extra},\"tool_calls\":[{call}]}}");
    let data = format!("data: {{\"choices\":[{{\"delta\":{delta}}}]}}\n\n");
    let end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n";
    // A mark and blanks come before all else.
    let pieces = ["\u{feff} \r\n\n".to_owned(), data, end.to_owned()];
    let (_server, model) = model(vec![Reply::events(&pieces)]).await;
    let events = streamed(&model).await;
    let clean = json!({"[secret]": "[secret]"});
    let fields = json!({"extra_content": clean, "function": {"more": clean}});
    let message = &whole(&events).message;
    assert!(
        message
            .parts
            .contains(&opaque("openai", "call_fields", &fields))
    );
    let fields = json!({"extra_content": clean});
    assert!(
        message
            .parts
            .contains(&opaque("openai", "message_fields", &fields))
    );
    assert_clean(&format!("{events:?}"));
}

#[tokio::test]
async fn no_piece_of_a_reply_shows_a_part_of_an_echoed_key() {
    let said = format!("key {CANARY}, header {HEADER}; s");
    for length in [1, 2, 7, said.len()] {
        let mut pieces: Vec<String> = Vec::new();
        let mut piece = |delta: serde_json::Value| {
            let choice = json!({"choices": [{"index": 0, "delta": delta}]});
            pieces.push(format!("data: {choice}\n\n"));
        };
        for part in said.as_bytes().chunks(length) {
            let part = String::from_utf8_lossy(part);
            piece(json!({"content": part}));
            let function = json!({"name": null, "arguments": part});
            piece(json!({"tool_calls": [{"index": 0, "function": function}]}));
        }
        piece(json!({"tool_calls": [{"index": 0, "function": {"name": "read"}}]}));
        pieces.push("data: [DONE]\n\n".to_owned());
        let (_server, model) = model(vec![Reply::events(&pieces)]).await;
        let events = streamed(&model).await;
        let expected = "key [secret], header [secret]; s";
        assert_eq!(text_of(&events), expected, "in pieces of {length}");
        let message = &whole(&events).message;
        assert_eq!(message.text(), expected);
        assert_eq!(calls_in(message)[0].arguments, expected);
        assert_clean(&format!("{events:?}"));
    }
}

#[tokio::test]
async fn no_reply_of_anthropic_shows_an_echoed_key() {
    let said = format!("key {CANARY}.");
    let content = json!([{"type": "text", "text": said},
        {"type": "tool_use", "id": "t", "name": "read", "input": {"a": said}}]);
    let body = json!({"content": content, "stop_reason": "tool_use"});
    let (_server, model) = anthropic(vec![Reply::json(200, body.to_string())], |_| {}).await;
    let whole = model.chat(&ask("x")).await.expect("a reply");
    assert_eq!(whole.message.text(), "key [secret].");
    assert_eq!(
        calls_in(&whole.message)[0].arguments,
        "{\"a\":\"key [secret].\"}"
    );
    // In a thought, as escapes and in the name of a field.
    let escaped: String = CANARY
        .bytes()
        .map(|byte| format!("\\u{byte:04x}"))
        .collect();
    let thought = format!("{{\"type\":\"thinking\",\"{CANARY}\":[\"{escaped}\"]}}");
    let body = format!("{{\"content\":[{thought}],\"stop_reason\":\"end_turn\"}}");
    let (_server, model) = anthropic(vec![Reply::json(200, body)], |_| {}).await;
    let reply = model.chat(&ask("x")).await.expect("a reply");
    let clean = json!({"type": "thinking", "[secret]": ["[secret]"]});
    let expected = [opaque("anthropic", "thinking", &clean)];
    assert_eq!(reply.message.parts, expected);
    // Over two texts with a call between.
    let content = json!([{"type": "text", "text": said[..9]},
        {"type": "tool_use", "id": "t", "name": "read", "input": {}},
        {"type": "text", "text": said[9..]}]);
    let body = json!({"content": content, "stop_reason": "tool_use"});
    let (_server, model) = anthropic(vec![Reply::json(200, body.to_string())], |_| {}).await;
    let reply = model.chat(&ask("x")).await.expect("a reply");
    assert_eq!(reply.message.text(), "key [secret].");
    // Over two blocks.
    let (first, second) = said.split_at(9);
    let text = |index: u32, text: &str| {
        let delta = json!({"type": "text_delta", "text": text});
        let event = json!({"type": "content_block_delta", "index": index, "delta": delta});
        format!("data: {event}\n\n")
    };
    let end = "data: {\"type\":\"message_stop\"}\n\n".to_owned();
    let pieces = [text(0, first), text(1, second), end];
    let (_server, model) = anthropic(vec![Reply::events(&pieces)], |_| {}).await;
    let events = streamed(&model).await;
    assert_eq!(text_of(&events), "key [secret].");
    assert_clean(&format!("{events:?}"));
}

#[tokio::test]
async fn the_texts_of_errors_are_short_and_on_one_line() {
    let long = fault(500, "c", &format!("\u{1b}[2Ja\r\nb{}", "é".repeat(2_000)));
    let (_server, model) = model(vec![long]).await;
    match model.chat(&ask("x")).await.expect_err("an error") {
        ModelError::Server { message, .. } => {
            assert_eq!(message.chars().count(), 501);
            assert!(message.starts_with("[2Ja  béé"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn neither_model_nor_registry_shows_the_key() {
    let (_server, model) = model(vec![answer("x")]).await;
    assert_clean(&format!("{model:?} {model:#?} {:?}", model.describe()));
    let mut registry = ModelRegistry::new();
    registry.insert("m", Arc::new(model));
    assert_clean(&format!("{registry:?}"));
}

#[tokio::test]
async fn no_log_line_shows_the_key_at_any_level() {
    let (log, _guard) = Log::listen();

    let script = vec![fault(500, "c", CANARY), answer("x")];
    let (server, model) = model(script).await;
    chat_with_retry(&model, &ask("x"), &at_once(), |_, _, _| {})
        .await
        .expect("a reply");

    let sent = server.requests();
    assert!(
        sent.iter()
            .all(|seen| seen.header("x-token") == Some(HEADER))
    );
    let log = log.text();
    assert!(log.contains("model answered"), "nothing was logged");
    assert!(log.contains("hyper"), "the library was not heard");
    // What the server sends is not logged by anybody either.
    assert_clean(&log);
}
