//! `decide(state, input) → events`: what follows from something that happened.
//!
//! No clock, no I/O, no randomness: what the outside knows enters as [`Facts`]. The events are
//! applied to the state as they are decided, so that later decisions of the same transition see
//! them; an owner whose transition is not accepted throws its state away and folds the journal.

mod advance;
mod calls;
mod commands;
mod conversation;
mod fork;
mod plans;
mod rejection;
mod report;
mod steering;
mod takeover;
mod tools;

pub use calls::UNKNOWN_TOOL;
pub use fork::Fork;
pub use tools::{SEARCH_TOOLS, STATE_TOOLS, StateTool};

pub(crate) use calls::judged_scope;
pub(crate) use commands::Ended;
pub(crate) use plans::{Change, moved_on};
pub(crate) use rejection::Rejection;

use crate::command::{Command, RunLimits};
use crate::event::{
    AttemptRef, CallFinished, CallRef, CommandReceived, Effect, Event, EventKind, InputRequested,
    SessionCreated,
};
use crate::failure::Failure;
use crate::message::{FinishReason, PlacedOpaque, ToolCall, Usage};
use crate::plan::PlanDraft;
use crate::principal::Principal;
use crate::rules::{Answer, Condition, Matcher, Rules};
use crate::session::Session;
use crate::transitions::{Applied, IllegalTransition};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Something that happened to a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A session is made, possibly with its first command.
    Create {
        /// For people.
        title: String,
        /// How long it stays without any change; 0 for as long as the store keeps sessions.
        time_to_live_ms: u64,
        /// Who makes it.
        principal: Option<Principal>,
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
        /// The request for another plan that it answers: 0 for that of the run itself. `None` for the
        /// first plan of the run.
        request: Option<u64>,
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
        /// Calls that have not ended: not sent, because they are not what was judged, or asking a person.
        unfinished: Vec<Unfinished>,
        /// The model's next reply.
        reply: Option<Reply>,
        /// The attempt cannot go on.
        failure: Option<Failure>,
    },
    /// Others may have changed session memory since the last decision, and the models of these attempts may
    /// be asked next.
    MemoryChanged {
        /// The attempts.
        attempts: Vec<AttemptRef>,
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

/// What the executor reports of a call that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfinished {
    /// It was not sent, as its tool or its values are others than were judged.
    Rejudge {
        /// The call.
        call: CallRef,
        /// The texts of its arguments that lead elsewhere by links.
        resolved: Vec<Condition>,
    },
    /// Its tool asks a person.
    Asks(InputRequested),
}

impl Unfinished {
    /// The call that it is about.
    pub fn call(&self) -> CallRef {
        match self {
            Self::Rejudge { call, .. } => *call,
            Self::Asks(event) => event.call,
        }
    }
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
    /// What only its provider can read.
    pub opaque: Vec<PlacedOpaque>,
    /// Why it ended.
    pub finish: FinishReason,
    /// What it used up.
    pub usage: Usage,
    /// The provider that answered.
    pub provider: String,
    /// The model that answered.
    pub model: String,
    /// From question to answer.
    pub duration_ms: u64,
    /// The last change of the conversation that the request was built with; 0 for none.
    pub ops_through: u64,
}

/// What the catalogue says of a tool, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFacts {
    /// What a call may do.
    pub effect: Effect,
    /// How long a call may run.
    pub time_limit_ms: u64,
    /// It dies with the tools process.
    pub in_process: bool,
    /// Covers all that it is judged by.
    pub digest: String,
    /// The answer to a call that no rule matches.
    pub default: Answer,
    /// The arguments of a call that rules may name. Without any, they are read by their names.
    pub matchers: Vec<Matcher>,
    /// A model is offered it only after it was found: its description and the schema of its arguments,
    /// by which it is found.
    pub deferred: Option<(String, String)>,
}

/// A tool of which nothing is known.
impl Default for ToolFacts {
    fn default() -> Self {
        Self {
            effect: Effect::Effectful,
            time_limit_ms: 0,
            in_process: false,
            digest: String::new(),
            default: Answer::Ask,
            matchers: Vec::new(),
            deferred: None,
        }
    }
}

/// Tools by name.
pub type ToolList = BTreeMap<String, ToolFacts>;

/// A source whose tools are not known, as it cannot be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Away {
    /// The names of its tools begin so.
    pub prefix: String,
    /// Why it cannot be reached, in words for a person or a model.
    pub why: String,
}

/// What the outside knows at the time of a decision.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The store's time, in milliseconds since 1970.
    pub now: u64,
    /// No call with side effects may be sent after this.
    pub not_after: u64,
    /// The tools that may be called now, by name. State tools are not among them.
    pub tools: &'a ToolList,
    /// Sources that have no tools in this list, as they cannot be reached.
    pub away: &'a [Away],
    /// The tools that the start of each attempt under way offered. An attempt that is not here starts
    /// with what there is now.
    pub offered: &'a BTreeMap<AttemptRef, Arc<ToolList>>,
    /// Who decides about calls.
    pub rules: &'a Rules,
    /// The environment layer of system prompts; empty for none.
    pub environment: &'a str,
    /// Limits of a run that names none.
    pub limits: RunLimits,
    /// Steps and calls with side effects may begin. An owner that is about to let go leaves them to
    /// the next.
    pub starts: bool,
}

impl<'a> Facts<'a> {
    /// Why a tool of this name cannot be reached, if a source that is away would have it.
    pub(crate) fn away(&self, name: &str) -> Option<&'a str> {
        let away = self.away.iter();
        let mut away = away.filter(|it| name.starts_with(&it.prefix));
        away.next().map(|it| it.why.as_str())
    }

    /// What the list of an attempt says of a tool: what was offered is what its calls are decided by.
    /// A tool that was revoked since is taken out at once.
    pub fn tool(&self, attempt: AttemptRef, name: &str) -> Option<&'a ToolFacts> {
        let now = self.tools.get(name)?;
        match self.offered.get(&attempt) {
            Some(offered) => offered.get(name),
            None => Some(now),
        }
    }
}

impl Session {
    /// Decides what follows from `input`, applies it, and returns it for the journal.
    ///
    /// An input that no longer matters (a report of an attempt that has ended, say) gives no
    /// events.
    ///
    /// # Errors
    /// The input contradicts the state: a fault of its sender. Nothing has been applied then.
    pub fn decide(
        &mut self,
        input: Input,
        facts: &Facts<'_>,
    ) -> Result<Vec<Event>, IllegalTransition> {
        let mut decision = Decision {
            session: self,
            facts: *facts,
            events: Vec::new(),
            command: None,
        };
        decision.take(input)?;
        Ok(decision.events)
    }
}

/// A transition in the making.
pub(crate) struct Decision<'a> {
    pub(crate) session: &'a mut Session,
    pub(crate) facts: Facts<'a>,
    events: Vec<Event>,
    /// The command that is being handled: its seq, and who asks.
    command: Option<(u64, Option<Principal>)>,
}

impl Decision<'_> {
    fn take(&mut self, input: Input) -> Applied {
        self.take_only(input)?;
        self.start_queued()
    }

    fn take_only(&mut self, input: Input) -> Applied {
        match input {
            Input::Create {
                title,
                time_to_live_ms,
                principal,
                command,
            } => self.create(title, time_to_live_ms, principal, command),
            Input::TakenOver { holder_dead } => self.take_over(holder_dead),
            Input::HandleCommand => self.handle_command(),
            Input::Planned {
                run,
                request,
                outcome,
                usage,
                duration_ms,
            } => match request {
                None => self.planned(run, outcome, usage, duration_ms),
                Some(request) => self.revised(run, request, outcome, usage, duration_ms),
            },
            Input::Report {
                attempt,
                results,
                unfinished,
                reply,
                failure,
            } => self.report(attempt, results, unfinished, reply, failure),
            Input::MemoryChanged { attempts } => self.remind(&attempts),
            Input::AttemptLost { attempt } => self.attempt_lost(attempt),
            Input::Tick => self.settle_due(),
            Input::Forked(fork) => self.fork(fork),
            Input::LimitReached { failure } => self.end_at_limit(&failure),
        }
    }

    /// Applies an event of the owner, and keeps it for the journal.
    pub(crate) fn emit(&mut self, kind: impl Into<EventKind>) -> Applied {
        self.emit_with(kind.into(), 0, None)
    }

    /// The same for the event that answers the command that is being handled.
    pub(crate) fn answer(&mut self, kind: impl Into<EventKind>) -> Result<(), Rejection> {
        let (seq, principal) = self.command.clone().unwrap_or_default();
        Ok(self.emit_with(kind.into(), seq, principal)?)
    }

    pub(crate) fn emit_with(
        &mut self,
        kind: EventKind,
        answers: u64,
        principal: Option<Principal>,
    ) -> Applied {
        let event = Event {
            at: self.facts.now,
            answers,
            principal,
            kind,
        };
        self.session.apply(self.session.seq + 1, &event)?;
        self.events.push(event);
        Ok(())
    }

    /// The same for an event that takes the command up and leaves its answer to a later one.
    pub(crate) fn take_up(&mut self, kind: impl Into<EventKind>) -> Result<(), Rejection> {
        let principal = self.command.clone().and_then(|(_, principal)| principal);
        Ok(self.emit_with(kind.into(), 0, principal)?)
    }

    /// The seq of the command that is being handled; 0 if none is.
    pub(crate) fn command_seq(&self) -> u64 {
        self.command.as_ref().map_or(0, |(seq, _)| *seq)
    }

    fn create(
        &mut self,
        title: String,
        time_to_live_ms: u64,
        principal: Option<Principal>,
        command: Option<(String, Command)>,
    ) -> Applied {
        let created = SessionCreated {
            title,
            time_to_live_ms,
        };
        self.emit_with(created.into(), 0, principal.clone())?;
        let Some((request_id, command)) = command else {
            return Ok(());
        };
        let received = CommandReceived {
            request_id,
            command,
        };
        self.emit_with(received.into(), 0, principal)?;
        self.handle_command()
    }

    /// Steps and calls with side effects of this run may begin.
    pub(crate) fn may_begin(&self, run: u32) -> bool {
        let run = self.session.run(run);
        self.facts.starts && run.is_some_and(|run| !run.is_held())
    }
}
