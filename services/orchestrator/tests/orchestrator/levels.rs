//! Sessions that use what only a newer version can read: they are left to it, and nothing is lost of them.

use crate::support::{Attempt, Fault, Kind, World, chain, count, for_tenant, model_step, reply};
use cairn_engine::event::Event;
use cairn_orchestrator::{Config, Running};
use cairn_proto::convert::{Decoded, decode_event};
use cairn_proto::event as wire;
use cairn_proto::event::command::Kind as Command;
use cairn_proto::event::event::Kind as EventKind;
use cairn_proto::memory as memory_pb;
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::orchestrator_service_client::OrchestratorServiceClient;
use cairn_rpc::{ErrorKind, Link, RpcError};
use prost::Message as _;
use std::time::Duration;
use tonic::Status;

/// The level of the next release.
const NEXT: u32 = 2;

const LONG: Duration = Duration::from_secs(35);

/// Ends the message about a request that this release has stored.
const IS_STORED: &str = "; this request is stored, and a newer process handles it: send it again only \
                         with the same request_id";

/// An empty message in the field 900, which no message has yet.
const NEW_FIELD: [u8; 3] = [0xa2, 0x38, 0x00];

fn command(kind: Option<Command>) -> Option<EventKind> {
    Some(EventKind::CommandReceived(wire::CommandReceived {
        request_id: "newer".to_owned(),
        command: Some(wire::Command { kind }),
    }))
}

fn rename(title: &str) -> Command {
    Command::RenameSession(wire::RenameSession {
        title: title.to_owned(),
    })
}

/// What a newer version may append that this one does not know, one of each kind of growth: an event of an
/// unknown kind; a command, an operation and a value of an enum within known ones; and a field.
fn growths() -> [(&'static str, Vec<u8>); 5] {
    let event = |kind| wire::Event {
        at_unix_ms: 1,
        needs: NEXT,
        kind,
        ..wire::Event::default()
    };
    let op = wire::ChangeContext {
        ops: vec![wire::ContextOp { op: None }],
        ..wire::ChangeContext::default()
    };
    let value = wire::StartRun {
        goal: "a goal".to_owned(),
        limits: Some(wire::LimitOverrides {
            on_failure: 4711,
            ..wire::LimitOverrides::default()
        }),
        ..wire::StartRun::default()
    };
    let with_field = |kind| [event(kind).encode_to_vec(), NEW_FIELD.to_vec()].concat();
    [
        ("kind", with_field(None)),
        ("command", event(command(None)).encode_to_vec()),
        (
            "op",
            event(command(Some(Command::ChangeContext(op)))).encode_to_vec(),
        ),
        (
            "value",
            event(command(Some(Command::StartRun(value)))).encode_to_vec(),
        ),
        ("field", with_field(command(Some(rename("by the newer"))))),
    ]
}

/// A newer process stores a command.
async fn append(world: &World, session: &str, event: Vec<u8>) {
    append_needing(world, session, event, NEXT).await;
}

/// The same, and says to the store that the command needs this level.
async fn append_needing(world: &World, session: &str, event: Vec<u8>, needs: u32) {
    let request = memory_pb::AppendCommandRequest {
        session: session.to_owned(),
        request_id: world.request_id(),
        request_digest: vec![1; 32].into(),
        event: event.into(),
        needs,
        level: NEXT,
        ..memory_pb::AppendCommandRequest::default()
    };
    let mut journal = world.journal.0.clone();
    let stored = journal.append_command(for_tenant(request)).await;
    assert!(!stored.expect("it is stored").into_inner().duplicate);
}

async fn idle(world: &World) -> String {
    let request = pb::CreateSessionRequest {
        request_id: world.request_id(),
        ..pb::CreateSessionRequest::default()
    };
    let made = world.client.clone().create_session(request).await;
    made.expect("a session").into_inner().session
}

/// A model's step in the midst of a call with side effects.
async fn calling(world: &World) -> (String, Attempt) {
    let session = world.start(chain(vec![model_step("act")])).await;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "", &[("effectful", "{}")]));
    assert_eq!(attempt.ack().await.permitted_calls.len(), 1);
    (session, attempt)
}

/// The events that a process of the present level can read, without those between them.
async fn readable(world: &World, session: &str) -> Vec<Event> {
    let page = world.journal.read(session, 0).await;
    let events = page.events.iter();
    let events = events.filter_map(|stored| match decode_event(&stored.event, 1) {
        Ok(Decoded::Event(event)) => Some(event),
        Ok(Decoded::Newer { .. }) => None,
        other => panic!("{other:?}"),
    });
    events.collect()
}

/// Only a newer version can read it, and it has nothing wrong with it.
async fn is_left_to_newer(world: &World, session: &str, status: pb::SessionStatus) {
    let listed = world.listed(0).await;
    let listed = listed.iter().find(|it| it.id == session).expect("it");
    assert_eq!(listed.status(), status);
    let newer = pb::NewerVersion {
        needs: NEXT,
        level: 1,
    };
    assert_eq!(listed.newer_version, Some(newer));
    assert!(world.claim("o-2").await.is_empty(), "it is not claimed");
}

/// An orchestrator of the next release, with executors and tools of it.
async fn next_release(world: &World) -> (OrchestratorServiceClient<Link>, Running) {
    world.slots.set_level(NEXT);
    world.tools.set_level(NEXT);
    let config = Config {
        level: NEXT,
        ..Config::default()
    };
    world.another(config).await
}

fn rename_request(session: &str, request_id: &str) -> pb::RenameSessionRequest {
    pb::RenameSessionRequest {
        session: session.to_owned(),
        title: "after all".to_owned(),
        request_id: request_id.to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_is_new_in_a_session_leaves_it_to_the_next_release() {
    for (what, event) in growths() {
        let world = World::new().await;
        let session = idle(&world).await;
        let before = world.faults.calls("Commit");
        append(&world, &session, event).await;
        world.pass(LONG).await;
        // No run of it is active.
        is_left_to_newer(&world, &session, pb::SessionStatus::Idle).await;
        assert_eq!(world.faults.calls("Commit"), before, "{what}");
        assert_eq!(world.faults.calls("ReleaseSession"), 0, "{what}");
        assert_eq!(
            world.claim_at_level("o-2", NEXT).await.len(),
            1,
            "{what}: it is due"
        );
    }
}

/// Otherwise the store would give it to the processes of this release over and over.
#[tokio::test(start_paused = true)]
async fn a_session_whose_store_was_not_told_what_it_needs_is_seldom_claimed() {
    for (what, event) in growths() {
        let world = World::new().await;
        let session = idle(&world).await;
        append_needing(&world, &session, event, 1).await;
        world.pass(LONG).await;
        let times = world.faults.calls("ReleaseSession");
        assert!((1..=2).contains(&times), "{what}: given back {times} times");
        let listed = world.listed(0).await;
        let listed = listed.iter().find(|it| it.id == session).expect("it");
        assert_ne!(listed.status(), pb::SessionStatus::Quarantined, "{what}");
    }
}

/// Sessions that only the next release can take up are no work for this one.
#[tokio::test(start_paused = true)]
async fn the_queue_that_refuses_new_runs_is_that_of_the_level() {
    for level in [1, NEXT] {
        let config = Config {
            max_queued: 1,
            level,
            ..Config::default()
        };
        let world = World::with_config(config).await;
        let session = idle(&world).await;
        world.faults.always("ClaimSessions", Some(Fault::Refuse));
        // The claim that waits already.
        world.pass(Duration::from_secs(11)).await;
        let [.., (_, event)] = growths();
        append(&world, &session, event).await;
        let request = pb::StartRunRequest {
            request_id: world.request_id(),
            run: Some(chain(vec![model_step("think")])),
            ..pb::StartRunRequest::default()
        };
        let mut client = world.client.clone();
        let started = world.until(client.start_run(request)).await;
        let refused = started.err().map(|status| RpcError::from_status(&status));
        let limit = refused.as_ref().and_then(|error| error.metadata("limit"));
        let expected = (level == NEXT).then_some("session.max_queued");
        assert_eq!(limit, expected, "level {level}: {refused:?}");
    }
}

/// An owner that meets it takes no command that comes later, and nothing that it began is in doubt.
#[tokio::test(start_paused = true)]
async fn an_owner_that_meets_what_is_new_lets_its_calls_end_and_lets_go() {
    for (what, event) in growths() {
        let world = World::new().await;
        let (session, mut attempt) = calling(&world).await;
        append(&world, &session, event).await;
        world.pass(Duration::from_secs(20)).await;
        assert!(attempt.is_held(), "{what}: the call is under way");
        assert!(world.claim_at_level("o-2", NEXT).await.is_empty(), "{what}");
        attempt.report_result(0, 0, "sent");
        attempt.dropped().await;
        world.settle().await;
        is_left_to_newer(&world, &session, pb::SessionStatus::Waiting).await;
        let claims = world.claim_at_level("o-2", NEXT).await;
        assert_eq!(claims.len(), 1, "{what}: it is free at once");
        let events = readable(&world, &session).await;
        assert_eq!(count(&events, "CallFinished"), 1, "{what}");
        assert_eq!(count(&events, "CallInDoubt"), 0, "{what}");
        assert_eq!(count(&events, "CommandRefused"), 0, "{what}");
        assert!(world.other_attempts().await.is_empty(), "{what}");
    }
}

/// The last growth is one that this release can read if it is told to.
#[tokio::test(start_paused = true)]
async fn the_next_release_continues_and_answers_commands_in_their_order() {
    let world = World::new().await;
    let (session, mut attempt) = calling(&world).await;
    let [.., (_, newer)] = growths();
    append(&world, &session, newer).await;
    // Through the old process, which stores it and cannot say what comes of it.
    let asked = rename_request(&session, "rename");
    let mut old = world.client.clone();
    let (refused, ()) = world
        .until(async {
            tokio::join!(old.rename_session(asked.clone()), async {
                world.settle().await;
                attempt.report_result(0, 0, "sent");
            })
        })
        .await;
    let refused = RpcError::from_status(&refused.expect_err("it is too old"));
    assert_eq!(refused.reason_name(), "NEWER_VERSION");
    assert_eq!(refused.metadata("needs"), Some("2"));
    let message = refused.message();
    assert!(message.ends_with(IS_STORED), "{message}");

    let (mut new, _running) = next_release(&world).await;
    let mut again = world.attempt().await;
    assert_eq!(again.start.session, session);
    let results = again.start.results.len();
    assert_eq!(results, 1, "the call is not made again");
    again.complete(1);
    let answered = world.until(new.rename_session(asked)).await;
    answered.expect("it is answered");
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "CallIntended"), 1);
    assert_eq!(count(&events, "CallInDoubt"), 0);
    let titles = events.iter().filter_map(|event| match &event.kind {
        Kind::SessionRenamed(renamed) => Some(renamed.title.as_str()),
        _ => None,
    });
    assert_eq!(titles.collect::<Vec<_>>(), ["by the newer", "after all"]);
}

/// Also one whose executor is too old for what the session has come to need.
#[tokio::test(start_paused = true)]
async fn an_attempt_waits_for_an_executor_and_tools_that_can_read_it() {
    let config = Config {
        level: NEXT,
        ..Config::default()
    };
    let world = World::with_config(config).await;
    let session = world.start(chain(vec![model_step("think")])).await;
    world.pass(LONG).await;
    assert!(world.other_attempts().await.is_empty(), "both are too old");
    world.slots.set_level(NEXT);
    world.pass(LONG).await;
    assert!(world.other_attempts().await.is_empty(), "tools are too old");
    world.tools.set_level(NEXT);
    let mut attempt = world.attempt().await;
    attempt.complete(0);
    world.ended(&session).await;
}

/// A session that says only in its header and in one event that it is new.
async fn put_next(world: &World, session: &str) {
    let created = wire::SessionCreated {
        title: "newer".to_owned(),
        ..wire::SessionCreated::default()
    };
    let event = wire::Event {
        at_unix_ms: 1,
        needs: NEXT,
        kind: Some(EventKind::SessionCreated(created)),
        ..wire::Event::default()
    };
    let request = memory_pb::CreateSessionRequest {
        session: session.to_owned(),
        request_id: "make".to_owned(),
        request_digest: vec![1; 32].into(),
        events: vec![event.encode_to_vec().into()],
        header: Some(memory_pb::Header {
            needs: NEXT,
            ..memory_pb::Header::default()
        }),
        operation_id: "operation".to_owned(),
        ..memory_pb::CreateSessionRequest::default()
    };
    let mut journal = world.journal.0.clone();
    let made = journal.create_session(for_tenant(request)).await;
    made.expect("a session");
}

#[tokio::test(start_paused = true)]
async fn every_reader_says_that_it_is_too_old() {
    let world = World::new().await;
    put_next(&world, "s").await;
    let session = || "s".to_owned();
    let mut client = world.client.clone();
    let mut contexts = world.contexts.clone();
    let get_session = pb::GetSessionRequest { session: session() };
    let get_state = pb::GetStateRequest {
        session: session(),
        at_seq: 1,
    };
    let get_tree = pb::GetTreeRequest {
        session: session(),
        ..pb::GetTreeRequest::default()
    };
    let get_log = pb::GetExecutionLogRequest {
        session: session(),
        ..pb::GetExecutionLogRequest::default()
    };
    let pending = pb::ListPendingRequest {
        session: session(),
        ..pb::ListPendingRequest::default()
    };
    let list_contexts = pb::ListContextsRequest { session: session() };
    let watch = pb::WatchSessionRequest {
        session: session(),
        ..pb::WatchSessionRequest::default()
    };
    let export = pb::ExportSessionRequest { session: session() };
    let mut watched = client.watch_session(watch).await.expect("a stream");
    let mut exported = client.export_session(export).await.expect("a stream");
    let refused: [(&str, Result<(), Status>); 8] = [
        ("session", client.get_session(get_session).await.map(drop)),
        ("state", client.get_state(get_state).await.map(drop)),
        ("tree", client.get_tree(get_tree).await.map(drop)),
        ("log", client.get_execution_log(get_log).await.map(drop)),
        ("pending", client.list_pending(pending).await.map(drop)),
        (
            "contexts",
            contexts.list_contexts(list_contexts).await.map(drop),
        ),
        ("watch", watched.get_mut().message().await.map(drop)),
        ("export", exported.get_mut().message().await.map(drop)),
    ];
    for (what, answer) in refused {
        let error = RpcError::from_status(&answer.expect_err(what));
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition, "{what}");
        assert_eq!(error.reason_name(), "NEWER_VERSION", "{what}");
        assert_eq!(error.metadata("needs"), Some("2"), "{what}");
        assert_eq!(error.metadata("level"), Some("1"), "{what}");
        assert!(!error.message().contains("stored"), "{what}: {error}");
    }
    let (mut new, _running) = next_release(&world).await;
    let read = new.get_session(pb::GetSessionRequest { session: session() });
    let read = read.await.expect("it is read").into_inner().session;
    assert_eq!(read.expect("a session").title, "newer");
}
