//! Compactions of the conversations of a run, and what they cost beside replies.

use crate::ui::compaction::became;
use cairn_engine::message::Usage;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use std::collections::BTreeMap;

/// Older messages of a conversation gave way to one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compacted {
    /// The step whose conversation it is.
    pub step: u32,
    /// What came of the messages.
    pub what: String,
    /// It happened before this process began to look.
    pub kept: bool,
}

impl Compacted {
    pub(super) fn new(event: &wire::ContextCompacted, kept: bool) -> Self {
        let (before, after) = (event.tokens_before, event.tokens_after);
        Self {
            step: step_of(event.attempt),
            what: became(event.kind(), event.replaced, before, after),
            kept,
        }
    }
}

/// The questions for summaries without an answer: their estimated tokens, by step.
#[derive(Debug, Clone, Default)]
pub(in crate::ui) struct Questions(BTreeMap<u32, u64>);

impl Questions {
    /// What an event of the run adds to its usage. A question whose answer is lost is charged as it was
    /// estimated.
    pub(super) fn charge(&mut self, kind: &Kind) -> wire::Usage {
        let open = &mut self.0;
        match kind {
            Kind::SummaryAsked(e) => {
                let before = open.insert(step_of(e.attempt), e.estimate);
                lost(before.filter(|_| e.again))
            }
            Kind::ContextCompacted(e) => {
                let open = open.remove(&step_of(e.attempt));
                // A history view answers no question, and used up nothing.
                match e.kind() {
                    wire::CompactionKind::History => lost(open),
                    _ => e.usage.unwrap_or_default(),
                }
            }
            Kind::ContextFull(e) => {
                open.remove(&step_of(e.attempt));
                e.usage.unwrap_or_default()
            }
            Kind::StepCompleted(e) => lost(open.remove(&step_of(e.attempt))),
            Kind::StepFailed(e) => lost(open.remove(&step_of(e.attempt))),
            Kind::StepSkipped(e) => lost(open.remove(&e.step)),
            Kind::RunPaused(_) => lost(std::mem::take(open).into_values()),
            Kind::BudgetExhausted(e) if e.budget() == wire::Budget::Time => {
                lost(std::mem::take(open).into_values())
            }
            _ => wire::Usage::default(),
        }
    }
}

fn step_of(attempt: Option<wire::AttemptRef>) -> u32 {
    attempt.map_or(0, |attempt| attempt.step)
}

/// What questions are charged as whose answers are lost.
fn lost(estimates: impl IntoIterator<Item = u64>) -> wire::Usage {
    let mut usage = Usage::default();
    for estimate in estimates {
        usage.add(&Usage::of_lost_answer(estimate));
    }
    usage.into()
}
