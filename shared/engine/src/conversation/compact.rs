//! One message in the place of older ones.

use super::{Conversation, Entry, place};
use crate::message::Message;
use crate::transitions::{Applied, IllegalTransition};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What stands for older messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CompactionKind {
    /// A list of what was said and done, which no model made: a message of the assistant.
    History,
    /// What a model wrote of it: a message of the user.
    Summary,
}

impl CompactionKind {
    /// The message with this text. The text is whole; nothing is added to it.
    pub(crate) fn message(self, text: String) -> Message {
        match self {
            Self::History => Message::assistant(text, Vec::new()),
            Self::Summary => Message::user(text),
        }
    }
}

/// The messages that a compaction replaces, on one side of the mark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactedMessages {
    /// They stand behind the mark.
    pub behind_mark: bool,
    /// Number of the last message that stays before them, on that side; 0 if they are the first ones there.
    /// Before the mark always 0, because the text joins the compressed messages, which come before all others.
    pub after: u32,
    /// Number of the last of them; 0 for none on that side. Then only the compressed messages are replaced.
    pub through: u32,
    /// The compressed messages are replaced too; never behind the mark.
    pub with_compressed: bool,
}

impl Conversation {
    /// Replaces the messages by one, which gets a number of its own. Before the mark the text joins the
    /// compressed messages, and a history view takes the place of the history view that is the last of them,
    /// if there is one. Behind the mark it stands where the messages stood.
    ///
    /// # Errors
    /// The messages are not there, or are none; nothing has changed then.
    pub fn compact(
        &mut self,
        messages: &CompactedMessages,
        kind: CompactionKind,
        text: String,
    ) -> Applied {
        let range = self.range(messages)?;
        let kept = self.compressed_kept(messages, kind);
        let entry = Entry {
            compaction: Some(kind),
            ..self.numbered(kind.message(text))
        };
        let gone: Vec<u32> = match messages.behind_mark {
            true => numbers(self.behind.splice(range, [entry])),
            false => {
                self.compressed.truncate(kept);
                self.compressed.push(entry);
                numbers(self.incremental.drain(range))
            }
        };
        self.reminders.forget(gone);
        self.measured = None;
        Ok(())
    }

    /// The messages that would go for a history view, in order. The first one is the history view before them
    /// that [`Conversation::compact`] would replace too, if there is one.
    ///
    /// # Errors
    /// The messages are not there, or are none.
    pub fn to_compact(
        &self,
        messages: &CompactedMessages,
    ) -> Result<Vec<&Entry>, IllegalTransition> {
        self.replaced_by(CompactionKind::History, messages)
    }

    /// The messages that would go for a text of that kind, in order. A summary leaves a history view before
    /// them where it is, unless it takes all compressed messages.
    ///
    /// # Errors
    /// The messages are not there, or are none.
    pub fn replaced_by(
        &self,
        kind: CompactionKind,
        messages: &CompactedMessages,
    ) -> Result<Vec<&Entry>, IllegalTransition> {
        let range = self.range(messages)?;
        let compressed = &self.compressed[self.compressed_kept(messages, kind)..];
        let side = self.side_of(messages);
        Ok(compressed.iter().chain(&side[range]).collect())
    }

    fn side_of(&self, messages: &CompactedMessages) -> &[Entry] {
        match messages.behind_mark {
            true => &self.behind,
            false => &self.incremental,
        }
    }

    /// Where the messages stand on their side of the mark.
    fn range(&self, messages: &CompactedMessages) -> Result<Range<usize>, IllegalTransition> {
        let CompactedMessages {
            behind_mark,
            after,
            through,
            with_compressed,
        } = *messages;
        let is_ordered = match behind_mark {
            true => !with_compressed,
            false => after == 0,
        };
        if !is_ordered {
            return Err(malformed(messages));
        }
        let side = self.side_of(messages);
        let first = match after {
            0 => 0,
            number => 1 + place(side, number)?,
        };
        if through == 0 && with_compressed && !self.compressed.is_empty() {
            return Ok(first..first);
        }
        let end = 1 + place(side, through)?;
        match first < end {
            true => Ok(first..end),
            false => Err(malformed(messages)),
        }
    }

    /// How many of the compressed messages stay.
    fn compressed_kept(&self, messages: &CompactedMessages, kind: CompactionKind) -> usize {
        let all = self.compressed.len();
        if messages.behind_mark {
            return all;
        }
        if messages.with_compressed {
            return 0;
        }
        let is_view = |entry: &Entry| entry.compaction == Some(CompactionKind::History);
        let follows_view = self.compressed.last().is_some_and(is_view);
        match kind {
            CompactionKind::History if follows_view => all - 1,
            _ => all,
        }
    }
}

fn numbers(gone: impl Iterator<Item = Entry>) -> Vec<u32> {
    gone.map(|entry| entry.number).collect()
}

fn malformed(messages: &CompactedMessages) -> IllegalTransition {
    IllegalTransition::Malformed {
        what: format!("a compaction of {messages:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{LayerKind, Op, Reminded, Reminder};

    /// Messages 1 to 3 before the mark, 4 to 6 behind it.
    fn conversation() -> Conversation {
        let mut conversation = Conversation::default();
        for text in ["a", "b", "c"] {
            let append = Op::Append(Message::user(text));
            conversation.apply_before_mark(append).expect("it fits");
        }
        for text in ["d", "e", "f"] {
            conversation.append(Message::user(text));
        }
        conversation
    }

    fn before(through: u32) -> CompactedMessages {
        CompactedMessages {
            through,
            ..CompactedMessages::default()
        }
    }

    fn behind(after: u32, through: u32) -> CompactedMessages {
        CompactedMessages {
            behind_mark: true,
            after,
            ..before(through)
        }
    }

    fn all_compressed(through: u32) -> CompactedMessages {
        CompactedMessages {
            with_compressed: true,
            ..before(through)
        }
    }

    /// `number text`, with a sign for what stands for older messages.
    fn shown(entries: &[Entry]) -> String {
        let shown = entries.iter().map(|entry| {
            let sign = match entry.compaction {
                Some(CompactionKind::History) => "*",
                Some(CompactionKind::Summary) => "+",
                None => "",
            };
            format!("{}{} {}", entry.number, sign, entry.message.text())
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    fn compact(
        conversation: &mut Conversation,
        messages: CompactedMessages,
        kind: CompactionKind,
        text: &str,
    ) {
        let compacted = conversation.compact(&messages, kind, text.to_owned());
        compacted.expect("the messages are there");
    }

    #[test]
    fn a_view_takes_the_place_of_the_view_before_it() {
        use CompactionKind::{History, Summary};
        let mut it = conversation();
        compact(&mut it, before(1), History, "view");
        assert_eq!(shown(&it.compressed), "7* view");
        assert_eq!(shown(&it.incremental), "2 b, 3 c");
        let gone = it.to_compact(&before(2)).expect("they are there");
        let gone: Vec<u32> = gone.iter().map(|entry| entry.number).collect();
        assert_eq!(gone, [7, 2]);
        compact(&mut it, before(2), History, "longer");
        assert_eq!(shown(&it.compressed), "8* longer");
        let for_summary = it.replaced_by(Summary, &before(3)).expect("they are there");
        assert_eq!(for_summary.len(), 1, "the view stays");
        compact(&mut it, before(3), Summary, "summary");
        assert_eq!(shown(&it.compressed), "8* longer, 9+ summary");
        assert_eq!(shown(&it.incremental), "");
    }

    #[test]
    fn the_view_after_a_summary_begins_anew() {
        use CompactionKind::{History, Summary};
        let mut it = conversation();
        compact(&mut it, before(1), Summary, "summary");
        compact(&mut it, before(2), History, "view");
        assert_eq!(shown(&it.compressed), "7+ summary, 8* view");
        compact(&mut it, all_compressed(0), Summary, "all");
        assert_eq!(shown(&it.compressed), "9+ all");
        assert_eq!(shown(&it.incremental), "3 c");
        compact(&mut it, all_compressed(3), Summary, "more");
        assert_eq!(
            (shown(&it.compressed), it.incremental.len()),
            ("10+ more".to_owned(), 0)
        );
    }

    #[test]
    fn behind_the_mark_one_stands_where_many_stood() {
        use CompactionKind::{History, Summary};
        let mut it = conversation();
        compact(&mut it, behind(4, 5), History, "view");
        assert_eq!(shown(&it.behind), "4 d, 7* view, 6 f");
        // The view before is one of the messages then.
        compact(&mut it, behind(4, 6), Summary, "summary");
        assert_eq!(shown(&it.behind), "4 d, 8+ summary");
        assert_eq!(it.messages()[4].text(), "summary");
        compact(&mut it, behind(0, 8), History, "all");
        assert_eq!(shown(&it.behind), "9* all");
        assert_eq!(it.incremental.len(), 3);
        it.append(Message::user("g"));
        assert_eq!(it.last_number, 10);
    }

    #[test]
    fn messages_that_are_not_there_change_nothing() {
        let faulty = [
            before(0),
            before(4),
            behind(0, 3),
            behind(5, 5),
            behind(6, 5),
            behind(9, 6),
            all_compressed(0),
            CompactedMessages {
                after: 1,
                ..before(2)
            },
            CompactedMessages {
                with_compressed: true,
                ..behind(0, 5)
            },
        ];
        let whole = conversation();
        for messages in faulty {
            let mut it = whole.clone();
            let text = "text".to_owned();
            let compacted = it.compact(&messages, CompactionKind::History, text);
            assert!(compacted.is_err(), "{messages:?}");
            assert!(it.to_compact(&messages).is_err(), "{messages:?}");
            assert_eq!(it, whole);
        }
    }

    #[test]
    fn a_reminder_goes_with_its_message() {
        let of = Reminded::Layer {
            kind: LayerKind::Environment,
            digest: "digest".to_owned(),
        };
        let mut it = conversation();
        let text = "the environment has changed".to_owned();
        it.apply(Op::Remind(Reminder { text, of }))
            .expect("it fits");
        assert!(it.sent(LayerKind::Environment).is_some());
        compact(&mut it, behind(0, 5), CompactionKind::History, "view");
        assert!(it.sent(LayerKind::Environment).is_some());
        compact(&mut it, behind(0, 6), CompactionKind::History, "all");
        assert!(it.sent(LayerKind::Environment).is_none());
    }

    #[test]
    fn a_message_that_is_updated_stands_for_itself() {
        let mut it = conversation();
        compact(&mut it, behind(0, 5), CompactionKind::History, "view");
        let message = Message::user("other");
        it.apply(Op::Update { number: 7, message })
            .expect("it fits");
        assert_eq!(shown(&it.behind), "7 other, 6 f");
    }
}
