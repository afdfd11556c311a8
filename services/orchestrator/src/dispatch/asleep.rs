//! Sessions that sleep while they wait for capabilities, and those of them that were woken.

use super::waiting::Lack;
use crate::key::SessionKey;
use cairn_engine::event::AttemptRef;
use cairn_engine::pool::Need;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Most sessions that are kept of those that sleep.
const MOST: usize = 1024;
/// A session that was woken has a slot by then, or waits again.
const WOKEN: Duration = Duration::from_secs(2);

/// Attempts for which no resource has what they need.
pub(crate) type Lacks = BTreeMap<AttemptRef, Lack>;

/// The sessions, as far as this process knows of them.
#[derive(Debug, Default)]
pub(super) struct Asleep(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Sessions that were owned here when they fell asleep.
    parked: HashMap<SessionKey, Parked>,
    /// Sessions that were woken from here, and have no slot here yet.
    woken: HashMap<SessionKey, Woken>,
}

#[derive(Debug)]
struct Parked {
    since: Instant,
    lacks: Lacks,
}

#[derive(Debug)]
struct Woken {
    at: Instant,
    need: Need,
}

impl Asleep {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session falls asleep. Past a bound its attempts count no more.
    pub(super) fn park(&self, key: &SessionKey, lacks: Lacks) {
        let mut state = self.lock();
        if !lacks.is_empty() && state.parked.len() < MOST {
            let since = Instant::now();
            state.parked.insert(key.clone(), Parked { since, lacks });
        }
    }

    /// A session is owned here again.
    pub(super) fn take(&self, key: &SessionKey) -> Lacks {
        let parked = self.lock().parked.remove(key);
        parked.map(|parked| parked.lacks).unwrap_or_default()
    }

    /// The store listed these sessions as waiting after `asked`. Others are owned elsewhere, or gone, if these are all.
    pub(super) fn note_waiting(
        &self,
        waiting: &HashSet<SessionKey>,
        asked: Instant,
        are_all: bool,
    ) {
        let mut state = self.lock();
        // What was woken and waits again has found no slot.
        state.woken.retain(|key, _| !waiting.contains(key));
        if are_all {
            let parked = &mut state.parked;
            parked.retain(|key, it| it.since >= asked || waiting.contains(key));
        }
    }

    /// A session was woken for a need.
    pub(super) fn wake(&self, key: SessionKey, need: Need) {
        let at = Instant::now();
        self.lock().woken.insert(key, Woken { at, need });
    }

    /// A session that was woken has a slot, or was not woken.
    pub(super) fn forget_woken(&self, key: &SessionKey) {
        self.lock().woken.remove(key);
    }

    /// What sessions need that were woken just now, and have no slot here yet.
    pub(super) fn woken(&self) -> Vec<Need> {
        let mut state = self.lock();
        state.woken.retain(|_, woken| woken.at.elapsed() < WOKEN);
        state.woken.values().map(|it| it.need.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_rpc::Namespace;

    fn key(id: &str) -> SessionKey {
        SessionKey::new(&Namespace::default(), id)
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_was_woken_counts_until_it_has_a_slot_or_waits_again() {
        let asleep = Asleep::default();
        let need = Need::of(["gpu"]);
        for id in ["placed", "waits", "lost"] {
            asleep.wake(key(id), need.clone());
        }
        assert_eq!(asleep.woken().len(), 3);
        asleep.forget_woken(&key("placed"));
        assert_eq!(asleep.woken().len(), 2);
        asleep.note_waiting(&HashSet::from([key("waits")]), Instant::now(), true);
        assert_eq!(asleep.woken(), [need]);
        tokio::time::advance(WOKEN).await;
        assert!(asleep.woken().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_is_listed_no_more_is_asleep_no_more() {
        let asleep = Asleep::default();
        let lacks = || Lacks::from([(AttemptRef::default(), Lack::of_none())]);
        for id in ["waits", "elsewhere"] {
            asleep.park(&key(id), lacks());
        }
        tokio::time::advance(Duration::from_millis(1)).await;
        let asked = Instant::now();
        asleep.park(&key("later"), lacks());
        let waiting = HashSet::from([key("waits")]);
        asleep.note_waiting(&waiting, asked, false);
        assert_eq!(asleep.lock().parked.len(), 3, "there may be more");
        asleep.note_waiting(&waiting, asked, true);
        assert!(asleep.take(&key("elsewhere")).is_empty());
        for id in ["waits", "later"] {
            assert_eq!(asleep.take(&key(id)).len(), 1, "{id}");
        }
        assert!(asleep.take(&key("waits")).is_empty());
    }
}
