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
                lost(before.filter(|_| asked.again))
            }
            Kind::ContextCompacted(compacted) if is_of(compacted.attempt, run) => {
                let mut used: Usage = compacted.usage.map(Into::into).unwrap_or_default();
                let open = self.asked.take();
                // A history view answers no question.
                if compacted.kind() == CompactionKind::History {
                    used.add(&lost(open));
                }
                used
            }
            Kind::ContextFull(full) if is_of(full.attempt, run) => {
                self.asked = None;
                full.usage.map(Into::into).unwrap_or_default()
            }
            // Nothing is asked of the model any more.
            Kind::RunPaused(paused) if paused.run == run => lost(self.asked.take()),
            Kind::StepCompleted(ended) if is_of(ended.attempt, run) => lost(self.asked.take()),
            Kind::BudgetExhausted(exhausted)
                if exhausted.run == run && exhausted.budget() == Budget::Time =>
            {
                lost(self.asked.take())
            }
            _ => Usage::default(),
        }
    }
}

/// What a question is charged as, if there is one whose answer is lost.
fn lost(estimate: Option<u64>) -> Usage {
    estimate.map_or_else(Usage::default, Usage::of_lost_answer)
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
