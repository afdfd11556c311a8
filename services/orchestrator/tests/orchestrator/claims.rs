//! Claims: lost, confirmed, and what follows from them.

use crate::support::{Fault, World, chain, count, for_tenant, model_step};
use cairn_proto::event as wire;
use cairn_proto::memory as memory_pb;
use cairn_proto::orchestrator as pb;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(15);

fn one_step() -> wire::StartRun {
    chain(vec![model_step("think")])
}

/// A question for work that nobody answers is given up and asked again.
#[tokio::test(start_paused = true)]
async fn a_claim_without_an_answer_is_made_again() {
    let world = World::new().await;
    world.faults.next("ClaimSessions", Fault::Hang, 1);
    // The question before this one ends.
    world.pass(LEASE).await;
    assert!(world.faults.are_used_up("ClaimSessions"));
    let request = pb::CreateSessionRequest {
        request_id: world.request_id(),
        ..pb::CreateSessionRequest::default()
    };
    let made = world.client.clone().create_session(request).await;
    let start = pb::StartRunRequest {
        session: made.unwrap().into_inner().session,
        request_id: world.request_id(),
        run: Some(one_step()),
        ..pb::StartRunRequest::default()
    };
    let mut client = world.client.clone();
    world.until(client.start_run(start)).await.expect("a run");
    world.attempt().await;
}

/// A session that was claimed is read until that succeeds, and owned meanwhile.
#[tokio::test(start_paused = true)]
async fn a_claimed_session_is_read_until_it_can_be() {
    for (method, times) in [("ReadEvents", 3), ("GetCheckpoint", 3), ("ReadEvents", 15)] {
        let world = World::new().await;
        let session = world.start(one_step()).await;
        drop_owner(&world).await;
        world.faults.next(method, Fault::Refuse, times);
        let mut again = world.attempt().await;
        again.complete(0);
        assert!(again.settled().await);
        let events = world.ended(&session).await;
        assert_eq!(count(&events, "AttemptContinued"), 1, "{method}");
        assert!(world.faults.are_used_up(method));
    }
}

/// The owner loses its lease, and the session is free for the next.
async fn drop_owner(world: &World) {
    let attempt = world.attempt().await;
    world.faults.always("RenewLeases", Some(Fault::Refuse));
    world.until(attempt.dropped()).await;
    world.faults.always("RenewLeases", None);
}

/// One session that is slow to read keeps no other waiting.
#[tokio::test(start_paused = true)]
async fn claimed_sessions_are_read_side_by_side() {
    let world = World::new().await;
    let sessions = [world.start(one_step()).await, world.start(one_step()).await];
    let others = world.attempt().await;
    drop_owner(&world).await;
    others.dropped().await;
    let held = world.faults.hold("GetCheckpoint");
    let mut attempt = world.attempt().await;
    assert!(sessions.contains(&attempt.start.session));
    held.release();
    let mut other = world.attempt().await;
    assert_ne!(attempt.start.session, other.start.session);
    for attempt in [&mut attempt, &mut other] {
        attempt.complete(0);
        assert!(attempt.settled().await);
    }
}

/// A session with an event of a kind that nobody knows yet, which waits for an owner.
async fn queue_newer(world: &World, session: &str) {
    // The time, and an empty message in the field 900.
    let event = vec![0x08, 0x01, 0xa2, 0x38, 0x00];
    let request = memory_pb::CreateSessionRequest {
        session: session.to_owned(),
        request_id: "make".to_owned(),
        request_digest: vec![1; 32].into(),
        events: vec![event.clone().into(), event.into()],
        last_command_seq: 2,
        header: Some(memory_pb::Header::default()),
        operation_id: "operation".to_owned(),
        ..memory_pb::CreateSessionRequest::default()
    };
    let mut journal = world.journal.0.clone();
    let made = journal.create_session(for_tenant(request)).await;
    made.expect("a session");
}

/// It is no fault of the session that this version cannot read it: it is left to a newer one, and
/// not quarantined however often it is looked at.
#[tokio::test(start_paused = true)]
async fn a_session_of_a_newer_version_is_given_back_and_its_claims_do_not_count() {
    let world = World::new().await;
    queue_newer(&world, "newer").await;
    world.pass(Duration::from_secs(2)).await;
    let before = world.faults.calls("ReleaseSession");
    assert_eq!(before, 1, "it is given back at once, and not claimed again");
    assert!(
        world.claim("o-2").await.is_empty(),
        "others are not kept busy either"
    );
    world.pass(Duration::from_secs(300)).await;
    let looks = world.faults.calls("ReleaseSession");
    assert!((6..=11).contains(&looks), "{looks} looks in five minutes");
    let quarantined = pb::SessionStatus::Quarantined;
    assert_ne!(world.listed(0).await[0].status(), quarantined);
}

/// A store that is slow loses answers to claims. The claimers never began, so the session is not what
/// they died of.
#[tokio::test(start_paused = true)]
async fn claims_whose_answers_are_lost_do_not_quarantine_a_session() {
    let world = World::new().await;
    let session = world.start(one_step()).await;
    let lose = Some(Fault::LoseAnswer);
    world.faults.always("ClaimSessions", lose);
    // The claim that is under way ends.
    world.pass(LEASE).await;
    drop_owner(&world).await;
    world.pass(8 * LEASE).await;
    let quarantined = pb::SessionStatus::Quarantined;
    assert_ne!(world.status(&session).await, quarantined);
    world.faults.always("ClaimSessions", None);
    let mut again = world.attempt().await;
    again.complete(0);
    assert!(again.settled().await);
    world.ended(&session).await;
}

/// Otherwise a session that kills its owner while it is read would never be quarantined.
#[tokio::test(start_paused = true)]
async fn a_claim_is_confirmed_before_the_session_is_read() {
    let world = World::new().await;
    let session = world.start(one_step()).await;
    drop_owner(&world).await;
    let reads = || world.faults.calls("GetCheckpoint") + world.faults.calls("ReadEvents");
    let before = reads();
    let mut renewal = world.faults.hold("RenewLeases");
    world.until(renewal.reached()).await;
    assert_eq!(reads(), before);
    renewal.release();
    let mut again = world.attempt().await;
    again.complete(0);
    assert!(again.settled().await);
    world.ended(&session).await;
}
