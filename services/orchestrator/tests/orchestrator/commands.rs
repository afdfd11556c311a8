//! Commands of clients: when they come, and when nobody may act on them.

use crate::support::{Kind, World, chain, count, for_tenant, model_step, names, reply, tool_step};
use cairn_engine::command::Command;
use cairn_proto::memory as memory_pb;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, RpcError};
use std::time::Duration;
use tokio::task::JoinHandle;
use tonic::{Response, Status};

type Cancelling = JoinHandle<Result<Response<pb::CancelRunResponse>, Status>>;

fn cancel(world: &World, session: &str) -> Cancelling {
    let cancellation = world.cancellation(session);
    let mut client = world.client.clone();
    tokio::spawn(async move { client.cancel_run(cancellation).await })
}

/// The command comes in the answer to the transition that was under way, which stands.
#[tokio::test(start_paused = true)]
async fn a_command_that_comes_during_a_commit_is_answered_after_it() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("think")])).await;
    let mut attempt = world.attempt().await;
    let mut held = world.faults.hold("Commit");
    attempt.reply(reply(0, "hm", &[("pure", "{}")]));
    held.reached().await;
    let cancelling = cancel(&world, &session);
    world.settle().await;
    world.settle().await;
    held.release();
    assert_eq!(cancelling.await.unwrap().unwrap().into_inner().run, 1);
    attempt.dropped().await;
    let events = world.journal.events(&session).await;
    let names = names(&events);
    let at = |name: &str| names.iter().rposition(|other| other == name).unwrap();
    assert!(at("CommandReceived") < at("ReplyReceived"), "{names:?}");
    assert!(at("ReplyReceived") < at("RunCancelled"), "{names:?}");
}

/// A session that would sleep stays awake for a command that came with its last transition.
#[tokio::test(start_paused = true)]
async fn a_command_that_comes_with_the_end_of_a_run_is_answered() {
    let world = World::new().await;
    let session = world.start(chain(vec![tool_step("pure")])).await;
    let mut attempt = world.attempt().await;
    let mut held = world.faults.hold("Commit");
    attempt.report_result(0, 0, "made");
    held.reached().await;
    let request = pb::StartRunRequest {
        session: session.clone(),
        request_id: world.request_id(),
        run: Some(chain(vec![tool_step("idempotent")])),
        ..pb::StartRunRequest::default()
    };
    let mut client = world.client.clone();
    let starting = tokio::spawn(async move { client.start_run(request).await });
    world.settle().await;
    world.settle().await;
    held.release();
    assert_eq!(starting.await.unwrap().unwrap().into_inner().run, 2);
    assert!(attempt.settled().await);
    let mut second = world.attempt().await;
    second.report_result(0, 0, "made");
    assert!(second.settled().await);
}

/// Many at once are all answered, in one order.
#[tokio::test(start_paused = true)]
async fn every_command_is_answered_once() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("think")])).await;
    let _attempt = world.attempt().await;
    let cancelling: Vec<_> = (0..5).map(|_| cancel(&world, &session)).collect();
    let mut accepted = 0;
    for answer in cancelling {
        match world.until(answer).await.unwrap() {
            Ok(_) => accepted += 1,
            Err(status) => {
                assert_eq!(RpcError::from_status(&status).reason_name(), "RUN_ENDED");
            }
        }
    }
    assert_eq!(accepted, 1);
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "RunCancelled"), 1);
    assert_eq!(count(&events, "CommandRefused"), 4);
}

/// An answer that was lost is found again by the same request.
#[tokio::test(start_paused = true)]
async fn a_repeated_request_gets_the_same_answer() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("think")])).await;
    let cancellation = world.cancellation(&session);
    for _ in 0..2 {
        let mut client = world.client.clone();
        let answer = world.until(client.cancel_run(cancellation.clone())).await;
        assert_eq!(answer.unwrap().into_inner().run, 1);
    }
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "RunCancelled"), 1);
}

/// Its first run is this one, and nobody works on it.
async fn left_alone(world: &World, request: pb::StartRunRequest) -> String {
    let mut client = world.client.clone();
    let started = world.until(client.start_run(request)).await;
    drop(world.attempt().await);
    let draining = world.running.drain();
    world.until(draining).await;
    started.unwrap().into_inner().session
}

/// Claims the session five times and lets its lease run out each time, as owners that die of it.
async fn die_on_it(world: &World) {
    for _ in 0..5 {
        let claims = world.claim("mortal").await;
        assert_eq!(claims.len(), 1);
        world.confirm("mortal", claims).await;
        world.pass(Duration::from_secs(16)).await;
    }
}

fn poison(world: &World, session: &str) -> pb::StartRunRequest {
    pb::StartRunRequest {
        session: session.to_owned(),
        request_id: world.request_id(),
        run: Some(chain(vec![model_step("poison")])),
        ..pb::StartRunRequest::default()
    }
}

async fn quarantine(world: &World) -> String {
    let session = left_alone(world, poison(world, "")).await;
    die_on_it(world).await;
    assert!(world.claim("mortal").await.is_empty());
    session
}

fn reason(status: &Status) -> (ErrorKind, String, String) {
    let error = RpcError::from_status(status);
    let reason = error.reason_name().to_owned();
    (error.kind(), reason, error.message().into_owned())
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_quarantined_says_so() {
    let world = World::new().await;
    let other = world.start(chain(vec![tool_step("pure")])).await;
    world.attempt().await.report_result(0, 0, "made");
    world.ended(&other).await;
    let session = quarantine(&world).await;
    assert_eq!(world.status(&session).await, pb::SessionStatus::Quarantined);
    assert_eq!(world.status(&other).await, pb::SessionStatus::Idle);
    let listed = world.listed(0).await;
    let status: Vec<_> = listed.iter().map(pb::SessionSummary::status).collect();
    let quarantined = pb::SessionStatus::Quarantined;
    assert_eq!(status, [quarantined, pb::SessionStatus::Idle]);
}

#[tokio::test(start_paused = true)]
async fn commands_to_a_session_that_was_quarantined_are_refused_at_once() {
    let world = World::new().await;
    let session = quarantine(&world).await;
    let before = world.now();
    let cancelling = cancel(&world, &session);
    let refused = world.until(cancelling).await.unwrap().unwrap_err();
    let (kind, reason, message) = reason(&refused);
    assert_eq!(kind, ErrorKind::FailedPrecondition);
    assert_eq!(reason, "SESSION_QUARANTINED");
    assert!(message.contains("ReleaseQuarantine"), "{message}");
    let took = world.now() - before;
    assert!(took < 1_000, "{took} ms");
}

/// Also one that waits for its answer already.
#[tokio::test(start_paused = true)]
async fn a_command_is_refused_when_its_session_is_quarantined() {
    let world = World::new().await;
    let session = left_alone(&world, poison(&world, "")).await;
    die_on_it(&world).await;
    let cancelling = cancel(&world, &session);
    world.seen(&session, is_cancellation).await;
    assert!(!cancelling.is_finished());
    assert!(world.claim("mortal").await.is_empty());
    let refused = world.until(cancelling).await.unwrap().unwrap_err();
    assert_eq!(reason(&refused).1, "SESSION_QUARANTINED");
}

/// Nothing more comes of it: whoever watches is told instead of waiting for ever, after all that there
/// is.
#[tokio::test(start_paused = true)]
async fn watchers_of_a_session_that_was_quarantined_are_reported() {
    let world = World::new().await;
    let session = left_alone(&world, poison(&world, "")).await;
    die_on_it(&world).await;
    let last = world.journal.events(&session).await.len() as u64;
    let watch = || async {
        let request = pb::WatchSessionRequest {
            session: session.clone(),
            ..pb::WatchSessionRequest::default()
        };
        let watch = world.client.clone().watch_session(request).await;
        watch.unwrap().into_inner()
    };
    let before = watch().await;
    assert!(world.claim("mortal").await.is_empty());
    for mut watch in [before, watch().await] {
        let mut seen = 0;
        let reported = loop {
            match world.until(watch.message()).await {
                Ok(message) => seen = seen.max(message.expect("no end without a word").seq),
                Err(status) => break status,
            }
        };
        assert_eq!(seen, last);
        let (kind, reason, message) = reason(&reported);
        assert_eq!(kind, ErrorKind::FailedPrecondition);
        assert_eq!(reason, "SESSION_QUARANTINED");
        assert!(message.contains("died on it five times"), "{message}");
        assert!(message.contains("ReleaseQuarantine"), "{message}");
    }
}

/// Whoever lets it go on has to know that calls may be made again.
#[tokio::test(start_paused = true)]
async fn a_session_that_lost_writes_says_so_and_continues_when_that_is_accepted() {
    let world = World::new().await;
    let session = left_alone(&world, poison(&world, "")).await;
    let aside = memory_pb::QuarantineRequest {
        session: session.clone(),
        accepted_losses: None,
    };
    let mut ownership = world.ownership.clone();
    ownership.quarantine(for_tenant(aside)).await.unwrap();
    let lost = pb::QuarantineReason::WritesLost;
    assert_eq!(world.listed(0).await[0].quarantine_reason(), lost);
    let mut client = world.client.clone();
    let asked = pb::GetSessionRequest {
        session: session.clone(),
    };
    let reported = client.get_session(asked).await.unwrap().into_inner();
    assert_eq!(reported.session.unwrap().quarantine_reason(), lost);
    let refused = world.until(cancel(&world, &session)).await.unwrap();
    let (_, _, message) = reason(&refused.unwrap_err());
    assert!(message.contains("made again"), "{message}");

    let release = |accept_loss| pb::ReleaseQuarantineRequest {
        session: session.clone(),
        accept_loss,
    };
    let refused = client.release_quarantine(release(false)).await.unwrap_err();
    let (kind, reason, _) = reason(&refused);
    assert_eq!(
        (kind, &*reason),
        (ErrorKind::FailedPrecondition, "WRITES_LOST")
    );
    assert!(world.claim("o-2").await.is_empty());
    client.release_quarantine(release(true)).await.unwrap();
    assert_eq!(world.claim("o-2").await.len(), 1);
}

fn is_cancellation(kind: &Kind) -> bool {
    let Kind::CommandReceived(received) = kind else {
        return false;
    };
    matches!(received.command, Command::CancelRun(_))
}

/// What was answered before is still known.
#[tokio::test(start_paused = true)]
async fn a_repeated_request_is_answered_though_its_session_was_quarantined() {
    let world = World::new().await;
    let made = pb::CreateSessionRequest {
        request_id: world.request_id(),
        ..pb::CreateSessionRequest::default()
    };
    let made = world.client.clone().create_session(made).await;
    let start = poison(&world, &made.unwrap().into_inner().session);
    let session = left_alone(&world, start.clone()).await;
    die_on_it(&world).await;
    assert!(world.claim("mortal").await.is_empty());
    assert_eq!(world.status(&session).await, pb::SessionStatus::Quarantined);
    let mut client = world.client.clone();
    let again = world.until(client.start_run(start)).await;
    assert_eq!(again.unwrap().into_inner().run, 1);
}

/// What was asked meanwhile is done before anything else, so that a session that kills its owners
/// can be cancelled.
#[tokio::test(start_paused = true)]
async fn a_released_session_answers_what_was_asked_of_it() {
    let world = World::new().await;
    let session = quarantine(&world).await;
    let refused = world.until(cancel(&world, &session)).await.unwrap();
    assert!(refused.is_err());
    let release = pb::ReleaseQuarantineRequest {
        session: session.clone(),
        accept_loss: false,
    };
    let mut client = world.client.clone();
    client.release_quarantine(release).await.unwrap();
    let claims = world.claim("o-2").await;
    assert_eq!(claims.len(), 1);
    let events = world.journal.events(&session).await;
    let last = events.last().map(|event| &event.kind);
    assert!(matches!(last, Some(Kind::CommandReceived { .. })));
}
