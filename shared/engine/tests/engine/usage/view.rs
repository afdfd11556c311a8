//! What was used up: tokens, model calls and money, per tool turn, step, run and session.

use cairn_engine::event::{self, Event, EventKind};
use cairn_engine::message::Usage;
use std::collections::BTreeMap;

/// The usage of a session, folded from its events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UsageView {
    runs: BTreeMap<u32, RunUsage>,
}

/// The usage of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RunUsage {
    /// Planning and all steps.
    pub(crate) total: Usage,
    /// Planning alone.
    pub(crate) planning: Usage,
    /// How long planning took, in milliseconds.
    pub(crate) planning_ms: u64,
    /// By the number of the step; only steps that asked a model.
    pub(crate) steps: BTreeMap<u32, StepUsage>,
}

/// The usage of one step, over all its attempts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StepUsage {
    /// The sum of its tool turns and its compactions.
    pub(crate) total: Usage,
    /// In the order of the journal.
    pub(crate) turns: Vec<TurnUsage>,
}

/// The usage of one tool turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TurnUsage {
    /// The attempt that it belongs to, from 1.
    pub(crate) attempt: u32,
    /// From 0 within the attempt.
    pub(crate) tool_turn: u32,
    /// The model that answered.
    pub(crate) model: String,
    /// What it used up.
    pub(crate) usage: Usage,
    /// From question to answer, in milliseconds.
    pub(crate) duration_ms: u64,
}

impl UsageView {
    /// Folds the next event of the journal.
    pub(crate) fn apply(&mut self, event: &Event) {
        match &event.kind {
            EventKind::RunStarted(event::RunStarted { run, .. }) => {
                self.runs.entry(*run).or_default();
            }
            EventKind::PlanApplied(event::PlanApplied {
                run,
                usage,
                duration_ms,
                ..
            })
            | EventKind::PlanProposed(event::PlanProposed {
                run,
                usage,
                duration_ms,
                ..
            })
            | EventKind::RevisionFailed(event::RevisionFailed {
                run,
                usage,
                duration_ms,
                ..
            })
            | EventKind::RunFailed(event::RunFailed {
                run,
                usage: Some(usage),
                duration_ms,
                ..
            }) => {
                let run = self.runs.entry(*run).or_default();
                run.total.add(usage);
                run.planning.add(usage);
                run.planning_ms = run.planning_ms.saturating_add(*duration_ms);
            }
            EventKind::ReplyReceived(reply) => {
                let run = self.runs.entry(reply.attempt.run).or_default();
                run.total.add(&reply.usage);
                let step = run.steps.entry(reply.attempt.step.into()).or_default();
                step.total.add(&reply.usage);
                step.turns.push(TurnUsage {
                    attempt: reply.attempt.attempt,
                    tool_turn: reply.tool_turn,
                    model: reply.model.clone(),
                    usage: reply.usage,
                    duration_ms: reply.duration_ms,
                });
            }
            EventKind::ContextCompacted(event::ContextCompacted { attempt, usage, .. })
            | EventKind::ContextFull(event::ContextFull { attempt, usage, .. }) => {
                let run = self.runs.entry(attempt.run).or_default();
                run.total.add(usage);
                let step = run.steps.entry(attempt.step.into()).or_default();
                step.total.add(usage);
            }
            _ => {}
        }
    }

    /// The usage of one run.
    pub(crate) fn run(&self, number: u32) -> Option<&RunUsage> {
        self.runs.get(&number)
    }

    /// All runs, by number.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u32, &RunUsage)> {
        self.runs.iter().map(|(&number, run)| (number, run))
    }

    /// The usage of the whole session.
    pub(crate) fn total(&self) -> Usage {
        let mut total = Usage::default();
        for run in self.runs.values() {
            total.add(&run.total);
        }
        total
    }
}

impl RunUsage {
    /// Model calls answered within steps.
    pub(crate) fn tool_turns(&self) -> usize {
        self.steps.values().map(|step| step.turns.len()).sum()
    }
}
