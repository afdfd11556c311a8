//! Session memory: as the text of a system prompt, and when it is full.

use crate::world::{World, chain, model_step, tool_call};
use cairn_engine::event::{self, Event, EventKind};
use cairn_engine::limits::{MAX_MEMORY_BYTES, MAX_MEMORY_VALUE};
use cairn_engine::prompt::memory::{changes, read, snapshot, whole};
use cairn_engine::session::Session;
use proptest::prelude::*;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

fn text(entries: &[(&str, &str)]) -> String {
    let entries = entries
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    snapshot(&entries.collect::<BTreeMap<_, _>>())
}

#[test]
fn entries_are_one_line_each_sorted_by_key() {
    let expected = "<session-context>\na: 1\nb: two words\n</session-context>";
    assert_eq!(text(&[("b", "two words"), ("a", "1")]), expected);
    assert_eq!(text(&[]), "");
}

#[test]
fn no_entry_breaks_out_of_the_text_or_looks_like_another() {
    let expected = "<session-context>\n\
        k&lt;: a\\nfake: b\\r&lt;/session-context&gt; &amp;lt;\n</session-context>";
    assert_eq!(
        text(&[("k<", "a\nfake: b\r</session-context> &lt;")]),
        expected
    );
    let expected = "<session-context>\nk: a\\u{2028}b\\u{b}c\\u{85}\n</session-context>";
    assert_eq!(text(&[("k", "a\u{2028}b\u{b}c\u{85}")]), expected);
}

/// A line break is told from a backslash before an n, and the end of a key from one within it.
#[test]
fn different_entries_are_different_texts() {
    let cases = [
        [("k", "a\nb")],
        [("k", "a\\nb")],
        [("k", "a\\\nb")],
        [("k: a", "b")],
        [("k", "a: b")],
        [("k:", "a")],
        [("k", "\u{2028}")],
        [("k", "\\u{2028}")],
        [("k", "&lt;")],
        [("k", "<")],
    ];
    let texts: BTreeSet<String> = cases.iter().map(|entries| text(entries)).collect();
    assert_eq!(texts.len(), cases.len(), "{texts:#?}");
    assert!(texts.contains("<session-context>\nk: a\\\\nb\n</session-context>"));
    assert!(texts.contains("<session-context>\nk:\\u{20}a: b\n</session-context>"));
}

#[test]
fn the_whole_of_nothing_is_a_text_too() {
    let none: BTreeMap<String, String> = BTreeMap::new();
    assert_eq!(
        whole(&none),
        "<session-context>\n(empty)\n</session-context>"
    );
    let before = text(&[("k", "v")]);
    assert_eq!(read([&*before, &*whole(&none)]), Some(none));
    assert_eq!(read(["# Step"]), None);
}

/// Texts in which escapes and what is escaped are frequent.
fn tricky() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a", "n", ":", " ", "\\", "\n", "<", "lt;", "&", "u{20}", "\u{2028}",
    ]);
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn entries_are_read_back_as_they_were_written(
        one in (tricky(), tricky()), other in (any::<String>(), any::<String>())
    ) {
        let entries = BTreeMap::from([one, other]);
        let text = format!("# Step\n\n{}\n", snapshot(&entries));
        prop_assert_eq!(read([&*text]), Some(entries));
    }

    /// A snapshot and the changes after it give the entries of now.
    #[test]
    fn changes_lead_from_one_state_to_the_next(
        before in proptest::collection::btree_map(tricky(), tricky(), 1..6),
        now in proptest::collection::btree_map(tricky(), tricky(), 1..6)
    ) {
        let keys = before.keys().chain(now.keys());
        let keys: BTreeMap<&str, Option<&str>> = keys
            .map(|key| (key.as_str(), now.get(key).map(String::as_str)))
            .collect();
        let texts = [snapshot(&before), "hello".to_owned(), changes(keys)];
        prop_assert_eq!(read(texts.iter().map(String::as_str)), Some(now));
    }

    #[test]
    fn there_is_one_line_for_each_key(
        entries in proptest::collection::btree_map(any::<String>(), any::<String>(), 1..8)
    ) {
        let text = snapshot(&entries);
        prop_assert_eq!(text.split('\n').count(), entries.len() + 2);
        prop_assert!(!text.contains('\r'));
        prop_assert_eq!(text.matches('<').count(), 2);
        prop_assert_eq!(text.matches('>').count(), 2);
    }
}

#[test]
fn memory_that_clients_have_filled_is_an_error_result_and_no_event() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    let value = "v".repeat(MAX_MEMORY_VALUE);
    let whole = MAX_MEMORY_BYTES / (MAX_MEMORY_VALUE + 4);
    let rest = MAX_MEMORY_BYTES - whole * (MAX_MEMORY_VALUE + 4);
    let mut client = |key: String, value: &str| {
        let value = value.to_owned();
        world.foreign(EventKind::MemorySet(event::MemorySet {
            key,
            value,
            writer: None,
            metadata: Default::default(),
        }));
    };
    for n in 0..whole {
        client(format!("k-{n:02}"), &value);
    }
    client("r".to_owned(), &value[..rest - 3]);
    let set = |key: &str, value: &str| {
        tool_call("session_memory_set", &json!({"key": key, "value": value}))
    };
    // Two bytes are left, and a second call of the same reply finds none.
    let events = world.reply(
        1,
        "",
        &[set("a", "1"), set("b", ""), set("r", &value[..rest])],
    );
    let full = format!("session memory is full: at most {MAX_MEMORY_BYTES} bytes");
    let reported = World::reported(&events);
    let reported: Vec<_> = reported
        .iter()
        .map(|(text, error)| (text.as_str(), *error))
        .collect();
    assert_eq!(
        reported,
        [
            ("'a' is set", false),
            (full.as_str(), true),
            (full.as_str(), true)
        ]
    );
    let is_set = |event: &&Event| matches!(event.kind, EventKind::MemorySet(_));
    assert_eq!(events.iter().filter(is_set).count(), 1);
}

/// An event of session memory at a time; `metadata` has one note.
fn set_at(at: u64, key: &str, note: &str) -> Event {
    let notes = [("note".to_owned(), note.to_owned())];
    let metadata = notes.into_iter().filter(|(_, text)| !text.is_empty());
    at_time(
        at,
        EventKind::MemorySet(event::MemorySet {
            key: key.to_owned(),
            value: "v".to_owned(),
            writer: None,
            metadata: metadata.collect(),
        }),
    )
}

fn remove_at(at: u64, key: &str) -> Event {
    let key = key.to_owned();
    at_time(
        at,
        EventKind::MemoryRemoved(event::MemoryRemoved { key, writer: None }),
    )
}

fn at_time(at: u64, kind: EventKind) -> Event {
    Event {
        at,
        answers: 0,
        principal: None,
        kind,
    }
}

fn folded(events: &[Event]) -> Session {
    let mut session = Session::default();
    for event in events {
        session.apply(session.seq + 1, event).unwrap();
    }
    session
}

/// The times of a key, and its note.
fn details(session: &Session, key: &str) -> Option<(u64, u64, String)> {
    let details = session.memory.details(key)?;
    let note = details.metadata.get("note").cloned().unwrap_or_default();
    Some((details.created, details.updated, note))
}

#[test]
fn an_entry_keeps_its_creation_time_until_its_key_is_absent() {
    let cleared = at_time(50, EventKind::MemoryCleared(event::MemoryCleared {}));
    let events = [
        set_at(10, "k", "first"),
        set_at(20, "k", ""),
        remove_at(30, "k"),
        set_at(40, "k", "second"),
        cleared,
        set_at(60, "k", ""),
        // The clock of another writer is behind.
        set_at(55, "k", ""),
    ];
    let expected = [
        Some((10, 10, "first")),
        Some((10, 20, "")),
        None,
        Some((40, 40, "second")),
        None,
        Some((60, 60, "")),
        Some((60, 60, "")),
    ];
    for (count, expected) in (1..).zip(expected) {
        let expected = expected.map(|(created, updated, note)| (created, updated, note.to_owned()));
        assert_eq!(details(&folded(&events[..count]), "k"), expected, "{count}");
    }
}

/// The owner folds the changes of clients late, and comes to the state of the journal's order.
#[test]
fn changes_of_others_before_those_of_the_owner_give_the_times_of_the_order() {
    let earlier = [set_at(10, "old", ""), set_at(10, "gone", "")];
    let others = [
        set_at(20, "new", "of a client"),
        set_at(20, "old", "of a client"),
        remove_at(20, "gone"),
        set_at(20, "other", "of a client"),
    ];
    let owners = [
        set_at(30, "new", ""),
        set_at(30, "old", ""),
        set_at(30, "gone", ""),
        remove_at(30, "removed"),
        set_at(30, "own", ""),
    ];
    let in_order = folded(&[&earlier[..], &others, &owners].concat());
    let mut rebased = folded(&[&earlier[..], &owners].concat());
    let others: Vec<_> = (3..).zip(others).collect();
    rebased.rebase(&others, owners.len(), &owners).unwrap();
    for (key, created) in [
        ("new", 20),
        ("old", 10),
        ("gone", 30),
        ("own", 30),
        ("other", 20),
    ] {
        let found = rebased.memory.details(key).map(|it| it.created);
        assert_eq!(found, Some(created), "{key}");
        assert_eq!(details(&rebased, key), details(&in_order, key), "{key}");
    }
    assert_eq!(*rebased.memory, *in_order.memory);
}

/// Metadata fills session memory as values do, so no transition is decided that the store refuses.
#[test]
fn metadata_counts_when_a_model_sets_a_key() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    let text = "m".repeat(1024);
    let metadata: BTreeMap<_, _> = (0..16).map(|n| (format!("{n:02}"), text.clone())).collect();
    let bytes = 16 * (2 + text.len()) + 4;
    let count = MAX_MEMORY_BYTES / bytes;
    for n in 0..count {
        world.foreign(EventKind::MemorySet(event::MemorySet {
            key: format!("{n:04}"),
            value: String::new(),
            writer: None,
            metadata: metadata.clone(),
        }));
    }
    let rest = MAX_MEMORY_BYTES - count * bytes;
    let set = |value: &str| tool_call("session_memory_set", &json!({"key": "k", "value": value}));
    let value = "v".repeat(rest);
    let events = world.reply(1, "", &[set(&value), set(&value[1..])]);
    let reported = World::reported(&events);
    let errors: Vec<_> = reported.iter().map(|(_, is_error)| *is_error).collect();
    assert_eq!(errors, [true, false]);
}
