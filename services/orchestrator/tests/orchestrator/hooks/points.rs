//! Calls, replies and approvals that hooks are asked about.

use super::{answered, one_step, question, settle, world};
use crate::answers::{lines, results};
use crate::results::{handle, whole};
use crate::support::{HOOK, Kind, reply};
use crate::turns::{rest, session, submit, turn};
use cairn_engine::hooks::{Mutation, Payload, Point, Verdict};
use cairn_proto::event as wire;
use cairn_proto::executor::{RetryReport, RunStepResponse};
use cairn_proto::orchestrator as pb;
use pb::turn_event::Event;
use std::collections::BTreeSet;

/// All calls of a reply are asked about at a time, and their answers are one event.
#[tokio::test(start_paused = true)]
async fn the_calls_of_a_reply_are_asked_about_together() {
    let (world, mut questions) = world(&[Point::PreToolCall]).await;
    let session = world.start(one_step()).await;
    let mut attempt = world.attempt().await;
    assert!(attempt.start.no_early_calls);
    let calls = [
        ("pure", r#"{"a":1}"#),
        ("effectful", r#"{"b":1}"#),
        ("pure", "{}"),
    ];
    attempt.reply(reply(0, "", &calls));
    let mut keys = BTreeSet::new();
    let mut asked = Vec::new();
    for _ in calls {
        let question = question(&world, &mut questions).await;
        keys.insert(question.asked.key.clone());
        asked.push(question);
    }
    assert_eq!(keys.len(), 3, "each question has a key of its own");
    for question in asked {
        let Payload::Call(call) = &question.asked.question.payload else {
            panic!("{question:?}");
        };
        match call.call.index {
            0 => question.proceed(),
            1 => {
                let arguments = Mutation::Arguments(r#"{"b":2}"#.to_owned());
                question.answer(Verdict::Mutate(arguments));
            }
            _ => question.block("not this"),
        }
    }
    let (mut permitted, mut refused) = (Vec::new(), Vec::new());
    while permitted.len() < 2 || refused.is_empty() {
        let ack = world.until(attempt.ack()).await;
        permitted.extend(ack.permitted_calls);
        refused.extend(ack.results);
    }
    let arguments = permitted.iter().map(|it| {
        let call = it.tool_call.as_ref().expect("a call");
        call.arguments_json.as_str()
    });
    let arguments: BTreeSet<_> = arguments.collect();
    assert_eq!(arguments, BTreeSet::from([r#"{"a":1}"#, r#"{"b":2}"#]));
    assert_eq!(refused.len(), 1);
    let words = "hook 'played' blocked PreToolCall: not this";
    assert_eq!(
        (refused[0].output.as_str(), refused[0].is_error),
        (words, true)
    );
    assert_eq!(answered(&world, &session).await.len(), 1);
}

/// The executor knows only what the tool said.
#[tokio::test(start_paused = true)]
async fn the_model_reads_which_hook_changed_arguments_that_a_tool_refuses() {
    let (world, mut questions) = world(&[Point::PreToolCall]).await;
    let session = world.start(one_step()).await;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "", &[("effectful", r#"{"b":1}"#)]));
    let asked = question(&world, &mut questions).await;
    let arguments = Mutation::Arguments(r#"{"b":"x"}"#.to_owned());
    asked.answer(Verdict::Mutate(arguments));
    let mut ack = world.until(attempt.ack()).await;
    while ack.permitted_calls.is_empty() {
        ack = world.until(attempt.ack()).await;
    }
    let mut refused = attempt.result(0, 0, "b is no number");
    refused.is_error = true;
    refused.reason = "InvalidArguments".to_owned();
    attempt.report(RunStepResponse {
        results: vec![refused],
        ..RunStepResponse::default()
    });
    let told = results(&world, &mut attempt).await;
    let words = "after hook 'played' changed its arguments: b is no number";
    assert_eq!(told[0].output, words);
    attempt.complete(1);
    world.ended(&session).await;
}

#[tokio::test(start_paused = true)]
async fn an_approval_that_a_hook_requires_names_the_hook_and_both_arguments() {
    let (world, mut questions) = world(&[Point::PreToolCall]).await;
    let session = world.start(one_step()).await;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "", &[("pure", r#"{"a":1}"#)]));
    let asked = question(&world, &mut questions).await;
    asked.answer(Verdict::RequireApproval("look first".to_owned()));
    let is_asked = |kind: &Kind| matches!(kind, Kind::ApprovalRequested(_));
    world.seen(&session, is_asked).await;
    let request = pb::ListPendingRequest {
        session: session.clone(),
        ..pb::ListPendingRequest::default()
    };
    let answer = world.client.clone().list_pending(request).await;
    let pending = answer.expect("a list").into_inner().pending;
    let [open] = &pending[..] else {
        panic!("{pending:?}");
    };
    assert_eq!(open.reason(), wire::WaitReason::Approval);
    assert_eq!(
        (open.hook.as_str(), open.hook_reason.as_str()),
        (HOOK, "look first")
    );
    assert_eq!(open.arguments_json, r#"{"a":1}"#);
    assert_eq!(open.asked_arguments_json, "", "no hook changed them");
}

/// A reply that is held is sent to the client of the turn as the hook left it, and counts so.
#[tokio::test(start_paused = true)]
async fn a_turn_answers_as_the_hook_left_its_reply() {
    let (world, mut questions) = world(&[Point::PostRequest]).await;
    let session = session(&world).await;
    let mut stream = submit(&world, turn(&world, &session))
        .await
        .expect("a turn");
    let mut attempt = world.attempt().await;
    assert!(attempt.start.no_deltas && attempt.start.no_early_calls);
    attempt.reply(reply(0, "a secret", &[]));
    let asked = question(&world, &mut questions).await;
    let text = Mutation::Text("nothing".to_owned());
    asked.answer(Verdict::Mutate(text));
    let (events, _) = rest(&world, &mut stream).await.expect("an end");
    let texts = events.iter().filter_map(|event| match event {
        Event::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    assert_eq!(texts.collect::<Vec<_>>(), ["nothing"]);
    let Some(Event::Complete(complete)) = events.last() else {
        panic!("{events:?}");
    };
    assert_eq!(complete.response, "nothing");
    assert_eq!(world.run(&session).await.answer, "nothing");
}

/// The executor asks its model again once the report of the error is acknowledged.
#[tokio::test(start_paused = true)]
async fn a_retry_waits_for_its_hook() {
    let (world, mut questions) = world(&[Point::OnRetry]).await;
    let session = world.start(one_step()).await;
    let mut attempt = world.attempt().await;
    assert!(attempt.start.reports_retries);
    world.settle().await;
    let commits = || world.faults.calls("Commit");
    let before = commits();
    let retry = RetryReport {
        tool_turn: 0,
        attempt: 1,
        failure: Some(wire::Failure {
            kind: wire::FailureKind::Llm.into(),
            reason: "RateLimit".to_owned(),
            message: "slow down".to_owned(),
            ..wire::Failure::default()
        }),
    };
    attempt.report(RunStepResponse {
        retry: Some(retry),
        ..RunStepResponse::default()
    });
    let asked = question(&world, &mut questions).await;
    assert_eq!(asked.asked.question.gate.index, 1);
    world.settle().await;
    assert!(attempt.received().is_none());
    asked.proceed();
    assert!(!world.until(attempt.settled()).await);
    attempt.complete(0);
    world.ended(&session).await;
    assert_eq!(answered(&world, &session).await.len(), 1);
    assert_eq!(commits(), before + 2, "one round more than without");
}

/// The log has the result as it came, and then as the hook left it.
#[tokio::test(start_paused = true)]
async fn the_log_shows_what_a_hook_put_in_place_of_a_result() {
    let (world, mut questions) = world(&[Point::PostToolCall]).await;
    let session = world.start(one_step()).await;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "", &[("pure", "{}")]));
    assert!(!world.until(attempt.settled()).await);
    settle(&mut attempt, 0, "secret");
    question(&world, &mut questions).await.block("too much");
    let told = results(&world, &mut attempt).await;
    let words = "the call was made, and hook 'played' blocked its result at PostToolCall: too much";
    assert_eq!((told[0].output.as_str(), told[0].is_error), (words, true));
    let request = pb::GetExecutionLogRequest {
        session: session.clone(),
        ..pb::GetExecutionLogRequest::default()
    };
    let log = world.client.clone().get_execution_log(request).await;
    let log = log.expect("a log").into_inner().entries;
    let outputs = log.iter().filter(|entry| entry.tool == "pure");
    let outputs: Vec<_> = outputs
        .map(|it| (it.output.as_str(), it.is_error))
        .collect();
    assert_eq!(outputs, [("secret", false), (words, true)]);
}

/// Clients get no more of a long result than its model: nothing before the hook has answered, and then only what
/// the hook left of it.
#[tokio::test(start_paused = true)]
async fn a_long_result_that_a_hook_changed_is_withheld_from_clients() {
    let (world, mut questions) = world(&[Point::PostToolCall]).await;
    let session = world.start(one_step()).await;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "", &[("pure", "{}")]));
    assert!(!world.until(attempt.settled()).await);
    let secret = lines(20_000);
    let (first, second) = secret.split_at(secret.len() / 2);
    attempt.long_result(0, 0, &[first, second]);
    let asked = question(&world, &mut questions).await;
    let is_finished = |kind: &Kind| matches!(kind, Kind::CallFinished(_));
    world.seen(&session, is_finished).await;
    let name = handle(&world, &session).await;
    let refused = || async {
        let error = whole(&world.client, &session, &name).await;
        error.expect_err("withheld").reason_name().to_owned()
    };
    assert_eq!(refused().await, "NO_SUCH_RESULT", "not yet");
    asked.answer(Verdict::Mutate(Mutation::Output("clean".to_owned())));
    let told = results(&world, &mut attempt).await;
    assert!(told[0].output.starts_with("clean"), "{}", told[0].output);
    assert_eq!(refused().await, "NO_SUCH_RESULT");
    let request = pb::GetExecutionLogRequest {
        session,
        ..pb::GetExecutionLogRequest::default()
    };
    let log = world.client.clone().get_execution_log(request).await;
    let log = log.expect("a log").into_inner().entries;
    let last = log.last().expect("an entry");
    assert_eq!((&last.output, &last.whole), (&told[0].output, &None));
}
