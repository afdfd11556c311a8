//! Sessions whose owners ended and could not find out whether the store still had everything.

use crate::key::SessionKey;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most sessions of which that is remembered.
const MOST: usize = 10_000;

/// The transitions that the store had acknowledged, by session. Whoever owns it next in this process
/// holds that against what the store has: if memory died together with its servers, nobody else knows.
#[derive(Debug, Default)]
pub(crate) struct Unsure(Mutex<HashMap<SessionKey, u64>>);

impl Unsure {
    /// An owner that had made so many transitions has ended.
    pub(crate) fn remember(&self, key: &SessionKey, version: u64) {
        let mut known = self.lock();
        if version == 0 || (known.len() >= MOST && !known.contains_key(key)) {
            return;
        }
        let known = known.entry(key.clone()).or_default();
        *known = version.max(*known);
    }

    /// What was remembered of a session. It is not any more: somebody looks now, or takes the loss.
    pub(crate) fn recall(&self, key: &SessionKey) -> Option<u64> {
        self.lock().remove(key)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_that_was_known_is_told_once() {
        let (unsure, namespace) = (Unsure::default(), "space".parse().unwrap());
        let key = SessionKey::new(&namespace, "s");
        unsure.remember(&key, 0);
        assert_eq!(unsure.recall(&key), None);
        for version in [3, 7, 5] {
            unsure.remember(&key, version);
        }
        assert_eq!(unsure.recall(&key), Some(7));
        assert_eq!(unsure.recall(&key), None);
    }
}
