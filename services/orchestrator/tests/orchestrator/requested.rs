//! A process that works on the sessions that were asked for there, and on no other.

use crate::support::{World, chain, count, for_tenant, model_step};
use cairn_orchestrator::{Config, Mode};
use cairn_proto::event as wire;
use cairn_proto::event::command::Kind as Command;
use cairn_proto::memory as memory_pb;
use cairn_proto::orchestrator as pb;
use cairn_rpc::Namespace;
use prost::Message as _;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

async fn world() -> World {
    let config = Config {
        mode: Mode::ClaimRequested,
        ..Config::default()
    };
    World::with_config(config).await
}

fn run() -> wire::StartRun {
    chain(vec![model_step("think")])
}

/// Another process stores the start of a run, and ends. The next owner of the session works on it.
async fn start_elsewhere(world: &World, session: &str) {
    store_elsewhere(world, session, Command::StartRun(run())).await;
}

/// Another process stores a command, and ends.
async fn store_elsewhere(world: &World, session: &str, command: Command) {
    let command = wire::Command {
        kind: Some(command),
    };
    let request_id = world.request_id();
    let received = wire::CommandReceived {
        request_id: request_id.clone(),
        command: Some(command),
    };
    let event = wire::Event {
        at_unix_ms: world.now(),
        kind: Some(wire::event::Kind::CommandReceived(received)),
        ..Default::default()
    };
    let request = memory_pb::AppendCommandRequest {
        session: session.to_owned(),
        request_id,
        request_digest: vec![1; 32].into(),
        event: event.encode_to_vec().into(),
        repeat_only: false,
        ..memory_pb::AppendCommandRequest::default()
    };
    let mut journal = world.journal.0.clone();
    let stored = journal.append_command(for_tenant(request)).await;
    assert!(!stored.unwrap().into_inner().duplicate);
}

/// A session in which a run is to start, by another process.
async fn unfinished(world: &World, session: &str) {
    let request = pb::CreateSessionRequest {
        session: session.to_owned(),
        request_id: world.request_id(),
        ..pb::CreateSessionRequest::default()
    };
    world.client.clone().create_session(request).await.unwrap();
    start_elsewhere(world, session).await;
}

#[tokio::test(start_paused = true)]
async fn only_the_session_that_is_started_here_is_worked_on() {
    let world = world().await;
    unfinished(&world, "theirs").await;
    let own = world.start(run()).await;
    let mut attempt = world.attempt().await;
    assert_eq!(attempt.start.session, own);
    attempt.complete(0);
    world.ended(&own).await;
    world.pass(LONG).await;
    assert!(world.other_attempts().await.is_empty());
    let theirs = world.journal.events("theirs").await;
    assert_eq!(count(&theirs, "RunStarted"), 0);
    // Its run has ended, so its own session is like any other.
    start_elsewhere(&world, &own).await;
    world.pass(LONG).await;
    assert!(world.other_attempts().await.is_empty());
}

/// A command of another process does not take a run from the process that has started it.
#[tokio::test(start_paused = true)]
async fn a_run_that_was_started_here_continues_here() {
    let world = world().await;
    let own = world.start(run()).await;
    let attempt = world.attempt().await;
    let pause = pb::PauseRunRequest {
        session: own.clone(),
        run: 1,
        reason: String::new(),
        request_id: world.request_id(),
    };
    let mut client = world.client.clone();
    world.until(client.pause_run(pause)).await.unwrap();
    attempt.dropped().await;
    world.pass(LONG).await;
    let resume = Command::ResumeRun(wire::ResumeRun { run: 1 });
    store_elsewhere(&world, &own, resume).await;
    assert_eq!(world.attempt().await.start.session, own);
}

/// A process that serves many sessions one after the other asks only for those with a run.
#[tokio::test(start_paused = true)]
async fn a_session_whose_run_has_ended_is_not_asked_for_any_more() {
    let world = world().await;
    let mut own = String::new();
    for _ in 0..3 {
        own = world.start(run()).await;
        world.attempt().await.complete(0);
        world.ended(&own).await;
    }
    world.pass(LONG).await;
    let before = world.faults.calls("ClaimSessions");
    world.pass(LONG).await;
    assert_eq!(world.faults.calls("ClaimSessions"), before);
    // A further request begins anew.
    let again = pb::StartRunRequest {
        session: own.clone(),
        request_id: world.request_id(),
        run: Some(run()),
        ..pb::StartRunRequest::default()
    };
    let mut client = world.client.clone();
    world.until(client.start_run(again)).await.unwrap();
    assert_eq!(world.attempt().await.start.session, own);
}

#[tokio::test(start_paused = true)]
async fn a_session_is_worked_on_once_that_is_asked_for() {
    for ask in ["take up", "release", "resume"] {
        let world = world().await;
        unfinished(&world, "theirs").await;
        world.pass(LONG).await;
        assert!(world.other_attempts().await.is_empty(), "{ask}");
        let session = "theirs".to_owned();
        match ask {
            "take up" => world.running.take_up(&Namespace::default(), &session),
            "release" => {
                let release = pb::ReleaseQuarantineRequest {
                    session,
                    ..pb::ReleaseQuarantineRequest::default()
                };
                let released = world.client.clone().release_quarantine(release).await;
                released.unwrap();
            }
            // The run that was started elsewhere is paused here, and continues here.
            _ => {
                let (run, reason) = (1, String::new());
                let pause = pb::PauseRunRequest {
                    session: session.clone(),
                    run,
                    reason,
                    request_id: world.request_id(),
                };
                let mut client = world.client.clone();
                world.until(client.pause_run(pause)).await.unwrap();
                let resume = pb::ResumeRunRequest {
                    session,
                    run,
                    request_id: world.request_id(),
                };
                world.until(client.resume_run(resume)).await.unwrap();
            }
        }
        assert_eq!(world.attempt().await.start.session, "theirs", "{ask}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fork_that_continues_is_worked_on() {
    let world = world().await;
    let parent = world.start(run()).await;
    let _theirs = world.attempt().await;
    let fork = pb::ForkSessionRequest {
        session: parent,
        request_id: world.request_id(),
        go_on: true,
        ..pb::ForkSessionRequest::default()
    };
    let mut client = world.client.clone();
    let forked = world.until(client.fork_session(fork)).await.unwrap();
    let attempt = world.attempt().await;
    assert_eq!(attempt.start.session, forked.into_inner().session);
}

/// Another process may have room for it meanwhile.
#[tokio::test(start_paused = true)]
async fn a_session_is_not_claimed_where_there_is_no_room_for_it() {
    let config = Config {
        mode: Mode::ClaimRequested,
        max_sessions: 1,
        ..Config::default()
    };
    let world = World::with_config(config).await;
    unfinished(&world, "theirs").await;
    let own = world.start(run()).await;
    let mut attempt = world.attempt().await;
    assert_eq!(attempt.start.session, own);
    let before = world.faults.calls("ReleaseSession");
    world.running.take_up(&Namespace::default(), "theirs");
    world.pass(LONG).await;
    assert_eq!(world.faults.calls("ReleaseSession"), before);
    attempt.complete(0);
    assert_eq!(world.attempt().await.start.session, "theirs");
}

/// Whoever lets a process run for long does not pay for what it worked on before.
#[tokio::test(start_paused = true)]
async fn a_session_that_was_deleted_is_not_asked_for_any_more() {
    let world = world().await;
    let own = world.start(run()).await;
    world.attempt().await.complete(0);
    world.ended(&own).await;
    let deletion = pb::DeleteSessionRequest {
        session: own.clone(),
    };
    world.client.clone().delete_session(deletion).await.unwrap();
    world.pass(LONG).await;
    let before = world.faults.calls("ClaimSessions");
    assert!(before > 0);
    world.pass(LONG).await;
    assert_eq!(world.faults.calls("ClaimSessions"), before);
}
