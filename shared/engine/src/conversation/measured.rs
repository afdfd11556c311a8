//! What a provider counted for the messages of a conversation.

use super::{Conversation, Entry, Op, ops::Side};
use crate::message::{Role, Usage};
use crate::tokens::{estimate_tokens, of_message};
use serde::{Deserialize, Serialize};

/// Tokens that a provider counted for the messages of a request. Later requests begin with the same messages,
/// so only what stands behind them has to be estimated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// Tokens of the messages, without the tools and the scratch of that request.
    pub tokens: u64,
    /// The estimate of the same messages. The next count estimates the newer ones alone.
    pub estimate: u64,
    /// Number of the last message that the request had; 0 for none. What is newer has a higher number, and
    /// stands behind all that was counted.
    pub through: u32,
    /// The name of the model in the settings; empty for the default one. Other models count otherwise.
    pub model: String,
}

/// The count of a request says something about its estimate: there was one request, and both are known.
pub(crate) fn is_sample(usage: &Usage, estimated_tokens: u64) -> bool {
    usage.model_calls == 1 && usage.input_tokens > 0 && estimated_tokens > 0
}

impl Conversation {
    /// Takes note of what a provider counted for a request. The conversation has the messages of the request,
    /// and not yet the reply. `model` is its name in the settings, and `estimated_tokens` the estimate of the
    /// whole request.
    ///
    /// Tools and scratch get their share of the count by their share of the estimate. A count that is not of
    /// one request, or is 0, changes nothing.
    pub fn measure(&mut self, model: &str, usage: &Usage, estimated_tokens: u64) {
        if !is_sample(usage, estimated_tokens) {
            return;
        }
        let estimate = self.estimate();
        let messages = estimate.min(estimated_tokens);
        let counted = u128::from(usage.input_tokens) * u128::from(messages);
        let tokens = counted / u128::from(estimated_tokens);
        self.measured = Some(Measured {
            tokens: u64::try_from(tokens).unwrap_or(u64::MAX),
            estimate,
            through: self.last_number,
            model: model.to_owned(),
        });
    }

    /// The estimate of the messages of a request, without the scratch. A fold meets a count with each reply, so it
    /// estimates no message twice while the messages stay.
    fn estimate(&self) -> u64 {
        match &self.measured {
            Some(measured) => {
                let newer = self.newer_than(measured.through);
                let newer: u64 = newer.map(|entry| of_message(&entry.message)).sum();
                measured.estimate.saturating_add(newer)
            }
            None => estimate_tokens(&self.without_scratch()),
        }
    }

    /// The messages of a request that stand behind those that were measured through this number.
    pub fn newer_than(&self, through: u32) -> impl Iterator<Item = &Entry> {
        let said = self.sent_in_window().iter().chain(&self.behind);
        said.filter(move |entry| entry.number > through)
    }

    /// What was measured stays as it was at the beginning of a request, also after the change.
    pub(super) fn keeps_measured(&self, side: Side, op: &Op) -> bool {
        let Some(measured) = &self.measured else {
            return true;
        };
        let is_newer = |entry: &Entry| entry.number > measured.through;
        let (last, is_at_end) = match side {
            Side::Behind => (self.behind.last(), true),
            // The messages behind the mark follow what is added here, and a window moves on by it.
            Side::Before => {
                let is_last = self.effective_window().is_none() && self.behind.iter().all(is_newer);
                (self.incremental.last(), is_last)
            }
        };
        match op {
            Op::Append(_) | Op::Insert { before: None, .. } => is_at_end,
            Op::Remind(_) | Op::Notice(_) => {
                let changed = last.filter(|last| last.message.role == Role::User);
                is_at_end && changed.is_none_or(is_newer)
            }
            Op::SetLayer(layer) => {
                let written = self.layer(layer.kind);
                let written = written.map_or("", |written| &written.text);
                written.trim_end() == layer.text.trim_end()
            }
            // No conversation meets it.
            Op::UseLayer(_) => true,
            Op::Insert {
                before: Some(_), ..
            }
            | Op::Update { .. }
            | Op::Remove { .. }
            | Op::Pop
            | Op::Retain(_)
            | Op::Clear
            | Op::SetWindow(_) => false,
        }
    }

    /// The mark moves to the end. The messages behind it from this place on are cut.
    pub(super) fn measure_through_mark(&mut self, kept: usize) {
        let Some(measured) = &self.measured else {
            return;
        };
        let mut cut = self.behind.iter().skip(kept);
        // A window counts from the mark.
        if self.effective_window().is_some() || cut.any(|entry| entry.number <= measured.through) {
            self.measured = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{
        CompactedMessages, CompactionKind, Layer, LayerKind, MemoryMark, Reminded, Reminder,
    };
    use crate::message::Message;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn counted(input_tokens: u64) -> Usage {
        Usage {
            input_tokens,
            model_calls: 1,
            ..Usage::default()
        }
    }

    fn user(text: &str) -> Message {
        Message::user(text)
    }

    fn assistant(text: &str) -> Message {
        Message::assistant(text, Vec::new())
    }

    fn prompt(text: &str) -> Op {
        Op::SetLayer(Layer::new(LayerKind::Prompt, text))
    }

    /// Messages 1 and 2 before the mark, 3 and 4 behind it, all counted.
    fn during_turn() -> Conversation {
        let mut it = Conversation::default();
        for op in [
            prompt("Be brief.\n"),
            Op::Append(user("a")),
            Op::Append(assistant("b")),
        ] {
            it.apply_before_mark(op).expect("it fits");
        }
        it.append(user("c"));
        it.append(assistant("d"));
        it.measure("m", &counted(100), 200);
        it
    }

    /// Messages 1 to 4 before the mark, all counted.
    fn after_turn() -> Conversation {
        let mut it = during_turn();
        it.move_mark(4).expect("the last message");
        it
    }

    fn keeps(mut it: Conversation, side: Side, op: &Op) -> bool {
        assert!(it.measured.is_some());
        let changed = match side {
            Side::Before => it.apply_before_mark(op.clone()),
            Side::Behind => it.apply(op.clone()),
        };
        changed.expect("it fits");
        it.measured.is_some()
    }

    fn reminder() -> Op {
        let through = MemoryMark::default();
        Op::Remind(Reminder {
            text: "memory".to_owned(),
            of: Reminded::Memory {
                since: None,
                through,
            },
        })
    }

    #[test]
    fn tools_and_scratch_have_their_share_of_the_count() {
        let mut it = during_turn();
        let messages = estimate_tokens(&it.messages());
        it.scratch = "notes".to_owned();
        it.measure("m", &counted(300), 2 * messages);
        let measured = it.measured.clone().expect("a count");
        assert_eq!((measured.tokens, measured.through), (150, 4));
        assert_eq!(measured.estimate, messages);
        assert_eq!(measured.model, "m");
        // An estimate that has less than the messages.
        it.measure("m", &counted(300), 1);
        assert_eq!(it.measured.as_ref().map(|it| it.tokens), Some(300));
        it.append(user("e"));
        let newer = it.newer_than(4).map(|entry| entry.message.text());
        assert_eq!(newer.collect::<Vec<_>>(), ["e"]);
    }

    #[test]
    fn a_count_of_nothing_or_of_two_requests_changes_nothing() {
        let mut it = during_turn();
        let before = it.measured.clone();
        let twice = Usage {
            model_calls: 2,
            ..counted(900)
        };
        for (usage, estimated) in [(twice, 900), (counted(0), 900), (counted(900), 0)] {
            it.measure("other", &usage, estimated);
            assert_eq!(it.measured, before);
        }
    }

    /// Of each change: whether the count stays, during a turn before the mark and behind it, and after a turn.
    #[test]
    fn a_change_of_what_was_counted_drops_the_count() {
        let insert = |before| Op::Insert {
            before,
            message: user("x"),
        };
        let kept = |op: &Op, [of_turn, of_context]: [bool; 2], is_at_rest: bool| {
            assert_eq!(keeps(during_turn(), Side::Before, op), of_context, "{op:?}");
            assert_eq!(keeps(during_turn(), Side::Behind, op), of_turn, "{op:?}");
            assert_eq!(keeps(after_turn(), Side::Before, op), is_at_rest, "{op:?}");
        };
        for op in [
            Op::Append(user("x")),
            insert(None),
            reminder(),
            Op::Notice("x".to_owned()),
        ] {
            kept(&op, [true, false], true);
        }
        kept(&prompt("Be brief.\n\n"), [true, true], true);
        for op in [
            Op::Pop,
            Op::Retain(Role::User),
            Op::Clear,
            Op::SetWindow(Some(1)),
            Op::SetWindow(None),
            prompt("Be long."),
            Op::SetLayer(Layer::new(LayerKind::Environment, "a folder")),
        ] {
            kept(&op, [false, false], false);
        }
        for (side, number) in [(Side::Before, 1), (Side::Behind, 3)] {
            let message = user("x");
            for op in [
                insert(Some(number)),
                Op::Update { number, message },
                Op::Remove { number },
            ] {
                assert!(!keeps(during_turn(), side, &op), "{op:?}");
            }
        }
    }

    #[test]
    fn a_text_that_is_added_to_a_counted_message_drops_the_count() {
        let mut it = during_turn();
        it.append(user("counted"));
        it.measure("m", &counted(100), 200);
        for op in [reminder(), Op::Notice("x".to_owned())] {
            assert!(!keeps(it.clone(), Side::Behind, &op), "{op:?}");
        }
        let mut it = during_turn();
        it.append(user("newer"));
        for op in [reminder(), Op::Notice("x".to_owned())] {
            assert!(keeps(it.clone(), Side::Behind, &op), "{op:?}");
        }
    }

    #[test]
    fn a_window_moves_on_with_the_mark_and_with_what_is_added_before_it() {
        let mut it = during_turn();
        it.window = Some(2);
        assert!(keeps(it.clone(), Side::Behind, &Op::Append(user("x"))));
        it.move_mark(4).expect("the last message");
        assert_eq!(it.measured, None);
        let mut at_rest = after_turn();
        at_rest.window = Some(2);
        assert!(!keeps(at_rest, Side::Before, &Op::Append(user("x"))));
    }

    #[test]
    fn a_window_of_the_agent_counts_like_its_own() {
        let mut it = during_turn();
        it.use_agent_window(Some(2));
        assert_eq!(it.measured, None);
        let mut it = during_turn();
        it.window = Some(2);
        it.use_agent_window(Some(1));
        assert!(it.measured.is_some(), "its own goes before");
        let mut it = during_turn();
        it.agent_window = Some(2);
        it.move_mark(4).expect("the last message");
        assert_eq!(it.measured, None);
        let mut at_rest = after_turn();
        at_rest.agent_window = Some(2);
        assert!(!keeps(at_rest, Side::Before, &Op::Append(user("x"))));
    }

    #[test]
    fn an_end_that_cuts_what_was_counted_drops_the_count() {
        for (kept_through, is_kept) in [(5, true), (4, true), (3, false), (0, false)] {
            let mut it = during_turn();
            it.append(user("newer"));
            it.move_mark(kept_through).expect("it is there");
            assert_eq!(it.measured.is_some(), is_kept, "{kept_through}");
        }
    }

    #[test]
    fn a_compaction_drops_the_count() {
        let behind = CompactedMessages {
            behind_mark: true,
            through: 3,
            ..CompactedMessages::default()
        };
        let before = CompactedMessages {
            through: 1,
            ..CompactedMessages::default()
        };
        for messages in [behind, before] {
            let mut it = during_turn();
            let text = "view".to_owned();
            let compacted = it.compact(&messages, CompactionKind::History, text);
            compacted.expect("they are there");
            assert_eq!(it.measured, None, "{messages:?}");
        }
    }

    fn texts() -> impl Strategy<Value = Message> {
        let role = prop_oneof![Just(Role::User), Just(Role::Assistant)];
        (role, "[a-z]{1,4}").prop_map(|(role, text)| Message {
            role,
            ..Message::user(text)
        })
    }

    /// A change of one side, or the end of a turn.
    #[derive(Debug, Clone)]
    enum Change {
        Op(Side, Op),
        End(u32),
    }

    fn changes() -> impl Strategy<Value = Change> {
        let numbered = || (0..12_u32, texts());
        let inserted = (prop::option::of(0..12_u32), texts());
        let text = || "[a-z]{0,3}";
        let ops = prop_oneof![
            6 => texts().prop_map(Op::Append),
            1 => numbered().prop_map(|(number, message)| Op::Update { number, message }),
            2 => inserted.prop_map(|(before, message)| Op::Insert { before, message }),
            1 => (0..12_u32).prop_map(|number| Op::Remove { number }),
            1 => Just(Op::Pop),
            1 => Just(Op::Retain(Role::User)),
            1 => text().prop_map(|text| prompt(&text)),
            2 => text().prop_map(Op::Notice),
            1 => prop::option::of(1..4_u32).prop_map(Op::SetWindow),
        ];
        let side = prop_oneof![Just(Side::Before), Just(Side::Behind)];
        prop_oneof![
            6 => (side, ops).prop_map(|(side, op)| Change::Op(side, op)),
            1 => (0..12_u32).prop_map(Change::End),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

        /// While there is a count, a request begins with what was counted, and the rest of it is newer.
        #[test]
        fn what_was_counted_stays_at_the_beginning(
            changes in prop::collection::vec(changes(), 1..24),
            at in 0..12_usize,
        ) {
            let mut it = Conversation::default();
            let mut before: Vec<Arc<Message>> = Vec::new();
            for (place, change) in changes.into_iter().enumerate() {
                if place == at {
                    it.measure("m", &counted(100), 1_000);
                    before = it.messages();
                }
                // One that does not fit changes nothing.
                let _ = match change {
                    Change::Op(Side::Before, op) => it.apply_before_mark(op),
                    Change::Op(Side::Behind, op) => it.apply(op),
                    Change::End(kept_through) => it.move_mark(kept_through).map(|_| ()),
                };
                let Some(measured) = &it.measured else {
                    continue;
                };
                let now = it.messages();
                prop_assert!(now.starts_with(&before), "{before:?}: {now:?}");
                let newer = it.newer_than(measured.through);
                let newer: Vec<_> = newer.map(|entry| Arc::clone(&entry.message)).collect();
                prop_assert_eq!(&now[before.len()..], &newer[..]);
                prop_assert_eq!(it.estimate(), estimate_tokens(&now));
            }
        }
    }
}
