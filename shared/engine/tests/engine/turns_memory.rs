//! Session memory in the requests of a context, whose messages change between its turns.

use crate::turns::{sent, turn};
use crate::world::World;
use cairn_engine::command::{
    BridgeContext, ChangeContext, Command, ContextOp, CreateContext, SubmitTurn,
};
use cairn_engine::event::{EventKind, MemorySet};
use cairn_engine::message::{Message, Role};

const SIDE: &str = "side";

/// A context whose system prompt has the colour blue, of which it was reminded that it is red.
fn reminded(window: Option<u32>) -> World {
    let mut world = World::new();
    colour(&mut world, "blue");
    world.command(Command::from(CreateContext {
        name: SIDE.to_owned(),
        window,
        ..CreateContext::default()
    }));
    assert_eq!(colours(&mut world, "one"), [""; 0]);
    colour(&mut world, "red");
    assert_eq!(colours(&mut world, "two"), ["red"]);
    world
}

fn colour(world: &mut World, value: &str) {
    world.foreign(EventKind::MemorySet(MemorySet {
        key: "colour".to_owned(),
        value: value.to_owned(),
        writer: None,
        metadata: Default::default(),
    }));
}

/// The colours that the messages of a turn report to its model, oldest first.
fn colours(world: &mut World, text: &str) -> Vec<String> {
    world.command(Command::from(SubmitTurn {
        context: SIDE.to_owned(),
        ..turn(text)
    }));
    let messages = sent(world);
    world.reply(1, "well", &[]);
    let words = messages.iter().flat_map(|text| text.lines());
    let colours = words.filter_map(|line| line.strip_prefix("colour: "));
    colours.map(str::to_owned).collect()
}

fn change(world: &mut World, op: ContextOp) {
    world.command(Command::from(ChangeContext {
        context: SIDE.to_owned(),
        ops: vec![op],
        ..ChangeContext::default()
    }));
}

#[test]
fn a_reminder_that_has_left_the_window_is_repeated() {
    let mut world = reminded(Some(2));
    for _ in 0..4 {
        let seen = colours(&mut world, "next");
        assert_eq!(seen.last().map(String::as_str), Some("red"), "{seen:?}");
    }
}

#[test]
fn a_reminder_that_was_taken_out_is_repeated() {
    let replaced = ContextOp::Update {
        index: 2,
        message: Message::user("other"),
    };
    for ops in [
        vec![ContextOp::Clear],
        vec![ContextOp::Pop, ContextOp::Pop],
        vec![ContextOp::Remove { index: 2 }],
        vec![ContextOp::Retain(Role::Assistant)],
        vec![replaced],
    ] {
        let mut world = reminded(None);
        for op in ops.clone() {
            change(&mut world, op);
        }
        assert_eq!(colours(&mut world, "three"), ["red"], "{ops:?}");
    }
}

#[test]
fn a_reminder_that_is_sent_is_not_repeated() {
    let mut world = reminded(None);
    assert_eq!(colours(&mut world, "three"), ["red"]);
    change(&mut world, ContextOp::Pop);
    assert_eq!(colours(&mut world, "four"), ["red"]);
}

#[test]
fn an_older_reminder_does_not_count_as_the_newest() {
    let mut world = reminded(None);
    colour(&mut world, "blue");
    assert_eq!(colours(&mut world, "three"), ["red", "blue"]);
    change(&mut world, ContextOp::Remove { index: 4 });
    assert_eq!(colours(&mut world, "four"), ["red", "blue"]);
    world.command(Command::from(BridgeContext {
        from: "main".to_owned(),
        to: SIDE.to_owned(),
        values: vec![("colour".to_owned(), "green".to_owned())],
    }));
    let seen = colours(&mut world, "five");
    assert_eq!(seen.last().map(String::as_str), Some("green"), "{seen:?}");
}
