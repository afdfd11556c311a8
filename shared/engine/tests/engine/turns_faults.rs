//! What a review found of turns and contexts.

use crate::turns::{refusal, said, say, sent, submit};
use crate::world::{World, kinds, tool_call};
use cairn_engine::command::{
    BridgeContext, Command, CreateContext, DestroyContext, SubmitTurn, SwitchContext, TurnOptions,
};
use cairn_engine::conversation::LayerKind;
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
    world.command(Command::from(BridgeContext {
        from: MAIN.to_owned(),
        to: MAIN.to_owned(),
        values: vec![("k".to_owned(), "v".to_owned())],
    }));
    let layers = &world.session.context(MAIN).unwrap().conversation;
    assert!(layers.layer(LayerKind::Prompt).is_some());
    assert!(layers.layer(LayerKind::Memory).unwrap().contains("k: v"));
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
