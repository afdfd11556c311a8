//! Turns that fail or are cancelled, and keep a part of their messages by a number in the middle. No decision ends a
//! turn so, and the fold takes such an end: these events are made by hand.

use crate::turns::{sent, submit};
use crate::world::{World, fold, look, send};
use cairn_engine::event::{EventKind, MemorySet, RunCancelled, RunFailed, StepFailed, StepSkipped};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::Message;
use cairn_engine::session::{MAIN, Notice, RunStatus};

fn colour(world: &mut World, value: &str) {
    world.foreign(EventKind::MemorySet(MemorySet {
        key: "colour".to_owned(),
        value: value.to_owned(),
        writer: None,
        metadata: Default::default(),
    }));
}

/// A turn with three replies. Its model was reminded of the colour red before the second one, and of green before
/// the last one.
fn acting() -> World {
    let mut world = World::new();
    submit(&mut world, "send it");
    world.reply(1, "I send.", &[send()]);
    colour(&mut world, "red");
    world.result(1, 0, "sent");
    world.reply(1, "I look.", &[look()]);
    colour(&mut world, "green");
    world.result(1, 0, "seen");
    world.reply(1, "I look again.", &[look()]);
    world.result(1, 0, "seen again");
    world
}

/// The last events of the run.
fn end(world: &World, status: RunStatus, kept_through: u32) -> [EventKind; 2] {
    let attempt = world.attempt(1);
    let failure = Failure::new(FailureKind::Llm, "Server", "the model is gone");
    let reason = "no more".to_owned();
    match status {
        RunStatus::Failed => [
            EventKind::StepFailed(StepFailed {
                attempt,
                failure: failure.clone(),
            }),
            EventKind::RunFailed(RunFailed {
                run: attempt.run,
                failure,
                usage: None,
                duration_ms: 0,
                kept_through,
                results: Vec::new(),
            }),
        ],
        _ => [
            EventKind::StepSkipped(StepSkipped {
                run: attempt.run,
                step: attempt.step,
                reason: reason.clone(),
                by_person: false,
                hook: String::new(),
            }),
            EventKind::RunCancelled(RunCancelled {
                run: attempt.run,
                reason,
                kept_through,
                results: Vec::new(),
            }),
        ],
    }
}

/// The colours that messages tell, oldest first.
fn colours(messages: &[String]) -> Vec<&str> {
    let lines = messages.iter().flat_map(|text| text.lines());
    lines
        .filter_map(|line| line.strip_prefix("colour: "))
        .collect()
}

#[test]
fn a_turn_that_ends_early_keeps_the_messages_that_its_end_names() {
    for status in [RunStatus::Failed, RunStatus::Cancelled] {
        let mut world = acting();
        let context = world.session.context(MAIN).unwrap();
        let version = context.version;
        let (behind, last_number) = (
            context.conversation.behind.clone(),
            context.conversation.last_number,
        );
        let texts: Vec<String> = behind.iter().map(|entry| entry.message.text()).collect();
        let cut = texts.iter().position(|text| text == "I look.").unwrap();
        assert_eq!(colours(&texts[..cut]), ["red"], "{texts:?}");
        assert_eq!(colours(&texts[cut..]), ["green"], "{texts:?}");
        let kept = &behind[..cut];
        for kind in end(&world, status, kept[cut - 1].number) {
            world.foreign(kind);
        }

        assert_eq!(world.run().status, status);
        let context = world.session.context(MAIN).unwrap();
        let conversation = &context.conversation;
        assert_eq!(conversation.incremental, kept);
        assert!(conversation.behind.is_empty());
        assert_eq!(conversation.last_number, last_number, "none is given twice");
        assert_eq!(context.version, version + 1);
        let bytes: u64 = context.messages().map(Message::bytes).sum();
        assert_eq!(context.bytes, bytes);
        assert_eq!(world.session, world.folded());
        let (last, before) = world.journal.split_last().unwrap();
        let mut followed = fold(before);
        let noted = followed.apply_noting(followed.seq + 1, last).unwrap();
        let added = kept.iter().map(|entry| Message::clone(&entry.message));
        let added: Vec<_> = added.map(Notice::Appended).collect();
        assert_eq!(noted.len(), 1);
        assert_eq!(noted[0].notices, added);

        // What was cut is not known any more: the next turn is reminded of it again, and of what is kept not.
        submit(&mut world, "and now?");
        assert_eq!(colours(&sent(&world)), ["red", "green"]);
        world.reply(1, "well", &[]);
        assert_eq!(world.session, world.folded());
    }
}
