//! `[session]`: leases, and how many sessions there may be at work.

use cairn_boot::Checks;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const MIB: usize = 1024 * 1024;

/// Leases, and how many sessions there may be at work.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionSettings {
    /// How long a session stays a process's own without a sign of life.
    #[serde(with = "cairn_boot::config::duration")]
    pub lease: Duration,
    /// Most sessions that an orchestrator works on at a time: then it refuses new runs.
    pub max_owned: usize,
    /// Most bytes of state of the sessions that an orchestrator works on at a time, by their checkpoints
    /// and the events since: then it refuses new runs, and leaves queued sessions to others.
    pub state_bytes: usize,
    /// Most bytes of state of idle sessions that an orchestrator keeps, so that their next request needs no
    /// reading of the journal; 0 for none.
    pub cache_bytes: usize,
    /// Most sessions of the store that may wait for an orchestrator: then new runs are refused.
    pub max_queued: u64,
}

impl Default for SessionSettings {
    fn default() -> Self {
        let config = cairn_orchestrator::Config::default();
        Self {
            lease: config.lease,
            max_owned: config.max_sessions,
            state_bytes: config.state_bytes,
            cache_bytes: config.cache_bytes,
            max_queued: config.max_queued,
        }
    }
}

impl SessionSettings {
    pub(super) fn check(&self, checks: &mut Checks) {
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        checks.range("session.lease", self.lease, second..=hour);
        checks.range("session.max_owned", self.max_owned, 1..=1_000_000);
        checks.range("session.state_bytes", self.state_bytes, MIB..=MIB * MIB);
        checks.range("session.cache_bytes", self.cache_bytes, 0..=MIB * MIB);
        checks.range("session.max_queued", self.max_queued, 1..=100_000_000);
    }
}
