//! Session memory that a client writes while a run is under way.

use crate::support::{
    Attempt, Fault, World, chain, count, for_tenant, graph, model_step, reply, tool_step,
};
use cairn_orchestrator::Config;
use cairn_proto::event as wire;
use cairn_proto::event::op::Op;
use cairn_proto::memory::SetMemoryRequest;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, RpcError};
use std::time::Duration;

async fn set(world: &World, session: &str, key: &str, value: &str) {
    let request = SetMemoryRequest {
        session: session.to_owned(),
        key: key.to_owned(),
        value: value.to_owned(),
    };
    let set = world.memory.clone().set_memory(for_tenant(request)).await;
    set.expect("memory is set");
}

/// The reminders that come with the acknowledgement of the last report.
async fn reminders(attempt: &mut Attempt, number: u64) -> Vec<String> {
    let ack = attempt.ack().await;
    assert_eq!(ack.through_number, number);
    let ops = ack.ops.into_iter().filter_map(|op| match op.op {
        Some(Op::Remind(layer)) => Some(layer.text),
        _ => None,
    });
    ops.collect()
}

/// An acknowledgement lets the executor ask the model.
#[tokio::test(start_paused = true)]
async fn what_was_written_before_an_acknowledgement_comes_with_it() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("one")])).await;
    let mut attempt = world.attempt().await;
    // The result of a pure call may wait for the next reply, so the reminder may not.
    set(&world, &session, "a", "while the model thinks").await;
    attempt.reply(reply(0, "", &[("pure", "{}")]));
    let said = reminders(&mut attempt, 1).await;
    assert!(
        said.len() == 1 && said[0].contains("while the model thinks"),
        "{said:?}"
    );
    set(&world, &session, "b", "while a call runs").await;
    attempt.report_result(0, 0, "found");
    let said = reminders(&mut attempt, 2).await;
    assert!(
        said.len() == 1 && said[0].contains("while a call runs"),
        "{said:?}"
    );
    // A model gets no reminder twice.
    attempt.reply(reply(1, "", &[("pure", "{}")]));
    assert_eq!(reminders(&mut attempt, 3).await, [""; 0]);
}

/// A world in which sessions have at most so many KiB of state.
async fn narrow(kib: usize) -> World {
    World::with_config(Config {
        state_bytes: kib << 10,
        ..Config::default()
    })
    .await
}

/// An idle session that remembers so many KiB.
async fn filled(world: &World, kib: usize) -> String {
    let session = world.start(chain(vec![model_step("one")])).await;
    for key in 0..kib / 60 {
        set(
            world,
            &session,
            &format!("key-{key}"),
            &"v".repeat(60 << 10),
        )
        .await;
    }
    let mut attempt = world.attempt().await;
    attempt.complete(0);
    assert!(attempt.settled().await);
    world.ended(&session).await;
    world.settle().await;
    session
}

fn start(world: &World, session: &str, run: wire::StartRun) -> pb::StartRunRequest {
    pb::StartRunRequest {
        session: session.to_owned(),
        request_id: world.request_id(),
        run: Some(run),
        ..pb::StartRunRequest::default()
    }
}

/// Each conversation has its own copy of session memory, which the journal has once.
#[tokio::test(start_paused = true)]
async fn copies_in_conversations_count_as_state() {
    let world = narrow(800).await;
    let session = filled(&world, 180).await;
    let steps = (0..4).map(|number| model_step(&number.to_string()));
    let run = wire::StartRun {
        limits: Some(wire::LimitOverrides {
            max_parallel_steps: 4,
            ..wire::LimitOverrides::default()
        }),
        ..graph(steps.collect())
    };
    let mut client = world.client.clone();
    let started = client.start_run(start(&world, &session, run));
    world.until(started).await.expect("there is room");
    let mut attempts = Vec::new();
    for _ in 0..4 {
        attempts.push(world.attempt().await);
    }
    let another = start(&world, "", chain(vec![model_step("one")]));
    let refused = world.until(client.start_run(another)).await;
    let error = RpcError::from_status(&refused.expect_err("there is no room"));
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted);
    assert_eq!(error.metadata("limit"), Some("session.state_bytes"));
}

/// A session of 180 KiB is at work, and one of 360 KiB, whose bytes fit beside it, is to begin a run: its
/// first step that asks a model would bring the text of session memory twice. It waits for the other.
async fn waits_for_room(run: wire::StartRun) {
    let world = narrow(1200).await;
    let (first, second) = (filled(&world, 180).await, filled(&world, 360).await);
    let mut client = world.client.clone();
    let started = client.start_run(start(&world, &first, chain(vec![model_step("two")])));
    world.until(started).await.expect("there is room");
    let mut attempt = world.attempt().await;

    let request = start(&world, &second, run);
    let waits = tokio::spawn(async move { client.start_run(request).await });
    world.pass(Duration::from_secs(60)).await;
    assert!(world.other_attempts().await.is_empty());
    assert!(!waits.is_finished());
    attempt.complete(0);
    assert!(attempt.settled().await);
    world.ended(&first).await;
    let started = world.until(waits).await.expect("a task");
    assert_eq!(started.expect("it fits alone").into_inner().run, 2);
}

#[tokio::test(start_paused = true)]
async fn a_step_has_room_for_session_memory_before_a_model_is_asked() {
    waits_for_room(chain(vec![model_step("two")])).await;
}

/// Later steps may ask a model.
#[tokio::test(start_paused = true)]
async fn a_run_has_room_for_session_memory_before_it_has_a_plan() {
    let goal = wire::StartRun {
        goal: "Plan something".to_owned(),
        ..wire::StartRun::default()
    };
    waits_for_room(goal).await;
}

#[tokio::test(start_paused = true)]
async fn a_step_after_one_that_calls_a_tool_has_room_for_session_memory() {
    waits_for_room(chain(vec![tool_step("pure"), model_step("two")])).await;
}

/// The intent of the call becomes durable with a transition whose answer brings session memory. Nobody has
/// sent the call yet: without its owner it would be in doubt.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_to_be_sent_is_not_left_for_want_of_room() {
    let world = narrow(1200).await;
    let (other, session) = (filled(&world, 180).await, filled(&world, 0).await);
    let mut client = world.client.clone();
    let started = client.start_run(start(&world, &other, chain(vec![model_step("two")])));
    world.until(started).await.expect("there is room");
    let at_work = world.attempt().await;

    world.faults.always("Commit", Some(Fault::Refuse));
    let steps = vec![tool_step("effectful"), model_step("two")];
    let request = start(&world, &session, chain(steps));
    let starting = tokio::spawn(async move { client.start_run(request).await });
    world.settle().await;
    for key in 0..6 {
        set(
            &world,
            &session,
            &format!("key-{key}"),
            &"v".repeat(60 << 10),
        )
        .await;
    }
    world.faults.always("Commit", None);
    let started = world.until(starting).await.expect("a task");
    started.expect("an answer");
    let attempt = world.attempt().await;
    assert_eq!(attempt.start.session, session);
    let events = world.journal.events(&session).await;
    assert_eq!(count(&events, "CallIntended"), 1);
    assert_eq!(count(&events, "CallInDoubt"), 0);
    drop(at_work);
}

/// Steps that ask no model have no prompts.
#[tokio::test(start_paused = true)]
async fn steps_that_only_call_tools_need_no_room_for_copies() {
    let world = narrow(1200).await;
    let (first, second) = (filled(&world, 180).await, filled(&world, 360).await);
    let mut client = world.client.clone();
    let mut attempts = Vec::new();
    for session in [first, second] {
        let run = chain(vec![tool_step("pure")]);
        let started = client.start_run(start(&world, &session, run));
        world.until(started).await.expect("there is room");
        attempts.push(world.attempt().await);
    }
}

/// The owner decides the layers of a step before it knows what a client wrote during the step before.
#[tokio::test(start_paused = true)]
async fn a_step_begins_with_what_was_written_before_it() {
    let world = World::new().await;
    let steps = vec![model_step("one"), model_step("two")];
    let session = world.start(chain(steps)).await;
    let mut first = world.attempt().await;
    set(&world, &session, "a", "while the first step works").await;
    first.complete(0);
    assert!(first.settled().await);
    let second = world.attempt().await;
    let ops = format!("{:?}", second.start.ops);
    assert!(ops.contains("while the first step works"));
}

/// As long as no slot is free, the owner has nothing to make durable.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_waited_for_a_slot_begins_with_what_was_written() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("one")])).await;
    let attempt = world.attempt().await;
    world.slots.drain(true);
    world.settle().await;
    attempt.break_with(RpcError::unavailable("the executor stops").into());
    world.settle().await;
    set(&world, &session, "a", "while the attempt waited").await;
    world.slots.drain(false);
    let attempt = world.attempt().await;
    let ops = format!("{:?}", attempt.start.ops);
    assert!(ops.contains("while the attempt waited"));
}
