//! Sessions that were read or owned lately, bounded in bytes.

use super::Checkpointer;
use super::acknowledged::Acknowledged;
use crate::key::SessionKey;
use cairn_engine::session::Session;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A smaller state is not kept. To fold it again costs less than new memory for each session of one small
/// run.
const LEAST: usize = 4 * 1024;

/// Bytes that a session takes beside its state, about.
const OVERHEAD: usize = 2 * 1024;

/// A fold, and how far the store had come with it.
#[derive(Debug, Clone)]
pub(super) struct Fold {
    pub(super) session: Arc<Session>,
    pub(super) acknowledged: Acknowledged,
    pub(super) checkpoints: Checkpointer,
}

impl Fold {
    fn bytes(&self) -> usize {
        OVERHEAD + self.checkpoints.state_bytes()
    }
}

/// The folds that were used last. A fold says nothing of the store: who uses one checks that the store
/// has the same version and seq.
#[derive(Debug)]
pub(super) struct Cache {
    most: usize,
    folds: Mutex<Folds>,
}

#[derive(Debug, Default)]
struct Folds {
    by_key: HashMap<SessionKey, (u64, Fold)>,
    /// The same, those that were used longest ago first.
    by_use: BTreeMap<u64, SessionKey>,
    next_use: u64,
    bytes: usize,
}

impl Cache {
    /// Keeps folds of so many bytes; none for 0.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            folds: Mutex::default(),
        }
    }

    /// Takes a fold out.
    pub(super) fn take(&self, key: &SessionKey) -> Option<Fold> {
        self.lock().remove(key)
    }

    /// Keeps a fold of a usual size in place of an earlier one of the session, and gives up those that were
    /// used longest ago.
    pub(super) fn put(&self, key: &SessionKey, fold: Fold) {
        if fold.bytes() > self.most || fold.checkpoints.state_bytes() < LEAST {
            return;
        }
        let mut folds = self.lock();
        folds.remove(key);
        let now = folds.next_use;
        folds.next_use += 1;
        folds.bytes += fold.bytes();
        folds.by_use.insert(now, key.clone());
        folds.by_key.insert(key.clone(), (now, fold));
        while folds.bytes > self.most {
            let Some((_, oldest)) = folds.by_use.pop_first() else {
                return;
            };
            folds.remove(&oldest);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Folds> {
        self.folds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Folds {
    fn remove(&mut self, key: &SessionKey) -> Option<Fold> {
        let (used, fold) = self.by_key.remove(key)?;
        self.by_use.remove(&used);
        self.bytes -= fold.bytes();
        Some(fold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(bytes: usize) -> Fold {
        Fold {
            session: Arc::default(),
            acknowledged: Acknowledged::default(),
            checkpoints: Checkpointer::resumed(bytes, 0),
        }
    }

    #[test]
    fn the_folds_that_were_used_last_are_kept() {
        let namespace = "space".parse().expect("a namespace");
        let key = |id: &str| SessionKey::new(&namespace, id);
        let cache = Cache::new(2 * (OVERHEAD + LEAST));
        cache.put(&key("small"), fold(LEAST - 1));
        assert!(cache.take(&key("small")).is_none());
        for id in ["a", "b", "a", "c"] {
            cache.put(&key(id), fold(LEAST));
        }
        assert!(cache.take(&key("b")).is_none());
        cache.put(&key("large"), fold(10 * OVERHEAD));
        assert!(cache.take(&key("large")).is_none());
        assert!(cache.take(&key("a")).is_some() && cache.take(&key("c")).is_some());
        assert!(cache.take(&key("a")).is_none());
        let folds = cache.lock();
        assert_eq!((folds.bytes, folds.by_use.len()), (0, 0));
    }
}
