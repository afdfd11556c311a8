//! The journal's events: facts, in the past tense, written once.

use crate::command::{Command, RunLimits, Settlement};
use crate::failure::Failure;
use crate::message::{ToolCall, Usage};
use crate::plan::PlanDraft;
use serde::{Deserialize, Serialize};

/// One fact about a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// When its transition was decided: milliseconds since 1970 by the store's clock.
    pub at: u64,
    /// What happened.
    pub kind: EventKind,
}

/// Names an attempt at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AttemptRef {
    /// Number of the run, from 1.
    pub run: u32,
    /// Number of the step in the plan, from 1.
    pub step: u32,
    /// Number of the attempt, from 1.
    pub attempt: u32,
}

/// Names a call within a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallRef {
    /// The attempt that makes it.
    pub attempt: AttemptRef,
    /// The tool turn whose reply asked for it, from 0; 0 for a tool step.
    pub tool_turn: u32,
    /// Position in that reply, from 0.
    pub index: u32,
}

/// What may happen when a call is made a second time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Effect {
    /// Nothing: it only reads.
    Pure,
    /// Nothing, as long as the key is the same.
    Idempotent,
    /// A second effect.
    Effectful,
    /// The owner of the session answers it itself.
    State,
}

/// A call that a reply asks for, with what the catalogue said of its tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedCall {
    /// The model's call.
    pub call: ToolCall,
    /// What it may do.
    pub effect: Effect,
}

/// Why a run cannot go on by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WaitReason {
    /// A call's outcome is not known.
    InDoubt,
    /// A budget is used up.
    Budget,
    /// A call is made only once a person allows it.
    Approval,
    /// The model asked a person something.
    Question,
    /// A plan is put into force only once a person agrees to it.
    PlanReview,
}

/// What a run may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Budget {
    /// Tool turns.
    Turns,
    /// Tokens, in and out.
    Tokens,
    /// Money.
    Cost,
    /// Time in which the run is active.
    Time,
    /// Tool calls.
    Calls,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // Fields are described once, in `cairn/event/v1/event.proto`.
pub enum EventKind {
    SessionCreated {
        title: String,
        time_to_live_ms: u64,
    },
    CommandReceived {
        request_id: String,
        command: Command,
    },
    CommandRefused {
        command_seq: u64,
        reason: String,
        message: String,
    },
    MemorySet {
        key: String,
        value: String,
    },
    MemoryRemoved {
        key: String,
    },
    MemoryCleared,
    RunStarted {
        run: u32,
        goal: String,
        limits: RunLimits,
        model: String,
        command_seq: u64,
        trace_parent: String,
    },
    RevisionRequested {
        run: u32,
        feedback: String,
        apply: bool,
        command_seq: u64,
        denied: u32,
    },
    PlanProposed {
        run: u32,
        proposal: u32,
        base_revision: u32,
        plan: PlanDraft,
        request_seq: u64,
        usage: Usage,
        duration_ms: u64,
    },
    RevisionFailed {
        run: u32,
        request_seq: u64,
        failure: Failure,
        usage: Usage,
        duration_ms: u64,
    },
    PlanApplied {
        run: u32,
        revision: u32,
        plan: PlanDraft,
        numbers: Vec<u32>,
        command_seq: u64,
        usage: Usage,
        duration_ms: u64,
    },
    RunPaused {
        run: u32,
        reason: String,
        command_seq: u64,
    },
    RunWaiting {
        run: u32,
        reason: WaitReason,
    },
    RunResumed {
        run: u32,
        command_seq: u64,
    },
    RunTakenOver {
        run: u32,
    },
    BudgetExhausted {
        run: u32,
        budget: Budget,
    },
    BudgetRaised {
        run: u32,
        turns: u32,
        command_seq: u64,
        tokens: u64,
        cost_nano_usd: u64,
        active_ms: u64,
        calls: u32,
    },
    BudgetRefused {
        run: u32,
        command_seq: u64,
        failure: Failure,
    },
    RunCompleted {
        run: u32,
        answer: String,
    },
    RunFailed {
        run: u32,
        failure: Failure,
        usage: Option<Usage>,
        duration_ms: u64,
    },
    RunCancelled {
        run: u32,
        reason: String,
        command_seq: u64,
    },
    StepStarted {
        attempt: AttemptRef,
        tool_effect: Option<Effect>,
    },
    AttemptContinued {
        attempt: AttemptRef,
    },
    StepCompleted {
        attempt: AttemptRef,
        response: String,
        summary: String,
    },
    StepFailed {
        attempt: AttemptRef,
        failure: Failure,
    },
    StepSkipped {
        run: u32,
        step: u32,
        reason: String,
        is_wish: bool,
        command_seq: u64,
    },
    ReplyReceived(ReplyReceived),
    CallIntended {
        call: CallRef,
        not_after: u64,
        time_limit_ms: u64,
        in_process: bool,
    },
    CallHeld {
        call: CallRef,
    },
    CallFinished(CallFinished),
    CallInDoubt {
        call: CallRef,
        settle_after: u64,
    },
    ApprovalRequested {
        call: CallRef,
        digest: String,
    },
    QuestionAsked {
        call: CallRef,
        question: String,
        choices: Vec<String>,
    },
    Decided {
        command_seq: u64,
        call: CallRef,
        settlement: Settlement,
        settle_after: u64,
    },
    CallSettled {
        call: CallRef,
        settlement: Settlement,
    },
    SubGoalAdded {
        attempt: AttemptRef,
        index: u32,
        text: String,
    },
    SubGoalFocused {
        attempt: AttemptRef,
        index: u32,
    },
    SubGoalCompleted {
        attempt: AttemptRef,
        index: u32,
        summary: String,
    },
    SubGoalDropped {
        attempt: AttemptRef,
        index: u32,
    },
    ScratchpadWritten {
        attempt: AttemptRef,
        text: String,
        replaces: bool,
    },
    ForkedFrom {
        session: String,
        at_seq: u64,
        request_id: String,
        title: String,
    },
}

/// The model replied.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplyReceived {
    /// The attempt that it belongs to.
    pub attempt: AttemptRef,
    /// From 0 within the attempt.
    pub tool_turn: u32,
    /// The text beside the calls; may be empty.
    pub text: String,
    /// The calls asked for, in order.
    pub calls: Vec<RequestedCall>,
    /// What the reply cost.
    pub usage: Usage,
    /// The model that answered.
    pub model: String,
    /// From question to answer.
    pub duration_ms: u64,
}

/// A call's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFinished {
    /// Which call.
    pub call: CallRef,
    /// What the model is told.
    pub output: String,
    /// The output tells of a failure.
    pub is_error: bool,
    /// Stable name of the failure; empty without one.
    pub reason: String,
    /// From sending to result.
    pub duration_ms: u64,
}

impl CallFinished {
    /// The reason that says for certain that nothing was done, so that the call may be sent again.
    pub const NOT_SENT: &str = "NotSent";
    /// The reason of a call that a person, or the tools' settings, did not allow.
    pub const DENIED: &str = "Denied";
}
