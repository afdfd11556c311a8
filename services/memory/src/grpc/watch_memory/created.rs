//! When the keys of a session's memory got their first values since they were absent, as a watcher learns it.

use crate::port::MemoryEntry;
use std::collections::HashMap;

/// What the events up to now say of keys that are there.
#[derive(Debug, Default)]
pub(super) struct Created {
    /// `None` for a time that the store does not know either.
    times: HashMap<String, Option<i64>>,
    /// All other keys are absent. Otherwise nothing is known of them.
    is_whole: bool,
}

impl Created {
    /// Of all entries at a moment.
    pub(super) fn of(entries: &[MemoryEntry]) -> Self {
        let times = entries.iter();
        let times = times.map(|entry| (entry.key.clone(), entry.created_unix_ms));
        Self {
            times: times.collect(),
            is_whole: true,
        }
    }

    /// A key was set at a time. `None` if it is not known whether the key was absent.
    pub(super) fn set(&mut self, key: &str, at: i64) -> Option<Option<i64>> {
        if let Some(created) = self.times.get(key) {
            return Some(*created);
        }
        self.is_whole.then(|| {
            self.times.insert(key.to_owned(), Some(at));
            Some(at)
        })
    }

    /// A key of which nothing was known was set at a time, and later the store has this entry. An entry that
    /// was created after that time is another one.
    pub(super) fn learn(&mut self, key: &str, at: i64, entry: Option<&MemoryEntry>) -> Option<i64> {
        let created = entry.and_then(|entry| entry.created_unix_ms);
        let created = created.filter(|&created| created <= at);
        self.times.insert(key.to_owned(), created);
        created
    }

    pub(super) fn remove(&mut self, key: &str) {
        self.times.remove(key);
    }

    pub(super) fn clear(&mut self) {
        self.times.clear();
        self.is_whole = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(created_unix_ms: Option<i64>) -> MemoryEntry {
        MemoryEntry {
            key: "k".to_owned(),
            created_unix_ms,
            ..MemoryEntry::default()
        }
    }

    #[test]
    fn one_who_knows_all_keys_need_not_ask() {
        let mut created = Created::of(&[entry(Some(1))]);
        assert_eq!(created.set("k", 2), Some(Some(1)));
        assert_eq!(created.set("new", 2), Some(Some(2)));
        assert_eq!(created.set("new", 3), Some(Some(2)));
        created.remove("k");
        assert_eq!(created.set("k", 4), Some(Some(4)));
        created.clear();
        assert_eq!(created.set("new", 5), Some(Some(5)));
        // The store has no time of it.
        assert_eq!(Created::of(&[entry(None)]).set("k", 2), Some(None));
    }

    #[test]
    fn one_who_began_later_asks_for_what_it_does_not_know() {
        let mut created = Created::default();
        assert_eq!(created.set("k", 2), None);
        assert_eq!(created.learn("k", 2, Some(&entry(Some(1)))), Some(1));
        assert_eq!(created.set("k", 3), Some(Some(1)));
        // It may have been absent, and another writer set it.
        created.remove("k");
        assert_eq!(created.set("k", 4), None);
        assert_eq!(created.learn("k", 4, Some(&entry(Some(9)))), None);
        assert_eq!(created.set("gone", 4), None);
        assert_eq!(created.learn("gone", 4, None), None);
        created.clear();
        assert_eq!(created.set("k", 5), Some(Some(5)));
    }
}
