//! The conversation of an attempt: what it begins with, how it changes, and what a model is told.

use crate::turns::submit;
use crate::world::{World, chain, kinds, look, model_step, report_reply};
use cairn_engine::conversation::{
    CompactedMessages, CompactionKind, Conversation, Entry, Layer, LayerKind, MemoryMark, Op,
    Reminded, Reminder,
};
use cairn_engine::decide::{Input, Prompts};
use cairn_engine::event::{self, ContextChanged, Event, EventKind};
use cairn_engine::message::{FinishReason, Message, Notice, Opaque, Part, PlacedOpaque, Role};
use proptest::prelude::*;

pub(crate) fn world() -> World {
    World::with_plan(chain(vec![model_step("one"), model_step("two")]))
}

pub(crate) fn changes(events: &[Event]) -> Vec<&ContextChanged> {
    let changes = events.iter().filter_map(|event| match &event.kind {
        EventKind::ContextChanged(changed) => Some(changed),
        _ => None,
    });
    changes.collect()
}

pub(crate) fn memory(world: &mut World, value: &str) {
    world.foreign(EventKind::MemorySet(event::MemorySet {
        key: "key".to_owned(),
        value: value.to_owned(),
        writer: None,
        metadata: Default::default(),
    }));
}

/// A reply of step 1 that ended for this reason.
fn ended(world: &mut World, finish: FinishReason) -> Vec<Event> {
    let running = world.session.attempt(world.attempt(1)).unwrap();
    let seen = (running.tool_turns, running.newest_op());
    let mut input = report_reply(world.attempt(1), seen, "text", &[]);
    if let Input::Report {
        reply: Some(reply), ..
    } = &mut input
    {
        reply.finish = finish;
    }
    world.decide(input)
}

/// The text of the last change that a model was told.
pub(crate) fn last_reported(world: &World) -> String {
    let said = world.session.said(world.attempt(1));
    let last = said.last().map(|message| message.text());
    last.unwrap_or_default()
}

#[test]
fn a_reminder_of_the_workspace_has_its_mark_and_no_other_one() {
    for kind in [
        LayerKind::Prompt,
        LayerKind::Context,
        LayerKind::Instructions,
    ] {
        let digest = String::new();
        let reminder = Reminder {
            text: "reminder".to_owned(),
            of: Reminded::Layer { kind, digest },
        };
        let mut conversation = Conversation::default();
        for op in [
            Op::Append(Message::user("hello")),
            Op::Remind(reminder),
            Op::Notice("notice".to_owned()),
        ] {
            conversation.apply(op).unwrap();
        }
        let notice = |text: &str, is_of_workspace| {
            Part::Notice(Notice {
                text: text.to_owned(),
                is_of_workspace,
            })
        };
        let expected = [
            Part::Text("hello".to_owned()),
            notice("reminder", kind == LayerKind::Instructions),
            notice("notice", false),
        ];
        assert_eq!(conversation.behind[0].message.parts, expected, "{kind:?}");
    }
}

#[test]
fn a_layer_that_was_written_before_is_only_named() {
    let mut world = world();
    let first = changes(&world.journal)[0];
    assert!(matches!(&first.ops[..], [Op::SetLayer(layer)] if layer.kind == LayerKind::Prompt));
    memory(&mut world, "new");
    let events = world.complete(1, "done");
    let second = *changes(&events).last().unwrap();
    let [Op::UseLayer(known), Op::SetLayer(memory)] = &second.ops[..] else {
        panic!("two layers: {:?}", second.ops);
    };
    assert_eq!((known.kind, known.number), (LayerKind::Prompt, 1));
    assert!(memory.text.contains("key: new"));
    let sent = world.session.attempt(world.attempt(2)).unwrap();
    let context = sent.conversation.immutable[0].message.text();
    assert!(context.contains("## Current step (step 2)"));
    assert_eq!(
        sent.waiting_ops.len(),
        2,
        "the prompt is written out for the executor"
    );
}

#[test]
fn the_first_layer_is_how_a_step_is_carried_out_and_the_guide() {
    let world = world();
    let [Op::SetLayer(first), ..] = &changes(&world.journal)[0].ops[..] else {
        panic!("a layer: {:?}", world.journal);
    };
    assert_eq!(first.kind, LayerKind::Prompt);
    let (execution, guide) = first.text.split_once("\n\n# ").unwrap();
    assert!(execution.starts_with("# Carrying out a step\n\n"));
    assert!(guide.starts_with("Working with progress, notes and memory\n\n"));
    assert_eq!(guide.trim(), guide);
}

/// The text of the first layer of a conversation.
fn first_layer(world: &World) -> &str {
    let first = changes(&world.journal)[0];
    let [Op::SetLayer(layer), ..] = &first.ops[..] else {
        panic!("a layer: {:?}", first.ops);
    };
    &layer.text
}

#[test]
fn prompts_of_the_operator_are_the_first_layers() {
    let own = Prompts::new("Work.\n", "Use the tools.\n", "Talk.\n", "Sum up.");
    let mut step = World::new();
    step.prompts = own.clone();
    step.start(chain(vec![model_step("one")]));
    assert_eq!(first_layer(&step), "Work.\n\nUse the tools.");
    let mut turn = World::new();
    turn.prompts = own;
    submit(&mut turn, "hello");
    assert_eq!(first_layer(&turn), "Talk.");
}

#[test]
fn a_running_attempt_is_told_of_another_prompt() {
    let mut world = world();
    world.prompts = Prompts::new("Work.", "", "", "");
    world.reply(1, "I look.", &[look()]);
    world.result(1, 0, "seen");
    let told = last_reported(&world);
    let expected = "Your instructions have changed. They are now:\nWork.\n";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn changed_memory_is_a_reminder_after_the_results() {
    let mut world = world();
    world.reply(1, "", &[look()]);
    memory(&mut world, "first");
    memory(&mut world, "second");
    let events = world.result(1, 0, "seen");
    let [changed] = changes(&events)[..] else {
        panic!("one reminder: {events:?}");
    };
    assert_eq!(changed.ops.len(), 1);
    let said = world.session.said(world.attempt(1));
    let roles: Vec<_> = said.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::Assistant, Role::Tool, Role::User]);
    let text = last_reported(&world);
    assert!(
        text.starts_with("<system-reminder>\n") && text.contains("key: second"),
        "{text}"
    );
    // What was told is not told again.
    assert_eq!(kinds(&world.reply(1, "", &[look()])), ["ReplyReceived"]);
}

#[test]
fn memory_that_changed_with_a_report_is_in_the_next_request() {
    let mut world = world();
    // A client wrote while the model was asked, and the owner read it after it had decided the reply. Its
    // executor may ask again before the owner has the result.
    world.reply(1, "", &[look()]);
    memory(&mut world, "first");
    let attempts = vec![world.attempt(1)];
    let events = world.decide(Input::MemoryChanged { attempts });
    assert_eq!(changes(&events).len(), 1, "{events:?}");
    let attempts = vec![world.attempt(1)];
    let again = world.decide(Input::MemoryChanged { attempts });
    assert!(again.is_empty(), "{again:?}");
    world.result(1, 0, "seen");
    let said = world.session.said(world.attempt(1));
    let roles: Vec<_> = said.iter().map(|it| it.role).collect();
    assert_eq!(roles, [Role::Assistant, Role::Tool, Role::User]);
    assert!(last_reported(&world).contains("key: first"));
}

#[test]
fn a_request_that_was_built_before_a_change_keeps_it_for_the_next() {
    let mut world = world();
    world.reply(1, "", &[look()]);
    let before = world.session.attempt(world.attempt(1)).unwrap().newest_op();
    memory(&mut world, "late");
    world.result(1, 0, "seen");
    let reply = report_reply(world.attempt(1), (1, before), "", &[look()]);
    world.decide(reply);
    let running = world.session.attempt(world.attempt(1)).unwrap();
    let last = running.conversation.behind.last().unwrap();
    assert_eq!(
        last.message.role,
        Role::Assistant,
        "the reminder follows its results"
    );
    assert_eq!(running.waiting_ops.len(), 1);
    let beyond = report_reply(world.attempt(1), (2, before + 9), "", &[]);
    assert!(world.try_decide(beyond).is_err());
}

#[test]
fn a_cut_reply_is_continued_three_times_in_a_row() {
    let mut world = world();
    for _ in 0..3 {
        ended(&mut world, FinishReason::Length);
        assert!(last_reported(&world).starts_with("Your last reply was cut"));
    }
    ended(&mut world, FinishReason::Stop);
    assert!(last_reported(&world).starts_with("Continue with the step"));
    for _ in 0..3 {
        ended(&mut world, FinishReason::Length);
    }
    let events = ended(&mut world, FinishReason::Length);
    let reason = events.iter().find_map(|event| match &event.kind {
        EventKind::StepFailed(failed) => Some(failed.failure.reason.as_str()),
        _ => None,
    });
    assert_eq!(reason, Some("reply_cut"));
}

#[test]
fn a_refusal_fails_the_step() {
    let mut world = world();
    let events = ended(&mut world, FinishReason::Refusal);
    let failed = events.iter().any(|event| match &event.kind {
        EventKind::StepFailed(failed) => failed.failure.reason == "refused",
        _ => false,
    });
    assert!(failed, "{events:?}");
}

#[test]
fn a_reply_comes_apart_and_together_again() {
    let opaque = |kind: &str| {
        Part::Opaque(Opaque {
            provider: "p".to_owned(),
            model: "m".to_owned(),
            kind: kind.to_owned(),
            json: "{}".to_owned(),
        })
    };
    let mut message = Message::assistant("text", vec![look(), look()]);
    message.parts.insert(3, opaque("last"));
    message.parts.insert(2, opaque("between"));
    message.parts.insert(0, opaque("second"));
    message.parts.insert(0, opaque("first"));
    let (text, calls, placed) = message.clone().into_reply();
    assert_eq!((&*text, calls.len(), placed.len()), ("text", 2, 4));
    assert_eq!(Message::reply(text, calls, placed), message);

    let said = |text: &str| Part::Text(text.to_owned());
    let interleaved = [
        vec![opaque("first"), said("ä"), opaque("second"), said("b")],
        vec![
            Part::Call(look()),
            opaque("third"),
            said("c"),
            Part::Call(look()),
        ],
    ];
    let message = Message {
        role: Role::Assistant,
        parts: interleaved.concat(),
    };
    let (text, calls, placed) = message.clone().into_reply();
    assert_eq!((&*text, calls.len(), placed.len()), ("äbc", 2, 3));
    assert_eq!(Message::reply(text, calls, placed), message);
}

#[test]
fn a_place_that_a_reply_does_not_have_loses_nothing() {
    let placed = |calls, text_bytes| PlacedOpaque {
        calls,
        text_bytes,
        opaque: Opaque {
            provider: String::new(),
            model: String::new(),
            kind: String::new(),
            json: String::new(),
        },
    };
    let opaque = vec![placed(7, 1), placed(0, u32::MAX), placed(0, 0)];
    let reply = Message::reply("äb".to_owned(), vec![look()], opaque);
    let (text, calls, opaque) = reply.into_reply();
    assert_eq!((&*text, calls.len(), opaque.len()), ("äb", 1, 3));
}

fn messages() -> impl Strategy<Value = Message> {
    let role = prop_oneof![Just(Role::User), Just(Role::Assistant)];
    (role, "[a-z]{1,4}").prop_map(|(role, text)| Message {
        role,
        parts: vec![Part::Text(text)],
    })
}

/// Changes whose numbers may be those of messages that are there, that are gone, or that never were.
fn ops() -> impl Strategy<Value = Op> {
    let numbered = || (0..12_u32, messages());
    let inserted = (prop::option::of(0..12_u32), messages());
    prop_oneof![
        4 => messages().prop_map(Op::Append),
        2 => numbered().prop_map(|(number, message)| Op::Update { number, message }),
        3 => inserted.prop_map(|(before, message)| Op::Insert { before, message }),
        2 => (0..12_u32).prop_map(|number| Op::Remove { number }),
        1 => Just(Op::Pop),
        1 => Just(Op::Retain(Role::User)),
        1 => Just(Op::Clear),
    ]
}

/// What happens to a conversation.
#[derive(Debug, Clone)]
enum Change {
    Op(Op),
    Compact(CompactedMessages, CompactionKind),
    /// The mark moves to the end.
    EndTurn,
}

/// Compactions of messages that are there, that are gone, or that never were.
fn compactions() -> impl Strategy<Value = Change> {
    let after = prop_oneof![2 => Just(0), 1 => 0..16_u32];
    let kind = prop_oneof![Just(CompactionKind::History), Just(CompactionKind::Summary)];
    let flags = (any::<bool>(), prop::bool::weighted(0.2));
    (flags, after, 0..16_u32, kind).prop_map(
        |((behind_mark, with_compressed), after, through, kind)| {
            let messages = CompactedMessages {
                behind_mark,
                after,
                through,
                with_compressed,
            };
            Change::Compact(messages, kind)
        },
    )
}

fn some_changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        12 => ops().prop_map(Change::Op),
        6 => compactions(),
        1 => Just(Change::EndTurn),
    ]
}

type Numbered = (u32, Message, Option<CompactionKind>);

/// The same over plain lists of messages with their numbers.
#[derive(Debug, Default)]
struct Plain {
    last_number: u32,
    compressed: Vec<Numbered>,
    /// Before the mark.
    before: Vec<Numbered>,
    /// Behind the mark.
    list: Vec<Numbered>,
}

fn position(list: &[Numbered], wanted: u32) -> Option<usize> {
    list.iter().position(|(number, ..)| *number == wanted)
}

impl Plain {
    fn numbered(&mut self, message: Message) -> Numbered {
        self.last_number += 1;
        (self.last_number, message, None)
    }

    fn place(&self, wanted: u32) -> Option<usize> {
        position(&self.list, wanted)
    }

    /// Nothing if the messages are not there.
    fn compact(&mut self, messages: CompactedMessages, kind: CompactionKind) -> Option<()> {
        let is_behind = messages.behind_mark;
        let side = if is_behind { &self.list } else { &self.before };
        if (is_behind && messages.with_compressed) || (!is_behind && messages.after > 0) {
            return None;
        }
        let takes_only_compressed =
            messages.through == 0 && messages.with_compressed && !self.compressed.is_empty();
        let kept = match messages.after {
            0 => 0,
            after => position(side, after)? + 1,
        };
        let through = match takes_only_compressed {
            true => 0,
            false => Some(position(side, messages.through)? + 1).filter(|end| *end > kept)?,
        };
        self.last_number += 1;
        let text = "what stands for them";
        let message = match kind {
            CompactionKind::History => Message::assistant(text, Vec::new()),
            CompactionKind::Summary => Message::user(text),
        };
        let entry = (self.last_number, message, Some(kind));
        if is_behind {
            self.list.drain(kept..through);
            self.list.insert(kept, entry);
            return Some(());
        }
        self.before.drain(..through);
        let history = Some(CompactionKind::History);
        let last = self.compressed.last().and_then(|(.., kind)| *kind);
        if messages.with_compressed {
            self.compressed.clear();
        } else if Some(kind) == history && last == history {
            self.compressed.pop();
        }
        self.compressed.push(entry);
        Some(())
    }

    /// Nothing if the change names a message that is not there.
    fn apply(&mut self, op: Op) -> Option<()> {
        match op {
            Op::Append(message) => {
                let last = self.numbered(message);
                self.list.push(last);
            }
            Op::Update { number, message } => {
                let at = self.place(number)?;
                self.list[at] = (number, message, None);
            }
            Op::Insert { before, message } => {
                let at = match before {
                    Some(number) => self.place(number)?,
                    None => self.list.len(),
                };
                let inserted = self.numbered(message);
                self.list.insert(at, inserted);
            }
            Op::Remove { number } => {
                let at = self.place(number)?;
                self.list.remove(at);
            }
            Op::Pop => drop(self.list.pop()),
            Op::Retain(role) => self.list.retain(|(_, message, _)| message.role == role),
            Op::Clear => self.list.clear(),
            Op::UseLayer(_) => return None,
            Op::SetLayer(_) | Op::Remind(_) | Op::Notice(_) | Op::SetWindow(_) => {}
        }
        Some(())
    }
}

fn plain(entries: &[Entry]) -> Vec<Numbered> {
    let entries = entries.iter();
    let numbered = entries.map(|entry| {
        let message = Message::clone(&entry.message);
        (entry.number, message, entry.compaction)
    });
    numbered.collect()
}

fn length(it: &Conversation) -> usize {
    it.compressed.len() + it.incremental.len() + it.behind.len()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changes_are_those_of_plain_lists(changes in prop::collection::vec(some_changes(), 0..32)) {
        let mut conversation = Conversation::beginning_with([Message::user("first")]);
        let mut expected = Plain { last_number: 1, ..Plain::default() };
        for change in changes {
            let before = conversation.clone();
            let (fits, applied) = match change {
                Change::Op(op) => (expected.apply(op.clone()), conversation.apply(op)),
                Change::Compact(messages, kind) => {
                    let text = "what stands for them".to_owned();
                    let gone = conversation.replaced_by(kind, &messages).map(|gone| gone.len());
                    let applied = conversation.compact(&messages, kind, text);
                    if let Ok(gone) = gone {
                        prop_assert_eq!(length(&conversation), length(&before) - gone + 1);
                    }
                    (expected.compact(messages, kind), applied)
                }
                Change::EndTurn => {
                    conversation.incremental.append(&mut conversation.behind);
                    expected.before.append(&mut expected.list);
                    (Some(()), Ok(()))
                }
            };
            prop_assert_eq!(applied.is_ok(), fits.is_some());
            if applied.is_err() {
                prop_assert_eq!(&conversation, &before);
            }
            prop_assert_eq!(&plain(&conversation.behind), &expected.list);
            prop_assert_eq!(&plain(&conversation.incremental), &expected.before);
            prop_assert_eq!(&plain(&conversation.compressed), &expected.compressed);
            prop_assert_eq!(conversation.last_number, expected.last_number);
        }
        let stable = 1 + expected.compressed.len() + expected.before.len();
        prop_assert_eq!(conversation.stable(), stable);
    }

    /// No change of a layer touches what was sent before.
    #[test]
    fn a_reminder_changes_no_message_before_it(texts in prop::collection::vec("[a-z]{0,4}", 1..6)) {
        let reminder = |text: &str| Reminder {
            text: text.to_owned(),
            of: Reminded::Memory { since: None, through: MemoryMark::default() },
        };
        let mut conversation = Conversation::default();
        conversation.apply(Op::SetLayer(Layer::new(LayerKind::Memory, "first"))).unwrap();
        conversation.apply(Op::Append(Message::assistant("hm", Vec::new()))).unwrap();
        for text in &texts {
            let before = conversation.messages();
            conversation.apply(Op::Remind(reminder(text))).unwrap();
            conversation.apply(Op::Append(Message::assistant("hm", Vec::new()))).unwrap();
            prop_assert_eq!(&conversation.messages()[..before.len()], &before[..]);
            let said = &conversation.behind[conversation.behind.len() - 2].message;
            let notice = Notice { text: text.clone(), is_of_workspace: false };
            prop_assert_eq!(&**said, &Message { role: Role::User, parts: vec![Part::Notice(notice)] });
        }
    }
}
