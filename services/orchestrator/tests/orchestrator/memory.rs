//! Session memory that a client writes while a run is under way.

use crate::support::{Attempt, World, chain, for_tenant, graph, model_step, reply};
use crate::turns::{self, rest, submit, turn};
use cairn_orchestrator::Config;
use cairn_proto::event as wire;
use cairn_proto::event::op::Op;
use cairn_proto::event::part::Part;
use cairn_proto::executor::Reply;
use cairn_proto::memory::SetMemoryRequest;
use cairn_proto::orchestrator as pb;
use cairn_rpc::RpcError;
use std::time::Duration;

async fn set(world: &World, session: &str, key: &str, value: &str) {
    let request = SetMemoryRequest {
        session: session.to_owned(),
        key: key.to_owned(),
        value: value.to_owned(),
        metadata: Default::default(),
    };
    let set = world.memory.clone().set_memory(for_tenant(request)).await;
    set.expect("memory is set");
}

/// The reminders that come with the acknowledgement of the last report.
async fn reminders(attempt: &mut Attempt, number: u64) -> Vec<String> {
    let ack = attempt.ack().await;
    assert_eq!(ack.through_number, number);
    let ops = ack.ops.into_iter().filter_map(|op| match op.op {
        Some(Op::Remind(reminder)) => Some(reminder.text),
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

/// A turn that ends with a reply to all that its model was sent.
async fn take_turn(world: &World, session: &str) {
    let submitted = submit(world, turn(world, session)).await;
    let mut stream = submitted.expect("a turn");
    let mut attempt = world.attempt().await;
    let ops = attempt.start.ops.len() as u64;
    attempt.reply(Reply {
        ops_through: attempt.start.ops_through + ops,
        ..reply(0, "good day", &[])
    });
    rest(world, &mut stream).await.expect("an end");
}

/// A client that shows a conversation need not guess which texts the person wrote.
#[tokio::test(start_paused = true)]
async fn a_reminder_is_listed_with_its_mark() {
    let world = World::new().await;
    let session = turns::session(&world).await;
    take_turn(&world, &session).await;
    set(&world, &session, "tone", "dry").await;
    take_turn(&world, &session).await;
    let request = pb::ListMessagesRequest {
        session,
        ..pb::ListMessagesRequest::default()
    };
    let listed = world.contexts.clone().list_messages(request).await;
    let messages = listed.expect("a page").into_inner().messages;
    let asked = messages[2].message.as_ref().expect("a message");
    let [said, reminder] = &asked.parts[..] else {
        panic!("{messages:?}");
    };
    assert_eq!(said.said(), Some("hello"));
    assert!(reminder.synthetic && !reminder.workspace, "{reminder:?}");
    let Some(Part::Text(text)) = &reminder.part else {
        panic!("{reminder:?}");
    };
    assert!(text.contains("tone: dry"), "{text}");
    assert_eq!(reminder.said(), None);
}

/// The state is read again when a report contradicts it, and has then what a client wrote meanwhile.
#[tokio::test(start_paused = true)]
async fn what_was_written_before_another_report_was_dropped_comes_too() {
    let world = World::new().await;
    let steps = vec![model_step("one"), model_step("two")];
    let session = world.start(graph(steps)).await;
    let (mut good, mut bad) = (world.attempt().await, world.attempt().await);
    // The two reports after this one join one transition.
    let mut held = world.faults.hold_answer("Commit");
    bad.reply(reply(0, "begun", &[]));
    held.reached().await;
    set(&world, &session, "a", "while models think").await;
    good.reply(reply(0, "", &[("pure", "{}")]));
    world.settle().await;
    // It skips a turn.
    bad.reply(reply(7, "nonsense", &[]));
    world.settle().await;
    held.release();
    let said = reminders(&mut good, 1).await;
    assert!(
        said.len() == 1 && said[0].contains("while models think"),
        "{said:?}"
    );
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

/// However many steps ask models, the state has the text of session memory once.
#[tokio::test(start_paused = true)]
async fn conversations_share_the_text_of_session_memory() {
    let world = narrow(1000).await;
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
    // With a copy for each step, the state would have more than 900 KiB.
    let another = start(&world, "", chain(vec![model_step("one")]));
    let started = world.until(client.start_run(another)).await;
    started.expect("there is room for another session");
}

/// A session of 180 KiB is at work, and has as much again with the text that its model was sent. One of 720 KiB
/// is to begin a run. It does not fit beside the other: it is given back, and waits.
#[tokio::test(start_paused = true)]
async fn a_claimed_session_that_does_not_fit_beside_others_waits() {
    let world = narrow(1000).await;
    let (first, second) = (filled(&world, 180).await, filled(&world, 720).await);
    let mut client = world.client.clone();
    let started = client.start_run(start(&world, &first, chain(vec![model_step("two")])));
    world.until(started).await.expect("there is room");
    let mut attempt = world.attempt().await;

    let request = start(&world, &second, chain(vec![model_step("two")]));
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

/// An owner that another one follows sends the same words.
#[tokio::test(start_paused = true)]
async fn a_continued_attempt_gets_the_reminders_of_its_journal() {
    let world = World::new().await;
    let session = world.start(chain(vec![model_step("one")])).await;
    let mut attempt = world.attempt().await;
    set(&world, &session, "a", "while the model thinks").await;
    attempt.reply(reply(0, "", &[("pure", "{}")]));
    let said = reminders(&mut attempt, 1).await;
    attempt.break_with(RpcError::unavailable("the executor stops").into());
    let again = world.attempt().await;
    let ops = again.start.ops.into_iter().filter_map(|op| match op.op {
        Some(Op::Remind(reminder)) => Some(reminder.text),
        _ => None,
    });
    assert_eq!(ops.collect::<Vec<_>>(), said);
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
