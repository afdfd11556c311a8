//! Session memory that was read again and again without a change in between. Whoever asks for it once
//! more costs Redis one short command instead of all keys and values.

use crate::port::{MemoryList, SessionKey};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is kept of all sessions together, in bytes, about.
const ROOM: usize = 16 << 20;

/// What an entry takes beside its text, and a session beside its entries.
const FRAME: usize = 128;

/// When session memory was as it was read. All changes of a session are counted, so at the same moment
/// it is the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Moment {
    /// See `Servers::vouched_times`: after a failover a number may stand for something else.
    pub(super) vouched: u64,
    /// When the session was made: after a deletion there may be another of that name.
    pub(super) created: u64,
    /// Transitions of its owners, of which one may have no event.
    pub(super) version: u64,
    /// The number of its last event.
    pub(super) seq: u64,
}

/// What is known of a session.
#[derive(Debug, Clone)]
enum Seen {
    /// It was read at this moment, and before that at none or at another.
    Once(Moment),
    /// It was read at this moment more than once; and how much it takes.
    Again(Moment, Arc<MemoryList>, usize),
}

/// Session memory that may not have changed. What was not asked for the longest goes first.
#[derive(Debug, Default)]
pub(super) struct Unchanged(Mutex<Halves>);

/// A half that is full takes the place of the other one, so that each look costs the same.
#[derive(Debug, Default)]
struct Halves {
    new: HashMap<SessionKey, Seen>,
    /// What the new half takes.
    bytes: usize,
    old: HashMap<SessionKey, Seen>,
}

impl Unchanged {
    /// What session memory was at a moment, if it has not changed for a while. Whether it is still
    /// that moment has to be asked.
    pub(super) fn get(&self, key: &SessionKey) -> Option<(Moment, Arc<MemoryList>)> {
        let mut halves = self.lock();
        let seen = match halves.old.remove(key) {
            Some(seen) => {
                halves.put(key, seen.clone());
                seen
            }
            None => halves.new.get(key)?.clone(),
        };
        match seen {
            Seen::Once(_) => None,
            Seen::Again(moment, list, _) => Some((moment, list)),
        }
    }

    /// It was read.
    pub(super) fn was_read(&self, key: &SessionKey, moment: Moment, list: &MemoryList) {
        let before = self.lock().take(key);
        let is_again = before.is_some_and(|seen| *seen.moment() == moment);
        // Copied while nobody waits.
        let size = FRAME + size(list);
        let seen = match is_again && size <= ROOM / 4 {
            true => Seen::Again(moment, Arc::new(list.clone()), size),
            false => Seen::Once(moment),
        };
        let mut halves = self.lock();
        // Somebody else may have read it meanwhile.
        halves.take(key);
        halves.put(key, seen);
    }

    fn lock(&self) -> MutexGuard<'_, Halves> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Halves {
    fn take(&mut self, key: &SessionKey) -> Option<Seen> {
        let Some(seen) = self.new.remove(key) else {
            return self.old.remove(key);
        };
        self.bytes -= seen.bytes();
        Some(seen)
    }

    fn put(&mut self, key: &SessionKey, seen: Seen) {
        if self.bytes >= ROOM / 2 {
            self.old = std::mem::take(&mut self.new);
            self.bytes = 0;
        }
        self.bytes += seen.bytes();
        self.new.insert(key.clone(), seen);
    }
}

impl Seen {
    fn moment(&self) -> &Moment {
        match self {
            Self::Once(moment) | Self::Again(moment, ..) => moment,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Once(_) => FRAME,
            Self::Again(_, _, bytes) => *bytes,
        }
    }
}

fn size(list: &MemoryList) -> usize {
    let entries = list.entries.iter();
    entries.map(|it| FRAME + it.bytes()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::MemoryEntry;

    fn moment(seq: u64) -> Moment {
        Moment {
            vouched: 1,
            created: 1,
            version: 1,
            seq,
        }
    }

    fn list(bytes: usize) -> MemoryList {
        let entry = MemoryEntry {
            key: "key".to_owned(),
            value: "v".repeat(bytes),
            ..MemoryEntry::default()
        };
        MemoryList {
            entries: vec![entry],
            last_seq: 1,
        }
    }

    fn key(number: usize) -> SessionKey {
        SessionKey::new("space", number.to_string())
    }

    #[test]
    fn what_is_read_twice_at_the_same_moment_is_kept_until_it_was_another_moment() {
        let unchanged = Unchanged::default();
        let kept = || unchanged.get(&key(1)).map(|(moment, _)| moment.seq);
        for (seq, expected) in [
            (1, None),
            (1, Some(1)),
            (1, Some(1)),
            (2, None),
            (2, Some(2)),
        ] {
            unchanged.was_read(&key(1), moment(seq), &list(10));
            assert_eq!(kept(), expected);
        }
        for other in [
            Moment {
                vouched: 2,
                ..moment(2)
            },
            Moment {
                version: 2,
                ..moment(2)
            },
            Moment {
                created: 2,
                ..moment(2)
            },
        ] {
            unchanged.was_read(&key(1), other, &list(10));
            assert_eq!(kept(), None);
        }
    }

    #[test]
    fn what_was_asked_for_is_kept_and_all_of_it_stays_within_the_room() {
        let (unchanged, part) = (Unchanged::default(), ROOM / 16);
        for number in 0..64 {
            for _ in 0..2 {
                unchanged.was_read(&key(number), moment(1), &list(part));
            }
            assert!(unchanged.get(&key(0)).is_some(), "{number}");
            let halves = unchanged.lock();
            let all = halves.new.values().chain(halves.old.values());
            assert!(all.map(Seen::bytes).sum::<usize>() <= ROOM + 2 * (part + 2 * FRAME));
            let counted = halves.new.values().map(Seen::bytes).sum::<usize>();
            assert_eq!(halves.bytes, counted);
        }
        assert!(unchanged.get(&key(1)).is_none());
    }

    #[test]
    fn what_would_take_most_of_the_room_is_not_kept() {
        let unchanged = Unchanged::default();
        for _ in 0..3 {
            unchanged.was_read(&key(1), moment(1), &list(ROOM / 4));
        }
        assert!(unchanged.get(&key(1)).is_none());
    }
}
