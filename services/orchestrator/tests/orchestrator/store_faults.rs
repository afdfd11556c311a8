//! Faults on the way to the store: they end no owner, and lose or double nothing.

use crate::support::{Fault, World, chain, count, model_step, names, reply, tool_step};
use cairn_proto::orchestrator as pb;

const FAULTS: [Fault; 2] = [Fault::Refuse, Fault::LoseAnswer];
const LARGE: usize = 100 * 1024;

/// A run with a reply that is stored apart, a state tool, an effectful call and a tool step; each
/// part of it meets the faults that `before` lays.
async fn play(world: &World, before: impl Fn()) -> Vec<String> {
    let steps = vec![model_step("think"), tool_step("idempotent")];
    let session = world.start(chain(steps)).await;
    let mut attempt = world.attempt().await;
    before();
    let text = "z".repeat(LARGE);
    let calls = [("effectful", "{}"), ("scratchpad", r#"{"text": "noted"}"#)];
    attempt.reply(reply(0, &text, &calls));
    let ack = world.until(attempt.ack()).await;
    assert_eq!(ack.permitted_calls.len(), 1);
    before();
    attempt.report_result(0, 0, "sent");
    assert!(!world.until(attempt.settled()).await);
    before();
    attempt.complete(1);
    assert!(world.until(attempt.settled()).await);
    let mut attempt = world.attempt().await;
    before();
    attempt.report_result(0, 0, "made");
    let events = world.ended(&session).await;
    // The end of the run is also the end of the lease: a renewal that finds it out before the
    // answer comes leaves nobody to acknowledge.
    world.until(attempt.dropped()).await;
    assert!(world.other_attempts().await.is_empty());
    names(&events)
}

#[tokio::test(start_paused = true)]
async fn transitions_and_blobs_are_written_once_whatever_the_way_does() {
    let undisturbed = play(&World::new().await, || {}).await;
    for method in ["Commit", "PutBlob"] {
        for fault in FAULTS {
            for times in [1, 4] {
                let world = World::new().await;
                let events = play(&world, || world.faults.next(method, fault, times)).await;
                assert_eq!(events, undisturbed, "{method} {fault:?} {times}");
                assert!(method == "PutBlob" || world.faults.are_used_up(method));
            }
        }
    }
}

/// Commands reach the owner, however hard they are to read.
#[tokio::test(start_paused = true)]
async fn commands_of_others_are_read_whatever_the_way_does() {
    for method in ["ReadEvents", "GetBlob"] {
        for fault in FAULTS {
            let world = World::new().await;
            let session = world.start(chain(vec![model_step("think")])).await;
            let mut attempt = world.attempt().await;
            // So large that it is stored apart.
            let mut step = model_step("second");
            step.description = "w".repeat(60 * 1024);
            let request = pb::StartRunRequest {
                session: session.clone(),
                request_id: world.request_id(),
                run: Some(chain(vec![step.clone(), step])),
                ..pb::StartRunRequest::default()
            };
            world.faults.next(method, fault, 3);
            let mut client = world.client.clone();
            let refused = world.until(client.start_run(request)).await.unwrap_err();
            assert_eq!(
                cairn_rpc::RpcError::from_status(&refused).reason_name(),
                "RUN_ACTIVE"
            );
            assert!(world.faults.are_used_up(method), "{method}");
            attempt.complete(0);
            assert!(attempt.settled().await);
            let events = world.ended(&session).await;
            assert_eq!(count(&events, "AttemptContinued"), 0, "{method} {fault:?}");
        }
    }
}

/// The same for those that come in the answer to a transition.
#[tokio::test(start_paused = true)]
async fn commands_that_come_with_an_answer_are_read_whatever_the_way_does() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("think")])).await;
    let mut attempt = world.attempt().await;
    let mut held = world.faults.hold("Commit");
    attempt.reply(reply(0, "hm", &[]));
    held.reached().await;
    let mut step = model_step("second");
    step.description = "w".repeat(60 * 1024);
    let request = pb::StartRunRequest {
        session: session.clone(),
        request_id: world.request_id(),
        run: Some(chain(vec![step.clone(), step])),
        ..pb::StartRunRequest::default()
    };
    let mut client = world.client.clone();
    let starting = tokio::spawn(async move { client.start_run(request).await });
    world.settle().await;
    world.settle().await;
    world.faults.next("GetBlob", Fault::Refuse, 3);
    held.release();
    let refused = world.until(starting).await.unwrap().unwrap_err();
    assert_eq!(
        cairn_rpc::RpcError::from_status(&refused).reason_name(),
        "RUN_ACTIVE"
    );
    assert!(world.faults.are_used_up("GetBlob"));
    assert!(!attempt.settled().await);
    attempt.complete(1);
    assert!(attempt.settled().await);
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "AttemptContinued"), 0);
}

/// A session that has gone does not go on, and nothing is tried for long.
#[tokio::test(start_paused = true)]
async fn a_deleted_session_ends_its_owner() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("think")])).await;
    let mut attempt = world.attempt().await;
    let mut held = world.faults.hold("Commit");
    attempt.reply(reply(0, "hm", &[("effectful", "{}")]));
    held.reached().await;
    let deletion = pb::DeleteSessionRequest {
        session: session.clone(),
    };
    world.client.clone().delete_session(deletion).await.unwrap();
    attempt.dropped().await;
    held.release();
    assert!(world.claim("o-2").await.is_empty());
}
