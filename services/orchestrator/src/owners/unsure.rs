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
        if version == 0 {
            return;
        }
        let mut sessions = self.lock();
        if sessions.len() >= MOST && !sessions.contains_key(key) {
            // The newest is what the next owner most likely asks for.
            let some = sessions.keys().next().cloned();
            some.map(|some| sessions.remove(&some));
        }
        let known = sessions.entry(key.clone()).or_default();
        *known = version.max(*known);
    }

    /// The transitions that are known of a session.
    pub(crate) fn known(&self, key: &SessionKey) -> u64 {
        self.lock().get(key).copied().unwrap_or_default()
    }

    /// The store has them all, the session is set aside or gone, or somebody takes the loss.
    pub(crate) fn forget(&self, key: &SessionKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_that_was_known_is_known_until_it_is_forgotten() {
        let (unsure, namespace) = (Unsure::default(), "space".parse().unwrap());
        let key = SessionKey::new(&namespace, "s");
        unsure.remember(&key, 0);
        assert_eq!(unsure.known(&key), 0);
        for version in [3, 7, 5] {
            unsure.remember(&key, version);
        }
        assert_eq!((unsure.known(&key), unsure.known(&key)), (7, 7));
        unsure.forget(&key);
        assert_eq!(unsure.known(&key), 0);
    }

    #[test]
    fn so_many_are_known_and_the_newest_is() {
        let (unsure, namespace) = (Unsure::default(), "space".parse().unwrap());
        for number in 0..=MOST {
            unsure.remember(&SessionKey::new(&namespace, &number.to_string()), 1);
        }
        assert_eq!(unsure.lock().len(), MOST);
        let newest = SessionKey::new(&namespace, &MOST.to_string());
        assert_eq!(unsure.known(&newest), 1);
    }
}
