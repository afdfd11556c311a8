//! Reminders of session memory, and the texts of layers: what they add to a context, a journal and a state.

use crate::conversation::{changes, last_reported, memory, world};
use crate::turns::submit;
use crate::world::{World, chain, graph, look, model_step, tool_call};
use cairn_engine::command::{Command, CreateContext, DestroyContext, LimitOverrides};
use cairn_engine::conversation::{LayerKind, Op};
use cairn_engine::decide::Input;
use cairn_engine::event::{self, Budget, Event, EventKind};
use cairn_engine::message::{Part, ToolCall};
use cairn_engine::session::{MAIN, PerBudget, Session};
use serde_json::json;

/// A call that sets a key of session memory.
pub(crate) fn set(key: &str, value: &str) -> ToolCall {
    tool_call("session_memory_set", &json!({"key": key, "value": value}))
}

pub(crate) fn many_turns() -> LimitOverrides {
    LimitOverrides {
        max_tool_turns: 300,
        budgets: PerBudget::from([(Budget::Turns, 300)]),
        ..LimitOverrides::default()
    }
}

pub(crate) fn removed(key: &str) -> ToolCall {
    tool_call("session_memory_remove", &json!({"key": key}))
}

#[test]
fn an_attempt_is_not_reminded_of_what_it_wrote_itself() {
    let mut world = World::new();
    world.start_with(chain(vec![model_step("one")]), many_turns());
    // More than is known of changes.
    for turn in 0..100 {
        let calls = [set("k", &turn.to_string()), removed("gone")];
        let events = world.reply(1, "", &calls);
        assert!(changes(&events).is_empty(), "{events:?}");
    }
    // What a client wrote since is no write of its own.
    memory(&mut world, "of a client");
    let events = world.reply(1, "", &[set("k", "again")]);
    assert_eq!(changes(&events).len(), 1, "{events:?}");
    let text = last_reported(&world);
    assert!(text.contains("\nkey: of a client\n"), "{text}");
    assert!(!text.contains("\nk: "), "{text}");
}

#[test]
fn a_context_and_its_checkpoint_tell_a_reminder_from_what_the_person_said() {
    let mut world = World::new();
    submit(&mut world, "first");
    world.reply(1, "one", &[]);
    memory(&mut world, "new");
    submit(&mut world, "second");
    world.reply(1, "two", &[]);
    let stored = Session::from_checkpoint(&world.session.to_checkpoint().unwrap());
    assert_eq!(stored.as_ref(), Some(&world.session));
    for session in [&world.session, &stored.unwrap()] {
        let asked = session.context(MAIN).unwrap().messages().nth(2).unwrap();
        assert_eq!(asked.said(), "second");
        let [Part::Text(_), Part::Notice(notice)] = &asked.parts[..] else {
            panic!("{asked:?}");
        };
        assert!(notice.text.contains("\nkey: new\n"), "{notice:?}");
        assert!(!notice.is_of_workspace);
    }
}

#[test]
fn an_attempt_is_reminded_of_what_another_one_wrote() {
    let mut world = World::with_plan(graph(vec![model_step("one"), model_step("two")]));
    world.reply(2, "", &[set("k", "v"), set("own", "2")]);
    world.reply(1, "", &[set("own", "1")]);
    let text = last_reported(&world);
    assert!(text.contains("\nk: v\n"), "{text}");
    assert!(!text.contains("\nown: "), "{text}");
    // Now the first has another value than the second knows.
    world.reply(2, "", &[look()]);
    let said = world.session.said(world.attempt(2));
    let text = said.last().unwrap().text();
    assert!(
        text.contains("\nown: 1\n") && !text.contains("\nk: "),
        "{text}"
    );
    assert_eq!(world.session, world.folded());
}

/// An executor may ask the model as soon as its pure calls have ended, and report them with the reply.
#[test]
fn a_reminder_does_not_wait_for_the_calls_that_are_open() {
    type Then = fn(&mut World) -> Vec<Event>;
    let cases: [(&str, Then); 3] = [
        ("a result", |world| world.result(1, 0, "seen")),
        ("another executor", |world| {
            let attempt = world.attempt(1);
            world.decide(Input::AttemptLost { attempt })
        }),
        ("another owner", |world| {
            world.decide(Input::TakenOver { holder_dead: false })
        }),
    ];
    for (what, then) in cases {
        let mut world = world();
        world.reply(1, "", &[look(), look()]);
        memory(&mut world, "new");
        let events = then(&mut world);
        assert_eq!(changes(&events).len(), 1, "{what}: {events:?}");
        world.result(1, 1, "seen");
        assert!(last_reported(&world).contains("\nkey: new\n"), "{what}");
    }
}

#[test]
fn a_reminder_has_the_keys_that_changed_or_went() {
    let mut world = world();
    let write = |world: &mut World, key: &str, value: Option<&str>| {
        let (key, writer) = (key.to_owned(), None);
        world.foreign(match value {
            Some(value) => EventKind::MemorySet(event::MemorySet {
                key,
                value: value.to_owned(),
                writer,
                metadata: Default::default(),
            }),
            None => EventKind::MemoryRemoved(event::MemoryRemoved { key, writer }),
        });
    };
    let told = |world: &mut World| {
        world.reply(1, "", &[look()]);
        world.result(1, 0, "seen");
        last_reported(world)
    };
    write(&mut world, "a", Some("1"));
    write(&mut world, "b", Some("1"));
    assert!(told(&mut world).contains("\na: 1\nb: 1\n"));
    write(&mut world, "a", Some("2"));
    let text = told(&mut world);
    assert!(text.contains("\na: 2\n") && !text.contains("\nb"), "{text}");
    write(&mut world, "b", None);
    let text = told(&mut world);
    assert!(text.contains("\nb\n") && !text.contains("\na"), "{text}");
    // All of it, once the keys are not known any more.
    world.foreign(EventKind::MemoryCleared(event::MemoryCleared {}));
    let text = told(&mut world);
    assert!(text.contains("<session-context>\n(empty)\n"), "{text}");
    write(&mut world, "c", Some("1"));
    let text = told(&mut world);
    assert!(text.contains("<session-context-changes>\nc: 1\n"), "{text}");
    for n in 0..100 {
        write(&mut world, "d", Some(&n.to_string()));
    }
    let text = told(&mut world);
    assert!(text.contains("<session-context>\nc: 1\nd: 99\n"), "{text}");
    assert_eq!(world.session, world.folded());
}

/// Session memory is in the prompt once. What is added for a changed key is that key.
#[test]
fn context_and_journal_grow_by_what_changes_in_session_memory() {
    const MIB: usize = 1024 * 1024;
    let mut world = World::new();
    for n in 0..MIB / (32 * 1024) {
        world.foreign(EventKind::MemorySet(event::MemorySet {
            key: format!("key-{n:02}"),
            value: "v".repeat(32 * 1024),
            writer: None,
            metadata: Default::default(),
        }));
    }
    world.start_with(chain(vec![model_step("one")]), many_turns());
    world.reply(1, "", &[look()]);
    world.result(1, 0, "seen");
    let sizes = |world: &World| {
        let said = world.session.said(world.attempt(1));
        let context: u64 = said.iter().map(|message| message.bytes()).sum();
        let state = world.session.to_checkpoint().unwrap().len() as u64;
        (context, format!("{:?}", world.journal).len() as u64, state)
    };
    let before = sizes(&world);
    let value = "w".repeat(100);
    for turn in 0..200 {
        memory(&mut world, &format!("{turn}{value}"));
        world.reply(1, "", &[look()]);
        world.result(1, 0, "seen");
        let text = last_reported(&world);
        assert!(text.contains(&format!("\nkey: {turn}{value}\n")), "{text}");
    }
    let after = sizes(&world);
    // A turn has a reply, a call, a result and the key. The journal is counted as text, with all names.
    assert!(after.0 - before.0 < 200 * 1024, "{before:?} {after:?}");
    assert!(after.1 - before.1 < 200 * 4 * 1024, "{before:?} {after:?}");
    assert!(after.2 - before.2 < 200 * 1024, "{before:?} {after:?}");
    let written = changes(&world.journal).into_iter().flat_map(|it| &it.ops);
    let whole =
        written.filter(|op| matches!(op, Op::SetLayer(layer) if layer.kind == LayerKind::Memory));
    assert_eq!(whole.count(), 1);
    assert_eq!(world.session, world.folded());
}

/// A turn may be followed by a step, and a step by a turn: each has its own prompt.
#[test]
fn a_state_has_each_text_of_a_layer_once() {
    let mut world = World::new();
    memory(&mut world, &"m".repeat(100_000));
    for name in ["a", "b", "c"] {
        world.command(Command::from(CreateContext {
            name: name.to_owned(),
            prompt: "p".repeat(50_000),
            ..CreateContext::default()
        }));
        world.start(chain(vec![model_step("one")]));
        world.complete(1, "done");
    }
    world.start(graph((0..4).map(|n| model_step(&n.to_string())).collect()));
    world.reply(1, "", &[look()]);
    let bytes = world.session.to_checkpoint().unwrap();
    // The value and its text; what the creator of each context asked for, and the one text of that.
    let texts = 2 * 100_000 + 3 * 50_000 + 50_000;
    assert!(
        (texts..texts + 50_000).contains(&bytes.len()),
        "{}",
        bytes.len()
    );
    let stored = Session::from_checkpoint(&bytes).unwrap();
    assert_eq!(stored, world.session);
    let sent = |session: &Session| session.conversation(world.attempt(1)).unwrap().messages();
    assert_eq!(sent(&stored), sent(&world.session));
    // What no conversation has any more is not kept.
    for name in ["a", "b", "c"] {
        world.command(Command::from(DestroyContext {
            context: name.to_owned(),
            ..DestroyContext::default()
        }));
        world.command(Command::from(CreateContext {
            name: name.to_owned(),
            prompt: format!("another {name}"),
            ..CreateContext::default()
        }));
    }
    let bytes = world.session.to_checkpoint().unwrap();
    assert!(bytes.len() < texts, "{}", bytes.len());
}
