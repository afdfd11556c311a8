//! `outstanding(state) → effects`: what the committed state leaves to be done.

use crate::event::AttemptRef;
use crate::state::{Attempt, CallStatus, Run, RunStatus, Session, Step};

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
    /// An owner would find something to do: what is outstanding, or steps that nobody has begun yet.
    pub fn needs_owner(&self) -> bool {
        let goes_on = |run: &Run| match run.status {
            RunStatus::Paused => false,
            RunStatus::Waiting(_) => run.has_more_to_begin(),
            _ => true,
        };
        self.active_run().is_some_and(goes_on) || !self.outstanding().is_empty()
    }

    /// What is to be done, in time proportional to what is running.
    pub fn outstanding(&self) -> Vec<Work> {
        self.outstanding_beside(|_| false)
    }

    /// What is to be done by somebody who has begun some attempts. If their models may be being asked
    /// right now, they keep what is reserved for that, and are to end it also when a budget is used
    /// up: the answer is paid for.
    pub fn outstanding_beside(&self, has_begun: impl Fn(AttemptRef) -> bool) -> Vec<Work> {
        let mut work = Vec::new();
        if !self.commands.is_empty() {
            work.push(Work::HandleCommand);
        }
        work.extend(self.runs.last().and_then(Run::asks_planner));
        let Some(run) = self.active_run() else {
            return work;
        };
        if run.status == RunStatus::Planning && run.ending.is_none() {
            work.push(Work::Plan { run: run.number });
        }
        let mut wake = run.deadline();
        for (name, _, attempt) in run.running_attempts() {
            let times = attempt
                .last_calls(name)
                .filter_map(|(_, call)| match &call.status {
                    CallStatus::InDoubt {
                        settle_after,
                        answer: Some(_),
                    } => Some(*settle_after),
                    _ => None,
                });
            wake = times.chain(wake).min();
        }
        work.extend(run.attempts_to_run(has_begun).map(Work::RunStep));
        work.extend(wake.map(|at| Work::Wake { at }));
        work
    }
}

impl Run {
    /// The attempts that somebody is to carry out, of which some have begun. Those that wait for a
    /// person do not go on; of those that are held by a pause, or by a budget that forbids calls, only
    /// what has side effects and was begun is to end.
    pub(crate) fn attempts_to_run(
        &self,
        has_begun: impl Fn(AttemptRef) -> bool,
    ) -> impl Iterator<Item = AttemptRef> {
        let begins_nothing = self.begins_nothing();
        let asks = move |name: AttemptRef, step: &Step, attempt: &Attempt| {
            let is_free = || attempt.last_calls(name).all(|(_, call)| call.is_finished());
            !begins_nothing && step.plan.tool.is_none() && has_begun(name) && is_free()
        };
        let attempts = self.running_attempts();
        let asking = attempts.filter(|(name, step, attempt)| asks(*name, step, attempt));
        let mut questions = asking.count() as u32;
        self.running_attempts()
            .filter_map(move |(name, step, attempt)| {
                if attempt.waits_for_person() {
                    return None;
                }
                if begins_nothing {
                    return attempt.has_intended_call().then_some(name);
                }
                let needs_turn = step.plan.tool.is_none() && attempt.needs_turn();
                if needs_turn && !asks(name, step, attempt) {
                    if !self.may_ask_model(questions) {
                        return None;
                    }
                    questions += 1;
                }
                Some(name)
            })
    }

    /// Neither steps nor calls with side effects may begin.
    pub(crate) fn begins_nothing(&self) -> bool {
        self.status == RunStatus::Paused
            || self.status.is_terminal()
            || self.no_calls().is_some()
            || self.ending.is_some()
    }

    /// The wish for another plan that the planner is asked about: one after the other, because an
    /// answer that takes effect makes the next one void. While the first plan is made there is
    /// nothing to be changed yet. A run that is paused, or has used up a budget, asks nothing by
    /// itself, but somebody may want another plan before it goes on.
    fn asks_planner(&self) -> Option<Work> {
        let is_planning = self.plan.is_none() && self.review.is_none();
        let is_planning = is_planning && !self.status.is_terminal();
        let is_held = self.status == RunStatus::Paused
            || self.no_questions().is_some()
            || self.ending.is_some();
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
