//! Streamed replies of Anthropic's Messages API.

use crate::support::{
    anthropic, ask, assert_reason, at_once, call, calls_in, calls_of, cut, opaque, streamed,
    text_of, whole,
};
use cairn_engine::message::Part;
use cairn_http::test_server::Reply;
use cairn_model::{FinishReason, Model, Progress, StreamEvent, stream_with_retry};
use futures::StreamExt;
use serde_json::{Value, json};
use std::future::ready;

fn event(data: &Value) -> String {
    let kind = data["type"].as_str().expect("a type");
    format!("event: {kind}\ndata: {data}\n\n")
}

fn begin() -> String {
    event(&json!({"type": "message_start", "message": {
        "id": "msg_1", "role": "assistant", "model": "claude-1-2026", "content": [],
        "stop_reason": null,
        "usage": {"input_tokens": 100, "cache_read_input_tokens": 700,
            "cache_creation_input_tokens": 200, "output_tokens": 1}
    }}))
}

fn block(index: u64, block: &Value) -> String {
    event(&json!({"type": "content_block_start", "index": index, "content_block": block}))
}

fn delta(index: u64, delta: &Value) -> String {
    event(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
}

fn text(index: u64, text: &str) -> String {
    delta(index, &json!({"type": "text_delta", "text": text}))
}

fn input(index: u64, json: &str) -> String {
    delta(
        index,
        &json!({"type": "input_json_delta", "partial_json": json}),
    )
}

fn stop(index: u64) -> String {
    event(&json!({"type": "content_block_stop", "index": index}))
}

fn end(reason: &str) -> String {
    event(
        &json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
        "usage": {"output_tokens": 10}}),
    )
}

fn done() -> String {
    event(&json!({"type": "message_stop"}))
}

fn error(kind: &str, message: &str) -> String {
    event(&json!({"type": "error", "error": {"type": kind, "message": message}}))
}

async fn events(body: &str) -> Vec<StreamEvent> {
    let (_server, model) = anthropic(vec![Reply::events(&[body])], |_| {}).await;
    streamed(&model).await
}

#[tokio::test]
async fn text_and_calls_are_whole_wherever_the_bytes_are_cut() {
    let used =
        |id: &str, name: &str| json!({"type": "tool_use", "id": id, "name": name, "input": {}});
    let body = [
        begin(),
        block(0, &json!({"type": "thinking", "thinking": ""})),
        delta(0, &json!({"type": "thinking_delta", "thinking": "hm"})),
        delta(0, &json!({"type": "signature_delta", "signature": "s"})),
        stop(0),
        event(&json!({"type": "ping"})),
        block(1, &json!({"type": "text", "text": ""})),
        text(1, "Zähle 数 "),
        text(1, ""),
        text(1, "🦀."),
        stop(1),
        block(2, &used("toolu_1", "read")),
        input(2, ""),
        input(2, "{\"path\":"),
        block(3, &used("toolu_2", "list")),
        input(3, "{\"a\":"),
        input(2, "\"数.md\"}"),
        input(3, "1}"),
        stop(2),
        stop(3),
        block(4, &used("toolu_3", "list")),
        stop(4),
        event(&json!({"type": "of_tomorrow", "index": 7})),
        end("tool_use"),
        done(),
    ]
    .concat();
    let expected = [
        call("toolu_1", "read", "{\"path\":\"数.md\"}"),
        call("toolu_2", "list", "{\"a\":1}"),
        call("toolu_3", "list", ""),
    ];

    for length in [1, 3, 64, 100_000] {
        let (server, model) = anthropic(vec![Reply::events(&cut(&body, length))], |_| {}).await;
        let events = streamed(&model).await;

        assert_eq!(text_of(&events), "Zähle 数 🦀.", "pieces of {length}");
        assert_eq!(calls_of(&events), expected);
        let reply = whole(&events);
        assert_eq!(reply.message.text(), "Zähle 数 🦀.");
        assert_eq!(calls_in(&reply.message), expected);
        let thought = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
        let thought = opaque("anthropic", "thinking", &thought);
        assert_eq!(reply.message.parts.first(), Some(&thought));
        assert_eq!(reply.finish, FinishReason::ToolCalls);
        assert_eq!(reply.model, "claude-1-2026");
        let usage = reply.usage;
        assert_eq!((usage.input_tokens, usage.output_tokens), (1000, 10));
        assert_eq!(usage.cost_nano_usd, 1_150_000);
        let sent: Value = serde_json::from_str(&server.requests()[0].body).expect("JSON");
        assert_eq!(sent["stream"], json!(true));
    }
}

/// A tool that runs at the server has input and results of its own, beside the calls that are asked
/// for here.
#[tokio::test]
async fn blocks_of_unknown_kinds_are_kept_with_all_that_is_in_them() {
    let used = |index, id: &str, input: Value| {
        let block = json!({"type": "tool_use", "id": id, "name": "read", "input": input});
        self::block(index, &block)
    };
    let server_tool = |index, input: Value| {
        let block = json!({"type": "server_tool_use", "id": "srv_1", "name": "web_search",
            "input": input});
        self::block(index, &block)
    };
    let body = [
        begin(),
        text(0, "I search. "),
        used(1, "toolu_1", json!({"path": "a"})),
        stop(1),
        // Input in the block itself, and in pieces.
        server_tool(2, json!({"query": "x"})),
        input(2, "{\"query\":"),
        used(3, "toolu_2", json!({})),
        input(2, "\"y\"}"),
        text(2, "not a part of the reply"),
        input(3, "{\"path\":\"b\"}"),
        stop(2),
        block(
            4,
            &json!({"type": "web_search_tool_result", "content": [{"type": "x"}]}),
        ),
        stop(4),
        stop(3),
        text(5, "Done."),
        end("tool_use"),
        done(),
    ]
    .concat();
    let events = events(&body).await;
    let expected = [
        call("toolu_1", "read", "{\"path\":\"a\"}"),
        call("toolu_2", "read", "{\"path\":\"b\"}"),
    ];
    assert_eq!(calls_of(&events), expected);
    assert_eq!(text_of(&events), "I search. Done.");
    let kept = |kind: &str, json: &Value| opaque("anthropic", kind, json);
    let search = json!({"type": "server_tool_use", "id": "srv_1", "name": "web_search",
        "input": {"query": "y"}, "text": "not a part of the reply"});
    let found = json!({"type": "web_search_tool_result", "content": [{"type": "x"}]});
    let [first, second] = expected.map(Part::Call);
    let parts = [
        Part::Text("I search. ".to_owned()),
        first,
        kept("server_tool_use", &search),
        second,
        kept("web_search_tool_result", &found),
        Part::Text("Done.".to_owned()),
    ];
    assert_eq!(whole(&events).message.parts, parts);
}

#[tokio::test]
async fn pieces_of_unknown_blocks_are_put_together_and_unfinished_blocks_dropped() {
    let begun = json!({"type": "of_tomorrow", "words": "a", "number": 1});
    let cited = |at: u32| json!({"type": "citations_delta", "citation": {"at": at}});
    let unread = json!({"type": "server_tool_use", "id": "srv_1", "input": {}});
    let body = [
        begin(),
        block(0, &begun),
        delta(
            0,
            &json!({"type": "of_tomorrow_delta", "words": "b", "number": 2}),
        ),
        delta(0, &cited(1)),
        delta(0, &cited(2)),
        stop(0),
        text(1, "x"),
        block(2, &unread),
        input(2, "{\"query\":"),
        stop(2),
        block(3, &json!({"type": "thinking", "thinking": "so"})),
        end("end_turn"),
        done(),
    ]
    .concat();
    let all = json!({"type": "of_tomorrow", "words": "ab", "number": 2,
        "citations": [{"at": 1}, {"at": 2}]});
    let expected = [
        opaque("anthropic", "of_tomorrow", &all),
        Part::Text("x".to_owned()),
    ];
    assert_eq!(whole(&events(&body).await).message.parts, expected);
}

#[tokio::test]
async fn a_call_that_is_cut_at_the_length_is_dropped() {
    let used = |index, id: &str| {
        let block = json!({"type": "tool_use", "id": id, "name": "read", "input": {}});
        self::block(index, &block)
    };
    let body = [
        begin(),
        text(0, "Hm."),
        used(1, "whole"),
        input(1, "{\"path\":\"a\"}"),
        used(2, "cut"),
        input(2, "{\"path\":\"b"),
        end("max_tokens"),
        done(),
    ]
    .concat();
    let events = events(&body).await;
    let whole_call = call("whole", "read", "{\"path\":\"a\"}");
    assert_eq!(calls_of(&events), [whole_call]);
    assert_eq!(whole(&events).finish, FinishReason::Length);
    assert_eq!(whole(&events).message.text(), "Hm.");
}

#[tokio::test]
async fn usage_at_the_end_holds() {
    let last = event(
        &json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
        "usage": {"input_tokens": 50, "cache_read_input_tokens": 700, "output_tokens": 10}}),
    );
    let body = [begin(), text(0, "x"), last, done()].concat();
    let usage = whole(&events(&body).await).usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (950, 10));
}

#[tokio::test]
async fn a_stream_ends_with_its_reason_or_breaks() {
    let half = [begin(), text(0, "half")].concat();
    let without_stop = format!("{half}{}", end("end_turn"));
    for reply in [
        Reply::events(std::slice::from_ref(&without_stop)),
        Reply::events(&[without_stop]).then_cut(),
    ] {
        let (_server, model) = anthropic(vec![reply], |_| {}).await;
        assert_eq!(whole(&streamed(&model).await).message.text(), "half");
    }
    for reply in [
        Reply::events(std::slice::from_ref(&half)),
        Reply::events(std::slice::from_ref(&half)).then_cut(),
    ] {
        let (_server, model) = anthropic(vec![reply], |_| {}).await;
        match streamed(&model).await.last() {
            Some(StreamEvent::Error { error, .. }) => assert_reason(error, "Stream"),
            other => panic!("no error: {other:?}"),
        }
    }
    // Nothing to say, and said so.
    let empty = [begin(), end("end_turn"), done()].concat();
    let events = events(&empty).await;
    assert_eq!(
        (events.len(), whole(&events).finish),
        (1, FinishReason::Stop)
    );
}

#[tokio::test]
async fn an_error_in_the_middle_keeps_its_kind() {
    let half = [begin(), text(0, "half")].concat();
    let cases = [
        (error("overloaded_error", "Overloaded"), "RateLimit"),
        (error("rate_limit_error", "slow"), "RateLimit"),
        (error("api_error", "oops"), "Server"),
        (
            error("invalid_request_error", "prompt is too long"),
            "ContextLength",
        ),
        (input(9, "{}"), "BadAnswer"),
        ("data: {\"type\": 3}\n\n".to_owned(), "BadAnswer"),
        ("data: nonsense\n\n".to_owned(), "Stream"),
        ("data: {\"type\": \"content_bl\n\n".to_owned(), "Stream"),
    ];
    for (piece, reason) in cases {
        let events = events(&format!("{half}{piece}{}", text(0, "more"))).await;
        assert_eq!(text_of(&events), "half");
        match events.last() {
            Some(StreamEvent::Error { error, .. }) => assert_reason(error, reason),
            other => panic!("no error: {other:?}"),
        }
    }
    // Before the first piece it is the error of the question.
    let body = [begin(), error("overloaded_error", "Overloaded")].concat();
    let (_server, model) = anthropic(vec![Reply::events(&[body])], |_| {}).await;
    let error = model.chat_stream(&ask("x")).await.err().expect("an error");
    assert_reason(&error, "RateLimit");
}

#[tokio::test]
async fn a_stream_that_overload_or_the_way_spoiled_is_asked_for_again_from_the_start() {
    begun_anew(&error("overloaded_error", "Overloaded"), "RateLimit").await;
    begun_anew("data: {\"type\": \"content_bl\n\n", "Stream").await;
    begun_anew("event: content_block_delta\ndata: <<<\n\n", "Stream").await;
}

async fn begun_anew(spoiled: &str, reason: &str) {
    let half = format!("{}{}{spoiled}{}", begin(), text(0, "half"), text(0, "more"));
    let all = [
        begin(),
        text(0, "a"),
        text(0, "ll"),
        end("end_turn"),
        done(),
    ]
    .concat();
    let script = vec![Reply::events(&[half]), Reply::events(&[all])];
    let (server, model) = anthropic(script, |_| {}).await;
    let mut shown = String::new();
    let reply = stream_with_retry(&model, &ask("x"), &at_once(), |progress| {
        match progress {
            Progress::Text(text) => shown.push_str(text),
            Progress::Retry { attempt, error, .. } => {
                assert_eq!((attempt, error.reason()), (1, reason));
                assert_eq!(shown, "half");
                shown.clear();
            }
        }
        ready(())
    })
    .await
    .expect("a reply");
    assert_eq!(
        (reply.message.text().as_str(), shown.as_str()),
        ("all", "all")
    );
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn who_goes_away_closes_the_connection() {
    let begun = Reply::events(&[[begin(), text(0, "half")].concat()]).then_silence();
    let (server, model) = anthropic(vec![begun], |_| {}).await;
    let mut stream = model.chat_stream(&ask("x")).await.expect("a stream");
    assert!(stream.next().await.is_some());
    drop(stream);
    server.client_gone().await;
}

#[tokio::test]
async fn numbers_of_tokens_that_cannot_be_break_no_reply() {
    let usage = json!({"input_tokens": u64::MAX, "cache_read_input_tokens": u64::MAX,
        "cache_creation_input_tokens": 1, "output_tokens": u64::MAX});
    let begin = json!({"type": "message_start", "message": {"id": "msg_1", "role": "assistant",
        "model": "claude-1-2026", "content": [], "stop_reason": null, "usage": usage}});
    let body = [
        event(&begin),
        block(0, &json!({"type": "text", "text": ""})),
        text(0, "Yes."),
        stop(0),
        end("end_turn"),
        done(),
    ];
    let events = events(&body.concat()).await;
    let reply = whole(&events);
    assert_eq!(reply.message.text(), "Yes.");
    assert_eq!(reply.usage.output_tokens, 10);
}
