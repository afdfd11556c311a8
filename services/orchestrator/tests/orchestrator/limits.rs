//! What is too much for a reply, a transition or a journal.

use crate::support::{
    Attempt, Held, Kind, World, chain, count, goal, graph, model_step, names, reply, tool_step,
};
use cairn_engine::command::Command;
use cairn_engine::event::Event;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_memory::port::Limits;
use cairn_proto::event as wire;
use cairn_proto::memory as memory_pb;
use cairn_proto::orchestrator as pb;
use cairn_rpc::RpcError;

fn failure_of(events: &[Event]) -> &Failure {
    match events.last().map(|event| &event.kind) {
        Some(Kind::RunFailed(failed)) => &failed.failure,
        _ => panic!("{:?}", names(events)),
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_with_too_many_calls_fails_the_step_and_is_paid_for() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("think")])).await;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "", &[("effectful", "{}"); 65]));
    assert!(attempt.settled().await);
    let events = world.ended(&session).await;
    assert_eq!(failure_of(&events).reason, "too_many_calls");
    assert!(failure_of(&events).message.contains("at most 64"));
    assert_eq!(count(&events, "CallIntended"), 0);
    let run = world.run(&session).await;
    assert_eq!(run.usage.unwrap().model_calls, 1);
}

#[tokio::test(start_paused = true)]
async fn a_reply_with_as_many_calls_as_are_allowed_is_taken() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("think")])).await;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "", &[("effectful", "{}"); 64]));
    assert_eq!(attempt.ack().await.permitted_calls.len(), 64);
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "CallIntended"), 64);
}

/// Eight attempts whose replies of 102 events each wait for a transition that is held.
async fn planning(world: &World) -> (String, Vec<Attempt>, Held) {
    let steps = (0..8).map(|_| model_step("plan")).collect();
    let session = world.start(graph(steps)).await;
    let mut attempts = Vec::new();
    for _ in 0..8 {
        attempts.push(world.attempt().await);
    }
    let mut held = world.faults.hold("Commit");
    attempts[0].reply(reply(0, "first", &[]));
    held.reached().await;
    let goals: Vec<_> = (0..100).map(|goal| format!("\"g{goal}\"")).collect();
    let plan = format!("{{\"plan\": [{}]}}", goals.join(","));
    for (turn, attempt) in [1, 0, 0, 0, 0, 0, 0, 0].into_iter().zip(&mut attempts) {
        attempt.reply(reply(turn, "", &[("step", &plan)]));
    }
    world.settle().await;
    (session, attempts, held)
}

/// What arrives together is written in transitions that the store takes, and each attempt is told
/// of no more than is durable.
#[tokio::test(start_paused = true)]
async fn what_arrives_together_is_written_in_transitions_of_bounded_size() {
    let world = World::new().await;
    let (session, mut attempts, held) = planning(&world).await;
    let before = world.journal.read(&session, 0).await.last_seq;
    let mut second = world.faults.hold("Commit");
    held.release();
    world.until(second.reached()).await;
    let mut third = world.faults.hold("Commit");
    second.release();
    world.until(third.reached()).await;
    let after = world.journal.read(&session, 0).await.last_seq;
    // The placements of the eight attempts come with the first report.
    let placed = 8;
    let written = after - before - placed;
    assert_eq!(written, 2 + 6 * 102, "six replies join the second");
    let reported = attempts.iter_mut().filter_map(|attempt| attempt.received());
    assert_eq!(reported.count(), 6, "of which six are told");
    third.release();
    world.settle().await;
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "SubGoalAdded"), 800);
}

/// Six replies fill a transition, and two more have arrived.
#[tokio::test(start_paused = true)]
async fn a_command_waits_for_one_full_transition_at_most() {
    let world = World::new().await;
    let (session, _attempts, held) = planning(&world).await;
    let (mut client, request) = (world.client.clone(), world.cancellation(&session));
    let cancelled = tokio::spawn(async move { client.cancel_run(request).await });
    let is_cancel = |kind: &Kind| match kind {
        Kind::CommandReceived(received) => matches!(received.command, Command::CancelRun(_)),
        _ => false,
    };
    world.seen(&session, is_cancel).await;
    held.release();
    let cancelled = world.until(cancelled).await.expect("an answer");
    cancelled.expect("it is cancelled");
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "RunCancelled"), 1);
    assert_eq!(count(&events, "SubGoalAdded"), 600);
}

/// As small as makes sense, to be reached soon.
fn small() -> Limits {
    Limits {
        journal_events: 20,
        ..Limits::default()
    }
}

/// The run ends with the limit's name; nobody has to claim the session again and again.
#[tokio::test(start_paused = true)]
async fn a_full_journal_ends_the_run() {
    let world = World::with_limits(small()).await;
    let session = world
        .start(graph(vec![model_step("a"), model_step("b")]))
        .await;
    let (mut acting, mut talking) = (world.attempt().await, world.attempt().await);
    acting.reply(reply(0, "", &[("effectful", "{}")]));
    acting.ack().await;
    for turn in 0..4 {
        talking.reply(reply(turn, "hm", &[]));
        talking.ack().await;
    }
    talking.reply(reply(4, "too much", &[]));
    assert!(talking.settled().await);
    acting.dropped().await;
    let events = world.ended(&session).await;
    let failure = failure_of(&events);
    assert_eq!(failure.kind, FailureKind::LimitExceeded);
    assert_eq!(failure.reason, "journal_events");
    assert!(failure.message.contains("at most 20"), "{failure}");
    assert_eq!(count(&events, "ReplyReceived"), 5);
    let ends = ["CallInDoubt", "StepFailed", "StepFailed", "RunFailed"];
    assert_eq!(names(&events)[20..], ends);
    assert_eq!(world.status(&session).await, pb::SessionStatus::Idle);
    assert!(world.claim("o-2").await.is_empty());

    let request = pb::StartRunRequest {
        session: session.clone(),
        request_id: world.request_id(),
        run: Some(goal("another")),
        ..pb::StartRunRequest::default()
    };
    let mut client = world.client.clone();
    let refused = world.until(client.start_run(request)).await.unwrap_err();
    let refused = RpcError::from_status(&refused);
    assert_eq!(refused.reason_name(), "LIMIT");
    for part in ["at most 20", "cairn context export"] {
        assert!(refused.to_string().contains(part), "{refused}");
    }
    assert!(world.claim("o-2").await.is_empty());
}

/// A turn to its end: how full the journal was when the model was asked, and how full the end says it is.
async fn turn(world: &World, session: &str, text: &str) -> (u32, u32) {
    let part = wire::part::Part::Text(text.to_owned());
    let message = wire::Message {
        role: wire::Role::User.into(),
        parts: vec![part.into()],
    };
    let submit = pb::SubmitTurnRequest {
        session: session.to_owned(),
        request_id: world.request_id(),
        turn: Some(wire::SubmitTurn {
            message: Some(message),
            ..wire::SubmitTurn::default()
        }),
        ..pb::SubmitTurnRequest::default()
    };
    let mut client = world.client.clone();
    let submitted = world.until(client.submit_turn(submit)).await;
    let mut responses = submitted.expect("a turn").into_inner();
    let mut attempt = world.attempt().await;
    let before = world.journal.read(session, 0).await.journal_permille;
    attempt.reply(reply(0, "hi", &[]));
    loop {
        let response = world.until(responses.message()).await.expect("no error");
        for event in response.expect("the end").events {
            if let Some(pb::turn_event::Event::Complete(complete)) = event.event {
                return (before, complete.journal_permille);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_turn_says_when_the_journal_is_nearly_full() {
    let limits = Limits {
        journal_bytes: 200_000,
        ..Limits::default()
    };
    let world = World::with_limits(limits).await;
    let create = pb::CreateSessionRequest {
        request_id: world.request_id(),
        ..pb::CreateSessionRequest::default()
    };
    let created = world.client.clone().create_session(create).await;
    let session = created.expect("a session").into_inner().session;
    let long = "x".repeat(60_000);
    let mut told = Vec::new();
    for text in ["hello", long.as_str(), long.as_str(), long.as_str()] {
        let (before, said) = turn(&world, &session, text).await;
        assert_eq!(said, if before >= 900 { before } else { 0 });
        told.push(said > 0);
    }
    assert_eq!(told, [false, false, false, true]);
    let asked = pb::GetSessionRequest { session };
    let found = world.client.clone().get_session(asked).await;
    let found = found.expect("a session").into_inner().session;
    assert!(found.expect("its state").journal_permille >= 900);
}

/// To take back what was allowed adds nothing: a full journal has room for it.
#[tokio::test(start_paused = true)]
async fn an_approval_is_revoked_in_a_full_journal() {
    let world = World::with_limits(small()).await;
    let session = world.start(chain(vec![tool_step("approved")])).await;
    let mut client = world.client.clone();
    let request = pb::ListPendingRequest {
        session: session.clone(),
        ..pb::ListPendingRequest::default()
    };
    let pending = client.list_pending(request).await.unwrap().into_inner();
    let always = wire::settlement::ApproveAlways::default();
    let decide = pb::DecideRequest {
        session: session.clone(),
        pending_id: pending.pending[0].id.clone(),
        settlement: Some(wire::Settlement {
            outcome: Some(wire::settlement::Outcome::ApproveAlways(always)),
        }),
        request_id: world.request_id(),
    };
    world.until(client.decide(decide)).await.unwrap();
    while world.journal.read(&session, 0).await.last_seq < small().journal_events {
        let rename = pb::RenameSessionRequest {
            session: session.clone(),
            title: "another title".to_owned(),
            request_id: world.request_id(),
        };
        world.until(client.rename_session(rename)).await.unwrap();
    }
    let revoke = pb::RevokeApprovalRequest {
        session: session.clone(),
        grant: 1,
        request_id: world.request_id(),
    };
    world.until(client.revoke_approval(revoke)).await.unwrap();
    let events = world.journal.events(&session).await;
    assert_eq!(names(&events).last().unwrap(), "ApprovalRevoked");
    assert_eq!(count(&events, "RunFailed"), 0);
}

/// Without room for the end there is nothing to be done.
#[tokio::test(start_paused = true)]
async fn a_journal_without_a_reserve_stops_its_owner() {
    let limits = Limits {
        reserve_events: 0,
        ..small()
    };
    let world = World::with_limits(limits).await;
    let session = world.start(chain(vec![model_step("a")])).await;
    let mut attempt = world.attempt().await;
    // Each reply is followed by the word to continue. The placement comes with the first.
    let turns = (18 - u32::try_from(world.journal.events(&session).await.len()).unwrap()) / 2;
    for turn in 0..turns {
        attempt.reply(reply(turn, "hm", &[]));
        attempt.ack().await;
    }
    let before = world.faults.calls("Commit");
    attempt.reply(reply(turns, "too much", &[]));
    attempt.dropped().await;
    assert_eq!(world.faults.calls("Commit"), before + 2);
    assert_eq!(world.journal.events(&session).await.len(), 19);
}

/// Somebody else wrote in the owner's name: what it knows is not what the journal holds.
#[tokio::test(start_paused = true)]
async fn an_owner_whose_picture_is_wrong_says_so() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("think")])).await;
    let mut attempt = world.attempt().await;
    let request = pb::WatchSessionRequest {
        session: session.clone(),
        after_seq: 0,
        with_deltas: false,
    };
    let watch = world.client.clone().watch_session(request).await;
    let mut watch = watch.unwrap().into_inner();
    let seen_seq = world.journal.read(&session, 0).await.last_seq;
    let commit = memory_pb::CommitRequest {
        session: session.clone(),
        owner: "o-1".to_owned(),
        epoch: 1,
        version: 0,
        operation_id: "another".to_owned(),
        seen_seq,
        header: Some(memory_pb::Header {
            status: memory_pb::SessionStatus::Running.into(),
            handled_through: 2,
            title: String::new(),
            ..memory_pb::Header::default()
        }),
        lease_change: memory_pb::LeaseChange::Renew.into(),
        lease_ms: 15_000,
        ..memory_pb::CommitRequest::default()
    };
    world.journal.commit(commit).await;
    attempt.reply(reply(0, "hm", &[]));
    let error = world
        .until(async {
            loop {
                match watch.message().await {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("the watch ended"),
                    Err(status) => return RpcError::from_status(&status),
                }
            }
        })
        .await;
    assert_eq!(error.reason_name(), "CONFLICT");
    let usage = world.run(&session).await.usage;
    assert_eq!(usage, Some(wire::Usage::default()));
}
