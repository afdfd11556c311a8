//! Contexts that hold too many bytes.

use super::{attempt, compacted, unlimited};
use crate::turns::submit;
use crate::world::{World, kinds, look};
use cairn_engine::command::{ChangeContext, Command, ContextOp, SubmitTurn, TurnOptions, WhenFull};
use cairn_engine::event::{ContextCompacted, Event};
use cairn_engine::limits::{MAX_CONTEXT, MAX_EXTENSION};
use cairn_engine::message::Message;
use cairn_engine::session::RunStatus;

/// With the bytes that a message and its part count.
fn large() -> String {
    "x".repeat(MAX_EXTENSION as usize - 32)
}

/// A context of 14 MiB, in turns of a person and a model.
fn nearly_full() -> World {
    let mut world = unlimited();
    let large = large();
    for n in 0..7 {
        let message = match n % 2 {
            0 => Message::user(&*large),
            _ => Message::assistant(&*large, Vec::new()),
        };
        world.command(Command::from(ChangeContext {
            ops: vec![ContextOp::Append(message)],
            ..ChangeContext::default()
        }));
    }
    world
}

fn bytes(world: &World) -> u64 {
    let context = world.session.context("").unwrap();
    let behind = context.conversation.behind.iter();
    let behind: u64 = behind.map(|entry| entry.message.bytes()).sum();
    context.bytes + behind
}

/// The model says 1.5 MiB and calls a tool. Returns what follows from the result, or from the reply if it ends the
/// turn.
fn talk(world: &mut World) -> Vec<Event> {
    let mut events = world.reply(1, &"y".repeat(3 << 19), &[look()]);
    if world.run().status == RunStatus::Running {
        events = world.result(1, 0, "seen");
    }
    events
}

fn is_for_bytes(view: &ContextCompacted) -> bool {
    (view.tokens_before, view.tokens_after) == (0, 0)
}

#[test]
fn a_turn_that_says_too_much_is_compacted_at_once() {
    let mut world = nearly_full();
    submit(&mut world, "look");
    assert_eq!(kinds(&talk(&mut world)), ["CallFinished"]);
    let events = talk(&mut world);
    let expected = ["CallFinished", "ContextCompacted", "ContextChanged"];
    assert_eq!(kinds(&events), expected);
    let view = compacted(&events);
    assert!(is_for_bytes(view) && !view.messages.behind_mark);
    assert!(bytes(&world) <= MAX_CONTEXT / 2, "{}", bytes(&world));
    assert_eq!(attempt(&world).compacted_at, None);
    world.reply(1, "done", &[]);
    assert_eq!(world.run().status, RunStatus::Completed);
    assert_eq!(world.session, world.folded());
}

#[test]
fn a_turn_that_refuses_fails_with_the_reply_that_is_too_much() {
    let mut world = nearly_full();
    world.command(Command::from(SubmitTurn {
        message: Some(Message::user("look")),
        options: TurnOptions {
            when_full: Some(WhenFull::Refuse),
            ..TurnOptions::default()
        },
        ..SubmitTurn::default()
    }));
    assert_eq!(kinds(&talk(&mut world)), ["CallFinished"]);
    let events = talk(&mut world);
    assert_eq!(kinds(&events), ["ReplyReceived", "StepFailed", "RunFailed"]);
    assert_eq!(world.run().end.failure.clone().unwrap().reason, "LIMIT");
}

#[test]
fn what_the_turn_itself_has_said_gives_way_last() {
    let mut world = unlimited();
    submit(&mut world, "look");
    for _ in 0..10 {
        assert_eq!(kinds(&talk(&mut world)), ["CallFinished"]);
    }
    let events = talk(&mut world);
    let view = compacted(&events);
    assert!(is_for_bytes(view) && view.messages.behind_mark);
    assert_eq!(view.messages.after, 1, "the words of the person stay");
    assert!(bytes(&world) <= MAX_CONTEXT / 2, "{}", bytes(&world));
    world.reply(1, "done", &[]);
    assert_eq!(world.run().status, RunStatus::Completed);
}

#[test]
fn a_turn_fails_where_nothing_can_give_way() {
    let mut world = unlimited();
    submit(&mut world, "look");
    world.reply(1, &"x".repeat(MAX_CONTEXT as usize), &[look()]);
    let events = world.result(1, 0, "seen");
    assert_eq!(kinds(&events), ["CallFinished", "StepFailed", "RunFailed"]);
    let failure = world.run().end.failure.clone().unwrap();
    assert_eq!(failure.reason, "LIMIT");
    assert_eq!(bytes(&world), 0, "nothing of it stays");
    assert_eq!(world.session, world.folded());
}
