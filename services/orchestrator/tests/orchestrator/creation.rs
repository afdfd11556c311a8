//! Sessions whose creation is interrupted: their owner begins all the same, and at once.

use crate::support::{Fault, World, chain, count, model_step};
use cairn_orchestrator::Config;
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, RpcError};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// As the orchestrator's default.
const LEASE: Duration = Duration::from_secs(15);

fn one_step() -> wire::StartRun {
    chain(vec![model_step("think")])
}

/// Starts a run and gives the request up once the store has made the session.
async fn hang_up(world: &Arc<World>) {
    let mut made = world.faults.hold_answer("CreateSession");
    let client = world.clone();
    let starting = tokio::spawn(async move { client.start(one_step()).await });
    made.reached().await;
    starting.abort();
    assert!(starting.await.expect_err("it is given up").is_cancelled());
    made.release();
    world.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_hangs_up_leaves_a_session_with_an_owner() {
    let world = Arc::new(World::new().await);
    hang_up(&world).await;
    // No time has passed.
    let mut attempts = world.other_attempts().await;
    assert_eq!(attempts.len(), 1, "the session waits for its lease to end");
    let mut attempt = attempts.remove(0);
    let session = attempt.start.session.clone();
    attempt.complete(0);
    assert!(attempt.settled().await);
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "AttemptContinued"), 0);
}

/// The place that admission kept is not free before the owner has it.
#[tokio::test(start_paused = true)]
async fn a_session_that_is_being_made_keeps_its_place() {
    let config = Config {
        max_sessions: 1,
        ..Config::default()
    };
    let world = Arc::new(World::with_config(config).await);
    let mut made = world.faults.hold_answer("CreateSession");
    let client = world.clone();
    let starting = tokio::spawn(async move { client.start(one_step()).await });
    made.reached().await;
    starting.abort();
    let request = pb::StartRunRequest {
        request_id: world.request_id(),
        run: Some(one_step()),
        ..pb::StartRunRequest::default()
    };
    let refused = world.client.clone().start_run(request).await.unwrap_err();
    let error = RpcError::from_status(&refused);
    assert_eq!(error.reason_name(), RpcError::OVERLOADED);
    made.release();
    world.settle().await;
    assert_eq!(world.other_attempts().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_creation_whose_answer_is_lost_is_retried_and_keeps_its_lease() {
    let world = World::new().await;
    world.faults.next("CreateSession", Fault::LoseAnswer, 3);
    let began = Instant::now();
    let session = world.until(world.start(one_step())).await;
    let mut attempt = world.attempt().await;
    assert!(began.elapsed() < LEASE / 2, "{:?}", began.elapsed());
    assert_eq!(world.faults.calls("CreateSession"), 4);
    attempt.complete(0);
    assert!(attempt.settled().await);
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "RunStarted"), 1);
    assert_eq!(count(&events, "AttemptContinued"), 0);
}

/// A client can retry at once what certainly was not written, and waits no longer than a lease for
/// what may have been.
#[tokio::test(start_paused = true)]
async fn a_creation_is_retried_only_while_its_outcome_is_unknown() {
    for (fault, longest) in [(Fault::Refuse, Duration::ZERO), (Fault::LoseAnswer, LEASE)] {
        let world = World::new().await;
        world.faults.always("CreateSession", Some(fault));
        let request = pb::StartRunRequest {
            request_id: world.request_id(),
            run: Some(one_step()),
            ..pb::StartRunRequest::default()
        };
        let began = Instant::now();
        let mut client = world.client.clone();
        let refused = world.until(client.start_run(request)).await.unwrap_err();
        let error = RpcError::from_status(&refused);
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{fault:?}");
        let took = began.elapsed();
        assert!(took <= longest, "{fault:?}: {took:?}");
        assert!(took >= longest / 2, "{fault:?}: {took:?}");
    }
}
