//! `outstanding(state) → effects`: what the committed state leaves to be done.

use crate::event::{AttemptRef, CallRef, WaitReason};
use crate::hooks::Gate;
use crate::session::{Attempt, Call, CallStatus, Purpose, Run, RunStatus, Session, Step};

/// Something to be done. The same state always asks for the same work; work under way continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Work {
    /// Answer the oldest command.
    HandleCommand,
    /// Ask the planner for a plan.
    Plan {
        /// The run.
        run: u32,
        /// The request for another plan that the planner answers: 0 for that of the run itself. `None`
        /// for the first plan of the run.
        request: Option<u64>,
    },
    /// Have an executor run the attempt.
    RunStep(AttemptRef),
    /// Find the result of a call of a state tool by I/O. May be repeated: only what is recorded counts.
    Answer(CallRef),
    /// Find what a call would change, as its tool says. May be repeated: only what is recorded counts.
    Preview(CallRef),
    /// Ask hooks. May be repeated, with the same key: only what is recorded counts.
    AskHooks(Gate),
    /// Decide again at that time: an answer takes effect then, or a budget is used up.
    Wake {
        /// Milliseconds since 1970 by the store's clock.
        at: u64,
    },
}

impl Session {
    /// An owner would find something to do: what is outstanding, or steps that have not begun.
    pub fn needs_owner(&self) -> bool {
        let continues = |run: &Run| match run.status {
            RunStatus::Paused => false,
            // It was imported, and asks the hooks of this place.
            RunStatus::Waiting(WaitReason::Hook) => run.hooks.asks.is_none(),
            RunStatus::Waiting(_) => run.next_step().is_some() && run.hooks.asks.is_none(),
            _ => true,
        };
        let waits = self.active_run().is_none() && !self.queued_turns.is_empty();
        waits || self.active_run().is_some_and(continues) || !self.outstanding().is_empty()
    }

    /// What is to be done, in time proportional to what is running.
    pub fn outstanding(&self) -> Vec<Work> {
        self.outstanding_beside(|_| false)
    }

    /// What is to be done by an owner that has begun some attempts. If their models may be being asked
    /// right now, they keep what is reserved for that, and are to end it also when a budget is used
    /// up: the answer is paid for.
    pub fn outstanding_beside(&self, has_begun: impl Fn(AttemptRef) -> bool) -> Vec<Work> {
        let mut work = Vec::new();
        if !self.commands.is_empty() {
            work.push(Work::HandleCommand);
        }
        work.extend(self.runs.last().and_then(Run::planner_work));
        work.extend(self.open_gates().into_iter().map(Work::AskHooks));
        let Some(run) = self.active_run() else {
            return work;
        };
        if run.status == RunStatus::Planning && run.ending.is_none() && !run.is_gated() {
            work.push(Work::Plan {
                run: run.number,
                request: None,
            });
        }
        let mut wake = run.spent.deadline();
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
        work.extend(run.calls_of_owner().map(Work::Answer));
        work.extend(run.calls_to_preview().map(Work::Preview));
        work.extend(wake.map(|at| Work::Wake { at }));
        work
    }
}

impl Run {
    /// The attempts that are to be carried out, of which some have begun. Those that wait for a person, or for what
    /// no resource of the pool has, do not continue; of those that are held by a pause, or by a budget that forbids
    /// calls, only what has side effects and was begun is to end. Questions to models that are under way come
    /// before new ones, as far as the budgets reach.
    pub(crate) fn attempts_to_run(
        &self,
        has_begun: impl Fn(AttemptRef) -> bool,
    ) -> impl Iterator<Item = AttemptRef> {
        let lanes = self
            .running_attempts()
            .filter_map(move |(name, step, attempt)| {
                let lane = self.lane_of(step, attempt, has_begun(name))?;
                Some((name, lane))
            });
        let lanes: Vec<_> = lanes.collect();
        let under_way = lanes.iter().map(|(_, lane)| lane.questions());
        let mut questions: u32 = under_way.sum();
        lanes.into_iter().filter_map(move |(name, lane)| {
            if lane == Lane::NeedsTurn {
                if !self.may_ask_model(questions) {
                    return None;
                }
                questions += 1;
            }
            Some(name)
        })
    }

    /// The calls that the owner answers now. They wait with the other calls of their reply: while the run
    /// is held, and while one of the calls waits for a person.
    fn calls_of_owner(&self) -> impl Iterator<Item = CallRef> {
        let attempts = self.attempts_of_owner();
        let calls = attempts.flat_map(|(name, attempt)| attempt.last_calls(name));
        let calls = calls.filter(|(_, call)| call.waits_for_owner());
        calls.map(|(name, _)| name)
    }

    /// The calls whose previews the owner finds now, one of each reply. They wait as the others do.
    fn calls_to_preview(&self) -> impl Iterator<Item = CallRef> {
        let attempts = self.attempts_of_owner();
        attempts.filter_map(|(name, attempt)| attempt.call_to_preview(name))
    }

    /// The attempts for whose calls the owner does something by itself.
    fn attempts_of_owner(&self) -> impl Iterator<Item = (AttemptRef, &Attempt)> {
        let attempts = self.running_attempts();
        let attempts = attempts.filter(move |(_, _, attempt)| {
            !self.is_held() && !attempt.waits_for_person() && !attempt.is_gated()
        });
        attempts.map(|(name, _, attempt)| (name, attempt))
    }

    /// Whether [`Run::attempts_to_run`] has any, if none has begun.
    pub(crate) fn has_attempt_to_run(&self) -> bool {
        let mut attempts = self.running_attempts();
        attempts.any(
            |(_, step, attempt)| match self.lane_of(step, attempt, false) {
                Some(Lane::NeedsTurn) => self.may_ask_model(0),
                lane => lane.is_some(),
            },
        )
    }

    /// What an attempt is to do; none if it is to do nothing now.
    fn lane_of(&self, step: &Step, attempt: &Attempt, has_begun: bool) -> Option<Lane> {
        if attempt.waits_for_person() || attempt.lacks_capability() {
            // A call that may have been sent ends where it was sent: by another executor it would be sent again.
            let may_end = attempt.has_intended_call() && !attempt.has_call_in_doubt();
            return may_end.then_some(Lane::HasWork);
        }
        if self.is_held() {
            return attempt.has_intended_call().then_some(Lane::HasWork);
        }
        if let Some(gate) = attempt.gate {
            return match gate.point.may_be_late() {
                // Its model is asked as soon as hooks let it, before their answer is decided.
                true => self.lane_of_request(step, attempt, has_begun),
                // Its executor keeps what it has, and continues when hooks have answered.
                false => Some(Lane::HasWork),
            };
        }
        let by_calls = attempt.questions_of_calls();
        if by_calls > 0 && !attempt.has_intended_call() {
            // What the executor may be asking right now is paid for, unless nothing may be asked any more.
            let may_be_asking = has_begun && self.no_questions().is_none();
            return Some(match may_be_asking {
                true => Lane::Asks(by_calls),
                false => Lane::NeedsTurn,
            });
        }
        if step.plan.tool.is_some() || !attempt.needs_tool_turn() {
            return Some(Lane::HasWork);
        }
        // Its model is asked for summaries, and for nothing else.
        let turn = self.turn.as_ref();
        let compacts = turn.is_some_and(|turn| matches!(turn.purpose, Purpose::Compact(_)));
        if compacts && attempt.summary.is_none() {
            return None;
        }
        let may_be_asking = has_begun && attempt.calls.iter().all(Call::is_finished);
        self.lane_of_request(step, attempt, may_be_asking)
    }

    /// The same for an attempt that does nothing else before its model is asked.
    fn lane_of_request(&self, step: &Step, attempt: &Attempt, may_be_asking: bool) -> Option<Lane> {
        match may_be_asking {
            true => Some(Lane::Asks(1)),
            // A person is asked first.
            false if self.is_at_limit(step, attempt) => None,
            false => Some(Lane::NeedsTurn),
        }
    }

    /// The planner is asked for the first plan, or is to be.
    pub(crate) fn is_planning(&self) -> bool {
        self.plan.is_none() && self.revisions.review.is_none() && !self.status.is_terminal()
    }

    /// The request for another plan that the planner is asked about: one after the other, because an
    /// answer that takes effect makes the next one void. While the first plan is made there is
    /// nothing to be changed yet. A run that is paused, or has used up a budget, requests nothing by
    /// itself, but a person may want another plan before it continues.
    fn planner_work(&self) -> Option<Work> {
        let is_held = self.status == RunStatus::Paused
            || self.no_questions().is_some()
            || self.ending.is_some()
            || self.hooks.asks.is_some();
        let mut requests = self.revisions.requests.keys().copied();
        let request = requests.find(|&request| request > 0 || !is_held)?;
        if self.is_planning() && self.status != RunStatus::Paused {
            return None;
        }
        // The planner has answered one, and hooks are asked about the plan.
        if self.hooks.plan.is_some() {
            return None;
        }
        Some(Work::Plan {
            run: self.number,
            request: Some(request),
        })
    }
}

/// What an attempt is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    /// Its model may be being asked so many questions right now.
    Asks(u32),
    /// Its model is to be asked.
    NeedsTurn,
    /// A call is to be carried out, or to end.
    HasWork,
}

impl Lane {
    /// The questions that may be under way.
    fn questions(self) -> u32 {
        match self {
            Self::Asks(questions) => questions,
            Self::NeedsTurn | Self::HasWork => 0,
        }
    }
}
