//! Sessions whose owners ended and could not find out whether the store still had everything.

use crate::key::SessionKey;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most sessions of which that is remembered.
const MOST: usize = 10_000;

/// How far the store had come with a session, by its own answers. There is such a value only for a session
/// that there is. A value from after an accepted loss is later than all from before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Acknowledged {
    /// How many losses of it had been accepted.
    pub(crate) accepted_losses: u64,
    /// The transitions that its owners had made.
    pub(crate) version: u64,
}

/// What the store had acknowledged, by session. The next owner in this process compares that with what
/// the store has: if memory died together with its servers, no other process knows.
#[derive(Debug, Default)]
pub(crate) struct LastAcknowledged(Mutex<HashMap<SessionKey, Acknowledged>>);

impl LastAcknowledged {
    /// An owner that knew so much has ended.
    pub(crate) fn remember(&self, key: &SessionKey, acknowledged: Acknowledged) {
        let mut sessions = self.lock();
        if sessions.len() >= MOST && !sessions.contains_key(key) {
            // The newest is what the next owner most likely asks for.
            let some = sessions.keys().next().cloned();
            some.map(|some| sessions.remove(&some));
        }
        let latest = sessions.entry(key.clone()).or_insert(acknowledged);
        *latest = acknowledged.max(*latest);
    }

    /// What was last acknowledged of a session, if it is not known whether the store still has that.
    pub(crate) fn of(&self, key: &SessionKey) -> Option<Acknowledged> {
        self.lock().get(key).copied()
    }

    /// The store has it all, the session is quarantined or gone, or a person has accepted the loss.
    pub(crate) fn forget(&self, key: &SessionKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionKey, Acknowledged>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(accepted_losses: u64, version: u64) -> Acknowledged {
        Acknowledged {
            accepted_losses,
            version,
        }
    }

    #[test]
    fn the_most_that_was_known_is_known_until_it_is_forgotten() {
        let (last_acknowledged, namespace) =
            (LastAcknowledged::default(), "space".parse().unwrap());
        let key = SessionKey::new(&namespace, "s");
        assert_eq!(last_acknowledged.of(&key), None);
        for version in [0, 3, 7, 5] {
            last_acknowledged.remember(&key, at(0, version));
        }
        assert_eq!(last_acknowledged.of(&key), Some(at(0, 7)));
        // Since then a loss was accepted.
        for later in [at(1, 4), at(0, 9)] {
            last_acknowledged.remember(&key, later);
            assert_eq!(last_acknowledged.of(&key), Some(at(1, 4)));
        }
        last_acknowledged.forget(&key);
        assert_eq!(last_acknowledged.of(&key), None);
    }

    #[test]
    fn so_many_are_known_and_the_newest_is() {
        let (last_acknowledged, namespace) =
            (LastAcknowledged::default(), "space".parse().unwrap());
        for number in 0..=MOST {
            last_acknowledged.remember(&SessionKey::new(&namespace, &number.to_string()), at(0, 1));
        }
        assert_eq!(last_acknowledged.lock().len(), MOST);
        let newest = SessionKey::new(&namespace, &MOST.to_string());
        assert_eq!(last_acknowledged.of(&newest), Some(at(0, 1)));
    }
}
