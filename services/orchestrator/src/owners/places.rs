//! The places of this process: how many sessions it may own, and how many bytes of state they may have.

use super::Running;
use crate::config::Config;
use crate::deps::Deps;
use crate::key::SessionKey;
use cairn_rpc::metrics::{self, gauge};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
pub(super) struct Places {
    pub(super) running: HashMap<SessionKey, Running>,
    /// Places that are kept for sessions on their way here.
    pub(super) kept: usize,
    /// The process is about to end: an owner that begins now ends at once.
    pub(super) is_draining: bool,
    /// Bytes of state of all owners.
    state: Arc<AtomicUsize>,
}

impl Places {
    /// How many more sessions may be owned, and else which limit is reached.
    pub(super) fn room(&self, config: &Config) -> Result<usize, Bound> {
        let sessions = config
            .max_sessions
            .saturating_sub(self.running.len() + self.kept);
        let expected = self.expected();
        let taken = self.state.load(Ordering::Relaxed) + self.kept * expected;
        let by_bytes = config.state_bytes.saturating_sub(taken) / expected;
        match (sessions, by_bytes) {
            (0, _) => Err(Bound::Sessions),
            (_, 0) => Err(Bound::StateBytes),
            _ => Ok(sessions.min(by_bytes)),
        }
    }

    /// The share of an owner that begins, before its session is read.
    pub(super) fn begin_state(&self) -> StateBytes {
        let mut begun = StateBytes {
            all: self.state.clone(),
            own: 0,
        };
        begun.set(self.expected());
        begun
    }

    fn expected(&self) -> usize {
        let mean = self.state.load(Ordering::Relaxed) / self.running.len().max(1);
        mean.max(LEAST_EXPECTED)
    }

    pub(super) fn tell(&self) {
        gauge!(metrics::SESSIONS_OWNED).set(self.running.len() as f64);
    }
}

/// The bytes of state of one owner, counted among those of the process until it is dropped.
///
/// They are an estimate that costs nothing: the size of the last checkpoint, and of the events since.
#[derive(Debug)]
pub(crate) struct StateBytes {
    all: Arc<AtomicUsize>,
    own: usize,
}

impl StateBytes {
    /// A session that is at work may grow beyond the bound: to give it up would cost its step.
    pub(crate) fn set(&mut self, bytes: usize) {
        if bytes != self.own {
            self.all.fetch_add(bytes, Ordering::Relaxed);
            self.all.fetch_sub(self.own, Ordering::Relaxed);
            self.own = bytes;
            self.tell();
        }
    }

    /// The same, unless that would be too much for the process. A session that is alone always fits.
    pub(crate) fn fit(&mut self, bytes: usize, most: usize) -> bool {
        let own = self.own;
        let others_and_new = |all: usize| {
            let others = all - own;
            (others == 0 || others + bytes <= most).then_some(others + bytes)
        };
        let order = Ordering::Relaxed;
        let fits = self.all.fetch_update(order, order, others_and_new).is_ok();
        if fits {
            self.own = bytes;
            self.tell();
        }
        fits
    }

    fn tell(&self) {
        gauge!(metrics::STATE_BYTES).set(self.all.load(Ordering::Relaxed) as f64);
    }
}

impl Drop for StateBytes {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// A place that is kept for a session on its way here.
#[derive(Debug)]
pub(crate) struct Slot(Arc<Deps>);

impl Slot {
    /// Keeps a place, if there is one.
    pub(crate) fn keep(deps: &Arc<Deps>) -> Result<Self, Bound> {
        let mut places = deps.owners.lock();
        places.room(&deps.config)?;
        places.kept += 1;
        Ok(Self(deps.clone()))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.owners.lock().kept -= 1;
        self.0.owners.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut places = Places::default();
        assert_eq!(places.room(&config()), Ok(64));
        let mut first = places.begin_state();
        assert!(first.fit(MIB, 4 * MIB));
        let (to_owner, _notices) = tokio::sync::mpsc::unbounded_channel();
        let key = SessionKey::new(&"space".parse().unwrap(), "s");
        places.running.insert(key, Running { epoch: 1, to_owner });
        assert_eq!(places.room(&config()), Ok(3));
        places.kept = 2;
        assert_eq!(places.room(&config()), Ok(1));
        places.kept = 3;
        assert_eq!(places.room(&config()), Err(Bound::StateBytes));
        places.kept = 99;
        assert_eq!(places.room(&config()), Err(Bound::Sessions));
        places.kept = 0;
        first.set(5 * MIB);
        assert_eq!(places.room(&config()), Err(Bound::StateBytes));
        drop(first);
        assert_eq!(places.room(&config()), Ok(64));
    }

    #[test]
    fn what_does_not_fit_beside_others_fits_alone() {
        let places = Places::default();
        let (mut one, mut other) = (places.begin_state(), places.begin_state());
        assert!(one.fit(3 * MIB, 4 * MIB));
        assert!(!other.fit(2 * MIB, 4 * MIB));
        assert!(other.fit(MIB, 4 * MIB));
        drop(one);
        assert!(other.fit(9 * MIB, 4 * MIB));
        drop(other);
        assert_eq!(places.state.load(Ordering::Relaxed), 0);
    }
}
