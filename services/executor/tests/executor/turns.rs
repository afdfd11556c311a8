//! Tool turns: what the model is told, and which call is sent when.

use crate::bench::{Answer, Bench, reply};
use crate::owner::{attempt, call_ref, outputs, owners_result, permit};
use cairn_engine::event::{AttemptRef, CallRef};
use cairn_engine::key::call_key;
use cairn_engine::message::{Message, Part};
use cairn_model::ModelError;
use cairn_proto::event::{Effect, FailureKind, TurnOptions};
use cairn_proto::executor::AttemptStart;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

fn start() -> AttemptStart {
    crate::owner::model_step()
}

#[tokio::test(start_paused = true)]
async fn a_step_continues_until_the_owner_ends_it() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(start()).await;

    let asked = bench.asked().await;
    let opening = [
        Message::system("You are a tester.\n\nPool: 1"),
        Message::user("## Requirement\ntest"),
    ];
    let opening = opening.map(Arc::new);
    assert_eq!(asked.request.messages, opening);
    assert_eq!(asked.request.stable, 2);
    let names: Vec<_> = asked
        .request
        .tools
        .iter()
        .map(|tool| tool.name.as_str())
        .collect();
    assert_eq!(names, ["look", "peek", "put", "send", "step"]);
    assert_eq!(asked.request.tools[0].description, "the tool look");
    assert_eq!(
        asked.request.tools[0].parameters,
        serde_json::json!({"type": "object"})
    );
    tokio::time::advance(Duration::from_millis(40)).await;
    asked.reply("first I look", &[("look", r#"{"at":1}"#)]);

    let report = owner.report().await;
    assert_eq!((report.number, report.results.len()), (1, 0));
    let sent = report.reply.expect("a reply");
    assert_eq!((sent.tool_turn, sent.text.as_str()), (0, "first I look"));
    assert_eq!((sent.model.as_str(), sent.duration_ms), ("played-1", 40));
    assert_eq!(sent.usage.expect("usage").output_tokens, 2);
    assert_eq!(sent.tool_calls[0].name, "look");
    assert_eq!(sent.tool_calls[0].arguments_json, r#"{"at":1}"#);
    bench.called().await.output("a tree");
    owner.ack(1);

    let asked = bench.asked().await;
    assert_eq!(asked.request.messages[..2], opening);
    let first = reply("first I look", &[("look", r#"{"at":1}"#)]).message;
    let said = [first, Message::tool("id-0", "a tree", false)];
    assert_eq!(asked.said(), said);
    asked.reply("", &[("step", r#"{"complete":true}"#)]);

    let report = owner.report().await;
    assert_eq!((report.number, outputs(&report)), (2, vec![(0, "a tree")]));
    assert_eq!(report.reply.as_ref().expect("a reply").tool_turn, 1);
    owner.end(2).await;
    bench.is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn the_temperature_is_that_of_the_options_or_else_of_the_agent() {
    let options = |temperature| TurnOptions {
        temperature,
        ..TurnOptions::default()
    };
    for (of_turn, of_agent, expected) in [
        (None, None, None),
        (None, Some(200), Some(0.2)),
        (Some(options(None)), Some(200), Some(0.2)),
        (Some(options(Some(0.0))), Some(200), Some(0.0)),
    ] {
        let mut bench = Bench::new().await;
        let start = AttemptStart {
            options: of_turn,
            temperature_milli: of_agent,
            ..start()
        };
        let _owner = bench.start(start).await;
        let asked = bench.asked().await;
        assert_eq!(asked.request.options.temperature, expected);
        asked.reply("", &[]);
    }
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_turn_overlap_and_keep_their_order() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(start()).await;
    let calls = [("look", "1"), ("look", "2"), ("look", "3")];
    bench.asked().await.reply("", &calls);
    owner.report().await;
    owner.ack(1);
    // None is answered before all have arrived.
    let mut called = Vec::new();
    for _ in calls {
        called.push(bench.called().await);
    }
    called.reverse();
    for call in called {
        let output = format!("seen {}", call.request.arguments_json);
        call.output(&output);
    }
    let asked = bench.asked().await;
    let results = [
        Message::tool("id-0", "seen 1", false),
        Message::tool("id-1", "seen 2", false),
        Message::tool("id-2", "seen 3", false),
    ];
    assert_eq!(asked.said()[1..], results);
    asked.reply("Hm.", &[]);
    let report = owner.report().await;
    assert_eq!(report.results.len(), 3);
    owner.end(2).await;
}

#[tokio::test(start_paused = true)]
async fn only_pure_calls_are_sent_before_the_reply_is_acknowledged() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(start()).await;
    bench
        .asked()
        .await
        .reply("", &[("send", "a"), ("look", "b"), ("put", "c")]);
    owner.report().await;
    let pure = bench.called().await;
    assert_eq!(pure.request.name, "look");
    assert_eq!(pure.request.not_after_unix_ms, 0);
    let at = CallRef {
        attempt: AttemptRef {
            run: 1,
            step: 2.into(),
            attempt: 3,
        },
        tool_turn: 0,
        index: 1,
    };
    assert_eq!(pure.request.call_key, call_key("tenant-a", "s-1", at));
    bench.is_quiet().await;
    let permits = vec![
        permit(call_ref(0, 0), "send", "a", Effect::Effectful),
        permit(call_ref(0, 2), "put", "c", Effect::Idempotent),
    ];
    owner.ack_with(1, permits, Vec::new());
    for (name, key) in [("send", "key-0-0"), ("put", "key-0-2")] {
        let called = bench.called().await;
        assert_eq!(
            (&*called.request.name, &*called.request.call_key),
            (name, key)
        );
        assert_eq!(called.request.not_after_unix_ms, 9_000);
        called.output(name);
    }
    pure.output("look");
    // The effectful call's result is waited for, the others travel along as they are there.
    let mut reported = 0;
    while reported < 3 {
        let report = owner.report().await;
        reported += report.results.len();
        owner.ack(report.number);
    }
    let asked = bench.asked().await;
    let reported: Vec<_> = asked.said()[1..].iter().map(Message::text).collect();
    assert_eq!(reported, ["send", "look", "put"]);
}

#[tokio::test(start_paused = true)]
async fn the_owner_answers_state_tools_and_unknown_ones() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(start()).await;
    bench
        .asked()
        .await
        .reply("", &[("step", "{}"), ("dig", "{}")]);
    owner.report().await;
    bench.is_quiet().await;
    let mut unknown = owners_result(call_ref(0, 1), "no tool is called dig");
    unknown.is_error = true;
    owner.ack_with(
        1,
        Vec::new(),
        vec![owners_result(call_ref(0, 0), "noted"), unknown],
    );
    let asked = bench.asked().await;
    let reported = [
        Message::tool("id-0", "noted", false),
        Message::tool("id-1", "no tool is called dig", true),
    ];
    assert_eq!(asked.said()[1..], reported);
    asked.reply("Hm.", &[]);
    // What the owner said itself is not reported back.
    assert_eq!(owner.report().await.results, []);
    owner.end(2).await;
}

#[tokio::test(start_paused = true)]
async fn what_the_owner_answers_last_does_not_wait_for_held_results() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(start()).await;
    bench
        .asked()
        .await
        .reply("", &[("look", "{}"), ("step", r#"{"complete":true}"#)]);
    owner.report().await;
    let called = bench.called().await;
    // Whether the step is complete depends on the call beside it.
    owner.ack(1);
    tokio::task::yield_now().await;
    let since = Instant::now();
    called.output("seen");
    let report = owner.report().await;
    assert_eq!((report.number, outputs(&report)), (2, vec![(0, "seen")]));
    assert_eq!(since.elapsed(), Duration::ZERO);
    bench.is_quiet().await;
    owner.ack_with(
        2,
        Vec::new(),
        vec![owners_result(call_ref(0, 1), "a sub-goal is open")],
    );
    let asked = bench.asked().await;
    let reported: Vec<_> = asked.said()[1..].iter().map(Message::text).collect();
    assert_eq!(reported, ["seen", "a sub-goal is open"]);
}

#[tokio::test(start_paused = true)]
async fn the_owners_answer_to_a_pure_call_holds() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(start()).await;
    bench.asked().await.reply("", &[("look", "{}")]);
    owner.report().await;
    let called = bench.called().await;
    owner.ack_with(1, Vec::new(), vec![owners_result(call_ref(0, 0), "denied")]);
    called.dropped().await;
    let asked = bench.asked().await;
    assert_eq!(asked.said()[1].text(), "denied");
}

#[tokio::test(start_paused = true)]
async fn the_model_is_not_asked_before_its_last_reply_is_acknowledged() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(start()).await;
    bench.asked().await.reply("hm", &[]);
    owner.report().await;
    bench.is_quiet().await;
    owner.ack(0);
    bench.is_quiet().await;
    owner.ack(1);
    bench.asked().await.reply("", &[("look", "{}")]);
    owner.report().await;
    bench.called().await.output("seen");
    bench.is_quiet().await;
    owner.ack(2);
    bench.asked().await;
}

#[tokio::test(start_paused = true)]
async fn calls_without_an_id_of_their_own_get_one() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(start()).await;
    let mut answer = reply(
        "",
        &[("look", "1"), ("look", "2"), ("look", "3"), ("look", "4")],
    );
    let ids = ["", "x", "x", "call_0_0"];
    let parts = answer.message.parts.iter_mut();
    let calls = parts.filter_map(|part| match part {
        Part::Call(call) => Some(call),
        _ => None,
    });
    for (call, id) in calls.zip(ids) {
        call.id = id.to_owned();
    }
    bench.asked().await.answer(Ok(answer));
    let sent = owner.report().await.reply.expect("a reply");
    let ids: Vec<_> = sent
        .tool_calls
        .iter()
        .map(|call| call.id.as_str())
        .collect();
    assert_eq!(ids, ["call_0_0", "x", "call_0_2", "call_0_3"]);
    owner.ack(1);
    for _ in ids {
        bench.called().await.output("seen");
    }
    let asked = bench.asked().await;
    let said = asked.said();
    let last = said[4].results().next().expect("a result");
    assert_eq!(last.call_id, "call_0_3");
    let ids: Vec<_> = said[0].calls().map(|call| &*call.id).collect();
    assert_eq!(ids[3], "call_0_3");
}

#[tokio::test(start_paused = true)]
async fn one_tool_turn_more_than_allowed_is_a_failure() {
    let mut bench = Bench::new().await;
    let start = AttemptStart {
        max_tool_turns: 2,
        ..start()
    };
    let mut owner = bench.start(start).await;
    for number in 1..=2 {
        bench.asked().await.reply("", &[("look", "{}")]);
        owner.report().await;
        bench.called().await.output("seen");
        owner.ack(number);
    }
    let report = owner.report().await;
    assert_eq!((report.number, outputs(&report)), (3, vec![(0, "seen")]));
    let failure = report.failure.expect("a failure");
    assert_eq!(failure.kind(), FailureKind::LimitExceeded);
    assert_eq!(
        (failure.reason.as_str(), failure.recoverable),
        ("max_tool_turns", false)
    );
    assert!(
        failure.message.contains("2 tool turns"),
        "{}",
        failure.message
    );
    owner.end(3).await;
    bench.is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn two_replies_without_content_fail_the_attempt_and_are_paid_for() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(start()).await;
    for _ in 0..2 {
        bench.asked().await.reply("", &[]);
    }
    let report = owner.report().await;
    assert_eq!(report.failure.expect("a failure").reason, "EmptyReply");
    let paid = report.reply.expect("what they used up");
    assert_eq!((paid.tool_turn, paid.text.as_str()), (0, ""));
    let usage = paid.usage.expect("usage");
    assert_eq!((usage.output_tokens, usage.model_calls), (4, 2));
    owner.end(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_model_that_fails_is_asked_again_and_then_fails_the_attempt() {
    let rate_limit = || -> Answer {
        Err(ModelError::RateLimit {
            message: "slow down".to_owned(),
            retry_after: None,
        })
    };
    let mut bench = Bench::new().await;
    let mut owner = bench.start(start()).await;
    bench.asked().await.answer(rate_limit());
    bench.asked().await.reply("", &[("look", "{}")]);
    owner.report().await;
    bench.called().await.output("seen");
    owner.ack(1);
    bench.asked().await.answer(Err(ModelError::Auth {
        message: "bad key".to_owned(),
    }));
    // The result was held for 20 ms at most; the failure comes at once and takes it along.
    let report = owner.report().await;
    assert_eq!(outputs(&report), [(0, "seen")]);
    let failure = report.failure.expect("a failure");
    assert_eq!(
        (failure.kind(), &*failure.reason),
        (FailureKind::Llm, "Auth")
    );
    bench.is_quiet().await;
    owner.end(2).await;

    let mut owner = bench.start(start()).await;
    for _ in 0..9 {
        bench.asked().await.answer(Err(ModelError::Server {
            status: 503,
            message: "busy".to_owned(),
        }));
    }
    let failure = owner.report().await.failure.expect("a failure");
    assert_eq!((&*failure.reason, failure.recoverable), ("Server", true));
    // An acknowledgement is enough: nothing is left to be done.
    owner.ack(1);
    assert_eq!(owner.reports.message().await.expect("no error"), None);
    assert_eq!(attempt().attempt, 3);
}

/// What needs a person's word, or is counted, does not begin before the reply is durable.
#[tokio::test(start_paused = true)]
async fn a_pure_call_that_is_not_free_waits_for_its_permit() {
    for no_early_calls in [false, true] {
        let mut bench = Bench::new().await;
        let start = AttemptStart {
            no_early_calls,
            ..start()
        };
        let mut owner = bench.start(start).await;
        let held = if no_early_calls { "look" } else { "peek" };
        bench.asked().await.reply("", &[(held, "{}")]);
        let report = owner.report().await;
        assert!(report.reply.is_some());
        let calls = tokio::time::timeout(Duration::from_secs(5), bench.called()).await;
        assert!(calls.is_err(), "{held} began before it was permitted");
        let mut permitted = permit(call_ref(0, 0), held, "{}", Effect::Pure);
        permitted.tool_digest = "the digest".to_owned();
        owner.ack_with(1, vec![permitted], Vec::new());
        let called = bench.called().await;
        assert_eq!(called.request.tool_digest, "the digest");
        called.output("seen");
        bench.asked().await;
    }
}
