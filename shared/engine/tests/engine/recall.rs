//! The messages that requests do not have any more, over random histories and against lists made in another way.
//!
//! Clients change a context, turns complete and fail, and older messages give way to one, before the mark and behind
//! it. A message is found as long as a message stands for it, and if it is before the window.

use crate::turns::submit;
use crate::world::{World, look};
use cairn_engine::command::{
    ChangeContext, Command, ContextOp, CreateContext, DestroyContext, SubmitTurn,
};
use cairn_engine::conversation::{CompactedMessages, CompactionKind, Conversation, Entry};
use cairn_engine::event::{AttemptRef, Budget, ContextCompacted, Event, EventKind};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::{Message, Role, Usage};
use cairn_engine::session::{MAIN, Originals, Session};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Numbers that an operation is made of.
type Seed = (u8, u8, u8);

fn world() -> World {
    let mut world = World::new();
    world.limits.max_tool_turns = 1_000;
    world.limits.budgets[Budget::Turns] = 0;
    world
}

fn conversation(session: &Session) -> &Conversation {
    &session
        .context(MAIN)
        .expect("it is always there")
        .conversation
}

fn compact(world: &mut World, context: &str, messages: CompactedMessages, kind: CompactionKind) {
    let known = world.session.context(context).expect("a context");
    let version = match messages.behind_mark {
        true => 0,
        false => known.version + 1,
    };
    let compacted = ContextCompacted {
        attempt: world.attempt(1),
        context: context.to_owned(),
        messages,
        kind,
        text: "what was said".to_owned(),
        usage: Usage::default(),
        provider: String::new(),
        model: String::new(),
        duration_ms: 1,
        version,
        replaced: 1,
        tokens_before: 0,
        tokens_after: 0,
    };
    world.foreign(compacted.into());
}

/// A session with texts that no two messages share.
struct Test {
    world: World,
    lines: u32,
}

impl Test {
    fn line(&mut self) -> String {
        self.lines += 1;
        format!("line {}", self.lines)
    }

    fn play(&mut self, (kind, at, many): Seed) {
        let length = conversation(&self.world.session).incremental.len();
        let index = u32::from(at) % u32::try_from(length.max(1)).expect("it is small");
        let message = Message::user(self.line());
        let op = match kind % 10 {
            0 | 1 => ContextOp::Append(message),
            2 => ContextOp::Insert { index, message },
            3 => ContextOp::Update { index, message },
            4 => ContextOp::Remove { index },
            5 => ContextOp::SetWindow((many > 100).then_some(1 + u32::from(many % 5))),
            6 if many < 40 => ContextOp::Clear,
            _ => return self.turn(at, many),
        };
        // One that does not fit is refused.
        self.world.command(Command::from(ChangeContext {
            ops: vec![op],
            ..ChangeContext::default()
        }));
    }

    /// A turn with some tool turns and compactions, which completes or fails.
    fn turn(&mut self, at: u8, many: u8) {
        let text = self.line();
        submit(&mut self.world, &text);
        for n in 0..many % 4 {
            let text = self.line();
            self.world.reply(1, &text, &[look()]);
            let text = self.line();
            self.world.result(1, 0, &text);
            self.compact_some(at.wrapping_add(n), many.wrapping_mul(n + 1));
        }
        match many % 5 {
            0 => {
                let failure = Failure::new(FailureKind::Llm, "Server", "the model is gone");
                self.world.fail(1, failure);
            }
            _ => {
                let text = self.line();
                self.world.reply(1, &text, &[]);
            }
        }
    }

    fn compact_some(&mut self, at: u8, many: u8) {
        let said = conversation(&self.world.session);
        let kind = match many % 2 {
            0 => CompactionKind::History,
            _ => CompactionKind::Summary,
        };
        let number = |entries: &[Entry], at: u8| {
            let at = usize::from(at) % entries.len().max(1);
            entries.get(at).map_or(0, |entry| entry.number)
        };
        let messages = match at % 3 {
            0 => CompactedMessages {
                through: number(&said.incremental, many),
                ..CompactedMessages::default()
            },
            1 => CompactedMessages {
                through: number(&said.incremental, many),
                with_compressed: true,
                ..CompactedMessages::default()
            },
            _ => CompactedMessages {
                behind_mark: true,
                after: if many < 128 {
                    0
                } else {
                    number(&said.behind, 0)
                },
                through: number(&said.behind, many),
                ..CompactedMessages::default()
            },
        };
        if said.to_compact(&messages).is_ok() {
            compact(&mut self.world, MAIN, messages, kind);
        }
    }
}

/// What each number stands for, as the states before and after each event show it.
#[derive(Default)]
struct Naive {
    texts: BTreeMap<u32, String>,
    stands_for: BTreeMap<u32, BTreeSet<u32>>,
}

/// The messages of the context, by their numbers.
fn entries(session: &Session) -> BTreeMap<u32, &Entry> {
    let said = conversation(session);
    let zones = [&said.compressed, &said.incremental, &said.behind];
    let entries = zones.into_iter().flatten();
    entries.map(|entry| (entry.number, entry)).collect()
}

impl Naive {
    fn note(&mut self, event: &EventKind, before: &Session, after: &Session) {
        let (before, after) = (entries(before), entries(after));
        for (number, entry) in &after {
            self.texts.insert(*number, entry.message.said());
        }
        let gone = before.keys().filter(|number| !after.contains_key(number));
        let gone = gone.map(|number| {
            let stands_for = self.stands_for.remove(number);
            stands_for.unwrap_or_else(|| BTreeSet::from([*number]))
        });
        let gone: BTreeSet<u32> = gone.flatten().collect();
        if matches!(event, EventKind::ContextCompacted(_)) {
            let mut new = after.keys().filter(|number| !before.contains_key(number));
            let stand_in = new.next().expect("one stands for them");
            assert!(new.next().is_none());
            self.stands_for.insert(*stand_in, gone);
        }
        // A client may have put a message of its own in the place of a stand-in.
        let is_stand_in =
            |number: &u32| after.get(number).is_some_and(|it| it.compaction.is_some());
        self.stands_for.retain(|number, _| is_stand_in(number));
    }

    /// The texts that messages stand for, or that are before the window.
    fn recalled(&self, session: &Session) -> BTreeSet<String> {
        let replaced = self.stands_for.values().flatten();
        let replaced = replaced.map(|number| self.texts[number].clone());
        let said = conversation(session);
        let length = said.incremental.len();
        let window = said.window.map_or(length, |window| window as usize);
        let mut shown = length.saturating_sub(window);
        // Results without their calls are not shown either.
        while shown > 0 && shown < length && said.incremental[shown].message.role == Role::Tool {
            shown += 1;
        }
        let before = said.incremental[..shown].iter();
        let before = before.filter(|entry| entry.compaction.is_none());
        let before = before.map(|entry| entry.message.said());
        replaced
            .chain(before)
            .filter(|text| !text.is_empty())
            .collect()
    }
}

fn attempt_of(session: &Session) -> Option<AttemptRef> {
    let mut attempts = session.active_run()?.running_attempts();
    attempts.next().map(|(name, ..)| name)
}

/// The first lines of what is found for an attempt. A reply has its calls on further lines.
fn recalled(originals: &Originals, session: &Session, attempt: AttemptRef) -> BTreeSet<String> {
    let unsent = session.unsent(attempt).expect("it is under way");
    let replaced = originals.of(&unsent).cloned();
    let texts = replaced.chain(unsent.said_before_window());
    let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    texts.map(|it| first(&it.text)).collect()
}

/// Folds a journal, and compares what is found after each event of a turn. Returns how many messages were found.
fn check(journal: &[Event]) -> usize {
    let (mut session, mut naive) = (Session::default(), Naive::default());
    let mut originals = Originals::new(usize::MAX);
    let mut found = 0;
    for (event, seq) in journal.iter().zip(1..) {
        originals.note(&session, &event.kind);
        let mut after = session.clone();
        after.apply(seq, event).expect("it fits");
        if seq > 1 {
            naive.note(&event.kind, &session, &after);
        }
        session = after;
        if let Some(attempt) = attempt_of(&session) {
            let recalled = recalled(&originals, &session, attempt);
            assert_eq!(recalled, naive.recalled(&session), "after event {seq}");
            found += recalled.len();
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_requests_do_not_have_is_found_unless_a_client_removed_it(
        seeds in prop::collection::vec(any::<Seed>(), 1..20),
    ) {
        let mut test = Test { world: world(), lines: 0 };
        for seed in seeds {
            test.play(seed);
        }
        submit(&mut test.world, "the end");
        check(&test.world.journal);
    }
}

/// Three messages give way to a list, and that to a summary with a fourth one.
fn twice_compacted() -> World {
    let mut world = world();
    let texts = ["a", "b", "c", "d", "e"];
    world.command(Command::from(ChangeContext {
        ops: texts
            .map(|text| ContextOp::Append(Message::user(text)))
            .into(),
        ..ChangeContext::default()
    }));
    submit(&mut world, "turn");
    let through = |through: u32| CompactedMessages {
        through,
        ..CompactedMessages::default()
    };
    compact(&mut world, MAIN, through(3), CompactionKind::History);
    let more = CompactedMessages {
        with_compressed: true,
        ..through(4)
    };
    compact(&mut world, MAIN, more, CompactionKind::Summary);
    world
}

/// The texts that are found at the end of a journal, if so many bytes are kept.
fn kept(world: &World, most_bytes: usize) -> Vec<String> {
    let (mut session, mut originals) = (Session::default(), Originals::new(most_bytes));
    for (event, seq) in world.journal.iter().zip(1..) {
        originals.note(&session, &event.kind);
        session.apply(seq, event).expect("it fits");
        assert!(originals.bytes() <= most_bytes);
    }
    let attempt = attempt_of(&session).expect("a turn");
    let unsent = session.unsent(attempt).expect("it is under way");
    originals
        .of(&unsent)
        .map(|it| it.text.to_string())
        .collect()
}

#[test]
fn what_was_replaced_twice_is_found_and_the_oldest_goes_first() {
    let world = twice_compacted();
    assert_eq!(check(&world.journal), 3 + 4);
    assert_eq!(kept(&world, usize::MAX), ["a", "b", "c", "d"]);
    assert_eq!(kept(&world, 2), ["c", "d"]);
    assert!(kept(&world, 0).is_empty());
}

/// Numbers begin anew in a context of the same name.
#[test]
fn a_destroyed_context_is_forgotten() {
    let mut world = world();
    for text in ["before", "after"] {
        world.command(Command::from(CreateContext {
            name: "side".to_owned(),
            ..CreateContext::default()
        }));
        world.command(Command::from(ChangeContext {
            context: "side".to_owned(),
            ops: vec![ContextOp::Append(Message::user(text))],
            ..ChangeContext::default()
        }));
        world.command(Command::from(SubmitTurn {
            context: "side".to_owned(),
            message: Some(Message::user("turn")),
            ..SubmitTurn::default()
        }));
        let messages = CompactedMessages {
            through: 1,
            ..CompactedMessages::default()
        };
        compact(&mut world, "side", messages, CompactionKind::Summary);
        assert_eq!(kept(&world, usize::MAX), [text]);
        world.reply(1, "well", &[]);
        if text == "before" {
            world.command(Command::from(DestroyContext {
                context: "side".to_owned(),
                ..DestroyContext::default()
            }));
        }
    }
}
