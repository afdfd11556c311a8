//! What a review found of turns and contexts.

use crate::turns::{refusal, said, say, sent, submit, turn};
use crate::world::{World, kinds, tool_call};
use cairn_engine::command::{
    BridgeContext, Command, CreateContext, DestroyContext, SubmitTurn, SwitchContext, TurnOptions,
};
use cairn_engine::conversation::LayerKind;
use cairn_engine::event::EventKind;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::Message;
use cairn_engine::session::MAIN;
use serde_json::json;

#[test]
fn a_context_whose_turn_waits_is_not_destroyed() {
    let mut world = World::new();
    let name = "side".to_owned();
    world.command(Command::from(CreateContext {
        name: name.clone(),
        ..CreateContext::default()
    }));
    let context = name.clone();
    world.command(SwitchContext { context }.into());
    submit(&mut world, "pay");
    world.reply(1, "", &[tool_call("pay", &json!({}))]);
    let destroy = Command::from(DestroyContext {
        context: name,
        ..DestroyContext::default()
    });
    assert_eq!(refusal(&world.command(destroy)), "CONTEXT_BUSY");
}

#[test]
fn a_bridge_to_a_new_context_leaves_its_system_prompt() {
    let mut world = World::new();
    let side = "side".to_owned();
    world.command(Command::from(CreateContext {
        name: side.clone(),
        ..CreateContext::default()
    }));
    world.command(Command::from(BridgeContext {
        from: side,
        to: MAIN.to_owned(),
        values: vec![("k".to_owned(), "v".to_owned())],
    }));
    let layers = &world.session.context(MAIN).unwrap().conversation;
    assert!(layers.layer(LayerKind::Prompt).is_some());
    assert!(
        layers
            .layer(LayerKind::Memory)
            .unwrap()
            .text
            .contains("k: v")
    );
    submit(&mut world, "hello");
    assert_eq!(sent(&world), ["hello"], "nothing is reminded");
    assert_eq!(world.session, world.folded());
}

#[test]
fn a_model_that_is_asked_once_is_not_steered() {
    let mut world = World::new();
    let options = TurnOptions {
        max_tool_turns: Some(0),
        ..TurnOptions::default()
    };
    world.command(Command::from(SubmitTurn {
        message: Some(Message::user("once")),
        options,
        ..SubmitTurn::default()
    }));
    assert_eq!(refusal(&say(&mut world, "more")), "NO_RUNNING_TURN");
    let events = world.reply(1, "done", &[]);
    assert_eq!(kinds(&events).last().unwrap(), "RunCompleted");
    assert_eq!(said(&world).len(), 2);
}

#[test]
fn a_turn_that_names_an_unknown_tool_is_refused() {
    for (name, is_known) in [
        ("look", true),
        ("scratchpad", true),
        ("nope", false),
        // A turn has no step.
        ("step", false),
    ] {
        let mut world = World::new();
        let options = TurnOptions {
            tools: Some(vec!["look".to_owned(), name.to_owned()]),
            ..TurnOptions::default()
        };
        let events = world.command(Command::from(SubmitTurn {
            options,
            ..turn("look")
        }));
        if is_known {
            assert_eq!(kinds(&events)[0], "RunStarted");
            continue;
        }
        assert_eq!(refusal(&events), "NO_TOOL");
        let Some(EventKind::CommandRefused(refused)) = events.last().map(|it| &it.kind) else {
            panic!("{events:?}");
        };
        let message = &refused.message;
        assert!(
            message.contains(name) && message.contains("look, "),
            "{message}"
        );
    }
}

#[test]
fn the_notes_of_a_context_are_kept_by_turns_that_complete() {
    let mut world = World::new();
    let note = |text: &str| tool_call("scratchpad", &json!({"text": text}));
    submit(&mut world, "note");
    world.reply(1, "", &[note("first")]);
    world.reply(1, "noted", &[]);
    let scratch = |world: &World| {
        let context = world.session.context(MAIN).unwrap();
        context.notes.clone()
    };
    assert!(scratch(&world).contains("first"));
    submit(&mut world, "more");
    // The notes are sent after all messages of the context, and a turn adds to them.
    let conversation = world.session.conversation(world.attempt(1)).unwrap();
    let last = conversation.messages().pop().unwrap().text();
    assert!(
        last.starts_with("<scratchpad>\n") && last.contains("first"),
        "{last}"
    );
    world.reply(1, "", &[note("second")]);
    let failure = Failure::new(FailureKind::Llm, "Server", "the model is gone");
    world.fail(1, failure);
    assert!(
        !scratch(&world).contains("second"),
        "a failed turn keeps none"
    );
    submit(&mut world, "again");
    world.reply(1, "", &[note("third")]);
    world.reply(1, "noted", &[]);
    let kept = scratch(&world);
    assert!(kept.contains("first") && kept.contains("third"), "{kept}");
    assert_eq!(world.session, world.folded());
}
