//! What the index keeps of each entry.

use super::slab::Slab;
use crate::scorer::Scored;
use std::collections::HashMap;
use std::sync::Arc;

/// An entry of the index.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) id: Arc<str>,
    pub(super) version: u64,
    /// Sum of the counts of its terms.
    pub(super) length: u32,
    /// Its different terms, by their numbers in the vocabulary.
    pub(super) terms: Box<[u32]>,
    /// As `fold` makes them.
    pub(super) tags: Box<[Box<str>]>,
}

impl Stored {
    pub(super) fn scored(&self) -> Scored {
        Scored {
            length: self.length,
            distinct: self.terms.len(),
        }
    }

    pub(super) fn has_tag(&self, tag: &str) -> bool {
        self.tags.iter().any(|own| **own == *tag)
    }

    fn bytes(&self) -> usize {
        /// In the slab and the map, which are half empty after they have grown, and the id's counters.
        const FIXED: usize =
            3 * size_of::<Option<Stored>>() / 2 + 2 * size_of::<(Arc<str>, u32)>() + 16;
        let tags: usize = self
            .tags
            .iter()
            .map(|tag| tag.len() + size_of::<Box<str>>())
            .sum();
        FIXED + self.id.len() + size_of_val(&*self.terms) + tags
    }
}

/// Entries by id and by slot.
#[derive(Debug, Default)]
pub(super) struct Entries {
    by_id: HashMap<Arc<str>, u32>,
    by_slot: Slab<Stored>,
    length: u64,
    bytes: usize,
}

impl Entries {
    /// Slot of the next entry that is inserted.
    pub(super) fn next_slot(&self) -> u32 {
        self.by_slot.next()
    }

    /// Inserts an entry whose id is not there.
    pub(super) fn insert(&mut self, entry: Stored) {
        self.length += u64::from(entry.length);
        self.bytes += entry.bytes();
        let id = Arc::clone(&entry.id);
        self.by_id.insert(id, self.by_slot.insert(entry));
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<(u32, Stored)> {
        let slot = self.by_id.remove(id)?;
        let entry = self.by_slot.remove(slot)?;
        self.length -= u64::from(entry.length);
        self.bytes -= entry.bytes();
        Some((slot, entry))
    }

    pub(super) fn get(&self, slot: u32) -> Option<&Stored> {
        self.by_slot.get(slot)
    }

    /// The entry of every slot from 0.
    pub(super) fn by_slot(&self) -> impl Iterator<Item = Option<&Stored>> {
        self.by_slot.iter()
    }

    /// One more than the greatest slot.
    pub(super) fn slots(&self) -> usize {
        self.by_slot.numbers()
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Sum of the entries' lengths.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
