//! The modes of a session: plan, ask and accept-edits.

use crate::asking::open;
use crate::previews::{APPROVAL, end, is_sendable, new_file, rules, world, write};
use crate::world::{World, chain, kinds, look, model_step, send, tool_call, tool_step};
use cairn_engine::command::{Command, SetMode, Settlement};
use cairn_engine::conversation::{LayerKind, Op};
use cairn_engine::decide::{Fork, Input, ToolFacts};
use cairn_engine::event::{CallFinished, Event, EventKind};
use cairn_engine::rules::Answer;
use cairn_engine::session::{CallStatus, Mode, RunStatus};
use serde_json::json;

impl World {
    pub(crate) fn set_mode(&mut self, mode: Mode) -> Vec<Event> {
        self.command(Command::SetMode(SetMode { mode }))
    }
}

/// What models are told of the mode by these events.
fn told(events: &[Event]) -> Vec<&str> {
    let ops = events.iter().flat_map(|event| match &event.kind {
        EventKind::ContextChanged(changed) => changed.ops.as_slice(),
        _ => &[],
    });
    let told = ops.filter_map(|op| match op {
        Op::Remind(it) if it.of.kind() == LayerKind::Mode => Some(it.text.as_str()),
        _ => None,
    });
    told.collect()
}

fn forked(world: &World) -> World {
    let mut child = world.clone();
    child.decide(Input::Forked(Fork {
        session: "parent".to_owned(),
        request_id: "request".to_owned(),
        principal: None,
        title: String::new(),
        continues: true,
    }));
    child
}

/// The tools of a world by what plan mode says of them. `look` is one of Cairn's own.
fn with_own_look(mut world: World) -> World {
    let look = world.tools.get_mut("look").unwrap();
    look.is_built_in = true;
    let of_server = ToolFacts {
        is_built_in: false,
        ..look.clone()
    };
    world.tools.insert("docs__look".to_owned(), of_server);
    world
}

#[test]
fn plan_mode_makes_no_call_that_may_change_anything() {
    let mut world = with_own_look(world());
    // Whatever the rules allow.
    world.rules = rules(&[("*", None, Answer::Allow)]);
    world.set_mode(Mode::Plan);
    let calls = ["write", "put", "send", "exec", "pay", "docs__look", "peek"];
    let calls = calls.map(|tool| tool_call(tool, &json!({"path": "a"})));
    let events = world.reply(1, "", &calls);
    assert_eq!(
        kinds(&events).len(),
        1 + calls.len(),
        "{:?}",
        kinds(&events)
    );
    for event in &events[1..] {
        let EventKind::CallFinished(finished) = &event.kind else {
            panic!("{event:?}");
        };
        assert_eq!(finished.reason, CallFinished::DENIED);
        assert!(
            finished.output.starts_with("the mode is plan:"),
            "{}",
            finished.output
        );
    }
    let note = tool_call("scratchpad", &json!({"text": "a note"}));
    let events = world.reply(1, "", &[look(), note]);
    assert!(is_sendable(world.made(0)), "it only reads");
    assert_eq!(end(&events).0, "", "the session's own tools");
    assert_eq!(world.folded(), world.session);
}

#[test]
fn plan_mode_fails_the_call_of_a_plan_step() {
    let mut world = World::new();
    world.set_mode(Mode::Plan);
    world.start(chain(vec![tool_step("a", "send")]));
    assert_eq!(world.run().status, RunStatus::Failed);
}

#[test]
fn accept_edits_lets_writes_pass_where_only_a_default_asks() {
    let mut world = world();
    world.set_mode(Mode::AcceptEdits);
    world.reply(1, "", &[write("src/a")]);
    assert!(!is_sendable(world.made(0)), "it is previewed all the same");
    world.previewed(0, new_file("src/a"));
    assert!(is_sendable(world.made(0)));
    world.result(1, 0, "written");
    // A rule that asks holds, and so does every question about other tools.
    world.rules = rules(&[("write", Some("src/**"), Answer::Ask)]);
    world.reply(1, "", &[write("src/a")]);
    world.previewed(0, new_file("src/a"));
    assert_eq!(open(&world), ["approval-1.1.1.1.0"]);
    world.answer("approval-1.1.1.1.0", Settlement::Approve);
    world.result(1, 0, "written");
    world.reply(1, "", &[tool_call("pay", &json!({"sum": 5}))]);
    assert_eq!(world.run().status, APPROVAL);
}

#[test]
fn a_mode_counts_for_calls_that_are_judged_later() {
    let mut world = world();
    world.reply(1, "", &[write("src/a")]);
    world.previewed(0, new_file("src/a"));
    world.set_mode(Mode::Plan);
    // A person approves this call, and plan mode says nothing against it.
    world.answer("approval-1.1.1.0.0", Settlement::Approve);
    assert!(is_sendable(world.made(0)));
    world.result(1, 0, "written");
    world.set_mode(Mode::AcceptEdits);
    world.reply(1, "", &[write("src/b")]);
    world.previewed(0, new_file("src/b"));
    // It may be under way, so no later mode asks about it, also after an owner has died.
    world.set_mode(Mode::Plan);
    world.decide(Input::TakenOver { holder_dead: true });
    assert!(is_sendable(world.made(0)));
    world.result(1, 0, "written");
    // A write that has not been previewed is judged in the mode of that moment.
    world.set_mode(Mode::AcceptEdits);
    world.reply(1, "", &[write("src/c")]);
    world.set_mode(Mode::Ask);
    world.previewed(0, new_file("src/c"));
    assert_eq!(world.run().status, APPROVAL);
}

#[test]
fn a_call_with_side_effects_that_waits_is_judged_in_the_mode_of_the_moment() {
    let mut world = world();
    world.rules = rules(&[("write", None, Answer::Allow)]);
    world.reply(1, "", &[write("src/a"), send()]);
    world.previewed(0, new_file("src/a"));
    world.set_mode(Mode::Plan);
    let events = world.result(1, 0, "written");
    assert_eq!(kinds(&events), ["CallFinished", "CallFinished"]);
    assert!(matches!(
        &world.made(1).status,
        CallStatus::Finished { reason, .. } if reason == CallFinished::DENIED
    ));
}

#[test]
fn models_are_told_of_plan_mode_and_of_its_end() {
    let mut world = world();
    let events = world.set_mode(Mode::Plan);
    assert!(matches!(&told(&events)[..], [text] if text.contains("You are in plan mode.")));
    assert!(told(&world.set_mode(Mode::Plan)).is_empty());
    assert!(told(&world.reply(1, "", &[look()])).is_empty(), "it knows");
    let events = world.set_mode(Mode::Ask);
    assert!(matches!(&told(&events)[..], [text] if text.contains("no longer in plan mode")));
    assert_eq!(world.folded(), world.session);
}

#[test]
fn a_step_that_begins_in_plan_mode_is_told_with_its_first_message() {
    let mut world = World::new();
    world.set_mode(Mode::Plan);
    world.start(chain(vec![model_step("a")]));
    assert_eq!(told(&world.journal).len(), 1);
}

#[test]
fn a_copy_begins_with_the_mode_ask() {
    let mut world = world();
    world.set_mode(Mode::AcceptEdits);
    world.reply(1, "", &[write("src/a")]);
    world.previewed(0, new_file("src/a"));
    assert!(is_sendable(world.made(0)));
    let mut child = forked(&world);
    assert_eq!(child.session.mode, Mode::Ask);
    // What passed there by its mode asks here.
    child.decide(Input::TakenOver { holder_dead: true });
    assert_eq!(child.run().status, APPROVAL);
    let mut restored = world.clone();
    let events = restored.decide(Input::Imported);
    assert_eq!(kinds(&events), ["HooksDropped", "ModeSet"]);
    assert_eq!(restored.session.mode, Mode::Ask);
    assert!(restored.decide(Input::Imported).is_empty());
}
