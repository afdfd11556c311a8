//! Which messages remind of which layers.

use super::{LayerKind, MemoryMark, Reminded};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The reminders that the incremental messages of a conversation have, by layer, the oldest first.
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
    /// Takes note of a reminder. One of session memory that does not continue the one before it counts
    /// alone.
    pub(super) fn note(&mut self, message: usize, of: Reminded) {
        let sent = self.0.entry(of.kind()).or_default();
        if let Reminded::Memory { since, .. } = &of {
            let last = sent.last().and_then(|last| last.of.through());
            if since.is_none() || *since != last {
                sent.clear();
            }
        }
        sent.push(Sent { message, of });
    }

    /// Messages have moved, or are gone. Reminders of session memory build on each other, so those after
    /// one that is gone do not count.
    pub(super) fn moved(&mut self, to: impl Fn(usize) -> Option<usize>) {
        for (kind, sent) in &mut self.0 {
            let mut is_unbroken = true;
            sent.retain_mut(|it| {
                let place = to(it.message);
                it.message = place.unwrap_or(it.message);
                is_unbroken &= place.is_some() || *kind != LayerKind::Memory;
                place.is_some() && is_unbroken
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

    /// The changes of session memory that the messages from this index on tell of, if the model knows those
    /// of `base` before them. A layer that was written since changes nothing: the model reads these messages
    /// after it.
    pub(super) fn memory_mark(&self, base: MemoryMark, from: usize) -> MemoryMark {
        let Some(sent) = self.0.get(&LayerKind::Memory) else {
            return base;
        };
        let first = sent.partition_point(|it| it.message < from);
        let Some((first, last)) = sent.get(first).zip(sent.last()) else {
            return base;
        };
        match (&first.of, last.of.through()) {
            (Reminded::Memory { since, .. }, Some(through)) if base.reaches(*since) => through,
            _ => base,
        }
    }
}
