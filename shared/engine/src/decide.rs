//! `decide(state, input) → events`: what follows from something that happened.
//!
//! No clock, no I/O, no randomness: what the outside knows enters as [`Facts`]. The events are
//! applied to the state as they are decided, so that later decisions of the same transition see
//! them; an owner whose transition is not accepted throws its state away and folds the journal.

mod advance;
mod attempt;
mod budget;
mod command;
mod control;
mod doubt;
mod fork;
mod person;
mod revise;
mod state_tools;
mod step_tool;

use crate::command::{Command, RunLimits};
use crate::event::{AttemptRef, CallFinished, CallRef, Effect, Event, EventKind};
use crate::failure::{Failure, FailureKind};
use crate::message::{ToolCall, Usage};
use crate::plan::{Plan, PlanDraft};
use crate::state::{Run, Session};
use crate::transitions::IllegalTransition;
use std::collections::BTreeMap;

pub use fork::Fork;
pub use state_tools::{STATE_TOOLS, StateTool};

/// Something that happened to a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A session is made, possibly with its first command.
    Create {
        /// For people.
        title: String,
        /// How long it stays without any change; 0 for as long as the store keeps sessions.
        time_to_live_ms: u64,
        /// The request that it was made by and what that asks for.
        command: Option<(String, Command)>,
    },
    /// Another owner begins, after a crash or a hand-over.
    TakenOver {
        /// The owner before is proven dead, together with the tools that ran in its process.
        holder_dead: bool,
    },
    /// The oldest unanswered command is to be answered.
    HandleCommand,
    /// The planner answered.
    Planned {
        /// The run that the plan is for.
        run: u32,
        /// The plan, or why there is none.
        outcome: Result<PlanDraft, Failure>,
        /// What planning used up.
        usage: Usage,
        /// How long it took.
        duration_ms: u64,
    },
    /// The planner answered a wish for another plan.
    Revised {
        /// The run whose plan it is.
        run: u32,
        /// The command that wished it; 0 for the run itself.
        request_seq: u64,
        /// The plan, or why there is none.
        outcome: Result<PlanDraft, Failure>,
        /// What planning used up.
        usage: Usage,
        /// How long it took.
        duration_ms: u64,
    },
    /// The executor reports results, a reply, or both.
    Report {
        /// The attempt that it is about.
        attempt: AttemptRef,
        /// Results of calls that have ended.
        results: Vec<CallFinished>,
        /// The model's next reply.
        reply: Option<Reply>,
        /// The attempt cannot go on.
        failure: Option<Failure>,
    },
    /// The stream to the executor broke.
    AttemptLost {
        /// The attempt that ran there.
        attempt: AttemptRef,
    },
    /// Time has passed.
    Tick,
    /// The session has been copied from another one, up to the end of a transition.
    Forked(Fork),
    /// The journal takes nothing any more but what settles and ends.
    LimitReached {
        /// What the run ends with.
        failure: Failure,
    },
}

/// A model's reply as the executor reports it.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// From 0 within the attempt.
    pub tool_turn: u32,
    /// Its text.
    pub text: String,
    /// The calls asked for.
    pub calls: Vec<ToolCall>,
    /// What it used up.
    pub usage: Usage,
    /// The model that answered.
    pub model: String,
    /// From question to answer.
    pub duration_ms: u64,
}

/// What the catalogue says of a tool, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolFacts {
    /// What a call may do.
    pub effect: Effect,
    /// How long a call may run.
    pub time_limit_ms: u64,
    /// It dies with the tools process.
    pub in_process: bool,
    /// Each call needs a person's word.
    pub needs_approval: bool,
}

/// What the outside knows at the time of a decision.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The store's time, in milliseconds since 1970.
    pub now: u64,
    /// No call with side effects may be sent after this.
    pub not_after: u64,
    /// The tools that may be called, by name. State tools are not among them.
    pub tools: &'a BTreeMap<String, ToolFacts>,
    /// Limits of a run that names none.
    pub limits: RunLimits,
    /// Steps and calls with side effects may begin. An owner that is about to let go leaves them to
    /// the next.
    pub starts: bool,
}

impl Session {
    /// Decides what follows from `input`, applies it, and returns it for the journal.
    ///
    /// An input that no longer matters (a report of an attempt that has ended, say) gives no
    /// events.
    ///
    /// # Errors
    /// The input contradicts the state: a fault of whoever sent it. Nothing has been applied then,
    /// unless the error comes from this crate's own fault.
    pub fn decide(
        &mut self,
        input: Input,
        facts: &Facts<'_>,
    ) -> Result<Vec<Event>, IllegalTransition> {
        let mut decision = Decision {
            session: self,
            facts: *facts,
            events: Vec::new(),
        };
        decision.take(input)?;
        Ok(decision.events)
    }
}

/// A transition in the making.
struct Decision<'a> {
    session: &'a mut Session,
    facts: Facts<'a>,
    events: Vec<Event>,
}

impl Decision<'_> {
    fn take(&mut self, input: Input) -> Result<(), IllegalTransition> {
        match input {
            Input::Create {
                title,
                time_to_live_ms,
                command,
            } => self.create(title, time_to_live_ms, command),
            Input::TakenOver { holder_dead } => self.take_over(holder_dead),
            Input::HandleCommand => self.handle_command(),
            Input::Planned {
                run,
                outcome,
                usage,
                duration_ms,
            } => self.planned(run, outcome, usage, duration_ms),
            Input::Revised {
                run,
                request_seq,
                outcome,
                usage,
                duration_ms,
            } => self.revised(run, request_seq, outcome, usage, duration_ms),
            Input::Report {
                attempt,
                results,
                reply,
                failure,
            } => self.report(attempt, results, reply, failure),
            Input::AttemptLost { attempt } => self.attempt_lost(attempt),
            Input::Tick => self.settle_due(),
            Input::Forked(fork) => self.fork(fork),
            Input::LimitReached { failure } => self.end_at_limit(&failure),
        }
    }

    fn emit(&mut self, kind: EventKind) -> Result<(), IllegalTransition> {
        let event = Event {
            at: self.facts.now,
            kind,
        };
        self.session.apply(self.session.seq + 1, &event)?;
        self.events.push(event);
        Ok(())
    }

    fn create(
        &mut self,
        title: String,
        time_to_live_ms: u64,
        command: Option<(String, Command)>,
    ) -> Result<(), IllegalTransition> {
        self.emit(EventKind::SessionCreated {
            title,
            time_to_live_ms,
        })?;
        let Some((request_id, command)) = command else {
            return Ok(());
        };
        self.emit(EventKind::CommandReceived {
            request_id,
            command,
        })?;
        self.handle_command()
    }

    fn planned(
        &mut self,
        run: u32,
        outcome: Result<PlanDraft, Failure>,
        usage: Usage,
        duration_ms: u64,
    ) -> Result<(), IllegalTransition> {
        let is_planning =
            |r: &&Run| r.plan.is_none() && r.review.is_none() && !r.status.is_terminal();
        let Some(known) = self.session.run(run).filter(is_planning) else {
            return Ok(());
        };
        let (is_reviewed, proposal) = (known.limits.review_plan, known.proposed + 1);
        let checked = outcome.and_then(|plan| match Plan::accept(&plan) {
            Ok(_) => Ok(plan),
            Err(fault) => {
                let message = fault.to_string();
                Err(Failure::new(FailureKind::PlanParse, "BadPlan", message))
            }
        });
        match checked {
            Ok(plan) if is_reviewed => {
                self.emit(EventKind::PlanProposed {
                    run,
                    proposal,
                    base_revision: 0,
                    plan,
                    request_seq: 0,
                    usage,
                    duration_ms,
                })?;
                self.reconcile_status(run)
            }
            Ok(plan) => {
                self.emit(EventKind::PlanApplied {
                    run,
                    revision: 1,
                    plan,
                    numbers: Vec::new(),
                    command_seq: 0,
                    usage,
                    duration_ms,
                })?;
                self.advance(run)
            }
            Err(failure) => self.emit(EventKind::RunFailed {
                run,
                failure,
                usage: Some(usage),
                duration_ms,
            }),
        }
    }

    /// Steps and calls with side effects of this run may begin.
    fn may_begin(&self, run: u32) -> bool {
        let run = self.session.run(run);
        self.facts.starts && run.is_some_and(|run| !run.begins_nothing())
    }

    /// May a call be sent, and how? Effectful ones only once this is durable.
    fn intend(&mut self, call: CallRef, tool: &str) -> Result<(), IllegalTransition> {
        let tool = self.facts.tools.get(tool);
        self.emit(EventKind::CallIntended {
            call,
            not_after: self.facts.not_after,
            time_limit_ms: tool.map_or(0, |tool| tool.time_limit_ms),
            in_process: tool.is_some_and(|tool| tool.in_process),
        })
    }
}
