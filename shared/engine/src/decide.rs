//! `decide(state, input) → events`: what follows from something that happened.
//!
//! No clock, no I/O, no randomness: what the outside knows enters as [`Facts`]. The events are
//! applied to the state as they are decided, so that later decisions of the same transition see
//! them; an owner whose transition is not accepted folds the journal again.

mod advance;
mod agents;
mod calls;
mod commands;
mod compaction;
mod conversation;
mod facts;
#[cfg(test)]
pub(crate) mod faults;
mod fork;
mod hooks;
mod input;
mod kept;
mod media;
mod placing;
mod plans;
mod pool;
mod previews;
mod prompts;
mod rejection;
mod report;
mod steering;
mod takeover;
mod tools;
mod words;

pub use agents::{AgentFault, Agents, ResolvedAgent, agents_needed};
pub use calls::UNKNOWN_TOOL;
pub use facts::{Away, CODE_GENERATION, Compaction, Facts, ToolFacts, ToolList};
pub use fork::Fork;
pub use input::{Answer, FullRequest, Input, Previewed, Reply, Retry, Summarised, Unfinished};
pub use prompts::{Prompts, WORDS};
pub use tools::{
    Question, Retrieve, SEARCH_TOOLS, STATE_TOOLS, SaveKnowledge, Scope, SkillRequest, StateTool,
};
pub use words::{CONVERSATION, EXECUTION, GUIDE, SUMMARY, SUMMARY_REQUEST};

pub(crate) use agents::{check_given_plan, check_tools_of_turn};
pub(crate) use calls::judged_scope;
pub(crate) use commands::Ended;
pub(crate) use compaction::older_messages;
pub(crate) use plans::{Change, moved_on};
pub(crate) use previews::asks_each_time;
pub(crate) use rejection::Rejection;
pub(crate) use tools::{is_answered_by_owner, is_state_tool};
pub(crate) use words::{Nudge, rest_of_beginning};

use crate::command::Command;
use crate::event::{AttemptRef, CommandReceived, Event, EventKind, SessionCreated};
use crate::principal::Principal;
use crate::session::{Attempt, Session};
use crate::transitions::{Applied, IllegalTransition};
use plans::Consent;
use report::Report;

impl Session {
    /// Decides what follows from `input`, applies it, and returns it for the journal.
    ///
    /// An input that no longer matters (a report of an attempt that has ended, say) gives no
    /// events.
    ///
    /// An input is decided as a whole or not at all. After an error the session is
    /// `Session::default()`, so that no part of a decision can be used, whichever handler failed.
    /// The owner folds the session again from the store, where it is as before. A copy for each input
    /// would cost more than the decision: a session can have many MiB, and errors are rare.
    ///
    /// # Errors
    /// The input contradicts the state: a fault of its sender, or of this program.
    pub fn decide(
        &mut self,
        input: Input,
        facts: &Facts<'_>,
    ) -> Result<Vec<Event>, IllegalTransition> {
        Decision::new(self, *facts).decide(input)
    }
}

/// A transition in the making.
pub(crate) struct Decision<'a> {
    pub(crate) session: &'a mut Session,
    pub(crate) facts: Facts<'a>,
    events: Vec<Event>,
    /// The command that is being handled: its seq, and who asks.
    command: Option<(u64, Option<Principal>)>,
    /// The decision fails after so many events.
    #[cfg(test)]
    fails_after: Option<usize>,
}

impl<'a> Decision<'a> {
    fn new(session: &'a mut Session, facts: Facts<'a>) -> Self {
        Self {
            session,
            facts,
            events: Vec::new(),
            command: None,
            #[cfg(test)]
            fails_after: None,
        }
    }

    fn decide(mut self, input: Input) -> Result<Vec<Event>, IllegalTransition> {
        match self.take(input) {
            Ok(()) => Ok(self.events),
            Err(illegal) => {
                *self.session = Session::default();
                Err(illegal)
            }
        }
    }
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
                request: None,
                outcome,
                usage,
                duration_ms,
            } => self.planned(run, outcome, usage, duration_ms, Consent::OfHooks),
            Input::Planned {
                run,
                request: Some(request),
                outcome,
                usage,
                duration_ms,
            } => self.revised(run, request, outcome, usage, duration_ms, Consent::OfHooks),
            Input::Report {
                attempt,
                results,
                unfinished,
                reply,
                failure,
                full,
                summary,
                retry,
            } => {
                let report = Report {
                    results,
                    unfinished,
                    reply,
                    failure,
                    full,
                    summary,
                    retry,
                };
                self.report(attempt, report)
            }
            Input::MemoryChanged { attempts } => attempts
                .into_iter()
                .try_for_each(|attempt| self.remind(attempt)),
            Input::AttemptLost { attempt } => self.attempt_lost(attempt),
            Input::Answered { call, answer } => self.answered_by_owner(call, answer),
            Input::Tick => self.settle_due(),
            Input::Previewed { call, outcome } => self.previewed(call, outcome),
            Input::Forked(fork) => self.fork(fork),
            Input::Imported => self.imported(),
            Input::LimitReached { failure } => self.end_at_limit(&failure),
            of_others => self.take_of_others(of_others),
        }
    }

    /// What the pool does for attempts, and what hooks answer.
    fn take_of_others(&mut self, input: Input) -> Applied {
        match input {
            Input::Hooked {
                gate,
                outcomes,
                wholes,
            } => self.hooked(gate, outcomes, wholes),
            Input::HooksMissing {
                run,
                missing,
                changed,
            } => self.hooks_missing(run, missing, changed),
            Input::Placed {
                attempt,
                resources,
                waited_ms,
                has_begun,
            } => {
                self.placed(attempt, &resources, waited_ms)?;
                match has_begun {
                    true => Ok(()),
                    false => self.refuse_unusable(attempt, &resources),
                }
            }
            Input::Short {
                attempt,
                missing,
                is_none,
            } => self.short(attempt, missing, is_none),
            Input::Found { attempts } => self.found(attempts),
            _ => Ok(()),
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
        #[cfg(test)]
        self.fail_if_due()?;
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

    /// A call with side effects of this attempt may begin.
    pub(crate) fn may_intend(&self, attempt: AttemptRef) -> bool {
        let running = self.session.attempt(attempt);
        self.may_begin(attempt.run) && !running.is_some_and(Attempt::lacks_capability)
    }

    /// Steps and calls with side effects of this run may begin.
    pub(crate) fn may_begin(&self, run: u32) -> bool {
        let run = self.session.run(run);
        self.facts.starts && run.is_some_and(|run| !run.is_held())
    }
}
