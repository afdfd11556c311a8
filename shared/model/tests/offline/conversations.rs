//! Turns of conversations: answers from files, session memory and what was said before.

use crate::driver::{FILES, ask, offered};
use crate::runs::docs;
use crate::tools;
use cairn_engine::message::{Message, Notice, Part, Role};
use cairn_engine::prompt::memory::{changes, snapshot};
use std::path::Path;

/// Carries a turn to its end: the reply without calls. Messages grow by the whole turn.
fn turn(root: &Path, messages: &mut Vec<Message>, question: &str) -> String {
    messages.push(Message::user(question));
    for _ in 0..5 {
        let reply = ask(messages, offered(&FILES));
        messages.push(reply.clone());
        if reply.calls().next().is_none() {
            return reply.text();
        }
        for call in reply.calls() {
            let arguments = serde_json::from_str(&call.arguments).unwrap();
            messages.push(match tools::call(root, &call.name, &arguments) {
                Ok(text) => Message::tool(&call.id, text, false),
                Err(text) => Message::tool(&call.id, text, true),
            });
        }
    }
    panic!("the turn does not end: {messages:#?}");
}

fn begin() -> Vec<Message> {
    let (key, value) = ("tone".to_owned(), "dry & <short>\nalways".to_owned());
    let other = ("city".to_owned(), "Oslo".to_owned());
    let memory = snapshot([(&other.0, &other.1), (&key, &value)]);
    vec![Message::system(format!("# Conversation\n\n{memory}"))]
}

/// A message with a notice alone.
fn notice(text: String) -> Message {
    Message {
        role: Role::User,
        parts: vec![Part::Notice(Notice {
            text,
            is_of_workspace: false,
        })],
    }
}

#[test]
fn a_question_is_answered_from_files_with_places() {
    let (dir, mut messages) = (docs(), begin());
    let text = turn(
        dir.path(),
        &mut messages,
        "Which files under docs mention Redis?",
    );
    for part in [
        "2 in 2 of 3 files",
        "docs/one.md:2: Redis is a store.",
        "docs/two.md:4: REDIS",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = turn(
        dir.path(),
        &mut messages,
        "What does docs/two.md say about SQLite?",
    );
    assert!(text.contains("docs/two.md:3: SQLite is a store."), "{text}");
    let text = turn(dir.path(), &mut messages, "Which files are in this folder?");
    assert!(text.contains("Files in the workspace: 5"), "{text}");
    let calls = messages
        .iter()
        .flat_map(Message::calls)
        .map(|call| &call.id);
    let ids: Vec<&String> = calls.collect();
    let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(ids.len(), distinct.len(), "each call has an id of its own");
}

#[test]
fn an_answer_that_is_cut_says_how_much_is_left_out() {
    let (dir, mut messages) = (docs(), begin());
    let lines = "needle\n\n".repeat(5);
    for name in ["a.md", "b.md", "c.md"] {
        std::fs::write(dir.path().join(name), &lines).unwrap();
    }
    let text = turn(dir.path(), &mut messages, "Which files mention needle?");
    assert!(text.ends_with("\n    and 7 more lines"), "{text}");
    let entries: Vec<_> = (0..10)
        .map(|n| (format!("key-{n}"), "x".to_owned()))
        .collect();
    let memory = snapshot(entries.iter().map(|(key, value)| (key, value)));
    messages.push(Message::system(format!("# Conversation\n\n{memory}")));
    let text = turn(dir.path(), &mut messages, "What do you remember?");
    assert!(text.ends_with("\n    and 2 more"), "{text}");
}

#[test]
fn a_question_is_answered_from_session_memory() {
    let (dir, mut messages) = (docs(), begin());
    let text = turn(dir.path(), &mut messages, "What is our tone?");
    assert_eq!(text, "In session memory:\n\n    tone: dry & <short>");
    let text = turn(dir.path(), &mut messages, "What do you remember?");
    assert!(
        text.contains("city: Oslo") && text.contains("tone: dry"),
        "{text}"
    );
    // A change comes as a notice, which is no question.
    let (key, value) = ("tone".to_owned(), "warm".to_owned());
    let changed = format!(
        "<system-reminder>\nSession memory has changed. It is now:\n{}\n</system-reminder>",
        snapshot([(&key, &value)])
    );
    messages.push(Message::user("What is our tone?"));
    messages.push(notice(changed));
    let reply = ask(&messages, offered(&FILES)).text();
    assert_eq!(reply, "In session memory:\n\n    tone: warm");
    // It may have only what changed.
    let changed = changes([("boat", Some("Lantern")), ("tone", None)]);
    messages.push(notice(format!(
        "<system-reminder>\n{changed}\n</system-reminder>"
    )));
    messages.push(Message::user("What do you remember?"));
    let reply = ask(&messages, offered(&FILES)).text();
    let begins = reply.starts_with("In session memory:\n\n    boat: Lantern");
    assert!(begins && !reply.contains("tone: "), "{reply}");
}

#[test]
fn a_question_is_answered_from_what_was_said_before() {
    let (dir, mut messages) = (docs(), begin());
    let text = turn(
        dir.path(),
        &mut messages,
        "My boat is called Lantern. It leaves on Friday.",
    );
    assert!(text.contains("I found nothing"), "{text}");
    let text = turn(dir.path(), &mut messages, "When does my boat leave?");
    assert!(
        text.contains("Earlier you said: My boat is called Lantern."),
        "{text}"
    );
    turn(dir.path(), &mut messages, "Which files mention SQLite?");
    let text = turn(
        dir.path(),
        &mut messages,
        "What did you say about SQLite before?",
    );
    assert!(text.contains("docs/two.md:3"), "{text}");
    let text = turn(dir.path(), &mut messages, "What did I ask before?");
    assert!(
        text.contains("What did you say about SQLite before?"),
        "{text}"
    );
}

#[test]
fn without_tools_or_without_a_find_it_says_so() {
    let (dir, mut messages) = (docs(), begin());
    let text = turn(dir.path(), &mut messages, "Where is the zeppelin?");
    assert!(
        text.starts_with("I found nothing. Lines with \"zeppelin\""),
        "{text}"
    );
    let text = turn(dir.path(), &mut messages, "Hello there!");
    assert!(text.contains("follows fixed rules"), "{text}");
    messages.push(Message::user("Which files mention Redis?"));
    let reply = ask(&messages, vec![]);
    assert_eq!(reply.text(), "I found nothing about \"Redis\".");
    assert!(ask(&[], vec![]).text().contains("fixed rules"));
}
