//! What this process was answered, held against what a server has when a connection to it is new.
//!
//! A replica that takes over may lack the last writes that its master acknowledged, and a server
//! may come back with an older log. Nothing can undo that, but it must not pass in silence: going on
//! from the older state could repeat what had side effects. So the last answers are remembered here,
//! by partition, and before a server of another lineage is asked anything, it has to have them all.
//! A session that is behind is quarantined before anybody here can claim it or write to it.
//!
//! What is lost is always the last: as long as the latest answer of a partition is remembered, no
//! loss there is overlooked. Somebody who knew nothing of what is lost may have written since, so
//! that the session is no shorter than it was: then it has another event where the last known one
//! was. Two things leave no trace when they were lost and written past: a transition without events,
//! and what is known by the answer to a repeat alone, which has no event but its number. The path of
//! a transition pays for one entry in a map and the digest of an event.
//!
//! What only a process knew that ends together with the server is found by nobody here. Owners and
//! followers find it when they next touch the session, because they name how far it had come.
//!
//! A person may accept that writes are lost. The store counts that, and each answer is remembered with
//! the count of its moment: whoever has not looked for long finds by it that what is missing was
//! accepted, forgets it, and tells its followers alone.

mod check;
mod loss;
mod settle;
mod standing;
mod stored;

pub(super) use check::{Checked, Look};
pub(super) use standing::Standing;

use super::keys::{Names, PARTITIONS};
use super::script::Script;
use crate::fingerprint::Fingerprint;
use crate::hub::Hub;
use crate::port::SessionKey;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Sessions of a partition that are remembered at least, if there were so many. There may be twice
/// as many.
const REMEMBERED: usize = 64;

/// How far a session had come when it was last answered about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// How often somebody had accepted by then that writes of it are lost. What was known before
    /// the last time does not count any more.
    pub(super) accepted_losses: u64,
    /// Its owners' transitions.
    pub(super) version: u64,
    /// Its last event.
    pub(super) seq: u64,
    /// The last event of which more is known than its number.
    pub(super) event: Option<Fingerprint>,
    pub(super) is_deleted: bool,
    /// When it was made, by the store's clock, if that is known: a later session of the same name is
    /// another.
    pub(super) made_unix_ms: Option<i64>,
}

/// The last answers.
pub(super) struct Witness {
    names: Names,
    quarantine: Script,
    hub: Arc<Hub>,
    partitions: Vec<Mutex<Marks>>,
    losses: watch::Sender<u64>,
    /// Sessions whose losses were told, and which could not be quarantined yet; with what was known of
    /// them. Whatever is seen of them since says nothing of what is lost.
    told: Mutex<HashMap<SessionKey, Mark>>,
}

/// The sessions of a partition, by member; those that were not answered about for long are
/// forgotten.
#[derive(Default)]
struct Marks {
    recent: HashMap<String, Mark>,
    before: HashMap<String, Mark>,
}

impl Witness {
    pub(super) fn new(names: Names, quarantine: Script, hub: Arc<Hub>) -> Self {
        Self {
            names,
            quarantine,
            hub,
            partitions: (0..PARTITIONS).map(|_| Mutex::default()).collect(),
            losses: watch::Sender::new(0),
            told: Mutex::default(),
        }
    }

    /// The session has come so far, by an answer of the store.
    pub(super) fn saw(&self, partition: u16, member: &str, mark: Mark) {
        self.marks(partition).raise(member, mark);
    }

    /// The same of one that has just been made: what was known before was of another, unless a later
    /// answer about this one came first.
    pub(super) fn saw_new(&self, partition: u16, member: &str, mark: Mark) {
        let mut marks = self.marks(partition);
        let known = marks.get(member);
        if known.is_some_and(|known| known.made_unix_ms != mark.made_unix_ms) {
            marks.forget(member);
        }
        marks.raise(member, mark);
    }

    /// What was known of a session does not count any more.
    fn forget(&self, partition: u16, member: &str) {
        self.marks(partition).forget(member);
    }

    /// How many losses were found, of sessions or of whole stores.
    pub(super) fn losses(&self) -> watch::Receiver<u64> {
        self.losses.subscribe()
    }

    fn told(&self) -> MutexGuard<'_, HashMap<SessionKey, Mark>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn marks(&self, partition: u16) -> MutexGuard<'_, Marks> {
        let marks = &self.partitions[usize::from(partition % PARTITIONS)];
        // Every critical section leaves its data whole.
        marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Marks {
    fn raise(&mut self, member: &str, mark: Mark) {
        if let Some(known) = self.recent.get_mut(member) {
            known.raise(mark);
            return;
        }
        if self.recent.len() >= REMEMBERED {
            self.before = std::mem::take(&mut self.recent);
        }
        let mut known = self.before.remove(member).unwrap_or_default();
        known.raise(mark);
        self.recent.insert(member.to_owned(), known);
    }

    fn forget(&mut self, member: &str) {
        self.recent.remove(member);
        self.before.remove(member);
    }

    fn get(&self, member: &str) -> Option<&Mark> {
        self.recent.get(member).or_else(|| self.before.get(member))
    }

    fn all(&self) -> impl Iterator<Item = (&String, &Mark)> {
        self.recent.iter().chain(&self.before)
    }
}

impl Mark {
    /// Answers may be looked at in another order than that in which they came.
    fn raise(&mut self, other: Self) {
        match (self.made_unix_ms, other.made_unix_ms) {
            (Some(made), Some(other)) if other < made => return,
            (Some(made), Some(other)) if other > made => *self = Self::default(),
            // What is made may have the name of what was deleted.
            (None, Some(_)) if self.is_deleted => *self = Self::default(),
            _ => {}
        }
        self.made_unix_ms = self.made_unix_ms.or(other.made_unix_ms);
        match other.accepted_losses.cmp(&self.accepted_losses) {
            Ordering::Less => return,
            Ordering::Equal => {}
            Ordering::Greater => {
                *self = Self {
                    made_unix_ms: self.made_unix_ms,
                    ..Self::default()
                };
            }
        }
        self.accepted_losses = other.accepted_losses;
        self.version = self.version.max(other.version);
        self.seq = self.seq.max(other.seq);
        self.event = Fingerprint::later(self.event, other.event);
        self.is_deleted |= other.is_deleted;
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LossDetector").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(version: u64, seq: u64) -> Mark {
        Mark {
            version,
            seq,
            ..Mark::default()
        }
    }

    #[test]
    fn a_mark_only_rises() {
        let mut marks = Marks::default();
        for mark in [at(3, 9), at(2, 8), at(0, 10)] {
            marks.raise("n/s", mark);
        }
        assert_eq!(marks.recent["n/s"], at(3, 10));
    }

    #[test]
    fn what_was_known_before_a_loss_was_accepted_does_not_count() {
        let accepted = Mark {
            accepted_losses: 1,
            ..at(2, 7)
        };
        let before = Mark {
            event: Some(Fingerprint::of(9, b"lost")),
            is_deleted: true,
            ..at(3, 9)
        };
        let mut marks = Marks::default();
        // Whichever answer is looked at first.
        for mark in [before, accepted, before] {
            marks.raise("n/s", mark);
        }
        assert_eq!(marks.recent["n/s"], accepted);
    }

    #[test]
    fn the_last_event_that_is_known_is_remembered_with_its_own_number() {
        let with = |seq, event: &str| Mark {
            event: Some(Fingerprint::of(seq, event.as_bytes())),
            ..at(0, seq)
        };
        let mut marks = Marks::default();
        // The answer to a repeat tells no more than a number.
        for mark in [with(8, "eighth"), with(9, "ninth"), at(0, 10), with(7, "x")] {
            marks.raise("n/s", mark);
        }
        let known = marks.recent["n/s"];
        assert_eq!((known.seq, known.event), (10, with(9, "ninth").event));
        // One of the same name that is made anew has nothing to do with that.
        marks.forget("n/s");
        marks.raise("n/s", with(1, "first"));
        assert_eq!(marks.recent["n/s"], with(1, "first"));
    }

    #[test]
    fn the_latest_are_remembered_and_the_rest_is_bounded() {
        let mut marks = Marks::default();
        for number in 0..1000_u64 {
            marks.raise(&format!("n/{number}"), at(number, number));
            // One that is always at work is never forgotten.
            marks.raise("n/busy", at(number, number));
            assert!(marks.all().count() <= 2 * REMEMBERED);
        }
        assert_eq!(marks.recent["n/busy"], at(999, 999));
        let is_known = |number: usize| {
            let member = format!("n/{number}");
            marks.all().any(|(known, _)| *known == member)
        };
        assert!((1001 - REMEMBERED..1000).all(is_known));
    }
}
