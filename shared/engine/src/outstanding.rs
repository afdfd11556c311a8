//! `outstanding(state) → effects`: what the committed state leaves to be done.

use crate::event::AttemptRef;
use crate::state::{Attempt, CallStatus, Run, RunStatus, Session};

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
        let is_held = |run: &Run| matches!(run.status, RunStatus::Paused | RunStatus::Waiting(_));
        let goes_on = self.active_run().is_some_and(|run| !is_held(run));
        goes_on || !self.outstanding().is_empty()
    }

    /// A model is being asked by whoever carries out the attempt, and may have been asked before a
    /// budget was used up: its answer is paid for, and taken.
    pub fn asks_model(&self, name: AttemptRef) -> bool {
        let run = self.active_run();
        let run = run.filter(|run| run.number == name.run && !run.begins_nothing());
        let is_asked =
            |attempt: &Attempt| attempt.last_calls(name).all(|(_, call)| call.is_finished());
        let step = run.and_then(|_| self.step(name));
        let is_of_model = step.is_some_and(|step| step.plan.tool.is_none());
        is_of_model && self.attempt(name).is_some_and(is_asked)
    }

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
        work.extend(run.attempts_to_run().map(Work::RunStep));
        work.extend(wake.map(|at| Work::Wake { at }));
        work
    }
}

impl Run {
    /// The attempts that somebody is to carry out. Those that wait for a person do not go on; of
    /// those that are held by a pause or a budget only what has side effects and was begun is to
    /// end.
    pub(crate) fn attempts_to_run(&self) -> impl Iterator<Item = AttemptRef> {
        let begins_nothing = self.begins_nothing();
        let mut questions = 0;
        self.running_attempts()
            .filter_map(move |(name, step, attempt)| {
                if attempt.waits_for_person() {
                    return None;
                }
                if begins_nothing {
                    return attempt.has_intended_call().then_some(name);
                }
                if step.plan.tool.is_none() && attempt.needs_turn() {
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
