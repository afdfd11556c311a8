//! Executors that break, refuse, or talk nonsense.

use crate::support::{Attempt, Kind, World, chain, count, graph, model_step, names, reply};
use cairn_engine::event::Event;
use cairn_engine::failure::FailureKind;
use cairn_rpc::{ErrorKind, RequireToken, RpcError};
use std::time::Duration;

fn failure_of(events: &[Event]) -> &str {
    match events.last().map(|event| &event.kind) {
        Some(Kind::RunFailed(failed)) => &failed.failure.reason,
        _ => panic!("{:?}", names(events)),
    }
}

async fn begun() -> (World, String) {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("think")])).await;
    (world, session)
}

#[tokio::test(start_paused = true)]
async fn an_executor_that_breaks_seven_times_is_forgiven() {
    let (world, session) = begun().await;
    for _ in 0..7 {
        drop(world.attempt().await);
    }
    let mut attempt = world.attempt().await;
    attempt.complete(0);
    assert!(attempt.settled().await);
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "RunCompleted"), 1);
    assert_eq!(count(&events, "AttemptContinued"), 7);
}

#[tokio::test(start_paused = true)]
async fn an_executor_that_breaks_eight_times_fails_the_attempt() {
    let (world, session) = begun().await;
    for broken in 0..8 {
        let attempt = world.attempt().await;
        if broken % 2 == 0 {
            attempt.break_with(RpcError::unavailable("the executor is gone").into());
        }
    }
    let events = world.ended(&session).await;
    assert_eq!(failure_of(&events), "ExecutorLost");
    assert_eq!(count(&events, "AttemptContinued"), 7);
}

/// A drain ends attempts without a fault of anybody, however many there are.
#[tokio::test(start_paused = true)]
async fn attempts_that_end_with_the_drain_of_their_executor_are_no_breaks() {
    let (world, session) = begun().await;
    for _ in 0..9 {
        let attempt = world.attempt().await;
        world.slots.drain(true);
        world.settle().await;
        attempt.break_with(RpcError::unavailable("the executor stops").into());
        world.settle().await;
        world.slots.drain(false);
    }
    // What is lost without a drain is counted from the beginning.
    for _ in 0..7 {
        drop(world.attempt().await);
    }
    let mut attempt = world.attempt().await;
    attempt.complete(0);
    assert!(attempt.settled().await);
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "RunCompleted"), 1);
    assert_eq!(count(&events, "AttemptContinued"), 16);
}

/// Eight in a row are meant, not eight in all.
#[tokio::test(start_paused = true)]
async fn a_report_in_between_begins_the_count_anew() {
    let (world, session) = begun().await;
    for turn in 0..3 {
        for _ in 0..4 {
            drop(world.attempt().await);
        }
        let mut attempt = world.attempt().await;
        attempt.reply(reply(turn, "hm", &[]));
        attempt.ack().await;
    }
    let mut attempt = world.attempt().await;
    attempt.complete(3);
    assert!(attempt.settled().await);
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "RunCompleted"), 1);
}

/// To wait for a slot is no failure, however often it takes, and counts for none beside it.
#[tokio::test(start_paused = true)]
async fn no_free_slot_waits_without_counting() {
    let (world, session) = begun().await;
    for _ in 0..7 {
        drop(world.attempt().await);
        world.slots.refuse(3);
    }
    let mut attempt = world.attempt().await;
    assert_eq!(world.slots.refused(), 21);
    attempt.complete(0);
    assert!(attempt.settled().await);
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "RunCompleted"), 1);
    assert_eq!(count(&events, "AttemptContinued"), 7);
}

/// A machine may take its time to come back: that nobody is there is nobody's failure, and nothing
/// is written down for it.
#[tokio::test(start_paused = true)]
async fn an_executor_that_is_not_there_is_waited_for() {
    let (world, session) = begun().await;
    drop(world.attempt().await);
    world.slots.be_absent(30);
    let mut attempt = world.attempt().await;
    assert_eq!(world.slots.refused(), 30);
    attempt.complete(0);
    assert!(attempt.settled().await);
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "RunCompleted"), 1);
    assert_eq!(count(&events, "AttemptContinued"), 1);
}

/// An executor does not read a call with a wrong token: the attempt did not begin, and nothing was
/// lost.
#[tokio::test(start_paused = true)]
async fn an_executor_that_refuses_the_token_is_waited_for() {
    for reason in [RequireToken::WRONG, RequireToken::MISSING] {
        let (world, session) = begun().await;
        drop(world.attempt().await);
        let refusal = RpcError::new(ErrorKind::Unauthenticated, "a token of yesterday");
        world.slots.fail(30, refusal.reason(reason));
        let mut attempt = world.attempt().await;
        assert_eq!(world.slots.refused(), 30);
        attempt.complete(0);
        assert!(attempt.settled().await);
        let events = world.ended(&session).await;
        assert_eq!(count(&events, "RunCompleted"), 1);
        assert_eq!(count(&events, "AttemptContinued"), 1);
    }
}

/// The reply skips a turn.
fn talk_nonsense(attempt: &mut Attempt) {
    attempt.reply(reply(7, "nonsense", &[]));
}

#[tokio::test(start_paused = true)]
async fn a_report_that_contradicts_the_state_drops_the_executor_and_not_the_session() {
    let (world, session) = begun().await;
    let mut attempt = world.attempt().await;
    talk_nonsense(&mut attempt);
    world.until(attempt.dropped()).await;
    let mut attempt = world.attempt().await;
    attempt.complete(0);
    assert!(attempt.settled().await);
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "RunCompleted"), 1);
    assert_eq!(count(&events, "AttemptContinued"), 1);
    assert_eq!(count(&events, "ReplyReceived"), 1);
}

/// What an executor says after it was dropped is not listened to, though it came with the rest.
#[tokio::test(start_paused = true)]
async fn nothing_is_taken_of_an_executor_that_was_dropped() {
    let (world, session) = begun().await;
    let mut attempt = world.attempt().await;
    // All of these join one transition.
    let mut held = world.faults.hold("Commit");
    attempt.reply(reply(0, "one", &[]));
    held.reached().await;
    talk_nonsense(&mut attempt);
    attempt.reply(reply(1, "two", &[]));
    world.settle().await;
    held.release();
    world.until(attempt.dropped()).await;
    let mut attempt = world.attempt().await;
    assert_eq!(attempt.said(), 1);
    attempt.complete(1);
    assert!(attempt.settled().await);
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "ReplyReceived"), 2);
    assert_eq!(count(&events, "AttemptContinued"), 1);
}

/// The reports of other executors in the same transition count.
#[tokio::test(start_paused = true)]
async fn a_report_that_is_dropped_takes_no_other_with_it() {
    let world = World::new().await;
    let steps = vec![model_step("one"), model_step("two")];
    let session = world.start(graph(steps)).await;
    let (mut good, mut bad) = (world.attempt().await, world.attempt().await);
    // The two reports after this one join one transition.
    let mut held = world.faults.hold("Commit");
    bad.reply(reply(0, "begun", &[]));
    held.reached().await;
    good.reply(reply(0, "counts", &[]));
    world.settle().await;
    talk_nonsense(&mut bad);
    world.settle().await;
    held.release();
    let place = bad.place();
    world.until(bad.dropped()).await;
    assert!(!good.settled().await);
    let mut again = world.attempt().await;
    assert_eq!((again.place(), again.said()), (place, 1));
    for attempt in [&mut good, &mut again] {
        attempt.complete(1);
        assert!(attempt.settled().await);
    }
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "ReplyReceived"), 4);
    assert_eq!(count(&events, "AttemptContinued"), 1);
    assert_eq!(count(&events, "RunCompleted"), 1);
}

/// One that never says anything else would keep the session busy for ever.
#[tokio::test(start_paused = true)]
async fn executors_that_talk_nonsense_eight_times_fail_the_attempt() {
    let (world, session) = begun().await;
    let began = tokio::time::Instant::now();
    for _ in 0..8 {
        let mut attempt = world.attempt().await;
        talk_nonsense(&mut attempt);
        world.until(attempt.dropped()).await;
    }
    let events = world.ended(&session).await;
    assert_eq!(failure_of(&events), "ExecutorLost");
    assert!(began.elapsed() > Duration::from_secs(5), "without a pause");
}

/// A report that cannot be read is worth as much.
#[tokio::test(start_paused = true)]
async fn a_report_that_cannot_be_read_drops_the_executor() {
    let (world, session) = begun().await;
    let mut attempt = world.attempt().await;
    let mut result = attempt.result(0, 0, "of nothing");
    result.call = None;
    attempt.reply_with(vec![result], reply(0, "", &[]));
    world.until(attempt.dropped()).await;
    let mut attempt = world.attempt().await;
    attempt.complete(0);
    assert!(attempt.settled().await);
    world.ended(&session).await;
}

/// What an executor says is wrong is what the step fails with.
#[tokio::test(start_paused = true)]
async fn an_executor_that_refuses_the_step_is_quoted() {
    let (world, session) = begun().await;
    let attempt = world.attempt().await;
    attempt.break_with(RpcError::missing("start.model").into());
    let events = world.ended(&session).await;
    assert_eq!(failure_of(&events), "FIELD_MISSING");
    let Some(Kind::RunFailed(failed)) = events.last().map(|event| &event.kind) else {
        panic!("{:?}", names(&events));
    };
    let failure = &failed.failure;
    assert_eq!(failure.kind, FailureKind::Other);
    assert!(failure.message.contains("start.model"), "{failure}");
}
