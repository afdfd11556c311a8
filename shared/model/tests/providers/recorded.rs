//! Replies from a recording.

use crate::support::{ask, calls_in};
use cairn_engine::failure::FailureKind;
use cairn_engine::message::{Message, Opaque, Part, ToolCall};
use cairn_model::{ChatReply, ChatRequest, FinishReason, Model, ModelError, Recorded, StreamEvent};
use futures::StreamExt;

const RECORDING: &str = r####"
{"model": {"name": "acted", "window_tokens": 8000, "output_nano_usd_per_million": 2000000}}
{"match": {"contains": "count the files"}, "reply": {"text": "the plan"}, "usage": {"input_tokens": 7, "output_tokens": 3}}

{"match": {"step": "Title: Count"}, "replies": [{"text": "Let me see.", "tool_calls": [{"name": "list_files", "arguments": {"path": ".", "max": 2}}, {"name": "broken", "arguments": "{\"a\""}]}, {"tool_calls": [{"name": "step", "arguments": {"complete": true}, "id": "mine"}]}]}
{"match": {"step": "Title: Count", "last": "denied", "turn": 1}, "reply": {"text": "never reached: the one before stands first"}, "note": "order matters"}
{"match": {"step": "Title: Loop"}, "reply": {"tool_calls": [{"name": "again"}]}, "repeat": true}
{"match": {"step": "", "system": "strict"}, "reply": {"text": "any step of a strict agent"}}
{"match": {"contains": "hello"}, "replies": [{"tool_calls": [{"name": "look"}]}, {"text": "hello yourself"}]}
{"match": {"contains": "bye"}, "reply": {"text": "cut off", "finish": "length", "usage": {"cost_nano_usd": 5}}}
{"match": {"contains": "fail"}, "reply": {"error": "auth", "text": "no key"}}
"####;

fn model() -> Recorded {
    Recorded::parse("file", RECORDING).expect("a recording")
}

fn step(title: &str) -> Message {
    Message::user(format!(
        "## Requirement\ncount the files, then Title: Count\n\n## Plan overview\n1. Count done\n2. Loop\n\n\
         ## Current step (step 2)\nTitle: {title}\nDescription: Do it.\n\n## Summaries of finished steps\n- Step 1: Title: Count\n"
    ))
}

async fn reply(messages: Vec<Message>) -> ChatReply {
    let request = ChatRequest::new(messages);
    model().chat(&request).await.expect("a reply")
}

fn then(mut messages: Vec<Message>, reply: &ChatReply, result: &str) -> Vec<Message> {
    messages.push(reply.message.clone());
    for call in reply.message.calls() {
        messages.push(Message::tool(&call.id, result, false));
    }
    messages
}

#[tokio::test]
async fn numbers_of_arguments_keep_their_digits() {
    let arguments = r#"{"id":1000000000000000000001,"rate":0.00001,"much":1e+400}"#;
    let line =
        format!(r#"{{"reply": {{"tool_calls": [{{"name": "pay", "arguments": {arguments}}}]}}}}"#);
    let model = Recorded::parse("file", &line).expect("a recording");
    let reply = model.chat(&ask("x")).await.expect("a reply");
    assert_eq!(
        reply.message.calls().next().expect("a call").arguments,
        arguments
    );
}

#[tokio::test]
async fn a_conversation_is_played_in_its_order_by_any_process() {
    let messages = vec![Message::system("s"), step("Count")];
    let first = reply(messages.clone()).await;
    assert_eq!(first.message.text(), "Let me see.");
    assert_eq!(first.finish, FinishReason::ToolCalls);
    let call = |id: &str, name: &str, arguments: &str| ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    };
    let calls = [
        call("call_0_0", "list_files", "{\"path\":\".\",\"max\":2}"),
        call("call_0_1", "broken", "{\"a\""),
    ];
    assert_eq!(calls_in(&first.message), calls);

    let messages = then(messages, &first, "denied");
    let second = reply(messages.clone()).await;
    assert_eq!(
        calls_in(&second.message),
        [call("mine", "step", "{\"complete\":true}")]
    );
    // Each reply came from a model of its own, and the same question has the same answer.
    assert_eq!(reply(messages).await, second);
}

#[tokio::test]
async fn planning_and_steps_are_reported_apart() {
    assert_eq!(
        reply(vec![Message::user("Please count the files.")])
            .await
            .message
            .text(),
        "the plan"
    );
    let looped = reply(vec![step("Loop")]).await;
    assert_eq!(calls_in(&looped.message)[0].name, "again");
    let strict = vec![Message::system("Be strict."), step("Else")];
    assert_eq!(
        reply(strict).await.message.text(),
        "any step of a strict agent"
    );
}

#[tokio::test]
async fn the_last_reply_repeats_only_where_it_is_said() {
    let mut messages = vec![step("Loop")];
    for round in 0..3 {
        let next = reply(messages.clone()).await;
        assert_eq!(calls_in(&next.message)[0].id, format!("call_{round}_0"));
        messages = then(messages, &next, "ok");
    }
    let mut messages = vec![step("Count")];
    for _ in 0..2 {
        let next = reply(messages.clone()).await;
        messages = then(messages, &next, "ok");
    }
    let error = model()
        .chat(&ChatRequest::new(messages))
        .await
        .expect_err("no third reply");
    assert!(error.to_string().contains("turn 2 of the step"), "{error}");
}

#[tokio::test]
async fn the_newest_question_is_the_one_that_is_answered() {
    let mut messages = vec![Message::user("hello")];
    let look = reply(messages.clone()).await;
    messages = then(messages, &look, "seen");
    let answer = reply(messages.clone()).await;
    assert_eq!(answer.message.text(), "hello yourself");
    messages.push(answer.message);
    messages.push(Message::user("and bye"));
    let bye = reply(messages.clone()).await;
    assert_eq!(
        (bye.message.text().as_str(), bye.finish),
        ("cut off", FinishReason::Length)
    );
    messages.push(bye.message);
    messages.push(Message::user("hello again"));
    assert_eq!(calls_in(&reply(messages).await.message)[0].name, "look");
}

#[tokio::test]
async fn a_remark_between_does_not_begin_the_step_anew() {
    let messages = vec![step("Count")];
    let first = reply(messages.clone()).await;
    let mut messages = then(messages, &first, "ok");
    messages.push(Message::user("Go on, please."));
    assert_eq!(calls_in(&reply(messages).await.message)[0].name, "step");
}

#[tokio::test]
async fn usage_and_description_come_from_the_file() {
    let plan = reply(vec![Message::user("count the files")]).await;
    assert_eq!((plan.usage.input_tokens, plan.usage.output_tokens), (7, 3));
    assert_eq!((plan.usage.cost_nano_usd, plan.usage.model_calls), (6, 1));
    assert_eq!(plan.model, "acted");
    assert_eq!(
        reply(vec![Message::user("bye")]).await.usage.cost_nano_usd,
        5
    );
    let info = model().describe();
    assert_eq!(
        (info.provider.as_str(), info.window_tokens, info.vision),
        ("recorded", 8000, false)
    );
    let lines = "{\"model\": {\"vision\": true}}\n{\"reply\": {\"text\": \"hi\"}}";
    let seeing = Recorded::parse("seeing", lines).expect("a recording");
    assert!(seeing.describe().vision);
}

#[tokio::test]
async fn opaque_parts_caches_and_refusals_can_be_recorded() {
    let line = r#"{"reply": {"opaque": [{"kind": "thinking", "json": {"a": 1}},
        {"kind": "hint", "json": "x", "provider": "p", "model": "q"}],
        "text": "No.", "finish": "refusal", "usage": {"input_tokens": 9,
        "cached_input_tokens": 4, "cache_write_tokens": 3, "output_tokens": 8,
        "reasoning_tokens": 2}}}"#;
    let model = Recorded::parse("file", &line.replace('\n', "")).expect("a recording");
    let reply = model.chat(&ask("x")).await.expect("a reply");
    let opaque = |provider: &str, model: &str, kind: &str, json: &str| {
        Part::Opaque(Opaque {
            provider: provider.to_owned(),
            model: model.to_owned(),
            kind: kind.to_owned(),
            json: json.to_owned(),
        })
    };
    let expected = [
        opaque("recorded", "file", "thinking", "{\"a\":1}"),
        opaque("p", "q", "hint", "\"x\""),
        Part::Text("No.".to_owned()),
    ];
    assert_eq!(reply.message.parts, expected);
    assert_eq!(reply.finish, FinishReason::Refusal);
    let usage = reply.usage;
    let cache = (usage.cached_input_tokens, usage.cache_write_tokens);
    assert_eq!((cache, usage.reasoning_tokens), ((4, 3), 2));
}

#[tokio::test]
async fn a_recorded_error_is_raised() {
    let error = model().chat(&ask("fail")).await.expect_err("recorded");
    assert_eq!(
        (error.reason(), error.to_string().contains("no key")),
        ("Auth", true)
    );
}

#[tokio::test]
async fn an_unknown_question_is_named() {
    for (asked, shown) in [
        (
            vec![Message::user("What is\n the time?")],
            "turn 0 of the message \"What is the time?\"",
        ),
        (
            vec![step("Else")],
            "turn 0 of the step \"(step 2) Title: Else Description: Do it.\"",
        ),
        (
            vec![Message::system("s")],
            "a conversation without a user message",
        ),
    ] {
        let error = model()
            .chat(&ChatRequest::new(asked))
            .await
            .expect_err("unknown");
        assert!(matches!(error, ModelError::BadAnswer { .. }), "{error:?}");
        assert!(error.to_string().contains(shown), "{error}");
    }
}

#[tokio::test]
async fn a_stream_is_the_same_reply_in_pieces() {
    let request = ChatRequest::new([step("Count")]);
    let stream = model().chat_stream(&request).await.expect("a stream");
    let events: Vec<_> = stream.collect().await;
    let whole = model().chat(&request).await.expect("a reply");
    let deltas = ["Let ", "me ", "see."].map(|text| StreamEvent::AssistantTextDelta {
        text: text.to_owned(),
    });
    let calls = whole.message.calls().cloned();
    let calls = calls.map(StreamEvent::ToolCall);
    let complete = StreamEvent::TurnComplete {
        reply: Box::new(whole.clone()),
    };
    let expected: Vec<_> = deltas.into_iter().chain(calls).chain([complete]).collect();
    assert_eq!(events, expected);
}

#[tokio::test(start_paused = true)]
async fn a_reply_can_take_its_time() {
    let slow = r#"{"reply": {"text": "done", "delay_ms": 5000}}"#;
    let model = Recorded::parse("slow", slow).expect("a recording");
    let started = tokio::time::Instant::now();
    model.chat(&ask("x")).await.expect("a reply");
    assert_eq!(started.elapsed(), std::time::Duration::from_secs(5));
}

#[test]
fn a_wrong_recording_is_refused_with_its_line() {
    let good = r#"{"reply": {"text": "x"}}"#;
    let cases = [
        ("", "no exchange"),
        ("nonsense", "line 1"),
        ("{\"reply\": {\"txt\": \"x\"}}", "txt"),
        (
            "{\"match\": {\"contian\": \"x\"}, \"reply\": {}}",
            "contian",
        ),
        ("{\"match\": {}}", "lacks 'reply' or 'replies'"),
        ("{\"reply\": {}, \"replies\": [{}]}", "both"),
        ("{\"reply\": {\"error\": \"magic\"}}", "magic"),
        ("{\"model\": {\"nam\": 1}}", "nam"),
    ];
    for (line, shown) in cases {
        let failure = Recorded::parse("r", line).expect_err(line);
        assert_eq!(failure.kind, FailureKind::Config);
        assert!(failure.message.contains(shown), "{failure}");
    }
    let failure = Recorded::parse("r", &format!("{good}\n\n{{}}")).expect_err("the third line");
    assert!(failure.message.contains("line 3"), "{failure}");
}

#[test]
fn a_recording_is_read_from_a_file_and_named_after_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("greeting.jsonl");
    let missing = Recorded::from_file(&path).expect_err("not there yet");
    assert!(missing.message.contains("greeting.jsonl"), "{missing}");
    std::fs::write(&path, r#"{"reply": {"text": "hi"}}"#).expect("written");
    let model = Recorded::from_file(&path).expect("a recording");
    assert_eq!(model.describe().name, "greeting");
}

#[test]
fn a_mark_of_the_byte_order_is_no_part_of_a_recording() {
    Recorded::parse("file", &format!("\u{feff}{RECORDING}")).expect("a recording");
}
