//! Checkpoints as bytes: `checkpoint-VERSION.hex` is one of this version, and is never changed. A form
//! of the state that is another is another version, with a file of its own; of older versions nothing
//! is read, and the journal is folded instead.

use crate::world::{World, graph, look, model_step, send, step_call, tool_call, tool_step};
use cairn_engine::agent::AgentDefinition;
use cairn_engine::command::{Command, CreateContext};
use cairn_engine::conversation::LayerKind;
use cairn_engine::decide::Input;
use cairn_engine::session::Session;
use serde_json::json;
use std::fmt::Write as _;
use std::sync::Arc;

const GOLDEN: &str = include_str!("checkpoint-23.hex");

/// A run with something of all that a state has: steps that have ended, run and wait, a call in doubt, and a
/// context with an agent.
fn world() -> World {
    let mut world = World::with_plan(graph(vec![
        model_step("a"),
        tool_step("b", "look"),
        tool_step("c", "send"),
        model_step("d"),
    ]));
    world.result(2, 0, "seen");
    world.reply(1, "I look.", &[look()]);
    world.result(1, 0, "15 files");
    world.complete(1, "All seen.");
    let parts = step_call(&json!({"plan": ["A", "B"], "drop": [], "focus": "A"}));
    world.reply(
        4,
        "",
        &[parts, tool_call("scratchpad", &json!({"text": "a note"}))],
    );
    world.reply(4, "I send.", &[look(), send()]);
    let brief = AgentDefinition {
        window: Some(2),
        ..AgentDefinition::named("brief")
    };
    let known = Ok(Some(Arc::new(brief)));
    world.agents.0.insert("brief".to_owned(), known);
    world.command(Command::from(CreateContext {
        name: "side".to_owned(),
        agent: "brief".to_owned(),
        ..CreateContext::default()
    }));
    world.decide(Input::TakenOver { holder_dead: false });
    world
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.trim().as_bytes().chunks(2);
    let text = digits.map(|pair| std::str::from_utf8(pair).unwrap());
    text.map(|pair| u8::from_str_radix(pair, 16).unwrap())
        .collect()
}

/// What Cairn says to models may change without another version, because a state has it as text.
#[test]
fn another_form_of_the_state_is_another_version() {
    let kept = Session::from_checkpoint(&bytes(GOLDEN)).expect("raise the version, and add a file");
    assert_eq!(hex(&kept.to_checkpoint().unwrap()), GOLDEN.trim());
    let now = world().session;
    let prompt = |session: &Session| format!("{:?}", session.layers[&LayerKind::Prompt]);
    let expected = format!("{now:?}").replace(&prompt(&now), &prompt(&kept));
    assert_eq!(format!("{kept:?}"), expected);
    let stored = Session::from_checkpoint(&now.to_checkpoint().unwrap());
    assert_eq!(stored, Some(now));
}

#[test]
fn what_another_version_wrote_is_not_read() {
    let golden = bytes(GOLDEN);
    for version in (0..=u8::MAX).filter(|version| *version != golden[0]) {
        let mut other = golden.clone();
        other[0] = version;
        assert_eq!(Session::from_checkpoint(&other), None, "{version}");
    }
    assert_eq!(Session::from_checkpoint(&golden[..golden.len() - 1]), None);
    assert_eq!(Session::from_checkpoint(&[]), None);
}
