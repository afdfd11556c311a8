//! The words that a model reads are data: a session keeps those that its events have, also if this version
//! has others.

use crate::turns::submit;
use crate::world::{World, chain, fold, look, model_step, report_reply, send, tool_call};
use cairn_engine::command::Settlement;
use cairn_engine::conversation::{Entry, Op};
use cairn_engine::decide::Input;
use cairn_engine::event::{self, Event, EventKind, NotesFrame};
use cairn_engine::message::{FinishReason, Message, Part};
use cairn_engine::pending::pending;
use cairn_engine::session::{MAIN, Session};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// A journal with the same events in other words: the system prompt, reminders, requests to continue, a
/// decision about a call, and notes.
fn in_other_words(journal: &[Event]) -> Vec<Event> {
    let mut journal = journal.to_vec();
    for (event, number) in journal.iter_mut().zip(1..) {
        let words = format!("words {number}");
        match &mut event.kind {
            EventKind::ContextChanged(changed) => {
                for op in &mut changed.ops {
                    match op {
                        Op::SetLayer(layer) => layer.text = words.as_str().into(),
                        Op::Remind(reminder) => reminder.text.clone_from(&words),
                        Op::Notice(text) => text.clone_from(&words),
                        Op::Append(message) => *message = Message::user(words.as_str()),
                        _ => {}
                    }
                }
            }
            EventKind::CallSettled(settled) => settled.output = words,
            EventKind::ScratchpadWritten(written) => {
                written.frame = written.frame.take().map(|_| NotesFrame {
                    before: format!("{words}: "),
                    after: "!".to_owned(),
                });
            }
            _ => {}
        }
    }
    journal
}

/// The numbers of the events with words of Cairn in texts that a model is sent.
fn numbers(texts: &[String]) -> Vec<usize> {
    let texts = texts.iter().flat_map(|text| text.split("words ").skip(1));
    let digits = texts.map(|rest| {
        rest.chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
    });
    digits.filter_map(|digits| digits.parse().ok()).collect()
}

/// What the model of step 1 is sent next.
fn sent(session: &Session, world: &World) -> Vec<String> {
    let name = world.attempt(1);
    let mut conversation = session.conversation(name).unwrap();
    let attempt = session.attempt(name).unwrap();
    let said = session.said(name).into_iter();
    let said = said.map(|message| Entry {
        number: 0,
        message,
        compaction: None,
    });
    conversation.behind = said.collect();
    for op in &attempt.waiting_ops {
        if let Op::SetLayer(_) = op {
            conversation.apply(op.clone()).unwrap();
        }
    }
    let messages = conversation.messages();
    messages.iter().map(|message| message.text()).collect()
}

/// Folds the journal in other words, also through a checkpoint after each event.
fn folded(world: &World) -> (Vec<Event>, Session) {
    let journal = in_other_words(&world.journal);
    let session = fold(&journal);
    let mut stored = Session::default();
    for (event, seq) in journal.iter().zip(1..) {
        stored.apply(seq, event).unwrap();
        stored = Session::from_checkpoint(&stored.to_checkpoint().unwrap()).unwrap();
    }
    assert_eq!(stored, session);
    (journal, session)
}

fn set(world: &mut World, key: &str) {
    world.foreign(EventKind::MemorySet(event::MemorySet {
        key: key.to_owned(),
        value: "v".to_owned(),
        writer: None,
        metadata: Default::default(),
    }));
}

/// Every event whose words this world's model was sent, by its number.
fn events_with_words(journal: &[Event]) -> Vec<usize> {
    let has_words = |event: &Event| match &event.kind {
        EventKind::ContextChanged(changed) => !changed.ops.is_empty(),
        EventKind::CallSettled(settled) => !settled.output.is_empty(),
        EventKind::ScratchpadWritten(written) => written.frame.is_some(),
        _ => false,
    };
    let numbered = (1..).zip(journal).filter(|(_, event)| has_words(event));
    numbered.map(|(number, _)| number).collect()
}

#[test]
fn a_step_in_other_words_keeps_them() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    set(&mut world, "a");
    world.reply(1, "hm", &[]);
    set(&mut world, "b");
    world.reply(1, "", &[look(), send()]);
    world.result(1, 0, "seen");
    world.decide(Input::TakenOver { holder_dead: false });
    world.now += 1_000_000;
    let skipped = Settlement::Skip {
        reason: "no".to_owned(),
    };
    let doubt = pending(&world.session)[0].id().to_string();
    world.answer(&doubt, skipped);
    let (journal, session) = folded(&world);
    let texts = sent(&session, &world);
    let with_words = events_with_words(&world.journal);
    assert!(with_words.len() >= 4, "{with_words:?}");
    for number in &with_words {
        assert!(numbers(&texts).contains(number), "{number}: {texts:#?}");
    }
    let own = texts
        .iter()
        .any(|text| text.contains("system-reminder") || text.contains("person"));
    assert!(!own, "{texts:#?}");
    // This version recognises what was said in other words.
    let mut world = World {
        session,
        journal,
        ..world
    };
    let events = world.reply(1, "", &[look()]);
    let is_changed = |event: &Event| matches!(event.kind, EventKind::ContextChanged(_));
    // Of the layers of its system prompt, the model is told that they are others now.
    let reminded: Vec<_> = events.iter().filter(|event| is_changed(event)).collect();
    assert_eq!(reminded.len(), 1, "{reminded:?}");
    let events = world.result(1, 0, "seen");
    assert!(!events.iter().any(is_changed), "{events:?}");
}

#[test]
fn a_turn_in_other_words_keeps_them() {
    let mut world = World::new();
    set(&mut world, "a");
    submit(&mut world, "hello");
    set(&mut world, "b");
    let note = tool_call("scratchpad", &json!({"text": "a note"}));
    world.reply(1, "", &[note]);
    world.reply(1, "well", &[]);
    submit(&mut world, "and now?");
    let (journal, session) = folded(&world);
    let texts = sent(&session, &world);
    for number in events_with_words(&world.journal) {
        assert!(numbers(&texts).contains(&number), "{number}: {texts:#?}");
    }
    let note = journal
        .iter()
        .position(|event| matches!(event.kind, EventKind::ScratchpadWritten(_)));
    let note = note.unwrap() + 1;
    assert_eq!(texts.last().unwrap(), &format!("words {note}: a note!"));
    let context = session.context(MAIN).unwrap();
    assert_eq!(context.notes, "a note");
    let is_reminded = |message: &Message| {
        let mut parts = message.parts.iter();
        parts.any(|part| matches!(part, Part::Notice(notice) if notice.text.starts_with("words ")))
    };
    assert!(context.messages().any(is_reminded));
}

#[test]
fn a_cut_reply_is_answered_in_the_words_of_its_event() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    let running = world.session.attempt(world.attempt(1)).unwrap();
    let seen = (running.tool_turns, running.newest_op());
    let mut cut = report_reply(world.attempt(1), seen, "text", &[]);
    if let Input::Report {
        reply: Some(reply), ..
    } = &mut cut
    {
        reply.finish = FinishReason::Length;
    }
    world.decide(cut);
    let (_, session) = folded(&world);
    let last = sent(&session, &world).pop().unwrap();
    assert_eq!(last, format!("words {}", world.journal.len()));
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, found),
            false => found.push(path),
        }
    }
}

/// The names in the imports of a source.
fn imported(code: &str) -> Vec<&str> {
    const IMPORTS: [&str; 4] = ["use ", "pub use ", "pub(crate) use ", "pub(super) use "];
    let (mut names, mut is_import) = (Vec::new(), false);
    for line in code.lines() {
        let begins = |import: &&str| line.trim_start().starts_with(*import);
        is_import |= IMPORTS.iter().any(begins);
        if is_import {
            names.extend(line.split(|c: char| !c.is_alphanumeric() && c != '_'));
            is_import = !line.contains(';');
        }
    }
    names
}

/// What `apply` is made of uses nothing that words texts for models. The words of decisions are private to
/// them; state as a model is shown it is not.
#[test]
fn the_fold_uses_no_words() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = vec![root.join("conversation.rs"), root.join("message.rs")];
    for folder in ["session", "event", "command", "conversation"] {
        sources(&root.join(folder), &mut found);
    }
    found.push(root.join("session.rs"));
    found.push(root.join("event.rs"));
    assert!(found.len() > 50, "{found:?}");
    for path in found {
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        for words in ["prompt", "words"] {
            let is_used = code.contains(&format!("{words}::")) || imported(code).contains(&words);
            assert!(!is_used, "{}: {words}", path.display());
        }
    }
}
