//! The documents of memory, as far as this process knows them.

use bytes::Bytes;
use std::collections::BTreeMap;

/// Documents by their ids. While they are listed from the beginning once more, those that were known before hold.
#[derive(Debug, Default)]
pub(super) struct Cache {
    entries: BTreeMap<String, Entry>,
    /// Number of the latest listing from the beginning.
    listing: u64,
    is_listing: bool,
    is_known: bool,
}

#[derive(Debug)]
struct Entry {
    listing: u64,
    version: u64,
    /// `None` for a document that was deleted.
    value: Option<Bytes>,
}

impl Cache {
    /// A listing from the beginning starts.
    pub(super) fn begin(&mut self) {
        self.listing += 1;
        self.is_listing = true;
    }

    /// Takes a document that was read or written. Returns whether its value is another one now.
    pub(super) fn take(&mut self, id: String, version: u64, value: Option<Bytes>) -> bool {
        let listing = self.listing;
        let next = Entry {
            listing,
            version,
            value,
        };
        match self.entries.get_mut(&id) {
            // Versions of two listings cannot be compared: a failover between them may have lost changes.
            Some(entry) if entry.listing == listing && entry.version >= version => false,
            Some(entry) => {
                let differs = entry.value != next.value;
                *entry = next;
                differs
            }
            None => {
                let is_there = next.value.is_some();
                self.entries.insert(id, next);
                is_there
            }
        }
    }

    /// Forgets what a listing from the beginning did not have, if one is under way: it is complete. Returns whether
    /// more or less is known now.
    pub(super) fn complete(&mut self) -> bool {
        if !std::mem::take(&mut self.is_listing) {
            return false;
        }
        let (listing, before) = (self.listing, self.entries.len());
        self.entries.retain(|_, entry| entry.listing == listing);
        let was_known = std::mem::replace(&mut self.is_known, true);
        !was_known || self.entries.len() < before
    }

    /// All documents were listed once.
    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// The value of a document that exists.
    pub(super) fn get(&self, id: &str) -> Option<&Bytes> {
        self.entries.get(id)?.value.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &'static str) -> Option<Bytes> {
        Some(Bytes::from_static(text.as_bytes()))
    }

    fn listed(documents: &[(&str, u64, &'static str)]) -> Cache {
        let mut cache = Cache::default();
        cache.begin();
        for &(id, version, text) in documents {
            cache.take(id.to_owned(), version, value(text));
        }
        assert!(!cache.is_known());
        assert!(cache.complete());
        assert!(cache.is_known());
        cache
    }

    fn values(cache: &Cache, ids: [&str; 3]) -> [Option<Bytes>; 3] {
        ids.map(|id| cache.get(id).cloned())
    }

    #[test]
    fn the_latest_version_of_a_document_holds_in_whatever_order_they_come() {
        let mut cache = listed(&[("a", 4, "old")]);
        for (version, text, differs) in [
            (4, value("old"), false),
            (6, value("new"), true),
            (5, value("late"), false),
            (7, None, true),
            // As a write that is answered after its document was deleted.
            (6, value("new"), false),
            (8, value("again"), true),
        ] {
            let took = cache.take("a".to_owned(), version, text);
            assert_eq!(took, differs, "{version}");
        }
        assert_eq!(cache.get("a").cloned(), value("again"));
        assert!(!cache.complete(), "no listing is under way");
    }

    #[test]
    fn a_document_that_was_deleted_before_it_was_known_is_no_change() {
        let mut cache = listed(&[]);
        assert!(!cache.take("a".to_owned(), 2, None));
        assert_eq!(cache.get("a"), None);
    }

    #[test]
    fn a_second_listing_replaces_the_first_once_it_is_complete() {
        let mut cache = listed(&[("a", 7, "a"), ("b", 8, "b"), ("c", 9, "c")]);
        cache.begin();
        // The store has lost the last change of `b`, and `c`.
        assert!(cache.take("b".to_owned(), 3, value("before")));
        assert!(!cache.take("a".to_owned(), 7, value("a")));
        let until_then = values(&cache, ["a", "b", "c"]);
        assert_eq!(until_then, [value("a"), value("before"), value("c")]);
        assert!(cache.complete());
        let since_then = values(&cache, ["a", "b", "c"]);
        assert_eq!(since_then, [value("a"), value("before"), None]);
    }

    #[test]
    fn a_write_during_a_listing_is_kept() {
        let mut cache = listed(&[]);
        cache.begin();
        assert!(cache.take("a".to_owned(), 1, value("mine")));
        assert!(!cache.complete());
        assert_eq!(cache.get("a").cloned(), value("mine"));
    }

    #[test]
    fn a_listing_that_is_begun_twice_is_not_complete_with_the_first() {
        let mut cache = listed(&[("a", 1, "a")]);
        cache.begin();
        cache.take("a".to_owned(), 1, value("a"));
        cache.begin();
        assert!(cache.complete());
        assert_eq!(cache.get("a"), None);
    }
}
