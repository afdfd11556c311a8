//! Sessions that were read or owned lately, bounded in bytes.

use super::Checkpointer;
use super::acknowledged::Acknowledged;
use crate::config::Config;
use crate::key::SessionKey;
use crate::state_bytes::OwnedBytes;
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
        OVERHEAD + self.checkpoints.state_bytes() + self.checkpoints.next_bytes()
    }

    /// A checkpoint that is made and not stored is worth as much as a large state.
    fn is_kept(&self) -> bool {
        self.checkpoints.state_bytes() >= LEAST || self.checkpoints.next_bytes() > 0
    }
}

/// The folds that were used last. A fold says nothing of the store: who uses one checks that the store
/// has the same version and seq.
///
/// They make room for the states of owned sessions, with which they share `session.state_bytes`.
#[derive(Debug)]
pub(super) struct Cache {
    most: usize,
    most_state: usize,
    owned: Arc<OwnedBytes>,
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
    /// Keeps folds beside these states of owned sessions.
    pub(super) fn new(config: &Config, owned: Arc<OwnedBytes>) -> Self {
        Self {
            most: config.cache_bytes,
            most_state: config.state_bytes,
            owned,
            folds: Mutex::default(),
        }
    }

    /// Takes a fold out.
    pub(super) fn take(&self, key: &SessionKey) -> Option<Fold> {
        self.lock().remove(key)
    }

    /// A fold that stays here for others.
    pub(super) fn get(&self, key: &SessionKey) -> Option<Fold> {
        let mut folds = self.lock();
        let fold = folds.remove(key)?;
        folds.insert(key, fold.clone());
        Some(fold)
    }

    /// Gives up what there is no room for beside the states of owned sessions.
    pub(super) fn shrink(&self) {
        self.lock().shrink(self.room());
    }

    fn room(&self) -> usize {
        let beside_owned = self.most_state.saturating_sub(self.owned.bytes());
        self.most.min(beside_owned)
    }

    /// Keeps a fold of a usual size in place of an earlier one of the session, and gives up those that were
    /// used longest ago.
    pub(super) fn put(&self, key: &SessionKey, fold: Fold) {
        let room = self.room();
        if fold.bytes() > room || !fold.is_kept() {
            return;
        }
        let mut folds = self.lock();
        folds.remove(key);
        folds.insert(key, fold);
        folds.shrink(room);
    }

    fn lock(&self) -> MutexGuard<'_, Folds> {
        self.folds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Folds {
    fn insert(&mut self, key: &SessionKey, fold: Fold) {
        let now = self.next_use;
        self.next_use += 1;
        self.bytes += fold.bytes();
        self.by_use.insert(now, key.clone());
        self.by_key.insert(key.clone(), (now, fold));
    }

    fn remove(&mut self, key: &SessionKey) -> Option<Fold> {
        let (used, fold) = self.by_key.remove(key)?;
        self.by_use.remove(&used);
        self.bytes -= fold.bytes();
        Some(fold)
    }

    /// Gives up those that were used longest ago.
    fn shrink(&mut self, most: usize) {
        while self.bytes > most {
            let Some((_, oldest)) = self.by_use.pop_first() else {
                return;
            };
            self.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state_bytes::StateBytes;

    fn fold(bytes: usize) -> Fold {
        Fold {
            session: Arc::default(),
            acknowledged: Acknowledged::default(),
            checkpoints: Checkpointer::begun(bytes),
        }
    }

    fn key(id: &str) -> SessionKey {
        SessionKey::new(&"space".parse().expect("a namespace"), id)
    }

    #[test]
    fn owned_sessions_leave_less_room() {
        let owned = Arc::new(OwnedBytes::default());
        let config = Config {
            cache_bytes: 64 * LEAST,
            state_bytes: 4 * LEAST,
            ..Config::default()
        };
        let cache = Cache::new(&config, Arc::clone(&owned));
        cache.put(&key("a"), fold(LEAST));
        cache.put(&key("b"), fold(LEAST));
        let mut one = StateBytes::begin(owned);
        one.set(2 * LEAST);
        cache.shrink();
        assert_eq!(cache.lock().bytes, OVERHEAD + LEAST);
        one.set(4 * LEAST);
        cache.put(&key("c"), fold(LEAST));
        cache.shrink();
        assert!(cache.take(&key("c")).is_none() && cache.take(&key("b")).is_none());
        drop(one);
        cache.put(&key("c"), fold(LEAST));
        assert!(cache.take(&key("c")).is_some());
    }

    #[test]
    fn the_folds_that_were_used_last_are_kept() {
        let config = Config {
            cache_bytes: 2 * (OVERHEAD + LEAST),
            ..Config::default()
        };
        let cache = Cache::new(&config, Arc::default());
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
