//! Planners that are slow, busy, gone, or of no use.

use crate::support::{Fault, Kind, World, count, goal, model_step, names};
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_proto::planner::MakePlanResponse;
use cairn_rpc::{Link, RpcError};
use std::time::Duration;
use tonic::Status;

const USAGE: wire::Usage = wire::Usage {
    input_tokens: 700,
    cached_input_tokens: 300,
    cache_write_tokens: 100,
    output_tokens: 40,
    reasoning_tokens: 9,
    cost_nano_usd: 5,
    unpriced_tokens: 90,
    model_calls: 2,
};

fn gone() -> Status {
    RpcError::unavailable("the planner is gone").into()
}

fn busy() -> Status {
    RpcError::exhausted("as many plans as there may be")
        .reason("NO_FREE_SLOT")
        .into()
}

#[tokio::test(start_paused = true)]
async fn a_planner_that_is_gone_five_times_is_asked_again() {
    let world = World::new().await;
    let session = world.start(goal("plan this")).await;
    for _ in 0..5 {
        world.asked().await.answer(Err(gone()));
    }
    let asked = world.asked().await;
    asked.plan(vec![model_step("think")], wire::Usage::default());
    let mut attempt = world.attempt().await;
    attempt.complete(0);
    assert!(attempt.settled().await);
    world.ended(&session).await;
    assert_eq!(world.run(&session).await.status(), pb::RunStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_planner_that_is_gone_six_times_fails_the_run() {
    let world = World::new().await;
    let session = world.start(goal("plan this")).await;
    for _ in 0..6 {
        world.asked().await.answer(Err(gone()));
    }
    world.ended(&session).await;
    let run = world.run(&session).await;
    assert_eq!(run.failure.unwrap().reason, "PlannerUnavailable");
    world.pass(Duration::from_secs(10)).await;
    assert!(!world.is_asked().await);
}

#[tokio::test(start_paused = true)]
async fn a_busy_planner_is_waited_for_without_counting() {
    let world = World::new().await;
    world.start(goal("plan this")).await;
    for _ in 0..5 {
        world.asked().await.answer(Err(gone()));
        world.asked().await.answer(Err(busy()));
        world.asked().await.answer(Err(busy()));
    }
    let asked = world.asked().await;
    asked.plan(vec![model_step("think")], wire::Usage::default());
    world.attempt().await;
}

/// What cannot be said in a message, or is no question, is the same the next time.
#[tokio::test(start_paused = true)]
async fn a_planner_that_cannot_be_asked_is_not_asked_again() {
    for error in [
        RpcError::missing("goal"),
        RpcError::new(cairn_rpc::ErrorKind::OutOfRange, "the plan is too large"),
    ] {
        let world = World::new().await;
        let session = world.start(goal("plan this")).await;
        world.asked().await.answer(Err(error.into()));
        let events = world.ended(&session).await;
        assert_eq!(count(&events, "RunFailed"), 1);
        world.pass(Duration::from_secs(10)).await;
        assert!(!world.is_asked().await);
    }
}

/// A planner that never answers does not hold the run for ever; leases are renewed meanwhile.
#[tokio::test(start_paused = true)]
async fn a_planner_that_says_nothing_is_asked_again_after_a_while() {
    let world = World::new().await;
    let session = world.start(goal("plan this")).await;
    let silent = world.asked().await;
    world.pass(Duration::from_secs(10 * 60)).await;
    assert!(!world.is_asked().await, "planning takes its time");
    world.pass(Duration::from_secs(6 * 60)).await;
    let asked = world.asked().await;
    silent.given_up().await;
    asked.plan(vec![model_step("think")], wire::Usage::default());
    world.attempt().await;
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "PlanApplied"), 1);
}

#[tokio::test(start_paused = true)]
async fn cancelling_while_planning_gives_the_plan_up() {
    let world = World::new().await;
    let session = world.start(goal("plan this")).await;
    let asked = world.asked().await;
    let cancellation = world.cancellation(&session);
    let cancelled = world.client.clone().cancel_run(cancellation).await;
    assert_eq!(cancelled.unwrap().into_inner().run, 1);
    asked.given_up().await;
    let run = world.run(&session).await;
    assert_eq!(run.status(), pb::RunStatus::Cancelled);
    assert_eq!(run.cancel_reason, "no more");
    world.pass(Duration::from_secs(10)).await;
    assert!(!world.is_asked().await);
}

/// A plan that comes while the run is being cancelled is not applied.
#[tokio::test(start_paused = true)]
async fn a_plan_that_comes_with_the_cancellation_is_too_late() {
    let world = World::new().await;
    let session = world.start(goal("plan this")).await;
    let asked = world.asked().await;
    let mut held = world.faults.hold("Commit");
    let cancellation = world.cancellation(&session);
    let mut client = world.client.clone();
    let cancelling = tokio::spawn(async move { client.cancel_run(cancellation).await });
    held.reached().await;
    // The cancellation is decided, but not durable.
    asked.plan(vec![model_step("think")], USAGE);
    world.settle().await;
    held.release();
    world.until(cancelling).await.unwrap().expect("cancelled");
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "PlanApplied"), 0);
}

#[tokio::test(start_paused = true)]
async fn planning_that_fails_fails_the_run() {
    let world = World::new().await;
    let session = world.start(goal("plan this")).await;
    world.asked().await.answer(Ok(MakePlanResponse {
        failure: Some(wire::Failure {
            kind: wire::FailureKind::PlanParse.into(),
            reason: "BadPlan".to_owned(),
            message: "no plan".to_owned(),
            recoverable: false,
        }),
        usage: Some(USAGE),
        duration_ms: 9,
        ..MakePlanResponse::default()
    }));
    let events = world.ended(&session).await;
    match events.last().map(|event| &event.kind) {
        Some(Kind::RunFailed(failed)) => {
            let message = &*failed.failure.message;
            assert_eq!((message, failed.duration_ms), ("no plan", 9));
        }
        _ => panic!("{:?}", names(&events)),
    }
    assert_eq!(world.run(&session).await.usage, Some(USAGE));
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_plan_and_failure_fails_the_run() {
    let world = World::new().await;
    let session = world.start(goal("plan this")).await;
    let nothing = MakePlanResponse::default();
    world.asked().await.answer(Ok(nothing));
    world.ended(&session).await;
    let run = world.run(&session).await;
    assert_eq!(run.failure.unwrap().reason, "BadAnswer");
}

/// The plan was paid for: it is not asked for twice because the store is away for a moment.
#[tokio::test(start_paused = true)]
async fn a_plan_survives_a_store_that_is_away_for_a_moment() {
    let world = World::new().await;
    let session = world.start(goal("plan this")).await;
    let asked = world.asked().await;
    world.faults.next("Commit", Fault::Refuse, 3);
    asked.plan(vec![model_step("think")], wire::Usage::default());
    let mut attempt = world.attempt().await;
    attempt.complete(0);
    assert!(attempt.settled().await);
    world.ended(&session).await;
    assert!(!world.is_asked().await);
}

/// The store is retried with the token that it has now.
#[tokio::test(start_paused = true)]
async fn a_plan_survives_a_store_that_refuses_the_token_for_a_moment() {
    let world = World::new().await;
    let session = world.start(goal("plan this")).await;
    let asked = world.asked().await;
    world.faults.next("Commit", Fault::RefuseToken, 3);
    asked.plan(vec![model_step("think")], wire::Usage::default());
    let mut attempt = world.attempt().await;
    attempt.complete(0);
    assert!(attempt.settled().await);
    world.ended(&session).await;
    assert!(!world.is_asked().await);
}

/// A machine may take its time to come back: that nobody is there is nobody's failure.
#[tokio::test(start_paused = true)]
async fn a_planner_that_is_not_there_is_waited_for() {
    let absent = || RpcError::unavailable("nobody listens").reason(Link::NOT_CONNECTED);
    let world = World::new().await;
    world.start(goal("plan this")).await;
    for _ in 0..30 {
        world.asked().await.answer(Err(absent().into()));
    }
    let asked = world.asked().await;
    asked.plan(vec![model_step("think")], wire::Usage::default());
    world.attempt().await;
}
