//! Which messages tell of which layers.

use super::{LayerKind, MemoryMark, Reminded};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The reminders that the incremental messages of a conversation have, by layer, the oldest first. A call
/// by which the model changed session memory counts as one.
///
/// A reminder counts while its message is sent. So each has the index of its message, which follows every
/// change of the messages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reminders(BTreeMap<LayerKind, Vec<Sent>>);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Sent {
    /// Index of its message.
    message: usize,
    of: Reminded,
}

impl Reminders {
    /// Takes note of a reminder in the newest message.
    pub(super) fn note(&mut self, message: usize, of: Reminded) {
        let sent = self.0.entry(of.kind()).or_default();
        sent.push(Sent { message, of });
    }

    /// Messages have moved, or are gone.
    pub(super) fn moved(&mut self, to: impl Fn(usize) -> Option<usize>) {
        for sent in self.0.values_mut() {
            sent.retain_mut(|it| {
                let place = to(it.message);
                it.message = place.unwrap_or(it.message);
                place.is_some()
            });
        }
        self.0.retain(|_, sent| !sent.is_empty());
    }

    /// Takes in those of messages that are added after so many.
    pub(super) fn take_in(&mut self, added: Self, after: usize) {
        for sent in added.0.into_values().flatten() {
            self.note(after + sent.message, sent.of);
        }
    }

    /// The last of a layer, in the messages from this index on.
    pub(super) fn last(&self, kind: LayerKind, from: usize) -> Option<&Reminded> {
        let last = self.0.get(&kind)?.last()?;
        (last.message >= from).then_some(&last.of)
    }

    /// What a model knows of session memory that knew the changes of `base`, once it has read the messages
    /// from this index on.
    pub(super) fn memory_mark(&self, base: MemoryMark, from: usize) -> MemoryMark {
        let sent = self
            .0
            .get(&LayerKind::Memory)
            .map_or(&[][..], Vec::as_slice);
        let first = sent.partition_point(|it| it.message < from);
        sent[first..].iter().fold(base, |mark, it| match &it.of {
            Reminded::Memory { since, through } => mark.after(*since, *through),
            Reminded::Layer { .. } => mark,
        })
    }
}
