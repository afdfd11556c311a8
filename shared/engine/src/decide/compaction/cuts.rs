//! Where a conversation can be cut: what is older gives way, and what is newer stays.

use crate::conversation::{CompactedMessages, CompactionKind, Conversation, Entry};
use crate::message::Role;
use std::ops::Range;

/// What counts as one where the newest ones stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// A reply with its results, and the messages of the user that stand directly before it.
    ToolTurn,
    /// The same, or another message of the user.
    Message,
}

/// Messages that follow each other on one side of the mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) is_behind: bool,
    /// By their places on that side.
    pub(super) range: Range<usize>,
}

/// The places at which a conversation can be cut.
#[derive(Debug)]
pub(super) struct Cuts<'a> {
    conversation: &'a Conversation,
    unit: Unit,
    /// Where units begin before the mark, oldest first.
    before: Vec<usize>,
    /// The same behind the mark.
    behind: Vec<usize>,
    /// Where the messages behind the mark begin that may go.
    first_behind: usize,
}

impl<'a> Cuts<'a> {
    /// In a turn the first message behind the mark stays if a person said it.
    pub(super) fn new(conversation: &'a Conversation, is_turn: bool, unit: Unit) -> Self {
        let first = conversation.behind.first();
        Self {
            conversation,
            unit,
            before: places(&conversation.incremental, unit),
            behind: places(&conversation.behind, unit),
            first_behind: usize::from(is_turn && first.is_some_and(is_said)),
        }
    }

    /// What is older than so many of the newest units: before the mark, and behind it. None where nothing
    /// is.
    pub(super) fn older_than(&self, units: u32) -> [Option<Part>; 2] {
        let units = units as usize;
        let (before, behind) = match self.behind.len().checked_sub(units) {
            Some(at) if units > 0 => {
                let at = self.behind[at];
                (self.end_before(at), at)
            }
            _ => {
                let rest = units.saturating_sub(self.behind.len());
                match self.before.len().checked_sub(rest) {
                    Some(at) if rest > 0 => (self.before[at], 0),
                    _ => (0, 0),
                }
            }
        };
        let is_there = |part: &Part| !part.range.is_empty();
        let before = Part {
            is_behind: false,
            range: 0..before,
        };
        let behind = Part {
            is_behind: true,
            range: self.first_behind..behind,
        };
        [before, behind].map(|part| Some(part).filter(is_there))
    }

    /// Where the messages before the mark end that may go, if those behind it may up to this place. What was
    /// said before a reply may stand on both sides of the mark.
    fn end_before(&self, behind: usize) -> usize {
        let said = &self.conversation.incremental;
        match (self.unit, behind) {
            (Unit::ToolTurn, 0) => said.len() - said_last(said),
            _ => said.len(),
        }
    }

    /// Shorter parts with the same beginning, the longest first.
    pub(super) fn shorter(&self, part: &Part) -> impl Iterator<Item = Part> {
        let places = match part.is_behind {
            true => &self.behind,
            false => &self.before,
        };
        let Range { start, end } = part.range;
        let is_behind = part.is_behind;
        let places = places.iter().rev().copied();
        let within = places.filter(move |at| start < *at && *at < end);
        within.map(move |end| Part {
            is_behind,
            range: start..end,
        })
    }

    /// The messages of a part.
    pub(super) fn entries(&self, part: &Part) -> &'a [Entry] {
        let side = side(self.conversation, part.is_behind);
        side.get(part.range.clone()).unwrap_or_default()
    }

    /// The part without what stands before the last summary in it, and without that.
    pub(super) fn after_summaries(&self, part: &Part) -> Part {
        let is_summary = |entry: &Entry| entry.compaction == Some(CompactionKind::Summary);
        let last = self.entries(part).iter().rposition(is_summary);
        let more = last.map_or(0, |last| last + 1);
        Part {
            is_behind: part.is_behind,
            range: part.range.start + more..part.range.end,
        }
    }

    /// The part by the numbers of its messages.
    pub(super) fn named(&self, part: &Part) -> CompactedMessages {
        named(self.conversation, part)
    }
}

fn side(conversation: &Conversation, is_behind: bool) -> &[Entry] {
    match is_behind {
        true => &conversation.behind,
        false => &conversation.incremental,
    }
}

/// A part by the numbers of its messages.
pub(super) fn named(conversation: &Conversation, part: &Part) -> CompactedMessages {
    let side = side(conversation, part.is_behind);
    let before = |at: usize| {
        let entry = at.checked_sub(1).and_then(|at| side.get(at));
        entry.map_or(0, |entry| entry.number)
    };
    CompactedMessages {
        behind_mark: part.is_behind,
        after: before(part.range.start),
        through: match part.range.is_empty() {
            true => 0,
            false => before(part.range.end),
        },
        with_compressed: false,
    }
}

/// The part that messages name. None if they are not there.
pub(super) fn part_of(conversation: &Conversation, messages: &CompactedMessages) -> Option<Part> {
    let side = side(conversation, messages.behind_mark);
    let behind_place = |number: u32| match number {
        0 => Some(0),
        number => Some(1 + side.iter().position(|entry| entry.number == number)?),
    };
    Some(Part {
        is_behind: messages.behind_mark,
        range: behind_place(messages.after)?..behind_place(messages.through)?,
    })
}

/// How many messages may go where so many of the newest stay. A call keeps its results: the reply stays
/// with them.
pub(crate) fn older_messages(entries: &[Entry], keep: u32) -> usize {
    let at = entries.len().saturating_sub(keep as usize);
    let is_of_model = |entry: &Entry| entry.message.role == Role::Assistant;
    let reply = entries[..at].iter().rposition(is_of_model);
    let parted = reply.filter(|reply| results_end(entries, *reply) > at);
    parted.unwrap_or(at)
}

/// A message as a person said it, or one that Cairn added in the same role.
fn is_said(entry: &Entry) -> bool {
    entry.compaction.is_none() && entry.message.role == Role::User
}

/// How many of the last messages were said.
fn said_last(entries: &[Entry]) -> usize {
    let newest = entries.iter().rev();
    newest.take_while(|entry| is_said(entry)).count()
}

/// Where units begin, oldest first. What stands for older messages begins none.
fn places(entries: &[Entry], unit: Unit) -> Vec<usize> {
    let mut places = Vec::new();
    // Before this place results of the last reply follow.
    let mut open_until = 0;
    for (entry, at) in entries.iter().zip(0..) {
        if entry.compaction.is_some() {
            continue;
        }
        match entry.message.role {
            Role::Assistant => {
                places.push(at - said_last(&entries[..at]));
                open_until = results_end(entries, at);
            }
            Role::User if unit == Unit::Message && at >= open_until => places.push(at),
            Role::User | Role::System | Role::Tool => {}
        }
    }
    places.sort_unstable();
    places.dedup();
    places
}

/// Behind the last result of the reply at this place. Results stand before the next reply.
fn results_end(entries: &[Entry], reply: usize) -> usize {
    let calls = &entries[reply].message;
    let rest = &entries[reply + 1..];
    let is_reply = |entry: &Entry| entry.message.role == Role::Assistant;
    let end = rest.iter().position(is_reply).unwrap_or(rest.len());
    let has_result = |entry: &Entry| {
        let mut results = entry.message.results();
        results.any(|result| calls.calls().any(|call| call.id == result.call_id))
    };
    let last = rest[..end].iter().rposition(has_result);
    reply + 1 + last.map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::compaction::samples::{before, behind, numbers, part};

    /// A turn of two requests, and one that has just begun.
    const TALK: &str = "u a! r a u a u";

    #[test]
    fn a_cut_stands_before_a_reply_and_what_was_said_to_it() {
        let said = before(TALK);
        let cuts = Cuts::new(&said, true, Unit::ToolTurn);
        let cut = |keep| {
            cuts.older_than(keep)
                .map(|part| part.map(|part| part.range))
        };
        assert_eq!(cut(1), [Some(0..4), None]);
        assert_eq!(cut(2), [Some(0..3), None]);
        assert_eq!(cut(3), [None, None], "nothing is older than the first");
        assert_eq!(cut(9), [None, None]);
    }

    #[test]
    fn behind_the_mark_the_message_of_the_person_stays() {
        let said = behind(before("u a u a"), "u a! r a! r u a! r");
        let cuts = Cuts::new(&said, true, Unit::ToolTurn);
        let cut = |keep| {
            cuts.older_than(keep)
                .map(|part| part.map(|part| part.range))
        };
        assert_eq!(cut(1), [Some(0..4), Some(1..5)]);
        assert_eq!(cut(2), [Some(0..4), Some(1..3)]);
        assert_eq!(cut(3), [Some(0..4), None]);
        assert_eq!(cut(4), [Some(0..2), None]);
        // All that a step says stands behind its mark, and no person asked for it there.
        let step = behind(Conversation::default(), "u a! r a! r");
        let cuts = Cuts::new(&step, false, Unit::ToolTurn);
        let older = cuts.older_than(1)[1].clone().expect("the first reply");
        assert_eq!(older.range, 0..3);
        assert_eq!(cuts.named(&older), part(true, 0, 3));
    }

    #[test]
    fn what_was_said_before_the_mark_belongs_to_the_first_reply_behind_it() {
        let said = behind(before("u a u u"), "a! r a");
        let cuts = Cuts::new(&said, true, Unit::ToolTurn);
        let cut = |keep| {
            cuts.older_than(keep)
                .map(|part| part.map(|part| part.range))
        };
        assert_eq!(cut(2), [Some(0..2), None]);
        assert_eq!(cut(1), [Some(0..4), Some(0..2)]);
    }

    #[test]
    fn what_stands_for_older_messages_begins_no_unit() {
        let said = behind(Conversation::default(), "u V S V a! r a");
        let cuts = Cuts::new(&said, true, Unit::ToolTurn);
        let older = cuts.older_than(2)[1].clone().expect("the compacted ones");
        assert_eq!(older.range, 1..4);
        assert_eq!(numbers(cuts.entries(&older)), [2, 3, 4]);
        let rest = cuts.after_summaries(&older);
        assert_eq!(cuts.named(&rest), part(true, 3, 4));
        assert_eq!(part_of(&said, &part(true, 3, 4)), Some(rest));
        assert_eq!(part_of(&said, &part(true, 3, 40)), None);
    }

    #[test]
    fn shorter_parts_end_where_a_unit_begins() {
        let said = before("u a u a u a! r u a");
        let cuts = Cuts::new(&said, true, Unit::ToolTurn);
        let whole = cuts.older_than(1)[0].clone().expect("all but the last");
        let ends: Vec<_> = cuts.shorter(&whole).map(|part| part.range.end).collect();
        assert_eq!((whole.range.end, ends), (7, vec![4, 2]));
    }

    #[test]
    fn messages_alone_can_be_cut_where_no_call_loses_its_result() {
        let said = before("u u a! u r u");
        let places = |unit| places(&said.incremental, unit);
        assert_eq!(places(Unit::ToolTurn), [0]);
        assert_eq!(places(Unit::Message), [0, 1, 5]);
        let unanswered = behind(before("u u u"), "u");
        let cuts = Cuts::new(&unanswered, true, Unit::Message);
        let cut = |keep| {
            cuts.older_than(keep)
                .map(|part| part.map(|part| part.range))
        };
        assert_eq!(cut(1), [Some(0..3), None]);
        assert_eq!(cut(3), [Some(0..1), None]);
    }

    #[test]
    fn so_many_messages_stay_and_a_reply_with_its_results() {
        let said = before("u a u a! r r u a").incremental;
        let older = |keep| older_messages(&said, keep);
        assert_eq!([0, 1, 2, 5, 6, 8, 9].map(older), [8, 7, 6, 3, 2, 0, 0]);
        assert_eq!([3, 4].map(older), [3, 3], "the call keeps its results");
    }
}
