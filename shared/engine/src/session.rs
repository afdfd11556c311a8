//! The state of a session: the fold of its journal, and nothing else.
//!
//! Each noun has a file with its struct, its queries and the events that change it. [`Session::apply`]
//! is the only way in which a session changes.

mod agents;
mod attempt;
mod budgets;
mod call;
mod compaction;
mod context;
mod decisions;
mod estimates;
mod files;
mod fork;
mod grant;
mod handles;
mod holds;
mod hooks;
mod memory;
mod mode;
mod notices;
mod numbers;
mod placing;
mod plan;
mod recall;
mod rest;
mod revisions;
mod run;
mod runs;
mod sizes;
mod spent;
mod step;
mod texts;
mod turn;

pub use agents::{Agent, Switched, can_be_denied};
pub(crate) use agents::{may_call, name_of};
pub use attempt::{Attempt, Steering, SubGoal};
pub use budgets::PerBudget;
pub use call::{Ask, Call, CallHooks, CallStatus, HookDemand, HookedArguments, HookedResult};
pub use compaction::{FullCause, FullContext, SummaryTask};
pub use context::{Context, MAIN};
pub use decisions::{DecisionKind, PastDecision};
pub use estimates::{Estimate, Estimates};
pub use files::SeenFiles;
pub use fork::Origin;
pub use grant::{ApprovalGranted, Grant};
pub use handles::Handles;
pub use hooks::{EndedHooks, HookAsk, RunHooks};
pub use memory::{Memory, MemoryDetails};
pub use mode::Mode;
pub use notices::{Noted, Notice};
pub use numbers::{Place, Slot, StepNo};
pub(crate) use placing::may_become;
pub use placing::{Placing, Short};
pub use plan::PlanState;
pub use recall::{KNOWLEDGE_TOOLS, Originals, Remembered, Unsent};
pub(crate) use recall::{RETRIEVE, SAVE_KNOWLEDGE};
pub use rest::Rest;
pub use revisions::{Proposal, RevisionRequest, Revisions};
pub use run::{End, Run, RunStatus};
pub use runs::{RunSummary, Runs};
pub use sizes::Sizes;
pub use spent::Spent;
pub use step::{EffectfulCall, Moment, Note, Step, StepStatus, in_journal_order};
pub(crate) use turn::{OF_STEPS, READ_RESULT};
pub use turn::{Purpose, QueuedTurn, Turn};

use crate::command::Command;
use crate::conversation::{Layer, LayerKind};
use crate::event::{
    AttemptRef, CallRef, CommandReceived, CommandRefused, Event, EventKind, SessionCreated,
};
use crate::message::Usage;
use crate::principal::Principal;
use crate::transitions::{Applied, IllegalTransition};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A session as its journal makes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Number of the last event folded; 0 before the first.
    pub seq: u64,
    /// Time of the first event.
    pub created_at: u64,
    /// Time of the last event.
    pub updated_at: u64,
    /// Time of the last event of an owner: until then an owner worked at it.
    pub worked_at: u64,
    /// The lowest level of a reader that can read all events so far; 0 before the first. See
    /// [`LEVEL`](crate::level::LEVEL).
    pub needs: u32,
    /// For people.
    pub title: String,
    /// Commands without an answer, by the seq that they were received under. Boxed, because a node of the
    /// map has room for eleven.
    pub commands: BTreeMap<u64, Box<Received>>,
    /// Every command up to here has been answered.
    pub handled_through: u64,
    /// Session memory.
    pub memory: Memory,
    /// Layers of system prompts as they were written last, in any conversation.
    pub layers: BTreeMap<LayerKind, Layer>,
    /// How many texts of layers events have had.
    pub texts_written: u32,
    /// Named conversations. There is always [`MAIN`].
    pub contexts: BTreeMap<String, Box<Context>>,
    /// The context of a turn that names none.
    pub active_context: String,
    /// The agents that contexts and the newest run use, by their digests. One that nothing uses any more goes
    /// with the next definition.
    pub agents: BTreeMap<String, Arc<Agent>>,
    /// Turns that begin once the active run has ended, the oldest first.
    pub queued_turns: Vec<QueuedTurn>,
    /// All runs.
    pub runs: Runs,
    /// What all runs used up.
    pub usage: Usage,
    /// Where it begins, if it was copied from another session.
    pub forked_from: Option<Origin>,
    /// The last decisions of people, oldest first.
    pub decisions: VecDeque<PastDecision>,
    /// Approvals of further calls that are in force, oldest first.
    pub grants: Vec<Grant>,
    /// How many there have been.
    pub grants_given: u32,
    /// Results that models read in pieces.
    pub handles: Handles,
    /// What replies say of tokens and windows of models.
    pub estimates: Estimates,
    /// How calls are judged beside the rules.
    pub mode: Mode,
    /// Runs that have ended, and whose hooks are still asked about that; the oldest first.
    pub ended_hooks: VecDeque<EndedHooks>,
}

/// A command that waits for its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// What is asked.
    pub command: Command,
    /// Who asks.
    pub principal: Option<Principal>,
}

/// What an event has beside its payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Envelope<'a> {
    /// Number of the event. An owner applies its own events before the store has numbered them, and
    /// [`Session::rebase`] corrects what they made of it.
    pub(crate) seq: u64,
    /// When its transition was decided.
    pub(crate) at: u64,
    /// The command that it answers; 0 for none.
    pub(crate) answers: u64,
    /// Who asked for it or decided it.
    pub(crate) principal: Option<&'a Principal>,
}

/// Changes a session by one event.
pub(crate) trait Apply {
    /// # Errors
    /// The event does not fit; the state is then of no use any more.
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied;
}

impl Session {
    /// Folds the event numbered `seq`.
    ///
    /// # Errors
    /// The event does not fit; the state is then of no use any more.
    pub fn apply(&mut self, seq: u64, event: &Event) -> Applied {
        let (at, answers) = (event.at, event.answers);
        let envelope = Envelope {
            seq,
            at,
            answers,
            principal: event.principal.as_ref(),
        };
        event.kind.apply(self, envelope)?;
        self.answer_command(answers);
        decisions::note(&mut self.decisions, event);
        self.seq += 1;
        self.needs = self.needs.max(event.kind.needs());
        self.updated_at = self.updated_at.max(at);
        if !event.kind.is_of_others() {
            self.worked_at = self.worked_at.max(at);
            if let Some(run) = self.runs.last_mut() {
                run.count_time(at);
                run.ask_budget(at);
            }
        }
        Ok(())
    }

    /// Takes events of others into a state that already holds `own` events which the store has
    /// numbered after them. `memory` has those of them that are about session memory; more do no harm.
    ///
    /// Others write session memory and commands only. Neither makes an event of the owner illegal,
    /// and no event of the owner but those about session memory depends on their order. So folding
    /// them late, with the owner's memory events once more and the later numbers of its runs, gives
    /// what folding in order gives.
    ///
    /// # Errors
    /// An event does not fit.
    pub fn rebase(&mut self, others: &[(u64, Event)], own: usize, memory: &[Event]) -> Applied {
        let before = self.seq - own as u64;
        self.runs.renumber(before, others.len() as u64);
        self.memory.take_back(memory);
        for (seq, event) in others {
            self.apply(*seq, event)?;
        }
        for event in memory {
            self.memory.repeat(event);
        }
        Ok(())
    }

    /// Leaves out so many events of others which need a reader of this level, in a state that already holds
    /// `own` events numbered after them. Only their numbers are taken: the state is good to end what is
    /// under way, and for nothing else.
    pub fn leave_out(&mut self, others: u64, own: usize, needs: u32) {
        let before = self.seq - own as u64;
        self.runs.renumber(before, others);
        self.seq += others;
        self.needs = self.needs.max(needs);
    }

    /// Commands are answered in the order in which they were received.
    pub(crate) fn answer_command(&mut self, seq: u64) {
        if self.commands.remove(&seq).is_some() {
            self.handled_through = self.handled_through.max(seq);
        }
    }

    /// The run that has not ended, if there is one.
    pub fn active_run(&self) -> Option<&Run> {
        self.runs.last().filter(|run| !run.status.is_terminal())
    }

    /// The run of that number. A turn whose successor has begun has only a [`RunSummary`].
    pub fn run(&self, number: u32) -> Option<&Run> {
        self.runs.get(number)
    }

    pub(crate) fn run_mut(&mut self, number: u32) -> Result<&mut Run, IllegalTransition> {
        let run = self.runs.get_mut(number);
        run.ok_or_else(|| IllegalTransition::missing(format_args!("run {number}")))
    }

    /// Whether an attempt makes the one call of its step, and asks no model.
    pub fn is_tool_step(&self, attempt: AttemptRef) -> bool {
        let step = self.step(attempt);
        step.is_some_and(|step| step.plan.tool.is_some())
    }

    /// The step that an attempt belongs to.
    pub fn step(&self, attempt: AttemptRef) -> Option<&Step> {
        let plan = self.run(attempt.run)?.plan.as_ref()?;
        attempt.step.find_in(&plan.steps)
    }

    pub(crate) fn step_mut(&mut self, attempt: AttemptRef) -> Result<&mut Step, IllegalTransition> {
        self.run_mut(attempt.run)?
            .plan_mut()?
            .step_mut(attempt.step)
    }

    /// The attempt, while it is under way.
    pub fn attempt(&self, attempt: AttemptRef) -> Option<&Attempt> {
        let running = self.step(attempt)?.running()?;
        (running.number == attempt.attempt).then_some(running)
    }

    pub(crate) fn attempt_mut(
        &mut self,
        name: AttemptRef,
    ) -> Result<&mut Attempt, IllegalTransition> {
        let step = self.step_mut(name)?;
        match &mut step.status {
            StepStatus::Running(attempt) if attempt.number == name.attempt => Ok(attempt),
            _ => Err(IllegalTransition::missing(format_args!(
                "running attempt {} of step {}",
                name.attempt, name.step
            ))),
        }
    }

    /// The call, while its attempt is under way.
    pub fn call(&self, call: CallRef) -> Option<&Call> {
        let attempt = self.attempt(call.attempt)?;
        attempt.calls.get(attempt.call_at(call)?)
    }

    pub(crate) fn call_mut(&mut self, name: CallRef) -> Result<&mut Call, IllegalTransition> {
        let attempt = self.attempt_mut(name.attempt)?;
        let at = attempt.call_at(name);
        at.and_then(|at| attempt.calls.get_mut(at))
            .ok_or_else(|| IllegalTransition::missing(format!("call {name:?}")))
    }
}

impl Apply for SessionCreated {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        if session.seq != 0 {
            return Err(IllegalTransition::not_allowed(
                "session", "created", "created",
            ));
        }
        session.title.clone_from(&self.title);
        session.created_at = envelope.at;
        session.contexts = context::main_alone();
        session.active_context = MAIN.to_owned();
        Ok(())
    }
}

impl Apply for CommandReceived {
    fn apply(&self, session: &mut Session, envelope: Envelope<'_>) -> Applied {
        let received = Received {
            command: self.command.clone(),
            principal: envelope.principal.cloned(),
        };
        session.commands.insert(envelope.seq, Box::new(received));
        Ok(())
    }
}

/// The envelope takes the command off the list.
impl Apply for CommandRefused {
    fn apply(&self, _: &mut Session, _: Envelope<'_>) -> Applied {
        Ok(())
    }
}

impl EventKind {
    /// Others than the owner may have written it.
    fn is_of_others(&self) -> bool {
        self.is_memory() || matches!(self, Self::CommandReceived(_))
    }
}
