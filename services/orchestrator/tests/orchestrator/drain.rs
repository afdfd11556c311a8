//! A process that ends: it begins nothing, lets what has effects end, and gives the rest away.

use crate::support::tool_step;
use crate::support::{Attempt, Fault, Kind, World, chain, count, graph, model_step, reply};
use cairn_engine::command::Command;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, RpcError};
use std::sync::Arc;
use std::time::Duration;

/// A drain under way.
pub(crate) struct Draining(tokio::task::JoinHandle<()>);

impl Draining {
    pub(crate) async fn of(world: &Arc<World>) -> Self {
        let drained = world.clone();
        let task = tokio::spawn(async move { drained.running.drain().await });
        world.settle().await;
        Self(task)
    }

    fn is_over(&self) -> bool {
        self.0.is_finished()
    }

    pub(crate) async fn over(self, world: &World) {
        world.until(self.0).await.expect("it drains");
    }
}

async fn world() -> Arc<World> {
    Arc::new(World::new().await)
}

/// A model's step in the midst of a call with side effects.
async fn calling(world: &World) -> (String, Attempt) {
    let session = world
        .start(chain(vec![model_step("act"), model_step("rest")]))
        .await;
    let mut attempt = world.attempt().await;
    attempt.reply(reply(0, "", &[("effectful", "{}")]));
    assert_eq!(attempt.ack().await.permitted_calls.len(), 1);
    (session, attempt)
}

#[tokio::test(start_paused = true)]
async fn what_has_no_effects_is_given_away_at_once() {
    let world = world().await;
    let session = world.start(chain(vec![tool_step("pure")])).await;
    let attempt = world.attempt().await;
    Draining::of(&world).await.over(&world).await;
    attempt.dropped().await;
    // Without waiting for the lease to end.
    let claims = world.claim("o-2").await;
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0].session.as_ref().unwrap().session, session);
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "CallInDoubt"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_intended_call_ends_first_and_no_other_begins() {
    let world = world().await;
    let (session, mut attempt) = calling(&world).await;
    let draining = Draining::of(&world).await;
    world.pass(Duration::from_secs(60)).await;
    assert!(!draining.is_over());
    assert!(world.claim("o-2").await.is_empty());
    attempt.report_result(0, 0, "sent");
    draining.over(&world).await;
    assert_eq!(world.claim("o-2").await.len(), 1);
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "CallFinished"), 1);
    assert!(world.other_attempts().await.is_empty());
}

/// What breaks beside it is left to the next owner.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_breaks_is_not_begun_again() {
    let world = world().await;
    let session = world
        .start(graph(vec![model_step("act"), model_step("think")]))
        .await;
    let (mut acting, thinking) = (world.attempt().await, world.attempt().await);
    acting.reply(reply(0, "", &[("effectful", "{}")]));
    acting.ack().await;
    let draining = Draining::of(&world).await;
    drop(thinking);
    world.pass(Duration::from_secs(20)).await;
    assert!(world.other_attempts().await.is_empty());
    acting.report_result(0, 0, "sent");
    draining.over(&world).await;
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "CallFinished"), 1);
}

/// The last call of a step ends; the step after it is left to the next owner.
#[tokio::test(start_paused = true)]
async fn no_step_begins() {
    let world = world().await;
    let steps = vec![tool_step("effectful"), tool_step("effectful")];
    let session = world.start(chain(steps)).await;
    let mut attempt = world.attempt().await;
    let draining = Draining::of(&world).await;
    attempt.report_result(0, 0, "sent");
    draining.over(&world).await;
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "StepCompleted"), 1);
    assert_eq!(count(&events, "StepStarted"), 1);
    assert_eq!(world.claim("o-2").await.len(), 1);
}

/// A command does not keep the owner from hearing its executor; the next owner answers it.
#[tokio::test(start_paused = true)]
async fn a_command_waits_for_the_next_owner_while_a_call_ends() {
    let world = world().await;
    let (session, mut attempt) = calling(&world).await;
    let draining = Draining::of(&world).await;
    let cancellation = world.cancellation(&session);
    let mut client = world.client.clone();
    let cancelling = tokio::spawn(async move { client.cancel_run(cancellation).await });
    let is_request = |kind: &Kind| {
        let Kind::CommandReceived(received) = kind else {
            return false;
        };
        matches!(received.command, Command::CancelRun(_))
    };
    world.seen(&session, is_request).await;
    world.settle().await;
    attempt.report_result(0, 0, "sent");
    draining.over(&world).await;
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "CallFinished"), 1);
    assert_eq!(count(&events, "RunCancelled"), 0);
    assert_eq!(world.claim("o-2").await.len(), 1);
    cancelling.abort();
}

/// An intent that is durable and could not be sent yet is sent: nobody else could know that it was
/// not.
#[tokio::test(start_paused = true)]
async fn an_intended_call_that_waits_for_a_slot_is_sent() {
    let world = world().await;
    world.slots.refuse(usize::MAX);
    let session = world.start(chain(vec![tool_step("effectful")])).await;
    world.pass(Duration::from_secs(2)).await;
    let draining = Draining::of(&world).await;
    world.pass(Duration::from_secs(20)).await;
    assert!(!draining.is_over());
    world.slots.free();
    let mut attempt = world.attempt().await;
    attempt.report_result(0, 0, "sent");
    draining.over(&world).await;
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "RunCompleted"), 1);
    assert_eq!(count(&events, "CallInDoubt"), 0);
}

/// What has arrived is kept: a reply that was paid for, say.
#[tokio::test(start_paused = true)]
async fn what_was_reported_is_kept() {
    let world = world().await;
    let session = world.start(chain(vec![model_step("think")])).await;
    let mut attempt = world.attempt().await;
    let mut held = world.faults.hold("Commit");
    attempt.reply(reply(0, "one", &[]));
    held.reached().await;
    attempt.reply(reply(1, "two", &[]));
    world.settle().await;
    let draining = Draining::of(&world).await;
    held.release();
    draining.over(&world).await;
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "ReplyReceived"), 2);
    assert_eq!(world.claim("o-2").await.len(), 1);
}

/// The store is away for a moment just when the session is given back.
#[tokio::test(start_paused = true)]
async fn a_session_is_given_back_although_the_way_fails() {
    let world = world().await;
    world.start(chain(vec![model_step("think")])).await;
    let _attempt = world.attempt().await;
    world.faults.next("ReleaseSession", Fault::Refuse, 3);
    Draining::of(&world).await.over(&world).await;
    assert_eq!(world.claim("o-2").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_claimed_any_more() {
    let world = world().await;
    Draining::of(&world).await.over(&world).await;
    let request = pb::CreateSessionRequest {
        request_id: world.request_id(),
        ..pb::CreateSessionRequest::default()
    };
    let made = world.client.clone().create_session(request).await;
    let session = made.unwrap().into_inner().session;
    let start = pb::StartRunRequest {
        session,
        request_id: world.request_id(),
        run: Some(chain(vec![model_step("think")])),
        ..pb::StartRunRequest::default()
    };
    let mut client = world.client.clone();
    let starting = tokio::spawn(async move { client.start_run(start).await });
    world.pass(Duration::from_secs(30)).await;
    assert!(world.other_attempts().await.is_empty());
    assert_eq!(world.claim("o-2").await.len(), 1);
    starting.abort();
}

/// A model's step beside a call with side effects is let go at once: its reply would begin more.
#[tokio::test(start_paused = true)]
async fn no_call_begins_beside_one_that_ends() {
    let world = world().await;
    let session = world
        .start(graph(vec![model_step("act"), model_step("think")]))
        .await;
    let (mut acting, mut thinking) = (world.attempt().await, world.attempt().await);
    acting.reply(reply(0, "", &[("effectful", "{}")]));
    acting.ack().await;
    let draining = Draining::of(&world).await;
    thinking.reply(reply(0, "", &[("effectful", "{}")]));
    assert!(world.until(thinking.rest()).await.is_empty());
    assert!(!draining.is_over());
    acting.report_result(0, 0, "sent");
    draining.over(&world).await;
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "CallIntended"), 1);
    assert_eq!(count(&events, "CallFinished"), 1);
}

/// The same if the reply has arrived before: it is kept, and its call is for the next owner.
#[tokio::test(start_paused = true)]
async fn a_reply_that_arrived_before_is_kept_and_its_call_does_not_begin() {
    let world = world().await;
    let session = world
        .start(graph(vec![model_step("act"), model_step("think")]))
        .await;
    let (mut acting, mut thinking) = (world.attempt().await, world.attempt().await);
    acting.reply(reply(0, "", &[("effectful", "{}")]));
    acting.ack().await;
    let mut held = world.faults.hold("Commit");
    thinking.reply(reply(0, "one", &[]));
    held.reached().await;
    thinking.reply(reply(1, "two", &[("effectful", "{}")]));
    world.settle().await;
    let draining = Draining::of(&world).await;
    held.release();
    let said = world.until(thinking.rest()).await;
    assert!(said.iter().all(|ack| ack.permitted_calls.is_empty()));
    assert!(!draining.is_over());
    acting.report_result(0, 0, "sent");
    draining.over(&world).await;
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "ReplyReceived"), 3);
    assert_eq!(count(&events, "CallIntended"), 1);
    assert_eq!(world.claim("o-2").await.len(), 1);
}

/// An attempt gets no acknowledgement with which it could ask the model again, however much arrives
/// from others meanwhile.
#[tokio::test(start_paused = true)]
async fn an_attempt_ends_although_others_keep_reporting() {
    let world = world().await;
    let steps = ["act", "first", "second"].map(model_step);
    let session = world.start(graph(steps.to_vec())).await;
    let mut acting = world.attempt().await;
    let (mut first, mut second) = (world.attempt().await, world.attempt().await);
    acting.reply(reply(0, "", &[("effectful", "{}")]));
    acting.ack().await;
    let mut held = world.faults.hold("Commit");
    first.reply(reply(0, "one", &[]));
    held.reached().await;
    second.reply(reply(0, "two", &[]));
    world.settle().await;
    let draining = Draining::of(&world).await;
    let mut next = world.faults.hold("Commit");
    held.release();
    world.until(next.reached()).await;
    let first = tokio::spawn(first.rest());
    world.settle().await;
    assert!(first.is_finished(), "it is kept while others report");
    assert_eq!(first.await.expect("no panic"), []);
    next.release();
    assert_eq!(world.until(second.rest()).await, []);
    acting.report_result(0, 0, "sent");
    draining.over(&world).await;
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "ReplyReceived"), 3);
    assert_eq!(world.claim("o-2").await.len(), 1);
}

/// Whatever an executor says then, the step does not fail: the next owner continues it.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_refused_while_the_process_ends_does_not_fail() {
    let refusals = [
        RpcError::missing("permitted_calls"),
        RpcError::new(ErrorKind::OutOfRange, "too large"),
        RpcError::unavailable("the executor is gone"),
    ];
    for refusal in refusals {
        let world = world().await;
        let session = world
            .start(graph(vec![model_step("act"), model_step("think")]))
            .await;
        let (mut acting, mut thinking) = (world.attempt().await, world.attempt().await);
        acting.reply(reply(0, "", &[("effectful", "{}")]));
        acting.ack().await;
        let mut held = world.faults.hold("Commit");
        thinking.reply(reply(0, "one", &[]));
        held.reached().await;
        thinking.break_with(refusal.clone().into());
        world.settle().await;
        let draining = Draining::of(&world).await;
        held.release();
        world.settle().await;
        acting.report_result(0, 0, "sent");
        draining.over(&world).await;
        let events = world.journal.events(&session).await;
        assert_eq!(count(&events, "StepFailed"), 0, "{refusal}");
        assert_eq!(count(&events, "AttemptContinued"), 0, "{refusal}");
        assert_eq!(count(&events, "CallFinished"), 1, "{refusal}");
        assert_eq!(world.claim("o-2").await.len(), 1, "{refusal}");
    }
}

/// An owner that begins while the process ends begins nothing.
#[tokio::test(start_paused = true)]
async fn a_session_made_during_a_drain_is_given_away_at_once() {
    let world = world().await;
    let mut held = world.faults.hold("CreateSession");
    let starter = world.clone();
    let starting = tokio::spawn(async move { starter.start(chain(vec![model_step("a")])).await });
    held.reached().await;
    let draining = Draining::of(&world).await;
    held.release();
    let session = starting.await.expect("it is made");
    draining.over(&world).await;
    assert!(world.other_attempts().await.is_empty());
    assert_eq!(world.claim("o-2").await.len(), 1);
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "StepStarted"), 1);
}

/// Nor does one whose session is made then; but the run is accepted.
#[tokio::test(start_paused = true)]
async fn a_session_made_afterwards_has_not_begun_its_steps() {
    let world = world().await;
    Draining::of(&world).await.over(&world).await;
    let session = world.start(chain(vec![tool_step("effectful")])).await;
    assert!(world.other_attempts().await.is_empty());
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "RunStarted"), 1);
    assert_eq!(count(&events, "StepStarted"), 0);
    assert_eq!(count(&events, "CallIntended"), 0);
    assert_eq!(world.claim("o-2").await.len(), 1);
}
