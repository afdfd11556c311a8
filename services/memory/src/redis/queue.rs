//! Which partitions are worth a look, as far as this process has heard.

use super::keys::PARTITIONS;
use crate::hub::Hub;
use crate::port::Level;
use crate::turns::Turns;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The longest time for which claimers rely on hints.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Partitions with news, and the dice for sessions of equal standing.
#[derive(Debug)]
pub(super) struct Queue {
    marked: Mutex<BTreeSet<u16>>,
    /// Partitions where claimers have left sessions to others, with the lowest level that one of them needs.
    left: Mutex<BTreeMap<u16, Level>>,
    /// When all partitions are to be looked at, whatever was heard of them. One for all claimers of
    /// the process, so that each of them looks at news alone meanwhile.
    look_at: Mutex<Instant>,
    dice: AtomicU64,
    strange: Mutex<BTreeSet<String>>,
    /// Which namespace had its turn when.
    pub(super) turns: Turns,
}

/// Sessions that only others can claim are remembered up to so many.
const STRANGE: usize = 1024;

impl Queue {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            marked: Mutex::default(),
            left: Mutex::default(),
            look_at: Mutex::new(Instant::now()),
            dice: AtomicU64::new(seed),
            strange: Mutex::default(),
            turns: Turns::default(),
        }
    }

    /// There may be something to claim in a partition: wakes who waits.
    pub(super) fn mark(&self, hub: &Hub, partition: u16) {
        self.marked().insert(partition);
        hub.work();
    }

    /// The same of several partitions.
    pub(super) fn mark_those(&self, hub: &Hub, partitions: impl IntoIterator<Item = u16>) {
        self.marked().extend(partitions);
        hub.work();
    }

    /// A claimer leaves a session of a partition to those of a higher level: wakes who waits. A claimer that
    /// cannot have the session does not take the news of it away.
    pub(super) fn leave(&self, hub: &Hub, partition: u16, needs: Level) {
        let mut left = self.left();
        if left.get(&partition).is_none_or(|known| needs < *known) {
            left.insert(partition, needs);
            hub.work();
        }
    }

    /// The partitions that are worth a look for a claimer of this level: those with news, or all if it is time
    /// or a claimer wants them. A call that takes them looks there.
    pub(super) fn take(&self, level: Level, all: bool) -> Vec<u16> {
        let mut left = BTreeSet::new();
        self.left().retain(|&partition, needs| {
            let is_readable = *needs <= level;
            left.extend(is_readable.then_some(partition));
            !is_readable
        });
        let now = Instant::now();
        let mut look_at = self.look();
        if !all && now < *look_at {
            left.append(&mut self.marked());
            return left.into_iter().collect();
        }
        *look_at = now + LOOK_AGAIN;
        self.marked().clear();
        (0..PARTITIONS).collect()
    }

    /// Whether that is said of the session for the first time.
    pub(super) fn is_new(&self, member: &str) -> bool {
        let mut strange = self.strange.lock().unwrap_or_else(PoisonError::into_inner);
        strange.len() < STRANGE && strange.insert(member.to_owned())
    }

    /// Something may be claimable from then on, of which nobody will be told.
    pub(super) fn look_at(&self, at: Instant) {
        let mut look_at = self.look();
        *look_at = at.min(*look_at);
    }

    /// When all partitions are to be looked at.
    pub(super) fn looks_at(&self) -> Instant {
        *self.look()
    }

    /// A number that nobody foresees.
    pub(super) fn roll(&self) -> u64 {
        // The steps of SplitMix64.
        let state = self
            .dice
            .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn look(&self) -> MutexGuard<'_, Instant> {
        self.look_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn left(&self) -> MutexGuard<'_, BTreeMap<u16, Level>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn marked(&self) -> MutexGuard<'_, BTreeSet<u16>> {
        self.marked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_to_a_higher_level_is_no_news_for_a_lower_one() {
        let (hub, queue) = (Hub::new(), Queue::new(0));
        let (low, high) = (Level::FIRST, Level::HIGHEST);
        assert_eq!(queue.take(low, false).len(), usize::from(PARTITIONS));
        queue.leave(&hub, 7, high);
        queue.mark(&hub, 8);
        assert_eq!(queue.take(low, false), [8]);
        queue.mark(&hub, 9);
        assert_eq!(queue.take(high, false), [7, 9]);
        assert_eq!(queue.take(high, false), [0; 0]);
        queue.leave(&hub, 7, high);
        queue.take(low, true);
        assert_eq!(queue.take(high, false), [7]);
    }
}
