//! Sessions that begin as copies of others.

use crate::support::{Fault, World, chain, count, for_tenant, model_step, reply, tool_step};
use cairn_orchestrator::Config;
use cairn_proto::memory as memory_pb;
use cairn_proto::orchestrator as pb;
use cairn_rpc::RpcError;

fn fork(world: &World, session: &str) -> pb::ForkSessionRequest {
    pb::ForkSessionRequest {
        session: session.to_owned(),
        request_id: world.request_id(),
        ..pb::ForkSessionRequest::default()
    }
}

async fn send(
    world: &World,
    request: &pb::ForkSessionRequest,
) -> Result<pb::ForkSessionResponse, RpcError> {
    let mut client = world.client.clone();
    let forked = world.until(client.fork_session(request.clone())).await;
    Ok(forked?.into_inner())
}

/// As whoever finds that the store has lost something of the session.
async fn quarantine(world: &World, session: &str) {
    let aside = memory_pb::QuarantineRequest {
        session: session.to_owned(),
        accepted_losses: Some(0),
    };
    let mut ownership = world.ownership.clone();
    ownership.quarantine(for_tenant(aside)).await.unwrap();
}

/// What the store has lost of the parent was done, and the copy would do it again.
#[tokio::test(start_paused = true)]
async fn a_session_that_lost_writes_is_copied_only_if_that_is_accepted() {
    let world = World::new().await;
    let parent = world.start(chain(vec![model_step("think")])).await;
    quarantine(&world, &parent).await;
    let aware = pb::ForkSessionRequest {
        accept_loss: true,
        ..fork(&world, &parent)
    };
    let unaware = |go_on| pb::ForkSessionRequest {
        accept_loss: false,
        go_on,
        ..aware.clone()
    };
    for go_on in [false, true] {
        let refused = send(&world, &unaware(go_on)).await.unwrap_err();
        assert_eq!(refused.reason_name(), "WRITES_LOST", "{refused}");
        assert_eq!(refused.metadata("session"), Some(parent.as_str()));
    }
    let copied = send(&world, &aware).await.unwrap();
    // Whoever repeats it gets what there is.
    assert_eq!(send(&world, &unaware(false)).await.unwrap(), copied);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_loses_writes_while_it_is_copied_is_not_copied_either() {
    let world = World::new().await;
    let parent = world.start(chain(vec![model_step("think")])).await;
    let mut copying = world.faults.hold_answer("CopyEvents");
    let request = fork(&world, &parent);
    let lose = async {
        copying.reached().await;
        quarantine(&world, &parent).await;
        copying.release();
    };
    let (refused, ()) = tokio::join!(send(&world, &request), lose);
    assert_eq!(refused.unwrap_err().reason_name(), "WRITES_LOST");
}

/// The run of a child continues by itself, in its own name; the parent's continues meanwhile.
#[tokio::test(start_paused = true)]
async fn a_run_continues_in_both() {
    let world = World::new().await;
    let parent = world.start(chain(vec![model_step("think")])).await;
    let mut theirs = world.attempt().await;
    theirs.reply(reply(0, "hm", &[("pure", "{}")]));
    world.settle().await;
    let request = pb::ForkSessionRequest {
        go_on: true,
        ..fork(&world, &parent)
    };
    let child = send(&world, &request).await.unwrap();
    let mut mine = world.attempt().await;
    assert_eq!(mine.start.session, child.session);
    // What the parent's attempt had said by then.
    assert_eq!(mine.said(), 1, "{:?}", mine.start.conversation);
    let result = mine.result(0, 0, "made");
    mine.reply_with(
        vec![result],
        reply(1, "", &[("step", r#"{"complete":true,"summary":"mine"}"#)]),
    );
    let ended = world.ended(&child.session).await;
    assert_eq!(count(&ended, "ForkedFrom"), 1);
    assert_eq!(world.run(&child.session).await.answer, "mine");
    assert_eq!(world.run(&parent).await.status(), pb::RunStatus::Running);
    let seq = usize::try_from(child.seq).unwrap();
    let common = &world.journal.events(&parent).await[..seq];
    assert_eq!(ended[..seq], *common);
    drop(theirs);
}

#[tokio::test(start_paused = true)]
async fn a_fork_begins_nothing_before_it_is_resumed() {
    let world = World::new().await;
    let parent = world.start(chain(vec![tool_step("effectful")])).await;
    let _theirs = world.attempt().await;
    let request = fork(&world, &parent);
    let child = send(&world, &request).await.unwrap().session;
    assert_eq!(world.run(&child).await.status(), pb::RunStatus::Paused);
    assert!(world.other_attempts().await.is_empty());
    let listing = pb::ListPendingRequest {
        session: child.clone(),
        ..pb::ListPendingRequest::default()
    };
    let pending = world.client.clone().list_pending(listing).await.unwrap();
    assert_eq!(pending.into_inner().pending.len(), 1);
    let get = pb::GetSessionRequest {
        session: child.clone(),
    };
    let shown = world.client.clone().get_session(get).await.unwrap();
    let origin = shown.into_inner().session.unwrap().forked_from.unwrap();
    assert_eq!(origin.session, parent);
    let cancelled = world.cancellation(&child);
    let mut client = world.client.clone();
    world.until(client.cancel_run(cancelled)).await.unwrap();
    assert_eq!(world.run(&parent).await.status(), pb::RunStatus::Running);
}

/// Whatever answer is lost, the request is made again and makes one child.
#[tokio::test(start_paused = true)]
async fn a_fork_may_be_asked_for_again() {
    let world = World::new().await;
    let parent = world.start(chain(vec![tool_step("pure")])).await;
    let mut attempt = world.attempt().await;
    attempt.report_result(0, 0, "made");
    world.ended(&parent).await;
    let request = fork(&world, &parent);
    for _ in 0..2 {
        world.faults.next("CopyEvents", Fault::LoseAnswer, 1);
        assert!(send(&world, &request).await.is_err());
    }
    let forked = send(&world, &request).await.unwrap();
    assert_eq!(send(&world, &request).await.unwrap(), forked);
    assert_eq!(world.listed(10).await.len(), 2);
    // It does not need its parent any more.
    let delete = pb::DeleteSessionRequest {
        session: parent.clone(),
    };
    world.client.clone().delete_session(delete).await.unwrap();
    assert_eq!(send(&world, &request).await.unwrap(), forked);
    let other = pb::ForkSessionRequest {
        at_seq: 1,
        ..request
    };
    let refused = send(&world, &other).await.unwrap_err();
    assert_eq!(refused.reason_name(), "REQUEST_MISMATCH");
    let late = send(&world, &fork(&world, &parent)).await.unwrap_err();
    assert_eq!(late.reason_name(), "TERMINAL");
}

#[tokio::test(start_paused = true)]
async fn a_point_that_is_not_there_is_refused_by_name() {
    let world = World::new().await;
    let parent = world.start(chain(vec![model_step("think")])).await;
    let _attempt = world.attempt().await;
    let last = world.journal.events(&parent).await.len() as u64;
    let request = pb::ForkSessionRequest {
        at_seq: last + 1,
        ..fork(&world, &parent)
    };
    let refused = send(&world, &request).await.unwrap_err();
    let [violation] = refused.violations() else {
        panic!("{refused}");
    };
    assert_eq!(violation.field, "at_seq");
    assert!(violation.allowed.contains(&last.to_string()), "{refused}");
    assert_eq!(world.listed(10).await.len(), 1);
}

/// What begins no work is taken though there is as much as there may be.
#[tokio::test(start_paused = true)]
async fn a_full_orchestrator_refuses_forks_that_go_on() {
    let world = World::with_config(Config {
        max_sessions: 1,
        ..Config::default()
    })
    .await;
    let parent = world.start(chain(vec![model_step("think")])).await;
    let _attempt = world.attempt().await;
    let continues = pb::ForkSessionRequest {
        go_on: true,
        ..fork(&world, &parent)
    };
    let refused = send(&world, &continues).await.unwrap_err();
    assert_eq!(refused.reason_name(), "OVERLOADED");
    assert_eq!(world.listed(10).await.len(), 1);
    send(&world, &fork(&world, &parent)).await.unwrap();
}
