//! `[knowledge]`: how pages of knowledge are found.

use cairn_boot::Checks;
use cairn_orchestrator::{KnowledgeConfig, Scorer};
use serde::{Deserialize, Serialize};

const MIB: usize = 1024 * 1024;

/// How pages of knowledge are found.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct KnowledgeSettings {
    /// How hits are scored.
    #[serde(with = "ScorerName")]
    pub scorer: Scorer,
    /// The least score of a hit, where a search names none.
    pub min_score: f64,
    /// Most bytes of memory that the indexes of an orchestrator take.
    pub index_bytes: usize,
}

/// A scorer by its name in settings.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Scorer", rename_all = "snake_case")]
enum ScorerName {
    Bm25,
    Dice,
}

impl Default for KnowledgeSettings {
    fn default() -> Self {
        let config = KnowledgeConfig::default();
        Self {
            scorer: config.scorer,
            min_score: config.min_score,
            index_bytes: config.index_bytes,
        }
    }
}

impl KnowledgeSettings {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.range("knowledge.min_score", self.min_score, 0.0..=1.0);
        checks.range("knowledge.index_bytes", self.index_bytes, MIB..=MIB * MIB);
    }

    /// As an orchestrator takes them.
    pub(super) fn config(&self) -> KnowledgeConfig {
        KnowledgeConfig {
            scorer: self.scorer,
            min_score: self.min_score,
            index_bytes: self.index_bytes,
        }
    }
}
