//! The capacity of this process: how many sessions it may own, and how many bytes of state they may have.

use super::{Running, Sessions};
use crate::config::Config;
use crate::key::SessionKey;
use crate::state_bytes::{OwnedBytes, StateBytes};
use cairn_rpc::metrics::{self, gauge};
use std::collections::HashMap;
use std::sync::Arc;

/// A session that is not read yet counts with the mean of those that are owned, and at least with this.
const LEAST_EXPECTED: usize = 64 * 1024;

/// Which limit leaves no room for another session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// `session.max_owned`.
    Sessions,
    /// `session.state_bytes`.
    StateBytes,
}

/// Under one lock, so that an owner that begins and a drain that begins do not miss each other.
#[derive(Debug, Default)]
pub(super) struct Capacity {
    pub(super) running: HashMap<SessionKey, Running>,
    /// Shares that are reserved for sessions on their way here.
    pub(super) reserved: usize,
    /// The process is about to end: an owner that begins now ends at once.
    pub(super) is_draining: bool,
    state: Arc<OwnedBytes>,
}

impl Capacity {
    /// Nothing is owned yet. `state` is what all owners will have together.
    pub(super) fn new(state: Arc<OwnedBytes>) -> Self {
        Self {
            state,
            ..Self::default()
        }
    }

    /// How many more sessions may be owned, and else which limit is reached.
    pub(super) fn free(&self, config: &Config) -> Result<usize, Bound> {
        let sessions = config
            .max_sessions
            .saturating_sub(self.running.len() + self.reserved);
        let expected = self.expected();
        let unread = self.reserved + self.state.reading();
        let taken = self.state.bytes() + unread * expected;
        let by_bytes = config.state_bytes.saturating_sub(taken) / expected;
        match (sessions, by_bytes) {
            (0, _) => Err(Bound::Sessions),
            (_, 0) => Err(Bound::StateBytes),
            _ => Ok(sessions.min(by_bytes)),
        }
    }

    /// The share of an owner that begins, before its session is read.
    pub(super) fn begin_state(&self) -> StateBytes {
        StateBytes::begin(self.state.clone())
    }

    fn expected(&self) -> usize {
        let read = self.running.len().saturating_sub(self.state.reading());
        let mean = self.state.bytes() / read.max(1);
        mean.max(LEAST_EXPECTED)
    }

    pub(super) fn publish(&self) {
        gauge!(metrics::SESSIONS_OWNED).set(self.running.len() as f64);
    }
}

/// A share of the capacity that is reserved for a session on its way here.
#[derive(Debug)]
pub(crate) struct Reservation(Arc<Sessions>);

impl Reservation {
    /// Reserves a share, if there is one.
    pub(crate) fn new(sessions: &Arc<Sessions>) -> Result<Self, Bound> {
        let mut capacity = sessions.lock();
        capacity.free(&sessions.deps.config)?;
        capacity.reserved += 1;
        Ok(Self(sessions.clone()))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.0.lock().reserved -= 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state_bytes::GROWTH;

    const MIB: usize = 1024 * 1024;

    fn config() -> Config {
        Config {
            max_sessions: 100,
            state_bytes: 4 * MIB,
            ..Config::default()
        }
    }

    #[test]
    fn a_session_that_is_not_read_yet_counts_with_the_mean_of_the_others() {
        let mut capacity = Capacity::default();
        assert_eq!(capacity.free(&config()), Ok(64));
        let mut first = capacity.begin_state();
        assert!(first.fit(MIB - GROWTH, 4 * MIB));
        let (to_owner, _notices) = tokio::sync::mpsc::unbounded_channel();
        let key = SessionKey::new(&"space".parse().unwrap(), "s");
        capacity.running.insert(key, Running { epoch: 1, to_owner });
        assert_eq!(capacity.free(&config()), Ok(3));
        capacity.reserved = 2;
        assert_eq!(capacity.free(&config()), Ok(1));
        capacity.reserved = 3;
        assert_eq!(capacity.free(&config()), Err(Bound::StateBytes));
        capacity.reserved = 99;
        assert_eq!(capacity.free(&config()), Err(Bound::Sessions));
        capacity.reserved = 0;
        first.set(5 * MIB);
        assert_eq!(capacity.free(&config()), Err(Bound::StateBytes));
        drop(first);
        assert_eq!(capacity.free(&config()), Ok(64));
    }

    #[test]
    fn what_does_not_fit_beside_others_fits_alone() {
        let capacity = Capacity::default();
        let (mut one, mut other) = (capacity.begin_state(), capacity.begin_state());
        assert!(one.fit(3 * MIB - GROWTH, 4 * MIB));
        assert!(!other.fit(MIB, 4 * MIB));
        assert!(other.fit(MIB - GROWTH, 4 * MIB));
        drop(one);
        assert!(other.fit(9 * MIB, 4 * MIB));
        drop(other);
        assert_eq!((capacity.state.bytes(), capacity.state.reading()), (0, 0));
    }
}
