//! `outstanding(state) → effects`: what the committed state leaves to be done.

use crate::event::AttemptRef;
use crate::state::{CallStatus, Run, RunStatus, Session};

/// Something to be done. The same state always asks for the same; whoever does it already goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Work {
    /// Answer the oldest command.
    HandleCommand,
    /// Ask the planner for a plan.
    Plan {
        /// The run.
        run: u32,
    },
    /// Ask the planner for another plan.
    Revise {
        /// The run.
        run: u32,
        /// The command that wished it; 0 for the run itself.
        request_seq: u64,
    },
    /// Have an executor run the attempt.
    RunStep(AttemptRef),
    /// Decide again at that time: an answer takes effect then, or a budget is used up.
    Wake {
        /// Milliseconds since 1970 by the store's clock.
        at: u64,
    },
}

impl Session {
    /// What is to be done, in time proportional to what is running.
    pub fn outstanding(&self) -> Vec<Work> {
        let mut work = Vec::new();
        if !self.commands.is_empty() {
            work.push(Work::HandleCommand);
        }
        work.extend(self.runs.last().and_then(Run::asks_planner));
        let Some(run) = self.active_run() else {
            return work;
        };
        if run.status == RunStatus::Planning {
            work.push(Work::Plan { run: run.number });
        }
        let asks_no_model = run.no_questions().is_some();
        let begins_nothing = run.status == RunStatus::Paused || run.no_calls().is_some();
        let mut wake = run.deadline();
        for (name, step, attempt) in run.running_attempts() {
            if attempt.waits_for_person() {
                let times = attempt
                    .calls(name)
                    .filter_map(|(_, call)| match &call.status {
                        CallStatus::InDoubt {
                            settle_after,
                            answer: Some(_),
                        } => Some(*settle_after),
                        _ => None,
                    });
                wake = times.chain(wake).min();
            } else if begins_nothing {
                // What has side effects and was begun is to end; nothing else goes on.
                if attempt.has_intended_call() {
                    work.push(Work::RunStep(name));
                }
            } else if !(asks_no_model && step.plan.tool.is_none() && attempt.needs_turn()) {
                work.push(Work::RunStep(name));
            }
        }
        work.extend(wake.map(|at| Work::Wake { at }));
        work
    }
}

impl Run {
    /// The wish for another plan that the planner is asked about: one after the other, because an
    /// answer that takes effect makes the next one void. While the first plan is made there is
    /// nothing to be changed yet. A run that is paused, or has used up a budget, asks nothing by
    /// itself, but somebody may want another plan before it goes on.
    fn asks_planner(&self) -> Option<Work> {
        let is_planning = self.plan.is_none() && self.review.is_none();
        let is_planning = is_planning && !self.status.is_terminal();
        let is_held = self.status == RunStatus::Paused || self.no_questions().is_some();
        let mut wishes = self.revising.keys().copied();
        let request_seq = wishes.find(|&request_seq| request_seq > 0 || !is_held)?;
        if is_planning && self.status != RunStatus::Paused {
            return None;
        }
        Some(Work::Revise {
            run: self.number,
            request_seq,
        })
    }
}
