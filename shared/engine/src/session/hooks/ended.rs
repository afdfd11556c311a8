//! Runs that have ended, whose hooks are still asked about that.

use crate::failure::Failure;
use crate::hooks::{Gate, MAX_ENDED, PinnedHook, Point};
use crate::message::Usage;
use crate::session::{RunStatus, Session};
use serde::{Deserialize, Serialize};

/// A run that has ended, as its hooks are asked about that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndedHooks {
    /// Its number.
    pub run: u32,
    /// How often it had ended before.
    pub ends: u32,
    /// The hooks that it asked.
    pub pinned: Vec<PinnedHook>,
    /// The trace that it belongs to.
    pub trace_parent: String,
    /// How it ended.
    pub status: RunStatus,
    /// Why it failed; none otherwise.
    pub failure: Option<Failure>,
    /// What it used up.
    pub usage: Usage,
    /// The context of a turn; empty for a run with a plan.
    pub context: String,
    /// The name of its agent.
    pub agent: String,
    /// Its model; empty for the default.
    pub model: String,
}

impl EndedHooks {
    /// The question to its hooks.
    pub fn gate(&self) -> Gate {
        Gate {
            index: self.ends,
            ..Gate::of_run(Point::OnRunEnd, self.run)
        }
    }
}

impl Session {
    /// A run has ended, and its hooks are asked about that.
    pub(in crate::session) fn note_hooks_of_end(&mut self, number: u32) {
        let run = self.run(number).filter(|run| run.opens(Point::OnRunEnd));
        let Some(run) = run else {
            return;
        };
        let context = run.turn.as_ref().map(|turn| turn.context.clone());
        let ended = EndedHooks {
            run: number,
            ends: run.hooks.ends.saturating_sub(1),
            pinned: run.hooks.pinned.clone(),
            trace_parent: run.trace_parent.clone(),
            status: run.status,
            failure: run.end.failure.clone(),
            usage: run.spent.usage,
            context: context.unwrap_or_default(),
            agent: self.agent_name(number).to_owned(),
            model: run.model.clone(),
        };
        self.ended_hooks.push_back(ended);
        if self.ended_hooks.len() > MAX_ENDED {
            self.ended_hooks.pop_front();
        }
    }
}
