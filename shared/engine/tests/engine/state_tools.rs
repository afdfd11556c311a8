//! The tools that the owner answers itself, with every complaint.

use crate::world::{World, chain, complete, kinds, look, model_step, step_call, tool_call};
use cairn_engine::decide::STATE_TOOLS;
use cairn_engine::event::{self, EventKind};
use cairn_engine::limits::{MAX_MEMORY_KEY, MAX_MEMORY_KEYS, MAX_MEMORY_VALUE, MAX_NOTES};
use cairn_engine::message::ToolCall;
use serde_json::{Value, json};

pub(crate) fn world() -> World {
    World::with_plan(chain(vec![model_step("one"), model_step("two")]))
}

/// What the model is told when it makes this call in step 1.
pub(crate) fn reported(world: &mut World, tool: &str, arguments: &Value) -> (String, bool) {
    let events = world.reply(1, "", &[tool_call(tool, arguments)]);
    let mut reported = World::reported(&events);
    assert_eq!(reported.len(), 1, "{events:?}");
    reported.remove(0)
}

pub(crate) fn ok(world: &mut World, tool: &str, arguments: &Value) -> String {
    let (output, is_error) = reported(world, tool, arguments);
    assert!(!is_error, "{output}");
    output
}

/// The complaint; nothing else may have happened.
pub(crate) fn complaint(world: &mut World, tool: &str, arguments: &Value) -> String {
    let events = world.reply(1, "", &[tool_call(tool, arguments)]);
    let mut happened = kinds(&events);
    // What others changed before is said with every reply.
    happened.retain(|kind| *kind != "ContextChanged");
    assert_eq!(happened, ["ReplyReceived", "CallFinished"], "{events:?}");
    let (output, is_error) = World::reported(&events).remove(0);
    assert!(is_error, "{output}");
    output
}

#[test]
fn schemas_are_json_objects_and_names_are_sorted() {
    for tool in STATE_TOOLS {
        let schema: Value = serde_json::from_str(tool.parameters).unwrap();
        assert_eq!(schema["type"], "object", "{}", tool.name);
        assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
    }
    assert!(STATE_TOOLS.is_sorted_by_key(|tool| tool.name));
}

#[test]
fn wrong_arguments_are_refused_with_the_reason() {
    let mut world = world();
    world.session.runs.last_mut().unwrap().limits.max_tool_turns = 100;
    let cases = [
        ("step", json!({"done": true}), "unknown field `done`"),
        ("step", json!({"plan": "A"}), "invalid type: string"),
        ("step", json!({"complete": "yes"}), "invalid type: string"),
        ("scratchpad", json!({}), "missing field `text`"),
        (
            "scratchpad",
            json!({"text": "t", "mode": "clear"}),
            "mode 'clear' is unknown; use append or replace",
        ),
        (
            "session_memory_set",
            json!({"key": "k"}),
            "missing field `value`",
        ),
        ("session_memory_get", json!({}), "missing field `key`"),
        (
            "compact",
            json!({"keep": "the port"}),
            "unknown field `keep`",
        ),
        ("report_generator", json!({"run": 1}), "unknown field `run`"),
        (
            "session_memory_remove",
            json!({"name": "k"}),
            "unknown field `name`",
        ),
    ];
    for (tool, arguments, expected) in cases {
        let reported = complaint(&mut world, tool, &arguments);
        assert!(reported.contains(expected), "{reported}");
    }
    let bad = ToolCall {
        id: "x".to_owned(),
        name: "step".to_owned(),
        arguments: "{".to_owned(),
    };
    let events = world.reply(1, "", &[bad]);
    let (reported, is_error) = World::reported(&events).remove(0);
    assert!(
        is_error && reported.starts_with("wrong arguments for 'step': EOF"),
        "{reported}"
    );
}

#[test]
fn notes_are_appended_replaced_and_limited() {
    let mut world = world();
    world.session.runs.last_mut().unwrap().limits.max_tool_turns = 100;
    let notes = |world: &World| world.session.step(world.attempt(1)).unwrap().notes();
    assert_eq!(
        ok(&mut world, "scratchpad", &json!({"text": "a"})),
        "notes: 1 byte"
    );
    ok(
        &mut world,
        "scratchpad",
        &json!({"text": "b", "mode": "append"}),
    );
    assert_eq!(notes(&world), "a\nb");
    ok(
        &mut world,
        "scratchpad",
        &json!({"text": "c", "mode": "replace"}),
    );
    assert_eq!(notes(&world), "c");
    let most = "x".repeat(MAX_NOTES - 2);
    ok(&mut world, "scratchpad", &json!({ "text": most }));
    assert_eq!(notes(&world).len(), MAX_NOTES);
    let reported = complaint(&mut world, "scratchpad", &json!({"text": ""}));
    assert!(reported.contains("at most 16384 are allowed"), "{reported}");
    assert_eq!(notes(&world).len(), MAX_NOTES);
    ok(
        &mut world,
        "scratchpad",
        &json!({"text": "", "mode": "replace"}),
    );
    assert_eq!(notes(&world), "");
}

#[test]
fn session_memory_is_set_read_listed_and_removed() {
    let mut world = world();
    world.session.runs.last_mut().unwrap().limits.max_tool_turns = 100;
    let empty = ok(&mut world, "session_memory_list", &json!({}));
    assert_eq!(empty, "session memory is empty");
    let key = json!({"key": "k"});
    assert_eq!(ok(&mut world, "session_memory_get", &key), "'k' is not set");
    for value in ["v", "w"] {
        let set = json!({"key": "k", "value": value});
        assert_eq!(ok(&mut world, "session_memory_set", &set), "'k' is set");
        assert_eq!(ok(&mut world, "session_memory_get", &key), value);
    }
    ok(
        &mut world,
        "session_memory_set",
        &json!({"key": "a", "value": ""}),
    );
    assert_eq!(
        ok(&mut world, "session_memory_list", &json!({})),
        "a: \nk: w"
    );
    let two_lines = json!({"key": "z", "value": "1\nk: forged <\\n"});
    ok(&mut world, "session_memory_set", &two_lines);
    assert_eq!(
        ok(&mut world, "session_memory_list", &json!({})),
        "a: \nk: w\nz: 1\\nk: forged &lt;\\\\n"
    );
    assert_eq!(
        ok(&mut world, "session_memory_remove", &key),
        "'k' is not set any more"
    );
    assert_eq!(ok(&mut world, "session_memory_get", &key), "'k' is not set");
}

#[test]
fn session_memory_has_limits() {
    let mut world = world();
    world.session.runs.last_mut().unwrap().limits.max_tool_turns = 100;
    let mut refused = |key: &str, value: &str| {
        complaint(
            &mut world,
            "session_memory_set",
            &json!({"key": key, "value": value}),
        )
    };
    let expected = format!("a key has 1 to {MAX_MEMORY_KEY} bytes and no control characters");
    for key in ["", &"k".repeat(MAX_MEMORY_KEY + 1), "a\nb", "a\u{7f}"] {
        assert_eq!(refused(key, "v"), expected);
    }
    let reported = refused("k", &"v".repeat(MAX_MEMORY_VALUE + 1));
    assert_eq!(
        reported,
        format!("a value has at most {MAX_MEMORY_VALUE} bytes")
    );
    for n in 0..MAX_MEMORY_KEYS {
        world.foreign(EventKind::MemorySet(event::MemorySet {
            key: format!("key-{n}"),
            value: String::new(),
            writer: None,
            metadata: Default::default(),
        }));
    }
    let reported = complaint(
        &mut world,
        "session_memory_set",
        &json!({"key": "k", "value": "v"}),
    );
    assert_eq!(
        reported,
        format!("session memory is full: at most {MAX_MEMORY_KEYS} keys")
    );
    ok(
        &mut world,
        "session_memory_set",
        &json!({"key": "key-7", "value": "v"}),
    );
}

#[test]
fn an_unknown_tool_is_answered_with_the_tools_that_there_are() {
    let mut world = world();
    let reported = complaint(&mut world, "fly", &json!({}));
    assert!(reported.starts_with(
        "there is no tool 'fly'; there are: ask_person, compact, exec, look, pay, peek, put, read_progress"
    ));
}

#[test]
fn calls_of_one_reply_are_answered_in_order() {
    let mut world = world();
    let set = |value: &str| tool_call("session_memory_set", &json!({"key": "k", "value": value}));
    let get = tool_call("session_memory_get", &json!({"key": "k"}));
    let events = world.reply(1, "", &[set("1"), get.clone(), look(), set("2"), get]);
    let reported: Vec<String> = World::reported(&events)
        .into_iter()
        .map(|(text, _)| text)
        .collect();
    assert_eq!(reported, ["'k' is set", "1", "'k' is set", "2"]);
}

#[test]
fn notes_and_sub_goals_belong_to_one_step() {
    let mut world = world();
    world.reply(1, "", &[tool_call("scratchpad", &json!({"text": "a"}))]);
    world.reply(1, "", &[step_call(&json!({"plan": ["A"], "focus": "A"}))]);
    world.reply(1, "", &[step_call(&json!({"complete": true}))]);
    world.reply(1, "", &[complete("done")]);
    let second = world.session.step(world.attempt(2)).unwrap();
    assert_eq!(second.notes(), "");
    assert!(second.running().unwrap().sub_goals.is_empty());
}
