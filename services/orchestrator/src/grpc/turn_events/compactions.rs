//! The compactions of a turn: what its client sees of them, and what they cost.

use super::is_of;
use cairn_engine::message::Usage;
use cairn_proto::event::event::Kind;
use cairn_proto::event::{Budget, CompactionKind, ContextCompacted};
use cairn_proto::orchestrator as pb;

/// The question for a summary that is open, as the fold of a session has it.
#[derive(Debug, Default)]
pub(super) struct Compactions {
    /// Its estimated tokens; none if no question is open.
    asked: Option<u64>,
}

impl Compactions {
    /// What an event adds to the usage of the run beside replies. A question whose answer is lost is charged as
    /// it was estimated.
    pub(super) fn charge(&mut self, run: u32, kind: &Kind) -> Usage {
        match kind {
            Kind::SummaryAsked(asked) if is_of(asked.attempt, run) => {
                let before = self.asked.replace(asked.estimate);
                before
                    .filter(|_| asked.again)
                    .map_or_else(Usage::default, lost)
            }
            Kind::ContextCompacted(compacted) if is_of(compacted.attempt, run) => {
                let mut used: Usage = compacted.usage.map(Into::into).unwrap_or_default();
                let open = self.asked.take();
                // A history view answers no question.
                if compacted.kind() == CompactionKind::History {
                    used.add(&open.map_or_else(Usage::default, lost));
                }
                used
            }
            Kind::ContextFull(full) if is_of(full.attempt, run) => {
                self.asked = None;
                full.usage.map(Into::into).unwrap_or_default()
            }
            Kind::RunPaused(paused) if paused.run == run => self.lose(),
            Kind::BudgetExhausted(exhausted)
                if exhausted.run == run && exhausted.budget() == Budget::Time =>
            {
                self.lose()
            }
            _ => Usage::default(),
        }
    }

    /// Nothing is asked of the model any more.
    fn lose(&mut self) -> Usage {
        self.asked.take().map_or_else(Usage::default, lost)
    }
}

/// What a lost answer is charged as.
fn lost(estimate: u64) -> Usage {
    Usage {
        input_tokens: estimate,
        unpriced_tokens: estimate,
        model_calls: 1,
        ..Usage::default()
    }
}

/// What the client sees of a compaction.
pub(super) fn shown(compacted: &ContextCompacted) -> pb::TurnCompacted {
    pb::TurnCompacted {
        kind: compacted.kind,
        replaced: compacted.replaced,
        tokens_before: compacted.tokens_before,
        tokens_after: compacted.tokens_after,
    }
}
