//! What is refused where there is as much work as there may be, and what is not.

use crate::support::{Attempt, Fault, World, chain, count, for_tenant, model_step, reply};
use cairn_engine::command::{self, Command};
use cairn_engine::event::{self, Event, EventKind};
use cairn_orchestrator::Config;
use cairn_proto::convert::encode_event;
use cairn_proto::memory as memory_pb;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, RpcError};
use std::time::Duration;

/// Longer than one question for work waits.
const NEXT_QUESTION: Duration = Duration::from_secs(11);

async fn small(max_sessions: usize) -> World {
    World::with_config(Config {
        max_sessions,
        ..Config::default()
    })
    .await
}

async fn ask_in(
    world: &World,
    session: &str,
    request_id: &str,
) -> Result<pb::StartRunResponse, RpcError> {
    let request = pb::StartRunRequest {
        time_to_live_ms: 0,
        session: session.to_owned(),
        request_id: request_id.to_owned(),
        run: Some(chain(vec![model_step("think")])),
    };
    let mut client = world.client.clone();
    let started = world.until(client.start_run(request)).await;
    Ok(started?.into_inner())
}

async fn ask(world: &World, request_id: &str) -> Result<pb::StartRunResponse, RpcError> {
    ask_in(world, "", request_id).await
}

fn check_refused(refused: Result<pb::StartRunResponse, RpcError>, limit: &str) {
    let error = refused.expect_err("there is no room");
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error}");
    assert_eq!(error.reason_name(), "OVERLOADED");
    assert_eq!(error.metadata("limit"), Some(limit));
    let delay = error.retry_delay().expect("when to come back");
    assert!((1..=10).contains(&delay.as_secs()), "{delay:?}");
}

/// A session that waits for an owner; what is in it is nothing to the store.
async fn queue(world: &World, session: &str) {
    let request = memory_pb::CreateSessionRequest {
        session: session.to_owned(),
        request_id: format!("make-{session}"),
        request_digest: vec![1; 32].into(),
        events: vec![vec![1].into(), vec![2].into()],
        last_command_seq: 2,
        header: Some(memory_pb::Header::default()),
        operation_id: format!("operation-{session}"),
        ..memory_pb::CreateSessionRequest::default()
    };
    let mut journal = world.journal.0.clone();
    let made = journal.create_session(for_tenant(request)).await;
    made.expect("a session");
}

#[tokio::test(start_paused = true)]
async fn a_full_orchestrator_refuses_new_runs_and_continues_with_those_that_it_has() {
    let world = small(2).await;
    let first = ask(&world, "first").await.expect("there is room");
    let mut attempt = world.attempt().await;
    let second = ask(&world, "second").await.expect("there is room");
    let _second = world.attempt().await;
    for _ in 0..3 {
        check_refused(ask(&world, "third").await, "session.max_owned");
    }
    assert_eq!(world.listed(10).await.len(), 2, "nothing is stored");
    assert_eq!(ask(&world, "first").await.expect("a repeat"), first);

    let cancelled = world.cancellation(&second.session);
    let mut client = world.client.clone();
    let cancelled = world.until(client.cancel_run(cancelled)).await;
    cancelled.expect("what makes room is not refused");
    world.settle().await;
    let third = ask(&world, "third").await.expect("there is room again");
    let _third = world.attempt().await;
    check_refused(ask(&world, "fourth").await, "session.max_owned");
    assert_eq!(ask(&world, "third").await.expect("a repeat"), third);
    attempt.complete(0);
    assert!(attempt.settled().await);
    let events = world.ended(&first.session).await;
    assert_eq!(count(&events, "RunCompleted"), 1);
    assert_eq!(count(&events, "AttemptContinued"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_run_in_a_session_that_sleeps_is_new_work_too() {
    let world = small(1).await;
    let session = ask(&world, "a").await.expect("there is room").session;
    world.attempt().await.complete(0);
    world.ended(&session).await;
    world.settle().await;
    let busy = ask(&world, "b").await.expect("there is room").session;
    let mut attempt = world.attempt().await;
    let before = world.journal.read(&session, 0).await.last_seq;
    check_refused(ask_in(&world, &session, "again").await, "session.max_owned");
    assert_eq!(world.journal.read(&session, 0).await.last_seq, before);
    attempt.complete(0);
    assert!(attempt.settled().await);
    world.ended(&busy).await;
    world.settle().await;

    let again = ask_in(&world, &session, "again").await;
    let again = again.expect("there is room again");
    assert_eq!(again.run, 2);
    // The owner is here, and answers.
    let active = ask_in(&world, &session, "more").await.unwrap_err();
    assert_eq!(active.reason_name(), "RUN_ACTIVE");
    world.attempt().await.complete(0);
    world.ended(&session).await;
    world.settle().await;
    ask(&world, "c").await.expect("there is room");
    let repeat = ask_in(&world, &session, "again").await;
    assert_eq!(repeat.expect("a repeat"), again);
}

/// However many ask, what is queued is counted once a second.
#[tokio::test(start_paused = true)]
async fn a_long_queue_refuses_new_runs_until_it_is_shorter() {
    let config = Config {
        max_queued: 3,
        ..Config::default()
    };
    let world = World::with_config(config).await;
    world.faults.always("ClaimSessions", Some(Fault::Refuse));
    world.pass(NEXT_QUESTION).await;
    for session in ["q-1", "q-2"] {
        queue(&world, session).await;
    }
    let accepted = ask(&world, "a").await.expect("two wait, and three may");
    queue(&world, "q-3").await;
    world.pass(Duration::from_secs(1)).await;
    let before = world.faults.calls("CountQueued");
    for _ in 0..5 {
        check_refused(ask(&world, "b").await, "session.max_queued");
    }
    assert_eq!(ask(&world, "a").await.expect("a repeat"), accepted);
    assert_eq!(world.faults.calls("CountQueued") - before, 1);
    let shorter = memory_pb::DeleteSessionRequest {
        session: "q-1".to_owned(),
    };
    let mut journal = world.journal.0.clone();
    let deleted = journal.delete_session(for_tenant(shorter)).await;
    deleted.expect("it was there");
    world.pass(Duration::from_secs(1)).await;
    ask(&world, "b").await.expect("two wait again");
}

/// A store that cannot count takes runs, or says itself that it does not.
#[tokio::test(start_paused = true)]
async fn a_queue_that_cannot_be_counted_refuses_nobody() {
    let world = small(1).await;
    world.faults.always("CountQueued", Some(Fault::Refuse));
    ask(&world, "a").await.expect("there is room");
}

#[tokio::test(start_paused = true)]
async fn a_full_orchestrator_leaves_sessions_to_others_and_hears_of_its_own() {
    let world = small(1).await;
    let session = ask(&world, "a").await.expect("there is room").session;
    let _attempt = world.attempt().await;
    world.pass(NEXT_QUESTION).await;
    queue(&world, "q").await;
    world.pass(Duration::from_secs(1)).await;
    let claimed = world.claim("o-2").await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].epoch, 1, "nobody had claimed it before");

    // A request that another orchestrator has stored.
    let cancel = Command::CancelRun(command::CancelRun {
        run: 1,
        reason: "no more".to_owned(),
    });
    let kind = EventKind::CommandReceived(event::CommandReceived {
        request_id: "elsewhere".to_owned(),
        command: cancel,
    });
    let cancel = Event {
        at: u64::try_from(world.now()).unwrap(),
        answers: 0,
        principal: None,
        kind,
    };
    let event = encode_event(&cancel, 1);
    let request = memory_pb::AppendCommandRequest {
        session: session.clone(),
        request_id: "elsewhere".to_owned(),
        request_digest: vec![1; 32].into(),
        event: event.into(),
        repeat_only: false,
        ..memory_pb::AppendCommandRequest::default()
    };
    let mut journal = world.journal.0.clone();
    let stored = journal.append_command(for_tenant(request)).await;
    stored.expect("it is stored");
    // Long before the next renewal would tell.
    world.settle().await;
    world.settle().await;
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "RunCancelled"), 1);
}

/// What came while the last place was taken.
#[tokio::test(start_paused = true)]
async fn what_was_claimed_too_many_is_given_back() {
    let world = small(1).await;
    // The first question for work waits from now on, with room for one.
    world.settle().await;
    ask(&world, "a").await.expect("there is room");
    let _attempt = world.attempt().await;
    queue(&world, "q").await;
    world.settle().await;
    let claimed = world.claim("o-2").await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].epoch, 2, "claimed, and given back");
    assert_eq!(world.listed(10).await.len(), 2);
}

/// Ends an attempt with a response of so many bytes, which the state keeps; the journal has it twice.
async fn respond(world: &World, session: &str, mut attempt: Attempt, bytes: usize) {
    let end = r#"{"complete": true, "summary": "done"}"#;
    attempt.reply(reply(0, &"r".repeat(bytes), &[("step", end)]));
    assert!(attempt.settled().await);
    world.ended(session).await;
    world.settle().await;
}

/// A world in which sessions have at most 800 KiB of state.
async fn narrow() -> World {
    World::with_config(Config {
        state_bytes: 800 << 10,
        ..Config::default()
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn sessions_with_much_state_leave_no_room_for_more_until_one_ends() {
    let world = narrow().await;
    let mut sessions = Vec::new();
    for request in ["a", "b", "c"] {
        let session = ask(&world, request).await.expect("there is room").session;
        let attempt = world.attempt().await;
        respond(&world, &session, attempt, 300 << 10).await;
        sessions.push(session);
    }
    let mut attempts = Vec::new();
    for (session, request) in sessions.iter().zip(["again-a", "again-b"]) {
        let again = ask_in(&world, session, request).await;
        assert_eq!(again.expect("there is room").run, 2);
        attempts.push(world.attempt().await);
    }
    for session in ["", &sessions[2]] {
        let refused = ask_in(&world, session, "again-c").await;
        check_refused(refused, "session.state_bytes");
    }
    world.pass(NEXT_QUESTION).await;
    queue(&world, "q").await;
    world.pass(Duration::from_secs(1)).await;
    let claimed = world.claim("o-2").await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].epoch, 1, "nobody had claimed it before");

    let first = attempts.remove(0);
    respond(&world, &sessions[0], first, 1).await;
    let again = ask_in(&world, &sessions[2], "again-c").await;
    assert_eq!(again.expect("there is room again").run, 2);
}

/// How much state a session has is known when it has been read.
#[tokio::test(start_paused = true)]
async fn a_session_that_does_not_fit_beside_others_waits_for_them() {
    let world = narrow().await;
    let large = ask(&world, "large").await.expect("there is room").session;
    let attempt = world.attempt().await;
    respond(&world, &large, attempt, 900 << 10).await;
    let small = ask(&world, "small").await.expect("there is room").session;
    let attempt = world.attempt().await;

    let request = pb::StartRunRequest {
        session: large.clone(),
        request_id: "again".to_owned(),
        run: Some(chain(vec![model_step("think")])),
        ..pb::StartRunRequest::default()
    };
    let mut client = world.client.clone();
    let again = tokio::spawn(async move { client.start_run(request).await });
    world.pass(Duration::from_secs(60)).await;
    assert!(world.other_attempts().await.is_empty());
    assert!(!again.is_finished());
    respond(&world, &small, attempt, 1).await;
    let again = world.until(again).await.expect("a task");
    assert_eq!(again.expect("it fits alone").into_inner().run, 2);
    let attempt = world.attempt().await;
    assert_eq!(attempt.start.session, large);
}
