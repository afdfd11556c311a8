//! What waits for a person, of all sessions together.

use crate::support::{Fault, World, chain, model_step, put_damaged, put_newer, reply, tool_step};
use cairn_proto::event::{self as wire, WaitReason};
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, RpcError};
use std::sync::Arc;

/// A session with an open question.
async fn waiting(world: &World) -> String {
    let session = world.start(chain(vec![model_step("ask")])).await;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "", &[("ask_person", r#"{"question": "which?"}"#)]));
    assert!(world.until(attempt.settled()).await);
    session
}

async fn pending(world: &World, session: &str) -> Result<pb::ListPendingResponse, RpcError> {
    let session = session.to_owned();
    let request = pb::ListPendingRequest {
        session,
        ..pb::ListPendingRequest::default()
    };
    let answer = world.client.clone().list_pending(request).await;
    Ok(answer?.into_inner())
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_deleted_during_the_call_is_left_out() {
    let world = Arc::new(World::new().await);
    let (gone, stays) = (waiting(&world).await, waiting(&world).await);
    let mut listed = world.faults.hold_answer("ListSessions");
    let asking = {
        let world = world.clone();
        tokio::spawn(async move { pending(&world, "").await })
    };
    listed.reached().await;
    let session = gone.clone();
    let deletion = pb::DeleteSessionRequest { session };
    let deleted = world.client.clone().delete_session(deletion).await;
    deleted.expect("it is deleted");
    listed.release();
    let answer = asking.await.expect("no panic").expect("a list");
    let sessions: Vec<_> = answer.pending.iter().map(|it| &it.session).collect();
    assert_eq!(sessions, [&stays]);
    assert_eq!(answer.unreadable, []);
    let error = pending(&world, &gone).await.expect_err("it is named");
    assert_eq!(error.reason_name(), "TERMINAL");
}

#[tokio::test(start_paused = true)]
async fn lists_read_headers_and_the_journals_of_those_that_wait() {
    let world = World::new().await;
    for number in 0..20 {
        let request = pb::CreateSessionRequest {
            session: format!("idle-{number:02}"),
            request_id: format!("make-{number}"),
            title: "Idle".to_owned(),
            ..pb::CreateSessionRequest::default()
        };
        let made = world.client.clone().create_session(request).await;
        made.expect("a session");
    }
    let session = waiting(&world).await;
    let reads = || {
        let count = |method| world.faults.calls(method);
        (count("ReadEvents"), count("GetCheckpoint"))
    };
    let before = reads();
    let list = async |request: pb::ListSessionsRequest| {
        let answer = world.client.clone().list_sessions(request).await;
        answer.expect("a page").into_inner().sessions
    };
    let latest = list(pb::ListSessionsRequest {
        page_size: 1,
        order: pb::SessionOrder::Changed.into(),
        ..pb::ListSessionsRequest::default()
    });
    let latest = latest.await.remove(0);
    assert_eq!(latest.id, session);
    let [open] = &latest.pending[..] else {
        panic!("{latest:?}");
    };
    assert_eq!((open.reason(), open.count), (WaitReason::Question, 1));
    let listed = |filter| {
        list(pb::ListSessionsRequest {
            filter: Some(filter),
            ..pb::ListSessionsRequest::default()
        })
    };
    let with_question = pb::SessionFilter {
        pending: vec![WaitReason::Question.into()],
        ..pb::SessionFilter::default()
    };
    assert_eq!(listed(with_question).await, std::slice::from_ref(&latest));
    let with_prefix = pb::SessionFilter {
        prefix: "idle".to_owned(),
        ..pb::SessionFilter::default()
    };
    assert_eq!(listed(with_prefix).await.len(), 20);
    assert_eq!(reads(), before, "no journal is read");
    let asked = pending(&world, "").await.expect("a list").pending;
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].since_unix_ms, open.since_unix_ms);
    let after = reads();
    let journals = (after.0 - before.0, after.1 - before.1);
    assert_eq!(journals, (1, 0), "one session is opened, which was kept");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_cannot_be_read_is_reported_beside_the_others() {
    let world = World::new().await;
    let session = waiting(&world).await;
    put_newer(&world, "newer", 0).await;
    put_damaged(&world, "damaged", 0).await;
    let answer = pending(&world, "").await.expect("a list");
    let sessions: Vec<_> = answer.pending.iter().map(|it| &it.session).collect();
    assert_eq!(sessions, [&session]);
    let mut unreadable: Vec<_> = answer
        .unreadable
        .iter()
        .map(|it| (it.session.as_str(), it.reason.as_str()))
        .collect();
    unreadable.sort_unstable();
    let expected = [("damaged", "EVENT_UNREADABLE"), ("newer", "NEWER_VERSION")];
    assert_eq!(unreadable, expected);
    for it in &answer.unreadable {
        assert!(it.message.contains("event 1"), "{}", it.message);
    }
    let error = pending(&world, "newer").await.expect_err("it is named");
    assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
    assert_eq!(error.metadata("seq"), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_the_store_reports_damaged_is_reported_beside_the_others() {
    let world = World::new().await;
    let sessions = [waiting(&world).await, waiting(&world).await];
    world.faults.next("ReadEvents", Fault::Damage, 1);
    let answer = pending(&world, "").await.expect("a list");
    let [unreadable] = &answer.unreadable[..] else {
        panic!("{answer:?}");
    };
    assert_eq!(unreadable.reason, "DAMAGED");
    let [other] = &answer.pending[..] else {
        panic!("{answer:?}");
    };
    assert_ne!(unreadable.session, other.session);
    assert!(sessions.contains(&other.session));
}

fn by_scope(world: &World, asked: &pb::Pending, scope: &str) -> pb::DecideRequest {
    let always = wire::settlement::ApproveAlways {
        scope: scope.to_owned(),
        ..wire::settlement::ApproveAlways::default()
    };
    pb::DecideRequest {
        session: asked.session.clone(),
        pending_id: asked.id.clone(),
        settlement: Some(wire::Settlement {
            outcome: Some(wire::settlement::Outcome::ApproveAlways(always)),
        }),
        request_id: world.request_id(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_approved_by_a_scope_that_is_listed_with_it() {
    let world = World::new().await;
    let session = world.start(chain(vec![tool_step("approved")])).await;
    let listed = pending(&world, &session).await.expect("a list").pending;
    let ids: Vec<_> = listed[0].scopes.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(ids, ["call", "tool"]);
    assert_eq!(listed[0].scopes[0].scope, None);
    let mut client = world.client.clone();
    let other = by_scope(&world, &listed[0], "server:s");
    let refused = world
        .until(client.decide(other))
        .await
        .expect_err("no such scope");
    assert_eq!(RpcError::from(refused).reason_name(), "BAD_SETTLEMENT");
    let tool = by_scope(&world, &listed[0], "tool");
    world
        .until(client.decide(tool))
        .await
        .expect("it is listed");
    let approvals = client.list_approvals(pb::ListApprovalsRequest { session });
    let approvals = approvals.await.expect("a list").into_inner().approvals;
    assert_eq!(approvals[0].scope, listed[0].scopes[1].scope);
    assert!(approvals[0].scope.is_some() && approvals[0].when.is_empty());
}
