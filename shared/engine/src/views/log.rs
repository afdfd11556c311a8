//! The execution log: every text of the model, every call with its input and its output, and what
//! became of steps and runs, one entry after the other.
//!
//! An entry is written once and never changed; the log of a longer journal begins with the log of
//! a shorter one.

mod fold;

use crate::command::Settlement;
use crate::event::{Budget, CallRef, Effect, WaitReason};
use crate::message::Usage;
use crate::plan::ToolInvocation;
use crate::session::RunStatus;
use crate::transitions::StepPhase;
use std::collections::{BTreeMap, HashMap};

/// The log of a session, folded from its events.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Log {
    entries: Vec<Entry>,
    /// The tools of calls that have no result yet.
    open_calls: HashMap<CallRef, String>,
    /// The tools of steps that have not begun, by run and step.
    tool_steps: BTreeMap<(u32, u32), ToolInvocation>,
}

/// One entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Number of the event that it comes from; several entries may come from one event.
    pub seq: u64,
    /// Milliseconds since 1970.
    pub at: u64,
    /// The run.
    pub run: u32,
    /// The step, from 1; 0 for what is about the run.
    pub step: u32,
    /// The attempt, from 1; 0 where there is none.
    pub attempt: u32,
    /// What happened.
    pub kind: EntryKind,
}

/// What an entry says.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // Fields are described once, in `cairn/event/v1/event.proto`.
pub enum EntryKind {
    /// A run began.
    RunStarted { goal: String, model: String },
    /// The planner is asked for another plan.
    RevisionRequested { feedback: String },
    /// Another plan was proposed.
    PlanProposed {
        proposal: u32,
        base_revision: u32,
        usage: Usage,
        duration_ms: u64,
    },
    /// There is no other plan; why.
    RevisionFailed {
        text: String,
        usage: Usage,
        duration_ms: u64,
    },
    /// A plan is in force; the numbers and labels of its steps.
    PlanApplied {
        revision: u32,
        steps: Vec<(u32, String)>,
        usage: Usage,
        duration_ms: u64,
    },
    /// The run waits for a person.
    RunWaiting { reason: WaitReason },
    /// A person stopped the run for a while.
    RunPaused { reason: String },
    /// The run goes on.
    RunResumed,
    /// A budget is used up.
    BudgetExhausted { budget: Budget },
    /// The run may use this much more of a budget, in its unit.
    BudgetRaised { budget: Budget, more: u64 },
    /// The run ended. The text is its answer, its failure or why it was cancelled; the usage and
    /// the duration are those of planning that failed.
    RunEnded {
        status: RunStatus,
        text: String,
        usage: Option<Usage>,
        duration_ms: u64,
    },
    /// An attempt began.
    StepStarted,
    /// An attempt went on after its owner or its executor was lost.
    AttemptContinued,
    /// The step ended. The text is its summary, its failure or why it was skipped.
    StepEnded { phase: StepPhase, text: String },
    /// The model replied; the text may be empty beside calls.
    Reply {
        tool_turn: u32,
        text: String,
        calls: u32,
        usage: Usage,
        model: String,
        duration_ms: u64,
    },
    /// A call was asked for. The input is JSON text as the model wrote it.
    Call {
        call: CallRef,
        tool: String,
        input: String,
        effect: Effect,
    },
    /// A call has a result.
    Result {
        call: CallRef,
        tool: String,
        output: String,
        is_error: bool,
        reason: String,
        /// None if a person said how it ended.
        duration_ms: Option<u64>,
    },
    /// Nobody knows how a call ended.
    InDoubt { call: CallRef, tool: String },
    /// A call waits for a person's word.
    ApprovalRequested { call: CallRef, tool: String },
    /// The model asked a person something.
    QuestionAsked {
        call: CallRef,
        tool: String,
        question: String,
        choices: Vec<String>,
    },
    /// A person said how to go on; of a call in doubt it may take effect later.
    Decided {
        call: CallRef,
        tool: String,
        settlement: Settlement,
    },
    /// What a person said of a call has taken effect.
    Settled {
        call: CallRef,
        tool: String,
        settlement: Settlement,
    },
}

impl Log {
    /// All entries in the order of the journal.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entries of events numbered above `seq`.
    pub fn after(&self, seq: u64) -> &[Entry] {
        let start = self.entries.partition_point(|entry| entry.seq <= seq);
        &self.entries[start..]
    }
}

impl EntryKind {
    /// A stable name for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::RunStarted { .. } => "run_started",
            Self::RevisionRequested { .. } => "revision_requested",
            Self::PlanProposed { .. } => "plan_proposed",
            Self::RevisionFailed { .. } => "revision_failed",
            Self::PlanApplied { .. } => "plan_applied",
            Self::RunWaiting { .. } => "run_waiting",
            Self::RunPaused { .. } => "run_paused",
            Self::RunResumed => "run_resumed",
            Self::BudgetExhausted { .. } => "budget_exhausted",
            Self::BudgetRaised { .. } => "budget_raised",
            Self::ApprovalRequested { .. } => "approval_requested",
            Self::QuestionAsked { .. } => "question_asked",
            Self::RunEnded { .. } => "run_ended",
            Self::StepStarted => "step_started",
            Self::AttemptContinued => "attempt_continued",
            Self::StepEnded { .. } => "step_ended",
            Self::Reply { .. } => "reply",
            Self::Call { .. } => "call",
            Self::Result { .. } => "result",
            Self::InDoubt { .. } => "in_doubt",
            Self::Decided { .. } => "decided",
            Self::Settled { .. } => "settled",
        }
    }
}
