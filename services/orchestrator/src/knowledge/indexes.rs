//! The indexes of all namespaces, which share the memory that they may take.

use super::errors;
use super::follow::Pages;
use cairn_rpc::{Namespace, RpcError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard};
use tokio::time::Instant;

/// What an index counts besides its own bytes, so that those of namespaces without pages do not collect without end.
const ENTRY_BYTES: usize = 1024;
/// How long an index that did not fit is not built again: the attempt costs as much as any, and takes the room of
/// others.
const REFUSED: Duration = Duration::from_secs(10);

/// All indexes of this process.
#[derive(Debug)]
pub(super) struct Indexes {
    most: usize,
    held: Mutex<Held>,
    /// An index that is being built holds it, so that no two of them outgrow the memory together.
    building: AsyncMutex<()>,
}

#[derive(Debug, Default)]
struct Held {
    indexes: BTreeMap<Namespace, Counted>,
    /// Namespaces whose indexes did not fit, and when.
    refused: BTreeMap<Namespace, Instant>,
    uses: u64,
}

#[derive(Debug, Default)]
struct Counted {
    pages: Arc<Pages>,
    bytes: usize,
    /// Which use was its last one.
    used: u64,
}

impl Indexes {
    /// Indexes that together take at most so many bytes.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            held: Mutex::default(),
            building: AsyncMutex::default(),
        }
    }

    /// Bytes that all indexes together may take.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// # Errors
    /// The index of the namespace did not fit a moment ago.
    pub(super) fn check(&self, namespace: &Namespace) -> Result<(), RpcError> {
        let held = self.lock();
        let since = held.refused.get(namespace);
        match since.is_some_and(|since| since.elapsed() < REFUSED) {
            true => Err(errors::does_not_fit(self.most)),
            false => Ok(()),
        }
    }

    /// The index of a namespace, which becomes the one that was used last.
    pub(super) fn of(&self, namespace: &Namespace) -> Arc<Pages> {
        let mut held = self.lock();
        held.uses += 1;
        let used = held.uses;
        let index = held.indexes.entry(namespace.clone()).or_default();
        index.used = used;
        Arc::clone(&index.pages)
    }

    /// Waits until no other index is being built.
    pub(super) async fn turn(&self) -> AsyncMutexGuard<'_, ()> {
        self.building.lock().await
    }

    /// Counts the bytes that an index has by now, and drops those that were used longest ago until all fit. False if it
    /// is too large by itself; then it is dropped, too. Searches that have a dropped index complete with it.
    pub(super) fn fit(&self, namespace: &Namespace, pages: &Arc<Pages>, bytes: usize) -> bool {
        let bytes = bytes.saturating_add(ENTRY_BYTES);
        let mut held = self.lock();
        let own = held.indexes.get_mut(namespace);
        // One that was dropped meanwhile is not counted again: its searches are the last that have it.
        if let Some(own) = own.filter(|own| Arc::ptr_eq(&own.pages, pages)) {
            own.bytes = bytes;
        }
        if bytes > self.most {
            held.indexes.remove(namespace);
            held.refused.retain(|_, since| since.elapsed() < REFUSED);
            held.refused.insert(namespace.clone(), Instant::now());
            return false;
        }
        held.trim(self.most, namespace);
        true
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Drops the indexes that were used longest ago, but for the one of this namespace.
    fn trim(&mut self, most: usize, namespace: &Namespace) {
        let mut total: usize = self.indexes.values().map(|index| index.bytes).sum();
        while total > most {
            let others = self.indexes.iter().filter(|(name, _)| *name != namespace);
            let oldest = others.min_by_key(|(_, index)| index.used);
            let Some(oldest) = oldest.map(|(name, _)| name.clone()) else {
                return;
            };
            let dropped = self.indexes.remove(&oldest);
            total -= dropped.map_or(0, |index| index.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(name: &str) -> Namespace {
        name.parse().unwrap()
    }

    /// Has the index of a namespace grow to so many bytes.
    fn grow(indexes: &Indexes, name: &str, bytes: usize) -> bool {
        let pages = indexes.of(&namespace(name));
        indexes.fit(&namespace(name), &pages, bytes)
    }

    fn names(indexes: &Indexes) -> Vec<String> {
        let held = indexes.lock();
        held.indexes.keys().map(ToString::to_string).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_index_that_was_used_longest_ago_makes_room() {
        let indexes = Indexes::new(10 * ENTRY_BYTES);
        for name in ["a", "b", "c"] {
            assert!(grow(&indexes, name, 2 * ENTRY_BYTES));
        }
        indexes.of(&namespace("a"));
        assert!(grow(&indexes, "d", 2 * ENTRY_BYTES));
        assert_eq!(names(&indexes), ["a", "c", "d"]);
        // Also those that are small by themselves.
        assert!(grow(&indexes, "e", 0));
        assert!(grow(&indexes, "f", 8 * ENTRY_BYTES));
        assert_eq!(names(&indexes), ["e", "f"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_index_that_does_not_fit_is_not_built_again_at_once() {
        let indexes = Indexes::new(4 * ENTRY_BYTES);
        let large = namespace("large");
        assert!(grow(&indexes, "large", 3 * ENTRY_BYTES));
        indexes.check(&large).unwrap();
        assert!(!grow(&indexes, "large", 3 * ENTRY_BYTES + 1));
        assert!(names(&indexes).is_empty());
        let error = indexes.check(&large).unwrap_err();
        assert_eq!(error.reason_name(), "LIMIT");
        assert_eq!(error.metadata("allowed"), Some("4096"));
        indexes.check(&namespace("other")).unwrap();
        tokio::time::advance(REFUSED).await;
        indexes.check(&large).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_index_that_was_dropped_is_not_counted_for_the_one_in_its_place() {
        let indexes = Indexes::new(10 * ENTRY_BYTES);
        let old = indexes.of(&namespace("a"));
        assert!(grow(&indexes, "b", 9 * ENTRY_BYTES));
        assert_eq!(names(&indexes), ["a", "b"]);
        assert!(indexes.fit(&namespace("a"), &old, 0));
        assert_eq!(names(&indexes), ["a"]);
        assert!(grow(&indexes, "b", 9 * ENTRY_BYTES));
        assert_eq!(names(&indexes), ["b"]);
        assert!(indexes.fit(&namespace("a"), &old, 9 * ENTRY_BYTES));
        assert_eq!(names(&indexes), ["b"]);
    }
}
