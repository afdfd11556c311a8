//! Session memory: as the text of a system prompt, and when it is full.

use crate::world::{World, chain, model_step, tool_call};
use cairn_engine::event::{self, Event, EventKind};
use cairn_engine::limits::{MAX_MEMORY_BYTES, MAX_MEMORY_VALUE};
use cairn_engine::prompt::memory::{changes, read, snapshot, whole};
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
