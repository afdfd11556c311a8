//! What servers with the OpenAI chat API do in streams that the protocol does not foresee.

use crate::support::{
    ask, assert_reason, call, calls_of, configured, scripted, streamed, text_of, whole,
};
use cairn_http::test_server::Reply;
use cairn_model::{
    FinishReason, Model, ModelError, StreamEvent, chat_with_retry, stream_with_retry,
};
use futures::StreamExt;
use serde_json::{Value, json};
use std::future::ready;
use std::time::Duration;

fn chunk(choice: &Value) -> String {
    format!("data: {}\n\n", json!({"choices": [choice]}))
}

async fn events(body: &str) -> Vec<StreamEvent> {
    let (_server, model) = scripted(vec![Reply::events(&[body])]).await;
    streamed(&model).await
}

#[tokio::test]
async fn line_ends_and_data_over_several_lines_are_understood() {
    let lines = [
        "event: message",
        "id: 1",
        "data: {\"choices\":",
        "data: [{\"delta\": {\"content\": \"Zähle\"},",
        "data:\"finish_reason\": \"stop\"}]}",
        "",
        "data: [DONE]",
        "",
        "",
    ];
    for end in ["\n", "\r\n", "\r"] {
        let body = lines.join(end);
        let cut: Vec<&[u8]> = body.as_bytes().chunks(1).collect();
        let (_server, model) = scripted(vec![Reply::events(&cut)]).await;
        let events = streamed(&model).await;
        assert_eq!(text_of(&events), "Zähle", "{end:?}");
        assert_eq!(whole(&events).finish, FinishReason::Stop);
    }
}

#[tokio::test]
async fn pieces_with_nothing_in_them_are_passed_over() {
    let body = [
        chunk(&json!({"delta": {"role": "assistant", "content": null}, "finish_reason": null})),
        chunk(&json!({"delta": {}})),
        chunk(&json!({"delta": null, "finish_reason": ""})),
        "data: {\"choices\": null, \"usage\": null}\n\n".to_owned(),
        "data: {}\n\n".to_owned(),
        "data:\n\n".to_owned(),
        chunk(&json!({"delta": {"reasoning_content": "hm", "reasoning": "hm", "content": null}})),
        chunk(&json!({"delta": {"content": "x", "tool_calls": null}})),
        chunk(&json!({"delta": {"content": "", "tool_calls": []}, "finish_reason": "stop"})),
    ]
    .concat();
    let events = events(&body).await;
    assert_eq!(text_of(&events), "x");
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!(whole(&events).message.text(), "x");
}

#[tokio::test]
async fn usage_may_come_late_or_with_every_piece_or_be_nonsense() {
    let usage =
        |input: Value, output: Value| json!({"prompt_tokens": input, "completion_tokens": output});
    let piece = |usage: Value, text: &str| {
        let choices = json!([{"delta": {"content": text}}]);
        format!("data: {}\n\n", json!({"choices": choices, "usage": usage}))
    };
    let end = chunk(&json!({"delta": {}, "finish_reason": "stop"}));
    let last = format!(
        "data: {}\n\n",
        json!({"choices": [], "usage": usage(json!(7), json!(3))})
    );
    let late = [piece(Value::Null, "x"), end.clone(), last].concat();
    let each = [
        piece(usage(json!(7), json!(1)), "x"),
        piece(usage(json!(7), json!(3)), "y"),
        end.clone(),
    ]
    .concat();
    for body in [late, each] {
        let events = events(&body).await;
        let usage = whole(&events).usage;
        assert_eq!((usage.input_tokens, usage.output_tokens), (7, 3));
    }
    let odd = [
        piece(usage(json!("many"), json!(-1)), "four words are here"),
        end,
    ]
    .concat();
    let usage = whole(&events(&odd).await).usage;
    assert!(
        usage.input_tokens > 0 && usage.output_tokens > 0,
        "{usage:?}"
    );
}

#[tokio::test]
async fn reasons_of_the_end_are_understood_in_all_their_forms() {
    let cases = [
        ("stop", FinishReason::Stop),
        ("length", FinishReason::Length),
        ("content_filter", FinishReason::Refusal),
        ("function_call", FinishReason::Other),
        ("eos", FinishReason::Other),
    ];
    for (reason, expected) in cases {
        let body = chunk(&json!({"delta": {"content": "x"}, "finish_reason": reason}));
        assert_eq!(whole(&events(&body).await).finish, expected, "{reason}");
    }
    let refusal = [
        chunk(&json!({"delta": {"refusal": "I won't."}})),
        chunk(&json!({"delta": {}, "finish_reason": "stop"})),
    ]
    .concat();
    let events = events(&refusal).await;
    assert_eq!(text_of(&events), "I won't.");
    assert_eq!(whole(&events).finish, FinishReason::Refusal);
}

#[tokio::test]
async fn an_end_that_is_only_announced_counts() {
    // Done without a reason: what came is the reply. A reason without the end: the same.
    let text = chunk(&json!({"delta": {"content": "x"}}));
    let done = format!("{text}data: [DONE]\n\n");
    assert_eq!(whole(&events(&done).await).finish, FinishReason::Other);

    let reason = [text, chunk(&json!({"delta": {}, "finish_reason": "stop"}))].concat();
    let silent = Reply::events(&[reason]).then_silence();
    let (_server, model) = configured(vec![silent], |config| {
        config.server.idle_timeout = Duration::from_millis(60);
    })
    .await;
    assert_eq!(whole(&streamed(&model).await).finish, FinishReason::Stop);
}

#[tokio::test]
async fn the_one_call_of_an_older_server_comes_in_pieces() {
    let piece = |function: Value| chunk(&json!({"delta": {"function_call": function}}));
    let body = [
        piece(json!({"name": "read", "arguments": ""})),
        piece(json!({"arguments": "{\"a\""})),
        piece(json!({"arguments": ":1}"})),
        chunk(&json!({"delta": {}, "finish_reason": "function_call"})),
    ]
    .concat();
    let events = events(&body).await;
    assert_eq!(calls_of(&events), [call("call_0_0_0", "read", "{\"a\":1}")]);
    assert_eq!(whole(&events).finish, FinishReason::ToolCalls);
}

#[tokio::test]
async fn an_error_in_the_middle_keeps_its_kind() {
    let begun = chunk(&json!({"delta": {"content": "half"}}));
    let cases = [
        (
            json!({"error": {"message": "slow", "code": 429}}),
            "RateLimit",
        ),
        (
            json!({"error": {"message": "busy", "type": "server_error"}}),
            "Server",
        ),
        (
            json!({"object": "error", "message": "maximum context", "code": 400}),
            "ContextLength",
        ),
        (json!({"error": "gone"}), "Server"),
        // The event is named an error, so whatever its data is, it is no piece of the reply.
        (json!({"choices": "nonsense"}), "Server"),
        (json!("nonsense"), "Server"),
    ];
    for (error, reason) in cases {
        let body = format!("{begun}event: error\ndata: {error}\n\n{begun}");
        match events(&body).await.last() {
            Some(StreamEvent::Error { error, .. }) => assert_reason(error, reason),
            other => panic!("no error: {other:?}"),
        }
    }
}

#[tokio::test]
async fn what_asking_again_cannot_help_is_not_asked_again() {
    let begun = chunk(&json!({"delta": {"content": "half"}}));
    let error = json!({"error": {"message": "maximum context", "code": 400}});
    let body = format!("{begun}data: {error}\n\n");
    let (server, model) = scripted(vec![Reply::events(&[body])]).await;
    let mut shown = String::new();
    let policy = crate::support::at_once();
    let error = stream_with_retry(&model, &ask("x"), &policy, |progress| {
        shown.push_str(&format!("{progress:?}"));
        ready(())
    })
    .await
    .expect_err("too long");
    assert_reason(&error, "ContextLength");
    assert_eq!(shown, "Text(\"half\")");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn who_goes_away_closes_the_connection() {
    let begun = chunk(&json!({"delta": {"content": "half"}}));
    let streaming = Reply::events(&[begun]).then_silence();
    let silent = Reply::events::<&str>(&[]).then_silence();
    let (server, model) = scripted(vec![streaming, silent]).await;

    let mut stream = model.chat_stream(&ask("x")).await.expect("a stream");
    assert!(stream.next().await.is_some());
    drop(stream);
    server.client_gone().await;

    // The same while the whole reply is waited for, through the retries.
    let policy = crate::support::at_once();
    let request = ask("x");
    let mut asked = Box::pin(chat_with_retry(&model, &request, &policy, |_, _, _| {}));
    tokio::select! {
        biased;
        outcome = &mut asked => panic!("the server is silent: {outcome:?}"),
        () = second_request(&server) => {}
    }
    drop(asked);
    server.client_gone().await;
}

async fn second_request(server: &cairn_http::test_server::TestServer) {
    while server.requests().len() < 2 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_first_piece_may_take_longer_than_the_next() {
    // Longer to the first byte than between two: each limit strikes at its own place.
    let limits = |config: &mut cairn_model::OpenAiConfig| {
        config.server.first_byte_timeout = Duration::from_millis(120);
        config.server.idle_timeout = Duration::from_millis(40);
    };
    let mute = Reply::events::<&str>(&[]).then_silence();
    let (_server, model) = configured(vec![mute], limits).await;
    let error = model.chat_stream(&ask("x")).await.err().expect("silence");
    let after = Duration::from_millis(120);
    assert_eq!(error, ModelError::Timeout { after });

    let begun = chunk(&json!({"delta": {"content": "half"}}));
    let (_server, model) = configured(vec![Reply::events(&[begun]).then_silence()], limits).await;
    match streamed(&model).await.last() {
        Some(StreamEvent::Error { error, .. }) => {
            let after = Duration::from_millis(40);
            assert_eq!(*error, ModelError::Timeout { after });
        }
        other => panic!("no error: {other:?}"),
    }
}
