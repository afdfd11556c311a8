//! What an attempt waits for if its run asks hooks.

use crate::bench::{Bench, reply};
use crate::owner::{attempt, call_ref, model_step, outputs, owners_result, permit};
use cairn_engine::conversation::Op;
use cairn_engine::failure::Failure;
use cairn_engine::message::Message;
use cairn_model::ModelError;
use cairn_proto::event::Effect;
use cairn_proto::executor::{AttemptStart, RetryReport};
use cairn_rpc::RpcError;
use std::time::Duration;
use tokio::time::Instant;

fn settling() -> AttemptStart {
    AttemptStart {
        settles_before_request: true,
        ..model_step()
    }
}

fn leaving() -> AttemptStart {
    AttemptStart {
        leaves_results: true,
        ..model_step()
    }
}

fn reporting() -> AttemptStart {
    AttemptStart {
        reports_retries: true,
        ..model_step()
    }
}

fn cut() -> ModelError {
    ModelError::Stream {
        message: "cut".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn each_request_waits_until_all_results_are_acknowledged() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(settling()).await;
    bench.asked().await.reply("", &[("look", "{}")]);
    assert_eq!(owner.report().await.number, 1);
    owner.ack(1);
    let called = bench.called().await;
    let ended = Instant::now();
    called.output("seen");
    let report = owner.report().await;
    assert_eq!((report.number, outputs(&report)), (2, vec![(0, "seen")]));
    assert_eq!(report.reply, None);
    assert_eq!(ended.elapsed(), Duration::ZERO, "no reply is waited for");
    bench.is_quiet().await;
    // What hooks change comes with the acknowledgement.
    owner.changes(2, vec![Op::Append(Message::user("Be brief."))]);
    let asked = bench.asked().await;
    assert_eq!(asked.said().last(), Some(&Message::user("Be brief.")));
    asked.reply("Hm.", &[]);
    assert_eq!(owner.report().await.number, 3);
    owner.end(3).await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_waits_long_for_hooks_ends_the_stream() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(settling()).await;
    bench.asked().await.reply("", &[("look", "{}")]);
    owner.report().await;
    owner.ack(1);
    bench.called().await.output("seen");
    assert_eq!(owner.report().await.number, 2);
    drop(owner);
    bench.is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn the_owner_decides_what_the_model_gets_of_each_result() {
    for name in ["look", "send"] {
        let mut bench = Bench::new().await;
        let mut owner = bench.start(leaving()).await;
        bench.asked().await.reply("", &[(name, "{}")]);
        assert_eq!(owner.report().await.number, 1);
        let send = permit(call_ref(0, 0), name, "{}", Effect::Effectful);
        let permits = if name == "send" {
            vec![send]
        } else {
            Vec::new()
        };
        owner.ack_with(1, permits, Vec::new());
        bench.called().await.output("seen");
        let report = owner.report().await;
        assert_eq!((report.number, outputs(&report)), (2, vec![(0, "seen")]));
        assert_eq!(report.reply, None);
        owner.ack(2);
        bench.is_quiet().await;
        owner.ack_with(2, Vec::new(), vec![owners_result(call_ref(0, 0), "hidden")]);
        let asked = bench.asked().await;
        assert_eq!(asked.said()[1..], [Message::tool("id-0", "hidden", false)]);
    }
}

/// Such a result says nothing that hooks are asked about, and the call may be made after all.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_not_sent_may_be_permitted_again() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(leaving()).await;
    bench.asked().await.reply("", &[("send", "{}")]);
    owner.report().await;
    let send = || permit(call_ref(0, 0), "send", "{}", Effect::Effectful);
    owner.ack_with(1, vec![send()], Vec::new());
    let too_late = RpcError::precondition("too late").reason("NOT_SENT");
    bench.called().await.answer(Err(too_late.into()));
    assert_eq!(owner.report().await.results[0].reason, "NotSent");
    owner.ack_with(2, vec![send()], Vec::new());
    bench.called().await.output("sent");
    assert_eq!(outputs(&owner.report().await), [(0, "sent")]);
}

#[tokio::test(start_paused = true)]
async fn a_step_of_one_call_leaves_its_result_too() {
    let start = AttemptStart {
        session: "s-1".to_owned(),
        attempt: Some(attempt()),
        tool_step: Some(permit(call_ref(0, 0), "send", "{}", Effect::Pure)),
        leaves_results: true,
        ..AttemptStart::default()
    };
    let mut bench = Bench::new().await;
    let mut owner = bench.start(start).await;
    bench.called().await.output("sent");
    assert_eq!(outputs(&owner.report().await), [(0, "sent")]);
    owner.ack(1);
    owner.hears_nothing().await;
    owner.end(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_for_its_acknowledgement_and_then_for_the_policy() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(reporting()).await;
    bench.asked().await.answer(Err(cut()));
    let report = owner.report().await;
    assert_eq!((report.number, report.reply), (1, None));
    let expected = RetryReport {
        tool_turn: 0,
        attempt: 1,
        failure: Some(Failure::from(cut()).into()),
    };
    assert_eq!(report.retry, Some(expected));
    bench.is_quiet().await;
    // Another acknowledgement is no answer.
    owner.changes(0, Vec::new());
    bench.is_quiet().await;
    let answered = Instant::now();
    owner.ack(1);
    let asked = bench.asked().await;
    assert!(answered.elapsed() >= Duration::from_millis(500));
    // Each retry is reported. The text before it is void.
    asked.writes("void");
    assert!(owner.report().await.delta.is_some());
    asked.answer(Err(cut()));
    let report = owner.report().await;
    assert_eq!(report.retry.map(|retry| retry.attempt), Some(2));
    owner.ack(2);
    let asked = bench.asked().await;
    asked.writes("whole");
    let part = owner.report().await.delta.expect("a part of a reply");
    assert_eq!((part.offset, part.retry), (0, 2));
    asked.reply("whole", &[]);
    let report = owner.report().await;
    assert_eq!((report.number, report.retry), (3, None));
    assert_eq!(report.reply.expect("a reply").text, "whole");
    owner.end(3).await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_may_end_an_attempt_in_place_of_a_retry() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(reporting()).await;
    bench.asked().await.answer(Err(cut()));
    assert!(owner.report().await.retry.is_some());
    owner.end(1).await;
    bench.is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_goes_ends_a_question_that_waits_for_its_retry() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(reporting()).await;
    bench.asked().await.answer(Err(cut()));
    assert!(owner.report().await.retry.is_some());
    drop(owner);
    bench.is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_flag_no_retry_is_reported() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(model_step()).await;
    bench.asked().await.answer(Err(cut()));
    bench.asked().await.answer(Ok(reply("whole", &[])));
    let report = owner.report().await;
    assert_eq!((report.number, report.retry), (1, None));
    owner.end(1).await;
}

#[tokio::test(start_paused = true)]
async fn no_part_of_a_reply_is_passed_on_that_hooks_may_change() {
    let start = AttemptStart {
        no_deltas: true,
        ..model_step()
    };
    let mut bench = Bench::new().await;
    let mut owner = bench.start(start).await;
    let asked = bench.asked().await;
    asked.writes("a secret");
    owner.hears_nothing().await;
    asked.reply("a secret", &[]);
    let report = owner.report().await;
    assert_eq!((report.number, report.delta), (1, None));
    assert_eq!(report.reply.expect("a reply").text, "a secret");
    owner.end(1).await;
}
