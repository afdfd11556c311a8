//! Leases: renewed, lost, and their ends.

use crate::support::{Fault, World, chain, count, model_step, panic_at_error, reply, tool_step};
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use std::time::Duration;

/// The lease is 15 s; a third of it is between renewals.
const THIRD: Duration = Duration::from_secs(5);
const LEASE: Duration = Duration::from_secs(15);

fn one_step() -> wire::StartRun {
    chain(vec![model_step("think")])
}

/// The epoch of a session is raised by each claim: the journal does not show it, a claim that
/// finds nothing does.
async fn nobody_can_claim(world: &World) -> bool {
    world.claim("o-2").await.is_empty()
}

#[tokio::test(start_paused = true)]
async fn all_leases_are_renewed_with_one_call() {
    let world = World::new().await;
    let mut attempts = Vec::new();
    for _ in 0..5 {
        world.start(one_step()).await;
        attempts.push(world.attempt().await);
    }
    let before = world.faults.calls("RenewLeases");
    world.pass(4 * LEASE).await;
    let renewals = world.faults.calls("RenewLeases") - before;
    assert!((10..=12).contains(&renewals), "{renewals}");
    assert!(nobody_can_claim(&world).await);
    for mut attempt in attempts {
        attempt.complete(0);
        assert!(attempt.settled().await);
    }
}

/// An owner that cannot renew closes its streams before its lease ends; then the next one continues.
#[tokio::test(start_paused = true)]
async fn an_owner_that_cannot_renew_stops_before_its_lease_ends() {
    let world = World::new().await;
    world.faults.always("RenewLeases", Some(Fault::Refuse));
    let began = tokio::time::Instant::now();
    let session = world.start(one_step()).await;
    let attempt = world.attempt().await;
    world.until(attempt.dropped()).await;
    assert!(began.elapsed() < LEASE);
    world.faults.always("RenewLeases", None);
    let mut again = world.attempt().await;
    assert!(began.elapsed() >= LEASE);
    again.complete(0);
    assert!(again.settled().await);
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "AttemptContinued"), 1);
}

/// A renewal that says that an owner of an earlier epoch is none any more says nothing about the
/// owner of today, in the same process.
#[tokio::test(start_paused = true)]
async fn what_an_old_epoch_lost_does_not_end_the_owner_of_the_new_one() {
    let world = World::new().await;
    let session = world.start(one_step()).await;
    let mut attempt = world.attempt().await;
    let mut renewal = world.faults.hold("RenewLeases");
    world.pass(THIRD).await;
    renewal.reached().await;
    attempt.complete(0);
    assert!(attempt.settled().await);
    world.ended(&session).await;

    let request = pb::StartRunRequest {
        session: session.clone(),
        request_id: world.request_id(),
        run: Some(one_step()),
        ..pb::StartRunRequest::default()
    };
    let mut client = world.client.clone();
    let second = world.until(client.start_run(request)).await;
    assert_eq!(second.unwrap().into_inner().run, 2);
    let mut attempt = world.attempt().await;
    renewal.release();
    world.settle().await;
    attempt.reply(reply(0, "still here", &[]));
    assert!(!attempt.settled().await);
    attempt.complete(1);
    assert!(attempt.settled().await);
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "AttemptContinued"), 0);
}

/// While a transition cannot be written, the lease continues as long as it is renewed.
#[tokio::test(start_paused = true)]
async fn a_transition_is_tried_for_as_long_as_the_lease_is_renewed() {
    let world = World::new().await;
    let session = world.start(one_step()).await;
    let mut attempt = world.attempt().await;
    world.faults.always("Commit", Some(Fault::Refuse));
    attempt.complete(0);
    world.pass(4 * LEASE).await;
    world.faults.always("Commit", None);
    assert!(world.until(attempt.settled()).await);
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "AttemptContinued"), 0);
    assert_eq!(count(&events, "ReplyReceived"), 1);
}

/// The lease's end counts, and not how long ago the first try was.
#[tokio::test(start_paused = true)]
async fn a_transition_is_given_up_before_the_lease_ends() {
    let world = World::new().await;
    let session = world.start(one_step()).await;
    let mut attempt = world.attempt().await;
    world.faults.always("RenewLeases", Some(Fault::Refuse));
    world.pass(2 * THIRD).await;
    world.faults.always("Commit", Some(Fault::Refuse));
    attempt.complete(0);
    let began = tokio::time::Instant::now();
    world.until(attempt.dropped()).await;
    assert!(began.elapsed() < THIRD, "{:?}", began.elapsed());
    world.faults.always("Commit", None);
    world.faults.always("RenewLeases", None);
    let mut again = world.attempt().await;
    again.complete(0);
    assert!(again.settled().await);
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "AttemptContinued"), 1);
    assert_eq!(count(&events, "ReplyReceived"), 1);
}

/// Nothing is waited for beyond the lease's end, though the store may still answer.
#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_does_not_outlast_the_lease() {
    let world = World::new().await;
    world.start(one_step()).await;
    let mut attempt = world.attempt().await;
    world.faults.always("RenewLeases", Some(Fault::Refuse));
    world.pass(2 * THIRD).await;
    world.faults.always("PutBlob", Some(Fault::Hang));
    attempt.reply(reply(0, &"x".repeat(100 * 1024), &[]));
    let began = tokio::time::Instant::now();
    world.until(attempt.dropped()).await;
    assert!(began.elapsed() < THIRD, "{:?}", began.elapsed());
}

/// Whoever watches is told that the store is away, and nothing that is not so.
#[tokio::test(start_paused = true)]
async fn watchers_are_reported_when_an_owner_gives_up() {
    let world = World::new().await;
    let session = world.start(one_step()).await;
    let mut attempt = world.attempt().await;
    let request = pb::WatchSessionRequest {
        session: session.clone(),
        after_seq: 0,
        with_deltas: false,
    };
    let watch = world.client.clone().watch_session(request).await;
    let mut watch = watch.unwrap().into_inner();
    world.faults.always("RenewLeases", Some(Fault::Refuse));
    world.faults.always("Commit", Some(Fault::Refuse));
    attempt.complete(0);
    let error = world
        .until(async {
            loop {
                match watch.message().await {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("the watch ended"),
                    Err(status) => return cairn_rpc::RpcError::from_status(&status),
                }
            }
        })
        .await;
    assert_eq!(error.kind(), cairn_rpc::ErrorKind::Unavailable);
}

/// A call that nobody answers is given up and made again; the owner continues.
#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_is_made_again() {
    for method in ["Commit", "PutBlob", "RenewLeases"] {
        let world = World::new().await;
        let session = world.start(one_step()).await;
        let mut attempt = world.attempt().await;
        world.faults.next(method, Fault::Hang, 1);
        let large = "x".repeat(100 * 1024);
        attempt.reply(reply(0, &large, &[]));
        assert!(!world.until(attempt.settled()).await, "{method}");
        world.pass(2 * LEASE).await;
        assert!(world.faults.are_used_up(method), "{method}");
        attempt.complete(1);
        assert!(attempt.settled().await, "{method}");
        let events = world.ended(&session).await;
        assert_eq!(count(&events, "AttemptContinued"), 0, "{method}");
        assert_eq!(count(&events, "ReplyReceived"), 2, "{method}");
    }
}

/// Somebody else's session is left alone at once.
#[tokio::test(start_paused = true)]
async fn an_owner_that_is_fenced_lets_go() {
    let world = World::new().await;
    world.start(chain(vec![tool_step("pure")])).await;
    let mut attempt = world.attempt().await;
    world.faults.always("RenewLeases", Some(Fault::Refuse));
    world.faults.always("ClaimSessions", Some(Fault::Refuse));
    world.pass(Duration::from_secs(12)).await;
    // A clock that goes fast, or a process that was frozen: the store sees the lease's end first.
    world.run_ahead(THIRD);
    assert_eq!(world.claim("o-2").await.len(), 1);
    attempt.report_result(0, 0, "too late");
    attempt.dropped().await;
    assert!(nobody_can_claim(&world).await);
}

/// A panic ends an owner like any other end: its lease runs out, and the next one continues.
#[tokio::test(start_paused = true)]
async fn an_owner_that_panics_does_not_keep_its_lease() {
    let world = World::new().await;
    let session = world.start(one_step()).await;
    let mut attempt = world.attempt().await;
    let (panicking, errors) = panic_at_error("a report is dropped");
    // No turn of this attempt.
    attempt.reply(reply(7, "hm", &[]));
    world.until(attempt.dropped()).await;
    drop(panicking);
    let errors = errors.lock().unwrap().clone();
    assert!(errors.contains("owner panicked"), "{errors}");
    let mut again = world.attempt().await;
    again.complete(0);
    assert!(again.settled().await);
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "AttemptContinued"), 1);
    assert_eq!(count(&events, "ReplyReceived"), 1);
}

/// A process that was frozen while it waited for an answer: the session may be somebody else's.
#[tokio::test(start_paused = true)]
async fn nothing_is_permitted_when_an_answer_comes_after_the_lease() {
    let world = World::new().await;
    let session = world.start(one_step()).await;
    let mut attempt = world.attempt().await;
    let mut answer = world.faults.hold_answer("Commit");
    attempt.reply(reply(0, "", &[("effectful", "{}")]));
    answer.reached().await;
    // Everything happens at once when it wakes up.
    answer.release();
    world.run_ahead(2 * LEASE);
    tokio::time::advance(2 * LEASE).await;
    let said = attempt.rest().await;
    assert!(said.is_empty(), "{said:?}");
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "CallIntended"), 1);
}

/// What is not durable ends nothing: until then the step continues.
#[tokio::test(start_paused = true)]
async fn work_continues_until_its_end_is_durable() {
    let world = World::new().await;
    let session = world.start(one_step()).await;
    let mut attempt = world.attempt().await;
    let mut held = world.faults.hold("Commit");
    let cancellation = world.cancellation(&session);
    let mut client = world.client.clone();
    let cancelling = tokio::spawn(async move { client.cancel_run(cancellation).await });
    held.reached().await;
    world.settle().await;
    assert!(attempt.is_held());
    held.release();
    attempt.dropped().await;
    world
        .until(cancelling)
        .await
        .unwrap()
        .expect("it is cancelled");
}
