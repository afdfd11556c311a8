//! Which partitions are worth a look, as far as this process has heard.

use super::keys::PARTITIONS;
use crate::hub::Hub;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Partitions with news, and the dice for sessions of equal standing.
#[derive(Debug)]
pub(super) struct Queue {
    marked: Mutex<BTreeSet<u16>>,
    dice: AtomicU64,
    strange: Mutex<BTreeSet<String>>,
}

/// Sessions that only others can claim are remembered up to so many.
const STRANGE: usize = 1024;

impl Queue {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            marked: Mutex::default(),
            dice: AtomicU64::new(seed),
            strange: Mutex::default(),
        }
    }

    /// There may be something to claim in a partition: wakes who waits.
    pub(super) fn mark(&self, hub: &Hub, partition: u16) {
        self.marked().insert(partition);
        hub.work();
    }

    /// There may be something to claim anywhere.
    pub(super) fn mark_all(&self, hub: &Hub) {
        self.marked().extend(0..PARTITIONS);
        hub.work();
    }

    /// The partitions with news. Whoever takes them looks there.
    pub(super) fn take(&self) -> Vec<u16> {
        std::mem::take(&mut *self.marked()).into_iter().collect()
    }

    /// All partitions; looking at them makes the news old.
    pub(super) fn take_all(&self) -> Vec<u16> {
        self.marked().clear();
        (0..PARTITIONS).collect()
    }

    /// Whether that is said of the session for the first time.
    pub(super) fn is_new(&self, member: &str) -> bool {
        let mut strange = self.strange.lock().unwrap_or_else(PoisonError::into_inner);
        strange.len() < STRANGE && strange.insert(member.to_owned())
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

    fn marked(&self) -> MutexGuard<'_, BTreeSet<u16>> {
        self.marked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
