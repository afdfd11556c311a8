//! A request that does not fit and that no compaction helps: the run waits, and a person decides.

use super::{begin, begin_summary, extend, report_full, says, task, user};
use crate::support::{Kind, World, count, names};
use crate::turns::{rest, session};
use cairn_proto::event as wire;
use cairn_proto::event::{FullCause, WaitReason};
use cairn_proto::orchestrator as pb;
use cairn_rpc::RpcError;
use pb::turn_event::Event;
use tonic::Streaming;
use wire::settlement::{Answer, Approve, Fail, Outcome, Retry};

async fn waits(world: &World, session: &str, times: usize) {
    let look = async {
        loop {
            let events = world.journal.events(session).await;
            let waits = |kind: &Kind| matches!(kind, Kind::RunWaiting(_));
            if events.iter().filter(|event| waits(&event.kind)).count() == times {
                return;
            }
        }
    };
    world.until(look).await;
}

/// A turn that waits because its first request does not fit.
async fn waiting(world: &World, session: &str) -> Streaming<pb::SubmitTurnResponse> {
    let (stream, mut attempt) = begin(world, session).await;
    attempt.report_full(5_000, 4_000);
    world.until(attempt.dropped()).await;
    waits(world, session, 1).await;
    stream
}

/// The only open question.
async fn pending(world: &World, session: &str) -> pb::Pending {
    let request = pb::ListPendingRequest {
        session: session.to_owned(),
        ..pb::ListPendingRequest::default()
    };
    let answer = world.client.clone().list_pending(request).await;
    let mut pending = answer.expect("a list").into_inner().pending;
    assert_eq!(pending.len(), 1, "{pending:?}");
    pending.remove(0)
}

async fn decide(world: &World, session: &str, id: &str, outcome: Outcome) -> Result<(), RpcError> {
    let decide = pb::DecideRequest {
        session: session.to_owned(),
        pending_id: id.to_owned(),
        settlement: Some(wire::Settlement {
            outcome: Some(outcome),
        }),
        request_id: world.request_id(),
    };
    let mut client = world.client.clone();
    let decided = world.until(client.decide(decide)).await;
    decided
        .map(drop)
        .map_err(|status| RpcError::from_status(&status))
}

fn answer(text: &str) -> Outcome {
    Outcome::Answer(Answer {
        text: text.to_owned(),
    })
}

#[tokio::test(start_paused = true)]
async fn a_person_is_asked_and_has_it_tried_again() {
    let world = World::new().await;
    let session = session(&world).await;
    let mut stream = waiting(&world, &session).await;
    let run = world.run(&session).await;
    assert_eq!(
        (run.status(), run.wait_reason()),
        (pb::RunStatus::Waiting, WaitReason::Context)
    );
    assert_eq!(world.status(&session).await, pb::SessionStatus::Waiting);
    assert!(world.other_attempts().await.is_empty());
    let asked = pending(&world, &session).await;
    assert_eq!((asked.reason(), asked.run), (WaitReason::Context, 1));
    assert_eq!(asked.cause(), FullCause::NothingToCompact);
    assert_eq!((asked.tokens, asked.window_tokens), (5_000, 4_000));
    assert!(asked.id.starts_with("context-1."), "{}", asked.id);
    assert!(asked.step > 0 && asked.failure.is_none(), "{asked:?}");
    let request = pb::ListSessionsRequest {
        filter: Some(pb::SessionFilter {
            pending: vec![WaitReason::Context.into()],
            ..pb::SessionFilter::default()
        }),
        ..pb::ListSessionsRequest::default()
    };
    let found = world.client.clone().list_sessions(request).await;
    assert_eq!(found.expect("a page").into_inner().sessions.len(), 1);

    let wrong = decide(&world, &session, &asked.id, Outcome::Approve(Approve {})).await;
    let error = wrong.expect_err("it is no approval");
    assert_eq!(error.reason_name(), "BAD_SETTLEMENT");
    let retried = decide(&world, &session, &asked.id, Outcome::Retry(Retry {})).await;
    retried.expect("it is tried again");
    let mut attempt = world.attempt().await;
    says(&mut attempt, "Good day.");
    let (events, _) = rest(&world, &mut stream).await.expect("an end");
    let is_waiting = |event: &Event| match event {
        Event::Waiting(waiting) => waiting.reason() == WaitReason::Context,
        _ => false,
    };
    assert!(events.iter().any(is_waiting), "{events:?}");
    let resumed = events
        .iter()
        .any(|event| matches!(event, Event::Resumed(_)));
    assert!(
        resumed && matches!(events.last(), Some(Event::Complete(_))),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_person_gives_up() {
    let world = World::new().await;
    let session = session(&world).await;
    let mut stream = waiting(&world, &session).await;
    let asked = pending(&world, &session).await;
    let reason = "it is too long".to_owned();
    let failed = decide(&world, &session, &asked.id, Outcome::Fail(Fail { reason })).await;
    failed.expect("it fails");
    let (events, _) = rest(&world, &mut stream).await.expect("an end");
    let Some(Event::Error(error)) = events.last() else {
        panic!("{events:?}");
    };
    let failure = error.failure.as_ref().expect("a failure");
    assert_eq!(failure.reason, "CONTEXT_FULL");
    assert!(
        failure.message.contains("it is too long"),
        "{}",
        failure.message
    );
    let again = decide(&world, &session, &asked.id, Outcome::Retry(Retry {})).await;
    again.expect_err("it is decided");
}

/// A summary that is longer than what it stands for is paid, and replaces nothing. Another prompt brings a
/// better one.
#[tokio::test(start_paused = true)]
async fn a_summary_that_does_not_shrink_waits_for_another_prompt() {
    let world = World::new().await;
    let session = session(&world).await;
    let (mut stream, mut writing) = begin_summary(&world, &session).await;
    writing.summarise(&"a long story ".repeat(4_000));
    world.until(writing.dropped()).await;
    waits(&world, &session, 1).await;
    let asked = pending(&world, &session).await;
    assert_eq!(asked.cause(), FullCause::DoesNotShrink);
    let prompt = answer("In one line.");
    let answered = decide(&world, &session, &asked.id, prompt).await;
    answered.expect("another prompt");
    let mut attempt = world.attempt().await;
    assert_eq!(attempt.start.summary, None);
    assert_eq!(
        attempt.conversation().incremental.len(),
        40,
        "nothing was replaced"
    );
    report_full(&mut attempt);
    let mut writing = world.attempt().await;
    assert_eq!(task(&writing).prompt, "In one line.");
    writing.summarise("It is long.");
    let mut attempt = world.attempt().await;
    says(&mut attempt, "Good day.");
    let (events, _) = rest(&world, &mut stream).await.expect("an end");
    let Some(Event::Complete(complete)) = events.last() else {
        panic!("{events:?}");
    };
    let usage = complete.usage.expect("the usage");
    assert_eq!((usage.input_tokens, usage.model_calls), (85, 3));
    assert_eq!(world.run(&session).await.usage, complete.usage);
}

/// Each time that it does not fit has a question of its own.
#[tokio::test(start_paused = true)]
async fn a_model_that_writes_no_summary_is_a_cause_with_its_failure() {
    let world = World::new().await;
    let session = session(&world).await;
    let (_stream, mut writing) = begin_summary(&world, &session).await;
    writing.write_no_summary();
    waits(&world, &session, 1).await;
    let first = pending(&world, &session).await;
    assert_eq!(first.cause(), FullCause::NoSummary);
    let failure = first.failure.as_ref().expect("why there is none");
    assert_eq!(failure.message, "the model is silent");
    let retried = decide(&world, &session, &first.id, Outcome::Retry(Retry {})).await;
    retried.expect("it is tried again");
    let mut attempt = world.attempt().await;
    report_full(&mut attempt);
    let mut writing = world.attempt().await;
    writing.write_no_summary();
    waits(&world, &session, 2).await;
    let second = pending(&world, &session).await;
    assert_ne!(first.id, second.id);
    let old = decide(&world, &session, &first.id, Outcome::Retry(Retry {})).await;
    assert_eq!(old.expect_err("it is decided").reason_name(), "NOT_PENDING");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_context_lets_the_turn_continue() {
    let world = World::new().await;
    let session = session(&world).await;
    extend(&world, &session, vec![user("old")]).await;
    let mut stream = waiting(&world, &session).await;
    let clear = pb::ClearMessagesRequest {
        session: session.clone(),
        request_id: world.request_id(),
        ..pb::ClearMessagesRequest::default()
    };
    let mut contexts = world.contexts.clone();
    let cleared = world.until(contexts.clear_messages(clear)).await;
    cleared.expect("the turn waits, so it is cleared");
    let mut attempt = world.attempt().await;
    assert!(attempt.conversation().incremental.is_empty());
    says(&mut attempt, "Good day.");
    let (events, _) = rest(&world, &mut stream).await.expect("an end");
    assert!(
        matches!(events.last(), Some(Event::Complete(_))),
        "{events:?}"
    );
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "RunResumed"), 1, "{:?}", names(&events));
    assert_eq!(count(&events, "Decided"), 0);
}
