//! Runs from their start to their end.

use crate::support::{Kind, World, chain, count, goal, graph, model_step, names, reply, tool_step};
use cairn_engine::conversation::Conversation;
use cairn_engine::limits::LARGEST_REPLY;
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;

const STEP_DONE: &str = r#"{"complete": true, "summary": "done"}"#;

fn usage(model_calls: u32) -> wire::Usage {
    wire::Usage {
        input_tokens: 100,
        output_tokens: 10,
        cost_nano_usd: 1000,
        model_calls,
        ..wire::Usage::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_goal_is_planned_and_carried_out() {
    let world = World::new().await;
    let session = world.start(goal("find the answer")).await;
    let asked = world.asked().await;
    assert_eq!(asked.request.goal, "find the answer");
    assert_eq!(asked.request.earlier, None);
    asked.plan(vec![model_step("think"), tool_step("effectful")], usage(1));

    let mut first = world.attempt().await;
    assert_eq!(first.place(), (1, 1));
    let conversation = first.start.conversation.clone().expect("a conversation");
    let context = Conversation::try_from(conversation).expect("a conversation");
    let begun_with = context.immutable[0].message.text();
    assert!(begun_with.contains("Do think."));
    first.reply(reply(
        0,
        "looking",
        &[
            ("pure", "{}"),
            ("effectful", "{}"),
            ("scratchpad", r#"{"text": "noted"}"#),
        ],
    ));
    let ack = first.ack().await;
    assert_eq!((ack.through_number, ack.ended), (1, false));
    let permitted: Vec<_> = ack.permitted_calls.iter().map(|c| c.call).collect();
    // The first may have begun by itself: who has begun it heeds no permit.
    assert_eq!(permitted, [0, 1].map(|index| Some(first.call(0, index))));
    let answered: Vec<_> = ack.results.iter().map(|result| result.call).collect();
    assert_eq!(answered, [Some(first.call(0, 2))]);
    first.report_result(0, 1, "sent");
    assert!(!first.settled().await);
    let found = first.result(0, 0, "found");
    first.reply_with(vec![found], reply(1, "that is it", &[("step", STEP_DONE)]));
    assert!(first.settled().await);

    let mut second = world.attempt().await;
    assert_eq!(second.place(), (2, 1));
    let call = second.start.tool_step.clone().unwrap();
    assert_eq!(call.call, Some(second.call(0, 0)));
    second.report_result(0, 0, "done by a tool");
    assert!(second.settled().await);

    let events = world.ended(&session).await;
    assert_eq!(count(&events, "ReplyReceived"), 2);
    assert_eq!(count(&events, "AttemptContinued"), 0);
    let run = world.run(&session).await;
    assert_eq!(run.status(), pb::RunStatus::Completed);
    assert_eq!(run.answer, "done by a tool");
    assert_eq!(run.usage.unwrap().model_calls, 3);
}

/// What an executor was told of one tool turn is not told again with the next.
#[tokio::test(start_paused = true)]
async fn an_acknowledgement_speaks_of_the_last_tool_turn_only() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("loop")])).await;
    let mut attempt = world.attempt().await;
    for turn in 0..5 {
        let calls = [
            ("idempotent", "{}"),
            ("read_progress", "{}"),
            ("pure", "{}"),
        ];
        let before = (turn > 0).then(|| {
            let last = turn - 1;
            vec![attempt.result(last, 0, "a"), attempt.result(last, 2, "b")]
        });
        attempt.reply_with(before.unwrap_or_default(), reply(turn, "", &calls));
        let ack = attempt.ack().await;
        let permitted: Vec<_> = ack.permitted_calls.iter().map(|c| c.call).collect();
        assert_eq!(
            permitted,
            [0, 2].map(|index| Some(attempt.call(turn, index)))
        );
        let answered: Vec<_> = ack.results.iter().map(|result| result.call).collect();
        assert_eq!(answered, [Some(attempt.call(turn, 1))]);
    }
    let last = vec![attempt.result(4, 0, "a"), attempt.result(4, 2, "b")];
    attempt.reply_with(last, reply(5, "", &[("step", STEP_DONE)]));
    assert!(attempt.settled().await);
    world.ended(&session).await;
}

/// An executor that takes an attempt over knows of the turns before, and is told only what is new.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_continues_elsewhere_begins_with_what_is_open() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("loop")])).await;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "", &[("pure", "{}")]));
    attempt.ack().await;
    let found = attempt.result(0, 0, "found");
    let calls = [("idempotent", "{}"), ("read_progress", "{}")];
    attempt.reply_with(vec![found], reply(1, "", &calls));
    attempt.ack().await;
    drop(attempt);

    let mut again = world.attempt().await;
    let open: Vec<_> = again.start.open_calls.iter().map(|c| c.call).collect();
    assert_eq!(open, [Some(again.call(1, 0))]);
    assert_eq!(again.said(), 4);
    again.report_result(1, 0, "made");
    let ack = again.ack().await;
    assert!(ack.permitted_calls.is_empty() && ack.results.is_empty());
    again.complete(2);
    assert!(again.settled().await);
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "AttemptContinued"), 1);
}

#[tokio::test(start_paused = true)]
async fn independent_steps_run_side_by_side() {
    let world = World::new().await;
    let steps = vec![
        tool_step("pure"),
        tool_step("idempotent"),
        model_step("think"),
    ];
    let session = world.start(graph(steps)).await;
    let mut attempts = Vec::new();
    for _ in 0..3 {
        attempts.push(world.attempt().await);
    }
    for mut attempt in attempts {
        match attempt.start.tool_step {
            Some(_) => attempt.report_result(0, 0, "made"),
            None => attempt.complete(0),
        }
        assert!(attempt.settled().await);
    }
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "StepCompleted"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_fails_ends_the_run_and_what_waits_for_it() {
    let world = World::new().await;
    let steps = vec![model_step("fail"), model_step("never")];
    let session = world.start(chain(steps)).await;
    let mut attempt = world.attempt().await;
    attempt.report(cairn_proto::executor::RunStepResponse {
        failure: Some(wire::Failure {
            kind: wire::FailureKind::Llm.into(),
            reason: "Refused".to_owned(),
            message: "the model refuses".to_owned(),
            recoverable: false,
        }),
        ..Default::default()
    });
    assert!(attempt.settled().await);
    let events = world.ended(&session).await;
    assert_eq!(
        names(&events[events.len() - 2..]),
        ["StepFailed", "RunFailed"]
    );
    assert!(world.other_attempts().await.is_empty());
}

/// The journal keeps the largest reply that the settings may allow.
#[tokio::test(start_paused = true)]
async fn the_largest_reply_is_kept() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("talk")])).await;
    let mut attempt = world.attempt().await;
    let text = "x".repeat(LARGEST_REPLY - "step".len() - STEP_DONE.len());
    attempt.reply(reply(0, &text, &[("step", STEP_DONE)]));
    assert!(attempt.settled().await);
    let events = world.ended(&session).await;
    let is_kept = |kind: &Kind| match kind {
        Kind::ReplyReceived(reply) => reply.text == text,
        _ => false,
    };
    assert!(events.iter().any(|event| is_kept(&event.kind)));
    assert_eq!(names(&events[events.len() - 1..]), ["RunCompleted"]);
}

/// A reply that no journal takes fails its step; what it cost is kept.
#[tokio::test(start_paused = true)]
async fn an_oversized_reply_fails_the_step_and_is_paid_for() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("talk")])).await;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, &"x".repeat(LARGEST_REPLY + 1), &[]));
    assert!(attempt.settled().await);
    let events = world.ended(&session).await;
    let Some(Kind::RunFailed(failed)) = events.last().map(|event| &event.kind) else {
        panic!("{:?}", names(&events));
    };
    assert_eq!(failed.failure.reason, "reply_too_large");
    let run = world.run(&session).await;
    assert_eq!(run.usage.unwrap().model_calls, 1);
}

/// A report that does not even fit into a message would not fit the next time.
#[tokio::test(start_paused = true)]
async fn a_report_larger_than_a_message_is_not_asked_for_again() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("talk")])).await;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, &"x".repeat(5 * 1024 * 1024), &[]));
    attempt.dropped().await;
    let events = world.ended(&session).await;
    let Some(Kind::RunFailed(failed)) = events.last().map(|event| &event.kind) else {
        panic!("{:?}", names(&events));
    };
    assert_eq!(failed.failure.reason, "message_too_large");
    assert!(world.other_attempts().await.is_empty());
}

/// A reply of more than 64 KiB is stored apart, and is there whole.
#[tokio::test(start_paused = true)]
async fn a_large_reply_is_kept_whole() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("talk")])).await;
    let mut attempt = world.attempt().await;
    let text = "y".repeat(200 * 1024);
    attempt.reply(reply(0, &text, &[("step", STEP_DONE)]));
    assert!(attempt.settled().await);
    let events = world.ended(&session).await;
    let kept = events.iter().find_map(|event| match &event.kind {
        Kind::ReplyReceived(reply) => Some(reply.text.clone()),
        _ => None,
    });
    assert_eq!(kept, Some(text));
    assert_eq!(world.faults.calls("PutBlob"), 2);
}

/// They are more than one transition starts, and no executor reports anything after which the rest
/// could start.
#[tokio::test(start_paused = true)]
async fn steps_whose_calls_are_denied_all_end() {
    let world = World::new().await;
    let steps = (0..400).map(|_| tool_step("denied")).collect();
    let limits = wire::LimitOverrides {
        on_failure: wire::OnFailure::GoOn.into(),
        ..wire::LimitOverrides::default()
    };
    let run = wire::StartRun {
        limits: Some(limits),
        ..graph(steps)
    };
    let session = world.start(run).await;
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "StepFailed"), 400);
    assert_eq!(count(&events, "RunFailed"), 1);
}
