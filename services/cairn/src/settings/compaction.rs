//! `[compaction]`: when older messages of a conversation give way, and how much of it stays.

use cairn_boot::Checks;
use cairn_engine::decide::Compaction;
use serde::{Deserialize, Serialize};

/// When older messages of a conversation give way, and how much of it stays.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct CompactionSettings {
    /// The share of a model's window from which on a request is too long.
    pub at: f64,
    /// Newest tool turns that stay; fewer if the request is too long with them.
    pub keep_turns: u32,
}

impl Default for CompactionSettings {
    fn default() -> Self {
        let config = Compaction::default();
        Self {
            at: f64::from(config.at_permille) / 1e3,
            keep_turns: config.keep_turns,
        }
    }
}

impl CompactionSettings {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.range("compaction.at", self.at, 0.1..=0.95);
        checks.range("compaction.keep_turns", self.keep_turns, 1..=50);
    }

    /// As an orchestrator takes them.
    pub(super) fn config(&self) -> Compaction {
        Compaction {
            // In range, and so whole and not negative.
            at_permille: (self.at * 1e3).round() as u32,
            keep_turns: self.keep_turns,
        }
    }
}
