//! What a model is told once older messages have given way.

use crate::conversation::Op;
use crate::decide::{Decision, words};
use crate::event::{AttemptRef, ContextChanged};
use crate::message::{Message, Part};
use crate::session::Step;
use crate::tokens::{of_message, of_text};
use crate::transitions::Applied;

impl Decision<'_> {
    /// The model is told that messages have given way. What reminders among them said of the system prompt is
    /// written into it, and the notes that it wrote in them are repeated.
    pub(super) fn tell_compaction(&mut self, attempt: AttemptRef) -> Applied {
        let mut ops = self.renewed_layers(attempt);
        ops.push(Op::Notice(words::COMPACTED.to_owned()));
        let notes = self.own_notes(attempt);
        let notes = notes.filter(|notes| self.has_lost(attempt, notes));
        ops.extend(notes.map(Op::Notice));
        self.emit(ContextChanged::of_attempt(attempt, ops))
    }

    /// The estimate of the most that the model is told.
    pub(super) fn size_of_notice(&self, attempt: AttemptRef) -> u64 {
        let notes = self.own_notes(attempt).unwrap_or_default();
        of_message(&Message::user(words::COMPACTED)) + of_text(&notes)
    }

    /// The notes that the attempt has written, as its model reads them. No other message has them: a step context
    /// has those of other steps, and a turn is sent those that its context had before it.
    fn own_notes(&self, attempt: AttemptRef) -> Option<String> {
        let notes = self.session.step(attempt).map(Step::notes)?;
        let turn = self.session.turn(attempt);
        let context = turn.and_then(|turn| self.session.context(&turn.context));
        let before = context.map_or("", |context| context.notes.as_str());
        (notes != before).then(|| words::own_notes(&notes))
    }

    /// Messages of the attempt have given way, and none of the others repeats its notes as they are.
    fn has_lost(&self, attempt: AttemptRef, notes: &str) -> bool {
        let known = self.session.attempt(attempt);
        let Some((running, said)) = known.zip(self.session.conversation_of(attempt)) else {
            return false;
        };
        let is_told = |op: &Op| matches!(op, Op::Notice(text) if text == notes);
        let is_shown = |part: &Part| matches!(part, Part::Notice(notice) if notice.text == notes);
        let mut parts = said.behind.iter().flat_map(|entry| &entry.message.parts);
        said.behind.iter().any(|entry| entry.compaction.is_some())
            && !running.waiting_ops.iter().any(is_told)
            && !parts.any(is_shown)
    }
}
