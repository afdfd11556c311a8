//! The limit on a reply: it holds for what a reply has in it, where its bytes arrive.

use crate::support::{
    answer, anthropic, ask, assert_reason, at_once, configured, streamed, text_of, whole,
};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_http::test_server::Reply;
use cairn_model::{Model, ModelError, StreamEvent, chat_with_retry, stream_with_retry};
use serde_json::{Value, json};
use std::future::ready;

const LIMIT: u64 = 4_000;

fn data(json: &Value) -> String {
    format!("data: {json}\n\n")
}

fn delta(delta: &Value) -> String {
    data(&json!({"choices": [{"index": 0, "delta": delta}]}))
}

fn text(text: &str) -> String {
    delta(&json!({"content": text}))
}

fn end() -> String {
    let end = data(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}));
    format!("{end}data: [DONE]\n\n")
}

/// Asserts that an error names the limit and the setting, and is not worth a retry.
fn assert_too_large(error: ModelError) {
    assert_reason(&error, "reply_too_large");
    assert!(!error.is_retryable());
    let failure = Failure::from(error);
    assert_eq!(
        (failure.kind, failure.reason.as_str()),
        (FailureKind::LimitExceeded, "reply_too_large")
    );
    assert!(!failure.is_recoverable());
    for part in ["4000 bytes", "model.max_reply_bytes", "up to 2097152"] {
        assert!(failure.message.contains(part), "{failure} has no {part:?}");
    }
}

/// What a stream shows of a reply that is too large, and how it ends.
async fn refused(reply: Reply) -> String {
    let (server, model) = configured(vec![reply], |config| {
        config.server.max_reply_bytes = LIMIT;
    })
    .await;
    let mut shown = String::new();
    let outcome = stream_with_retry(&model, &ask("x"), &at_once(), |progress| {
        if let cairn_model::Progress::Text(text) = progress {
            shown.push_str(text);
        }
        ready(())
    })
    .await;
    assert_too_large(outcome.expect_err("too large"));
    assert_eq!(server.requests().len(), 1, "it is not asked for again");
    shown
}

#[tokio::test]
async fn a_streamed_reply_over_the_limit_is_refused_where_it_arrives() {
    let kib = "x".repeat(1_000);
    let shown = refused(Reply::events(&vec![text(&kib); 20])).await;
    assert_eq!(shown.len(), 4_000, "no more is gathered or shown");
    let call = |arguments: &str| {
        let function = json!({"name": "read", "arguments": arguments});
        delta(&json!({"tool_calls": [{"index": 0, "id": "c", "function": function}]}))
    };
    assert_eq!(refused(Reply::events(&vec![call(&kib); 20])).await, "");
    let many = delta(&json!({"tool_calls": [{"index": 0, "id": "i".repeat(5_000)}]}));
    assert_eq!(refused(Reply::events(&[many, end()])).await, "");
    // It never comes to its end: what is held is limited all the same.
    let piece = "x".repeat(64 * 1024);
    let endless: Vec<String> = std::iter::once("data: {".to_owned())
        .chain(vec![piece; 16])
        .collect();
    assert_eq!(refused(Reply::events(&endless).then_silence()).await, "");
    // Fields that the protocol does not name count, too, and so do lines of errors.
    let extra = |text: &str| delta(&json!({"tool_calls": [{"index": 0, "more": [text]}]}));
    assert_eq!(refused(Reply::events(&vec![extra(&kib); 20])).await, "");
    let extra = |text: &str| delta(&json!({"extra_content": {"signatures": [text]}}));
    assert_eq!(refused(Reply::events(&vec![extra(&kib); 20])).await, "");
    for begin in ["error: ", "{\"error\": \"", "\u{feff}data: {"] {
        let endless: Vec<String> = std::iter::once(begin.to_owned())
            .chain(vec!["x".repeat(64 * 1024); 16])
            .collect();
        assert_eq!(refused(Reply::events(&endless).then_silence()).await, "");
    }
    let comments = vec![": nothing\n".repeat(10_000); 6];
    assert_eq!(refused(Reply::events(&comments).then_silence()).await, "");
}

#[tokio::test]
async fn a_whole_reply_over_the_limit_is_refused() {
    let spaces = " ".repeat(300_000);
    for reply in [
        answer(&"x".repeat(4_001)),
        answer(&"x".repeat(1_000_000)),
        Reply::json(200, format!("{{{spaces}\"choices\": []}}")),
    ] {
        let (server, model) = configured(vec![reply], |config| {
            config.server.max_reply_bytes = LIMIT;
        })
        .await;
        let error = chat_with_retry(&model, &ask("x"), &at_once(), |_, _, _| {}).await;
        assert_too_large(error.expect_err("too large"));
        assert_eq!(server.requests().len(), 1);
        let error = model.chat_stream(&ask("x")).await.err();
        assert_too_large(error.expect("too large"));
    }
    let (_server, model) = configured(vec![answer(&"x".repeat(4_000))], |config| {
        config.server.max_reply_bytes = LIMIT;
    })
    .await;
    let reply = model.chat(&ask("x")).await.expect("a reply");
    assert_eq!(reply.message.text().len(), 4_000);
}

/// The limit is on the reply: a server that sends each word in much JSON, cuts it anywhere, or ends
/// its lines in another way, may send all of it.
#[tokio::test]
async fn a_reply_within_the_limit_comes_however_it_is_wrapped() {
    let wordy = |text: &str| {
        let choice = json!({"index": 0, "delta": {"content": text}});
        data(&json!({"choices": [choice], "padding": "p".repeat(1_000)}))
    };
    let events: Vec<String> = (0..1_000).map(|_| wordy("word")).chain([end()]).collect();
    let all = events.concat();
    let halves = events.iter().flat_map(|event| {
        let (line, blank) = event.split_at(event.len() - 1);
        [line.to_owned(), blank.to_owned()]
    });
    let crlf = all.replace('\n', "\r\n");
    let cr = all.replace('\n', "\r");
    let escaped: String = "数".repeat(1_333).chars().map(|_| "\\u6570").collect();
    let escaped = text("数").replace('数', &escaped);
    let cases: [(Vec<String>, usize); 5] = [
        (halves.collect(), 4_000),
        (vec![all], 4_000),
        (vec![crlf], 4_000),
        (vec![cr], 4_000),
        (vec![escaped, end()], 3_999),
    ];
    for (pieces, bytes) in cases {
        let (_server, model) = configured(vec![Reply::events(&pieces)], |config| {
            config.server.max_reply_bytes = LIMIT;
        })
        .await;
        let events = streamed(&model).await;
        assert_eq!(text_of(&events).len(), bytes);
        assert_eq!(whole(&events).message.text().len(), bytes);
    }
}

#[tokio::test]
async fn the_limit_holds_for_every_protocol() {
    let event = |data: &Value| format!("data: {data}\n\n");
    let start = json!({"type": "content_block_start", "index": 0,
        "content_block": {"type": "tool_use", "id": "t", "name": "read", "input": {}}});
    let more = json!({"type": "content_block_delta", "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": "x".repeat(1_000)}});
    let pieces = [vec![event(&start)], vec![event(&more); 5]].concat();
    let (_server, model) = anthropic(vec![Reply::events(&pieces)], |config| {
        config.server.max_reply_bytes = LIMIT;
    })
    .await;
    let error = model.chat_stream(&ask("x")).await.err();
    assert_too_large(error.expect("nothing is shown before the calls are whole"));

    let thought = json!({"type": "content_block_start", "index": 0,
        "content_block": {"type": "thinking", "thinking": ""}});
    let more = json!({"type": "content_block_delta", "index": 0,
        "delta": {"type": "thinking_delta", "thinking": "x".repeat(1_000)}});
    let pieces = [vec![event(&thought)], vec![event(&more); 5]].concat();
    let (_server, model) = anthropic(vec![Reply::events(&pieces)], |config| {
        config.server.max_reply_bytes = LIMIT;
    })
    .await;
    let error = model.chat_stream(&ask("x")).await.err();
    assert_too_large(error.expect("what is kept is limited"));

    let text = json!({"type": "content_block_delta", "index": 0,
        "delta": {"type": "text_delta", "text": "x".repeat(3_000)}});
    let (_server, model) = anthropic(vec![Reply::events(&vec![event(&text); 2])], |config| {
        config.server.max_reply_bytes = LIMIT;
    })
    .await;
    let events = streamed(&model).await;
    assert_eq!(text_of(&events).len(), 3_000);
    match events.into_iter().last() {
        Some(StreamEvent::Error { error, .. }) => assert_too_large(error),
        other => panic!("no error: {other:?}"),
    }
}
