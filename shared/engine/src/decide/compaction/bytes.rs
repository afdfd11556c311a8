//! Compactions of contexts that hold too many bytes. They need no model.

use super::cuts::{Cuts, Unit};
use super::room::{Room, Scale};
use super::text;
use crate::command::{WhenFull, full};
use crate::conversation::{CompactedMessages, CompactionKind, Entry};
use crate::decide::Decision;
use crate::event::AttemptRef;
use crate::failure::Failure;
use crate::limits::MAX_CONTEXT;
use crate::refusal::Refusal;
use crate::session::Context;
use crate::tokens::of_text;
use crate::transitions::Applied;

/// A compaction leaves at most so many bytes, if fewer messages can stay for it.
const WANTED: u64 = MAX_CONTEXT / 2;

impl Decision<'_> {
    /// A turn whose context holds too much is compacted at once: before its mark, and behind it if that is not
    /// enough. Where it does not help, the turn fails.
    pub(super) fn compact_bytes(&mut self, attempt: AttemptRef) -> Applied {
        if self.session.when_full(attempt) == WhenFull::Refuse || self.excess(attempt).is_none() {
            return Ok(());
        }
        if !self.may_compact(attempt)? {
            return Ok(());
        }
        let mut is_compacted = false;
        for is_behind in [false, true] {
            if self.excess(attempt).is_none() {
                break;
            }
            let Some((messages, text)) = self.view_for_bytes(attempt, is_behind) else {
                continue;
            };
            // The tokens of a request may need another compaction.
            let kind = CompactionKind::History;
            let compacted = self.compacted_uncounted(attempt, messages, kind, text)?;
            self.emit(compacted)?;
            is_compacted = true;
        }
        match self.excess(attempt) {
            Some((name, bytes)) => {
                let failure = Failure::refused(Refusal::Limit, full(&name, bytes));
                self.fail_step(attempt, failure)
            }
            None if is_compacted => self.tell_compaction(attempt),
            None => Ok(()),
        }
    }

    /// The context of a turn and its bytes, if those are too many.
    pub(in crate::decide) fn excess(&self, attempt: AttemptRef) -> Option<(String, u64)> {
        let name = &self.session.turn(attempt)?.context;
        let bytes = bytes_of(self.session.context(name)?);
        (bytes > MAX_CONTEXT).then(|| (name.clone(), bytes))
    }

    /// A history view of the older messages on one side of the mark.
    fn view_for_bytes(
        &self,
        attempt: AttemptRef,
        is_behind: bool,
    ) -> Option<(CompactedMessages, String)> {
        let turn = self.session.turn(attempt)?;
        let context = self.session.context(&turn.context)?;
        let said = &context.conversation;
        // Messages that no model has answered may be all that there is.
        let cuts = Cuts::new(said, true, Unit::Message);
        let bytes = bytes_of(context);
        let kept = (1..=self.compaction_of(attempt).keep_turns.max(1)).rev();
        let parts = kept.filter_map(|kept| {
            let [before, behind] = cuts.older_than(kept);
            match is_behind {
                true => behind.map(|part| cuts.after_summaries(&part)),
                false => before,
            }
        });
        let parts: Vec<_> = parts.filter(|part| !part.range.is_empty()).collect();
        let gone = |entries: &[Entry]| -> u64 {
            let gone = entries.iter().map(|entry| entry.message.bytes());
            gone.sum()
        };
        let is_enough = |entries: &[Entry]| bytes.saturating_sub(gone(entries)) <= WANTED;
        let enough = parts.iter().find(|part| is_enough(cuts.entries(part)));
        let part = enough.or(parts.last())?;
        let last = said.compressed.last().filter(|_| !is_behind);
        let view = last.filter(|last| last.compaction == Some(CompactionKind::History));
        let view = view.map(|entry| entry.message.text());
        let text = text::view_of(view.as_deref(), cuts.entries(part));
        let text = self.fitting_view(attempt, text);
        let is_less = (text.len() as u64) < gone(cuts.entries(part));
        is_less.then(|| (cuts.named(part), text))
    }

    /// The view without its oldest lines, if it is too long for the window of the model.
    fn fitting_view(&self, attempt: AttemptRef, view: String) -> String {
        let model = self.session.run(attempt.run).map(|run| &*run.model);
        let known = self.session.estimates.of(model.unwrap_or_default());
        let most = Room::new(known.window, 0).view();
        let most = Scale::permille(known.permille).estimate_of(most);
        match of_text(&view) > most {
            true => text::shortened(&view, most),
            false => view,
        }
    }
}

fn bytes_of(context: &Context) -> u64 {
    context.bytes + context.bytes_behind()
}
