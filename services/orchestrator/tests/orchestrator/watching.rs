//! Watching: replies while they are written, and the traces that runs belong to.

use crate::support::{World, chain, goal, model_step, reply};
use cairn_orchestrator::Config;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::orchestrator as pb;
use std::time::Duration;
use tokio::time::timeout;
use tonic::{Request, Streaming};

async fn watch(
    world: &World,
    session: &str,
    with_deltas: bool,
) -> Streaming<pb::WatchSessionResponse> {
    let request = pb::WatchSessionRequest {
        session: session.to_owned(),
        after_seq: 0,
        with_deltas,
    };
    let watch = world.client.clone().watch_session(request).await;
    watch.expect("a watch").into_inner()
}

/// The next message that is a part of a reply, or the reply itself.
async fn next(watch: &mut Streaming<pb::WatchSessionResponse>) -> Result<wire::TextDelta, u32> {
    loop {
        let message = watch.message().await.expect("no error").expect("more");
        let event = message.event.and_then(|event| event.kind);
        if let Some(delta) = message.delta {
            assert_eq!((message.seq, event), (0, None));
            return Ok(delta);
        }
        if let Some(Kind::ReplyReceived(reply)) = event {
            return Err(reply.tool_turn);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_wants_them_sees_replies_while_they_are_written() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("think")])).await;
    let mut attempt = world.attempt().await;
    let (mut one, mut other) = (
        watch(&world, &session, true).await,
        watch(&world, &session, false).await,
    );
    attempt.writes(0, 0, "hel");
    let delta = world.until(next(&mut one)).await.expect("a part");
    assert_eq!(delta.attempt, attempt.start.attempt);
    assert_eq!((delta.tool_turn, delta.offset, &*delta.text), (0, 0, "hel"));
    attempt.writes(0, 3, "lo");
    assert_eq!(world.until(next(&mut one)).await.expect("a part").offset, 3);
    attempt.reply(reply(0, "hello", &[]));
    assert_eq!(world.until(next(&mut one)).await, Err(0));
    // A part that comes after its reply is void.
    attempt.writes(0, 0, "late");
    attempt.writes(1, 0, "new");
    assert_eq!(
        world.until(next(&mut one)).await.expect("a part").text,
        "new"
    );
    // Whoever did not ask is sent events only.
    assert_eq!(world.until(next(&mut other)).await, Err(0));
    attempt.complete(1);
    assert_eq!(world.until(next(&mut other)).await, Err(1));
    let journal = world.ended(&session).await;
    let shown = format!("{journal:?}");
    assert!(
        !shown.contains("hel\"") && !shown.contains("\"late\""),
        "{shown}"
    );
}

/// The traceparent that a run was started with, and the one that its events tell.
async fn trace_of(world: &World, request: Request<pb::StartRunRequest>) -> String {
    let started = world.client.clone().start_run(request).await;
    let session = started.expect("a run").into_inner().session;
    let is_start = |kind: &cairn_engine::event::EventKind| {
        matches!(kind, cairn_engine::event::EventKind::RunStarted(_))
    };
    let events = world.seen(&session, is_start).await;
    let reported = events.into_iter().find_map(|event| match event.kind {
        cairn_engine::event::EventKind::RunStarted(started) => Some(started.trace_parent),
        _ => None,
    });
    let request = pb::GetTreeRequest {
        session,
        run: 0,
        view: pb::TreeView::Json.into(),
        at_seq: 0,
    };
    let tree = world
        .client
        .clone()
        .get_tree(request)
        .await
        .expect("a tree");
    let tree: serde_json::Value = serde_json::from_str(&tree.into_inner().text).expect("JSON");
    let reported = reported.expect("a start");
    assert_eq!(tree["trace"]["trace_id"], reported[3..35], "{reported}");
    reported
}

fn request(id: &str, trace_parent: &str) -> Request<pb::StartRunRequest> {
    Request::new(pb::StartRunRequest {
        session: String::new(),
        request_id: id.to_owned(),
        run: Some(wire::StartRun {
            trace_parent: trace_parent.to_owned(),
            ..goal("Look.")
        }),
        ..pb::StartRunRequest::default()
    })
}

#[tokio::test(start_paused = true)]
async fn a_run_belongs_to_the_trace_of_its_caller() {
    const ONE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const TWO: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    let world = World::new().await;
    // What the request says, then what its metadata say, then a trace of its own.
    let mut both = request("both", ONE);
    both.metadata_mut()
        .insert("traceparent", TWO.parse().unwrap());
    assert_eq!(trace_of(&world, both).await, ONE);
    let mut called = request("called", "");
    called
        .metadata_mut()
        .insert("traceparent", TWO.parse().unwrap());
    assert_eq!(trace_of(&world, called).await, TWO);
    let own = trace_of(&world, request("own", "")).await;
    assert!(
        own.starts_with("00-") && own.ends_with("-0000000000000000-01"),
        "{own}"
    );
    assert_ne!(own, trace_of(&world, request("another", "")).await);
    // A repeat is the same request in whatever span it is made.
    assert_eq!(trace_of(&world, request("own", TWO)).await, own);
    let refused = world
        .client
        .clone()
        .start_run(request("bad", "00-1-2-3"))
        .await;
    let error = cairn_rpc::RpcError::from_status(&refused.unwrap_err());
    assert!(error.to_string().contains("run.trace_parent"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_session_tells_what_all_its_runs_used_up() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("think")])).await;
    world.attempt().await.complete(0);
    world.ended(&session).await;
    let once = usage(&world, &session).await;
    let request = pb::StartRunRequest {
        session: session.clone(),
        request_id: world.request_id(),
        run: Some(chain(vec![model_step("think")])),
        ..pb::StartRunRequest::default()
    };
    let mut client = world.client.clone();
    world
        .until(client.start_run(request))
        .await
        .expect("a second run");
    world.attempt().await.complete(0);
    let is_over = async {
        while world.run(&session).await.status() != pb::RunStatus::Completed {
            world.settle().await;
        }
    };
    world.until(is_over).await;
    let twice = usage(&world, &session).await;
    assert!(once.input_tokens > 0 && once.model_calls == 1, "{once:?}");
    assert_eq!(twice.input_tokens, 2 * once.input_tokens);
    assert_eq!(twice.model_calls, 2);
}

async fn usage(world: &World, session: &str) -> wire::Usage {
    let request = pb::GetSessionRequest {
        session: session.to_owned(),
    };
    let answer = world.client.clone().get_session(request).await;
    let session = answer.expect("a session").into_inner().session;
    session.and_then(|session| session.usage).expect("usage")
}

/// A session with so many messages that are stored apart.
async fn with_large_events(world: &mut World, events: usize) -> String {
    let create = pb::CreateSessionRequest {
        request_id: world.request_id(),
        ..pb::CreateSessionRequest::default()
    };
    let created = world.client.create_session(create).await;
    let session = created.expect("a session").into_inner().session;
    for number in 0..events {
        let text = format!("{number} {}", "x".repeat(100 * 1024));
        let part = wire::part::Part::Text(text);
        let message = wire::Message {
            role: wire::Role::User.into(),
            parts: vec![part.into()],
        };
        let append = pb::AppendMessageRequest {
            session: session.clone(),
            request_id: world.request_id(),
            message: Some(message),
            ..pb::AppendMessageRequest::default()
        };
        let mut contexts = world.contexts.clone();
        let appended = world.until(contexts.append_message(append)).await;
        appended.expect("it is appended");
    }
    session
}

/// Reads up to the next event that is stored apart.
async fn next_large(watched: &mut Streaming<pb::WatchSessionResponse>) {
    loop {
        let message = watched.message().await.expect("no error").expect("more");
        let kind = message.event.and_then(|event| event.kind);
        if matches!(kind, Some(Kind::CommandReceived(_))) {
            return;
        }
    }
}

/// Events that are stored apart are large: a client that reads one of them makes the server hold one.
#[tokio::test(start_paused = true)]
async fn large_events_are_read_when_it_is_their_turn() {
    const EVENTS: usize = 8;
    let mut world = World::new().await;
    let session = with_large_events(&mut world, EVENTS).await;
    let before = world.faults.calls("GetBlob");
    let mut watched = watch(&world, &session, false).await;
    for read in 1..=EVENTS {
        next_large(&mut watched).await;
        assert_eq!(world.faults.calls("GetBlob") - before, read);
    }
    let before = world.faults.calls("GetBlob");
    let request = pb::ExportSessionRequest { session };
    let exported = world.client.export_session(request).await;
    let mut exported = exported.expect("an export").into_inner();
    let mut events = 0;
    while let Some(message) = exported.message().await.expect("no error") {
        let kind = message.event.and_then(|event| event.kind);
        if matches!(kind, Some(Kind::CommandReceived(_))) {
            events += 1;
            assert_eq!(world.faults.calls("GetBlob") - before, events);
        }
    }
    assert_eq!(events, EVENTS);
}

#[tokio::test(start_paused = true)]
async fn a_large_event_is_read_once_there_is_room_for_it() {
    let config = Config {
        stream_bytes: 250 * 1024,
        ..Config::default()
    };
    let mut world = World::with_config(config).await;
    let session = with_large_events(&mut world, 1).await;
    let before = world.faults.calls("GetBlob");
    let mut first = watch(&world, &session, false).await;
    next_large(&mut first).await;
    let mut second = watch(&world, &session, false).await;
    next_large(&mut second).await;
    let mut third = watch(&world, &session, false).await;
    let read = timeout(Duration::from_secs(1), next_large(&mut third));
    assert!(world.until(read).await.is_err(), "there is no room");
    assert_eq!(world.faults.calls("GetBlob") - before, 2);
    drop(first);
    world.until(next_large(&mut third)).await;
    assert_eq!(world.faults.calls("GetBlob") - before, 3);
}
