//! Streamed replies of an OpenAI-compatible server.

use crate::support::{
    Log, answer, ask, assert_reason, at_once, call, calls_in, calls_of, configured, cut, fault,
    scripted, streamed, text_of, whole,
};
use cairn_http::test_server::Reply;
use cairn_model::{
    FinishReason, Model, ModelError, OptionalField, Progress, StreamEvent, stream_with_retry,
};
use futures::StreamExt;
use serde_json::{Value, json};
use std::future::ready;
use std::time::Duration;

fn data(json: &Value) -> String {
    format!("data: {json}\n\n")
}

fn delta(delta: &Value) -> String {
    data(&json!({"model": "small-1-2026", "choices": [{"index": 0, "delta": delta}]}))
}

fn end(reason: &str) -> String {
    data(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}))
}

const DONE: &str = "data: [DONE]\n\n";

fn usage() -> String {
    data(&json!({"choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 100}}))
}

async fn events(reply: Reply) -> Vec<StreamEvent> {
    let (_server, model) = scripted(vec![reply]).await;
    streamed(&model).await
}

#[tokio::test]
async fn text_and_calls_are_whole_wherever_the_bytes_are_cut() {
    let piece = |index: u64, id: Option<&str>, name: Option<&str>, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        delta(&json!({"tool_calls": [{"index": index, "id": id, "function": function}]}))
    };
    let body = [
        ": keep-alive\n\n".to_owned(),
        delta(&json!({"role": "assistant", "content": ""})),
        delta(&json!({"content": "Zähle 数 "})),
        delta(&json!({"content": "🦀."})),
        piece(0, Some("c1"), Some("read"), ""),
        piece(0, None, None, "{\"path\":"),
        piece(1, Some("c2"), Some("list"), "{\"a\":"),
        piece(0, None, None, "\"数.md\"}"),
        piece(1, None, None, "1}"),
        end("tool_calls"),
        usage(),
        DONE.to_owned(),
    ]
    .concat();
    let expected = vec![
        call("c1", "read", "{\"path\":\"数.md\"}"),
        call("c2", "list", "{\"a\":1}"),
    ];

    for length in [1, 2, 7, 64, 100_000] {
        let events = events(Reply::events(&cut(&body, length))).await;

        assert_eq!(text_of(&events), "Zähle 数 🦀.", "pieces of {length}");
        assert_eq!(calls_of(&events), expected);
        let reply = whole(&events);
        assert_eq!(reply.message.text(), "Zähle 数 🦀.");
        assert_eq!(calls_in(&reply.message), expected);
        assert_eq!(reply.finish, FinishReason::ToolCalls);
        assert_eq!(reply.model, "small-1-2026");
        assert_eq!(
            (reply.usage.input_tokens, reply.usage.output_tokens),
            (1000, 100)
        );
        assert_eq!(
            (reply.usage.cost_nano_usd, reply.usage.model_calls),
            (3_500_000, 1)
        );
    }
}

#[tokio::test]
async fn the_request_asks_for_usage_unless_the_server_cannot() {
    for (omit, expected) in [
        (vec![], json!({"include_usage": true})),
        (vec![OptionalField::StreamOptions], Value::Null),
    ] {
        let body = [
            delta(&json!({"content": "x"})),
            end("stop"),
            DONE.to_owned(),
        ]
        .concat();
        let (server, model) = configured(vec![Reply::events(&[body])], |config| {
            config.server.omit = omit;
        })
        .await;
        let stream = model.chat_stream(&ask("x")).await.expect("a stream");
        let events: Vec<_> = stream.collect().await;
        let seen = &server.requests()[0];
        let body: Value = serde_json::from_str(&seen.body).expect("JSON");
        assert_eq!(
            (&body["stream"], &body["stream_options"]),
            (&json!(true), &expected)
        );
        assert_eq!(seen.header("accept-encoding"), Some("identity"));
        // Not reported, so estimated.
        assert!(whole(&events).usage.output_tokens > 0);
    }
}

#[tokio::test]
async fn an_unknown_end_is_logged_once_for_a_reply() {
    let (log, _guard) = Log::listen();
    let body = [
        delta(&json!({"content": "x"})),
        end("of_tomorrow"),
        end("of_tomorrow"),
        DONE.to_owned(),
    ];
    let (_server, model) = configured(vec![Reply::events(&[body.concat()])], |_| {}).await;
    streamed(&model).await;
    assert_eq!(log.text().matches("unknown end").count(), 1);
}

#[tokio::test]
async fn calls_of_servers_that_number_oddly_are_reported_apart() {
    let pieces = |calls: Value| delta(&json!({"tool_calls": calls}));
    let function = |name: &str, arguments: &str| json!({"name": name, "arguments": arguments});
    let zero = [
        pieces(json!([{"index": 0, "id": "a", "function": function("read", "{}")}])),
        pieces(json!([{"index": 0, "id": "b", "function": function("list", "{}")}])),
    ];
    let unnumbered = [
        pieces(json!([{"id": "a", "function": function("read", "{")}])),
        pieces(json!([{"function": {"arguments": "}"}}])),
        pieces(json!([{"id": "b", "function": function("list", "{}")}])),
    ];
    let repeated = [
        pieces(json!([{"index": 0, "id": "a", "function": function("read", "{")}])),
        pieces(json!([{"index": 0, "id": "a", "function": function("read", "}")}])),
        pieces(json!([{"index": 1, "id": "b", "function": function("list", "{}")}])),
    ];
    let expected = vec![call("a", "read", "{}"), call("b", "list", "{}")];
    for body in [zero.concat(), unnumbered.concat(), repeated.concat()] {
        let body = [body, end("stop"), DONE.to_owned()].concat();
        let events = events(Reply::events(&[body])).await;
        assert_eq!(calls_of(&events), expected);
        assert_eq!(whole(&events).finish, FinishReason::ToolCalls);
    }

    let nameless = [
        pieces(json!([{"function": function("read", "{}")}])),
        pieces(json!([{"function": function("list", "{}")}])),
        end("tool_calls"),
    ];
    let calls = calls_of(&events(Reply::events(&[nameless.concat()])).await);
    assert_eq!(
        calls,
        [
            call("call_0_0_0", "read", "{}"),
            call("call_0_1_0", "list", "{}")
        ]
    );
}

#[tokio::test]
async fn a_stream_cut_in_the_middle_ends_with_an_error() {
    let begun = delta(&json!({"content": "half"}));
    let reply = Reply::events(&[&begun]);
    for reply in [
        reply.clone().then_cut(),
        reply.clone(),
        Reply::events(&[begun, "data: {\"cho".into()]).then_cut(),
    ] {
        let events = events(reply).await;
        assert_eq!(text_of(&events), "half");
        assert!(
            matches!(events.last(), Some(StreamEvent::Error { .. })),
            "{events:?}"
        );
        assert_eq!(events.len(), 2, "nothing follows: {events:?}");
    }
}

#[tokio::test]
async fn a_stream_cut_after_the_reason_of_its_end_is_whole() {
    let body = [delta(&json!({"content": "all"})), end("stop")].concat();
    let reply = Reply::events(&[body]);
    for reply in [reply.clone(), reply.then_cut()] {
        let events = events(reply).await;
        assert_eq!(whole(&events).message.text(), "all");
    }
}

#[tokio::test]
async fn what_is_spoiled_after_the_reason_of_the_end_does_no_harm() {
    let body = [
        delta(&json!({"content": "all"})),
        end("stop"),
        "data: {\"choices\": [], \"usa\n\n".to_owned(),
    ];
    let events = events(Reply::events(&[body.concat()])).await;
    assert_eq!(whole(&events).message.text(), "all");
}

#[tokio::test]
async fn a_broken_stream_is_begun_anew() {
    let half = delta(&json!({"content": "half"}));
    begun_anew(Reply::events(std::slice::from_ref(&half)).then_cut()).await;
    begun_anew(Reply::events(&[&half])).await;
    for spoiled in ["data: {\"choices\": [{\"del\n\n", "data: nonsense\n\n"] {
        let more = delta(&json!({"content": "more"}));
        begun_anew(Reply::events(&[format!("{half}{spoiled}{more}{DONE}")])).await;
    }
}

async fn begun_anew(begun: Reply) {
    let whole = [
        delta(&json!({"content": "all"})),
        end("stop"),
        DONE.to_owned(),
    ]
    .concat();
    let (server, model) = scripted(vec![begun, Reply::events(&[whole])]).await;
    let (mut shown, mut restarts) = (String::new(), Vec::new());

    let reply = stream_with_retry(&model, &ask("x"), &at_once(), |progress| {
        match progress {
            Progress::Text(text) => shown.push_str(text),
            Progress::Retry { attempt, error, .. } => {
                restarts.push((attempt, std::mem::take(&mut shown), error.to_string()));
            }
        }
        ready(())
    })
    .await
    .expect("a reply");

    assert_eq!(reply.message.text(), "all");
    assert_eq!(shown, "all", "what was void was told to be");
    let [(1, half, error)] = &restarts[..] else {
        panic!("one restart: {restarts:?}");
    };
    assert_eq!(half, "half");
    assert!(
        error.starts_with("the connection to the provider broke: "),
        "{error}"
    );
    assert!(error.matches("broke").count() <= 2, "{error}");
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn an_error_before_the_first_event_keeps_its_kind() {
    let in_stream = |error: Value| Reply::events(&[data(&json!({"error": error}))]);
    let cases = [
        (fault(401, "", "wrong"), "Auth"),
        (fault(429, "", "slow"), "RateLimit"),
        (
            in_stream(json!({"message": "long", "code": "context_length_exceeded"})),
            "ContextLength",
        ),
        (in_stream(json!({"message": "busy", "code": 503})), "Server"),
        (
            Reply::events(&["data: {\"choices\": nonsense}\n\n"]),
            "Stream",
        ),
        (
            Reply::events(&["data: {\"choices\": \"three\"}\n\n"]),
            "BadAnswer",
        ),
        (
            Reply::pieces(200, &["<html>Please log in</html>"])
                .header("content-type", "text/html; charset=utf-8"),
            "BadAnswer",
        ),
        (Reply::events(&[b"data: \xff\xfe\n\n"]), "Stream"),
        (Reply::events(&[DONE]), "Stream"),
        (Reply::events::<&str>(&[]), "Stream"),
        (Reply::events(&[": waiting\n\n"]).then_cut(), "Stream"),
    ];
    for (reply, reason) in cases {
        let (_server, model) = scripted(vec![reply]).await;
        let error = model.chat_stream(&ask("x")).await.err().expect("an error");
        assert_reason(&error, reason);
    }
}

#[tokio::test]
async fn an_error_after_the_first_event_is_the_last_event() {
    let begun = delta(&json!({"content": "half"}));
    let cases = [
        (
            data(&json!({"error": {"message": "overloaded", "code": 503}})),
            "overloaded",
        ),
        (
            "data: nonsense\n\n".to_owned(),
            "what came is no JSON: expected ident at line 1 column 2",
        ),
        (
            "data: {\"choices\": 3}\n\n".to_owned(),
            "column 13: {\"choices\": 3}",
        ),
    ];
    for (piece, text) in cases {
        let reply = Reply::events(&[begun.clone(), piece, delta(&json!({"content": "more"}))]);
        let (_server, model) = scripted(vec![reply]).await;
        let stream = model.chat_stream(&ask("x")).await.expect("a stream");
        let events: Vec<_> = stream.collect().await;
        match events.last() {
            Some(StreamEvent::Error { message, .. }) => {
                assert!(message.contains(text), "{message}")
            }
            other => panic!("no error: {other:?}"),
        }
        assert_eq!(text_of(&events), "half");
    }
}

#[tokio::test]
async fn silence_ends_a_stream() {
    let idle = |config: &mut cairn_model::OpenAiConfig| {
        config.server.idle_timeout = Duration::from_millis(60);
        config.server.first_byte_timeout = Duration::from_millis(70);
    };
    let begun = Reply::events(&[delta(&json!({"content": "half"}))]).then_silence();
    let (_server, model) = configured(vec![begun], idle).await;
    let stream = model.chat_stream(&ask("x")).await.expect("a stream");
    let events: Vec<_> = stream.collect().await;
    let silence = StreamEvent::Error {
        message: "no answer within 60ms".to_owned(),
        error: ModelError::Timeout {
            after: Duration::from_millis(60),
        },
    };
    assert_eq!(events.last(), Some(&silence));

    let mute = Reply::events::<&str>(&[]).then_silence();
    let (_server, model) = configured(vec![mute], idle).await;
    let error = model.chat_stream(&ask("x")).await.err().expect("silence");
    let after = Duration::from_millis(70);
    assert_eq!(error, ModelError::Timeout { after });
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let (_server, model) = scripted(vec![answer("at once")]).await;
    let stream = model.chat_stream(&ask("x")).await.expect("a stream");
    let events: Vec<_> = stream.collect().await;
    assert_eq!(text_of(&events), "at once");
    assert_eq!(whole(&events).usage.input_tokens, 1000);
}

#[tokio::test]
async fn calls_without_measure_are_refused() {
    let many = (0..200).map(|at| json!({"index": at, "function": {"name": "n", "arguments": ""}}));
    let body = delta(&json!({"tool_calls": many.collect::<Vec<_>>()}));
    let (_server, model) = scripted(vec![Reply::events(&[body])]).await;
    let error = model.chat_stream(&ask("x")).await.err().expect("too many");
    assert_reason(&error, "BadAnswer");
}
