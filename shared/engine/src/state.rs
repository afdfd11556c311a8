//! The state of a session: the fold of its journal, and nothing else.

use crate::command::{Command, RunLimits, Settlement};
use crate::event::{AttemptRef, Budget, CallRef, Effect, WaitReason};
use crate::failure::Failure;
use crate::message::{ToolCall, Usage};
use crate::plan::PlanDraft;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

mod attempt;
mod budget;
mod plan;

pub use budget::Allowance;
pub(crate) use budget::Raise;
pub use plan::{EffectfulCall, Moment, Note, PlanState, Step, StepStatus, in_journal_order};

/// A session as its journal makes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Number of the last event folded; 0 before the first.
    pub seq: u64,
    /// Time of the first event.
    pub created_at: u64,
    /// Time of the last event.
    pub updated_at: u64,
    /// Time of the last event of an owner: until then somebody worked at it.
    pub worked_at: u64,
    /// For people.
    pub title: String,
    /// Commands that nobody has answered, by the seq that they were received under.
    pub commands: BTreeMap<u64, Command>,
    /// Every command up to here has been answered.
    pub handled_through: u64,
    /// Session memory.
    pub memory: BTreeMap<String, String>,
    /// All runs; a run's number is its position plus 1. Only the last may be active.
    pub runs: Vec<Run>,
    /// Where it begins, if it was copied from another session.
    pub forked_from: Option<Origin>,
}

/// The session that another one was copied from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Its id.
    pub session: String,
    /// The last event that is common to both.
    pub seq: u64,
    /// The copy was given a title of its own.
    pub is_titled: bool,
}

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RunStatus {
    /// There is no plan yet.
    Planning,
    /// Steps are being carried out.
    Running,
    /// Somebody has to decide something.
    Waiting(WaitReason),
    /// Somebody stopped it for a while.
    Paused,
    /// Every step ended well.
    Completed,
    /// It ended without reaching its goal.
    Failed,
    /// Somebody ended it.
    Cancelled,
}

impl RunStatus {
    /// Nothing will happen any more.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// The pursuit of one goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// From 1.
    pub number: u32,
    /// What is to be reached.
    pub goal: String,
    /// Empty for the default model.
    pub model: String,
    /// In force since the start.
    pub limits: RunLimits,
    /// The command that asked for it.
    pub command_seq: u64,
    /// The trace that it belongs to.
    pub trace_parent: String,
    /// What it is doing.
    pub status: RunStatus,
    /// The plan in force; none while planning.
    pub plan: Option<PlanState>,
    /// What planning and all steps used up.
    pub usage: Usage,
    /// Tool turns so far.
    pub tool_turns: u32,
    /// Tool calls so far, without those that the owner answers itself.
    pub calls: u32,
    /// What it may use before it asks.
    pub allowance: Allowance,
    /// The budget that a person is asked about, or was when the run was paused.
    pub asked_budget: Option<Budget>,
    /// How often a person was asked about one.
    pub budget_questions: u32,
    /// Its active time is used up, as far as it was looked at.
    pub is_out_of_time: bool,
    /// Active time before `active_since`, in milliseconds.
    pub active_ms: u64,
    /// Since when it has been active; none while it waits for a person, is paused, or has ended.
    pub active_since: Option<u64>,
    /// Calls whose outcome is not known.
    pub in_doubt: u32,
    /// Calls that wait for a person's approval.
    pub approvals: u32,
    /// Calls by which the model asked a person something.
    pub questions: u32,
    /// The proposal that a person is to agree to.
    pub review: Option<u32>,
    /// The failure of the first step of this plan that failed.
    pub failing: Option<Failure>,
    /// It was to be allowed more, and a person said no: nothing begins, and once what is under way
    /// has ended it fails with this.
    pub ending: Option<Failure>,
    /// Wishes for another plan that the planner is asked about, by the command that they came
    /// with; that of the run itself by 0.
    pub revising: BTreeMap<u64, Revising>,
    /// Changes of the plan in force that somebody may apply, by number.
    pub proposals: BTreeMap<u32, Proposal>,
    /// Proposals so far.
    pub proposed: u32,
    /// Revisions that the run asked for by itself since somebody last changed the plan.
    pub own_revisions: u32,
    /// Counts starts and ends of steps and their notes, to tell what came before what.
    pub ticks: u64,
    /// When it began.
    pub started_at: u64,
    /// When it ended.
    pub ended_at: Option<u64>,
    /// Once completed: the summary of the last step.
    pub answer: String,
    /// Once failed: why.
    pub failure: Option<Failure>,
    /// Once cancelled: why.
    pub cancel_reason: String,
}

/// One try at a step, as far as it is durable.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// From 1.
    pub number: u32,
    /// Its tool turns. A tool step has one, with one call.
    pub turns: Vec<Turn>,
    /// The parts that the model split its step into.
    pub sub_goals: Vec<SubGoal>,
    /// Position of the sub-goal in focus.
    pub focus: Option<u32>,
    /// What it was told of its run, if the plan was changed while it was under way.
    pub context: Option<String>,
}

/// One reply of the model with its calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The reply's text.
    pub text: String,
    /// The calls that it asked for.
    pub calls: Vec<Call>,
}

/// A call with its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The model's call.
    pub call: ToolCall,
    /// What it may do.
    pub effect: Effect,
    /// How far it got.
    pub status: CallStatus,
    /// How often it was in doubt.
    pub doubts: u32,
    /// A person has agreed to it: to the call of which this is the digest.
    pub approval: Option<String>,
    /// The session that it was sent in, or may have been, if this one was copied from there since:
    /// it keeps the key that it had.
    pub origin: Option<String>,
}

/// How far a call got.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum CallStatus {
    /// Asked for. It may have been sent if it is not effectful.
    Requested,
    /// A person has to say something first.
    Asking {
        /// What is asked.
        ask: Ask,
        /// What the person said, between that and the result that follows from it.
        answer: Option<Settlement>,
    },
    /// It may be sent, and may have been.
    Intended {
        /// Not sent after this.
        not_after: u64,
        /// How long it may run.
        time_limit_ms: u64,
        /// It dies with the tools process.
        in_process: bool,
        /// How often it was intended.
        times: u32,
    },
    /// It may have been carried out, and nobody knows.
    InDoubt {
        /// It can no longer be running then.
        settle_after: u64,
        /// What a person said.
        answer: Option<Settlement>,
    },
    /// It has a result.
    Finished {
        /// What the model is told.
        output: String,
        /// It tells of a failure.
        is_error: bool,
        /// Stable name of the failure; empty without one.
        reason: String,
    },
}

/// What a call asks a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// May it be made?
    Approval {
        /// Of its tool and its arguments.
        digest: String,
    },
    /// What the model wants to know.
    Question {
        /// In its words.
        question: String,
        /// Answers that it proposes.
        choices: Vec<String>,
    },
}

/// A part of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubGoal {
    /// In the model's words.
    pub text: String,
    /// The model's evaluation, once completed.
    pub summary: Option<String>,
    /// The model gave it up.
    pub is_dropped: bool,
}

impl SubGoal {
    /// It is neither completed nor dropped.
    pub fn is_open(&self) -> bool {
        self.summary.is_none() && !self.is_dropped
    }
}

/// A wish for another plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revising {
    /// What is wrong with the plan, or with what came of it.
    pub feedback: String,
    /// The answer takes effect at once.
    pub apply: bool,
    /// The revision that was in force when it was asked for.
    pub base_revision: u32,
    /// The proposal under review that it denies; 0 for none.
    pub denied: u32,
}

/// A change of the plan that can be applied as long as the plan is the one that it was made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// The revision that it changes.
    pub base_revision: u32,
    /// The whole plan as it would be.
    pub plan: PlanDraft,
    /// How often it was denied.
    pub denials: u32,
}

impl Session {
    /// The run that has not ended, if there is one.
    pub fn active_run(&self) -> Option<&Run> {
        self.runs.last().filter(|run| !run.status.is_terminal())
    }

    /// The run of that number.
    pub fn run(&self, number: u32) -> Option<&Run> {
        self.runs.get((number as usize).checked_sub(1)?)
    }

    /// The step that an attempt belongs to.
    pub fn step(&self, attempt: AttemptRef) -> Option<&Step> {
        let plan = self.run(attempt.run)?.plan.as_ref()?;
        plan.steps.get((attempt.step as usize).checked_sub(1)?)
    }

    /// The attempt, while it is under way.
    pub fn attempt(&self, attempt: AttemptRef) -> Option<&Attempt> {
        let running = self.step(attempt)?.running()?;
        (running.number == attempt.attempt).then_some(running)
    }

    /// The call, while its attempt is under way.
    pub fn call(&self, call: CallRef) -> Option<&Call> {
        let turn = self
            .attempt(call.attempt)?
            .turns
            .get(call.tool_turn as usize)?;
        turn.calls.get(call.index as usize)
    }
}

impl Run {
    /// A person can answer something now: calls or a plan.
    pub fn asks_person(&self) -> bool {
        self.in_doubt + self.approvals + self.questions > 0 || self.review.is_some()
    }

    /// Attempts under way, in the order of the plan.
    pub fn running_attempts(&self) -> impl Iterator<Item = (AttemptRef, &Step, &Attempt)> {
        let steps = self.plan.iter().flat_map(|plan| {
            let running = plan.running.iter();
            running.filter_map(|&position| Some((position, plan.steps.get(position as usize)?)))
        });
        steps.filter_map(|(position, step)| {
            let attempt = step.running()?;
            let name = AttemptRef {
                run: self.number,
                step: position + 1,
                attempt: attempt.number,
            };
            Some((name, step, attempt))
        })
    }
}
