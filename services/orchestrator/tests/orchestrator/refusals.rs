//! Refused commands, as clients see them.

use crate::support::{World, for_tenant, goal};
use crate::turns::{session, submit, turn};
use cairn_engine::command::{BridgeContext, Command, RenameSession, StartRun};
use cairn_engine::event::{CommandReceived, Event};
use cairn_engine::key::digest;
use cairn_engine::limits::{MAX_MEMORY_KEYS, MAX_TITLE};
use cairn_proto::convert::encode_event;
use cairn_proto::event as wire;
use cairn_proto::memory as memory_pb;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, RpcError};
use prost::Message as _;
use tonic::{Response, Status};

/// Checks that the answer is an error of this kind with this reason.
fn check_refused<T>(answer: Result<Response<T>, Status>, kind: ErrorKind, reason: &str) {
    let Err(status) = answer else {
        panic!("it is accepted, not refused with {reason}");
    };
    let error = RpcError::from_status(&status);
    assert_eq!((error.kind(), error.reason_name()), (kind, reason));
}

/// What is refused because of the state of the session.
#[tokio::test(start_paused = true)]
async fn a_refused_command_has_the_code_and_the_reason_of_the_contract() {
    let world = World::new().await;
    let session = session(&world).await;
    let revoke = pb::RevokeApprovalRequest {
        session: session.clone(),
        request_id: world.request_id(),
        grant: 7,
    };
    let mut client = world.client.clone();
    let answer = world.until(client.revoke_approval(revoke)).await;
    check_refused(answer, ErrorKind::FailedPrecondition, "NO_SUCH_APPROVAL");

    let values = (0..=MAX_MEMORY_KEYS).map(|n| (format!("key-{n}"), String::new()));
    let bridge = pb::BridgeContextRequest {
        session: session.clone(),
        request_id: world.request_id(),
        bridge: Some(wire::BridgeContext {
            values: values.collect(),
            ..wire::BridgeContext::default()
        }),
    };
    let mut contexts = world.contexts.clone();
    let answer = world.until(contexts.bridge_context(bridge)).await;
    check_refused(answer, ErrorKind::FailedPrecondition, "LIMIT");

    let silent = pb::SubmitTurnRequest {
        turn: Some(wire::SubmitTurn::default()),
        ..turn(&world, &session)
    };
    let error = submit(&world, silent).await.expect_err("it is refused");
    assert_eq!(
        (error.kind(), error.reason_name()),
        (ErrorKind::FailedPrecondition, "EMPTY_CONTEXT")
    );
}

/// Stores a command under the request that a client makes here, as a release with other limits would.
/// Gives the request_id.
async fn stored(world: &World, session: &str, asked: Command, command: Command) -> String {
    let request_id = world.request_id();
    let received = CommandReceived {
        request_id: request_id.clone(),
        command,
    };
    let event = Event {
        at: u64::try_from(world.now()).unwrap(),
        answers: 0,
        principal: None,
        kind: received.into(),
    };
    let asked = wire::Command::from(asked).encode_to_vec();
    let request = memory_pb::AppendCommandRequest {
        session: session.to_owned(),
        request_id: request_id.clone(),
        request_digest: digest(&[&asked]).to_vec().into(),
        event: encode_event(&event, 1).into(),
        ..memory_pb::AppendCommandRequest::default()
    };
    let mut journal = world.journal.0.clone();
    let appended = journal.append_command(for_tenant(request)).await;
    appended.expect("it is stored");
    request_id
}

/// Requests with these faults are refused before they become commands of this release.
#[tokio::test(start_paused = true)]
async fn a_stored_command_that_is_wrong_is_refused_with_its_own_reason() {
    let world = World::new().await;
    let session = session(&world).await;
    let (mut client, mut contexts) = (world.client.clone(), world.contexts.clone());

    let rename = |title: &str| RenameSession {
        title: title.to_owned(),
    };
    let long = rename(&"t".repeat(MAX_TITLE + 1));
    let request = pb::RenameSessionRequest {
        session: session.clone(),
        request_id: stored(&world, &session, rename("a title").into(), long.into()).await,
        title: "a title".to_owned(),
    };
    let answer = world.until(client.rename_session(request)).await;
    check_refused(answer, ErrorKind::InvalidArgument, "BAD_TITLE");

    let start = |goal: &str| StartRun {
        goal: goal.to_owned(),
        ..StartRun::default()
    };
    let request = pb::StartRunRequest {
        session: session.clone(),
        request_id: stored(&world, &session, start("a goal").into(), start(" ").into()).await,
        run: Some(goal("a goal")),
        ..pb::StartRunRequest::default()
    };
    let answer = world.until(client.start_run(request)).await;
    check_refused(answer, ErrorKind::InvalidArgument, "BAD_GOAL");

    let bridge = |key: &str| BridgeContext {
        values: vec![(key.to_owned(), "value".to_owned())],
        ..BridgeContext::default()
    };
    let request = pb::BridgeContextRequest {
        session: session.clone(),
        request_id: stored(&world, &session, bridge("key").into(), bridge("").into()).await,
        bridge: Some(bridge("key").into()),
    };
    let answer = world.until(contexts.bridge_context(request)).await;
    check_refused(answer, ErrorKind::InvalidArgument, "BAD_PAIR");
}
