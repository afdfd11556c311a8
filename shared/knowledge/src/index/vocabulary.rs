//! The terms of all entries.

use super::postings::Postings;
use super::slab::Slab;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Debug)]
struct Term {
    text: Arc<str>,
    postings: Postings,
}

impl Term {
    fn bytes(&self) -> usize {
        /// In the slab and the map, which are half empty after they have grown, and the text's counters.
        const FIXED: usize =
            3 * size_of::<Option<Term>>() / 2 + 2 * size_of::<(Arc<str>, u32)>() + 16;
        FIXED + self.text.len()
    }
}

/// Terms by text and by number, with the entries that have them.
#[derive(Debug, Default)]
pub(super) struct Vocabulary {
    by_text: HashMap<Arc<str>, u32>,
    by_number: Slab<Term>,
    nowhere: Postings,
    bytes: usize,
}

impl Vocabulary {
    /// Notes that an entry has a term. Returns the number of the term.
    pub(super) fn add(&mut self, text: &str, slot: u32, count: u32) -> u32 {
        let number = match self.by_text.get(text) {
            Some(number) => *number,
            None => self.insert(text),
        };
        if let Some(term) = self.by_number.get_mut(number) {
            term.postings.add(slot, count);
            self.bytes += Postings::BYTES;
        }
        number
    }

    fn insert(&mut self, text: &str) -> u32 {
        let text: Arc<str> = text.into();
        let term = Term {
            text: Arc::clone(&text),
            postings: Postings::default(),
        };
        self.bytes += term.bytes();
        let number = self.by_number.insert(term);
        self.by_text.insert(text, number);
        number
    }

    /// Notes that an entry no longer has a term. A term that no entry has is forgotten.
    pub(super) fn remove(&mut self, number: u32, slot: u32) {
        let Some(term) = self.by_number.get_mut(number) else {
            return;
        };
        term.postings.remove(slot);
        self.bytes -= Postings::BYTES;
        if term.postings.is_empty() {
            self.bytes -= term.bytes();
            self.by_text.remove(&term.text);
            self.by_number.remove(number);
        }
    }

    /// The entries that have a term.
    pub(super) fn postings(&self, text: &str) -> &Postings {
        (self.by_text.get(text))
            .and_then(|number| self.by_number.get(*number))
            .map_or(&self.nowhere, |term| &term.postings)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
