//! What hooks are asked at a point, as the state has it.

use super::{Gate, Mutation, PinnedHook, Point};
use crate::conversation::{Conversation, Entry, Op};
use crate::event::{AttemptRef, CallRef, Effect};
use crate::failure::Failure;
use crate::message::{Message, Role, ToolCall, Usage};
use crate::plan::PlanDraft;
use crate::session::{
    Attempt, Call, CallStatus, EndedHooks, Purpose, Run, RunStatus, Session, Step, StepStatus,
};

/// A question, with the changes of the hooks that were asked before.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Names it. Each of the questions about the calls of one reply has the position of its call as the index.
    pub gate: Gate,
    /// Position of the call that it is about; 0 if it is about none.
    pub index: u32,
    /// The tool of that call; none if it is about none.
    pub tool: Option<String>,
    /// The context of a turn; empty for a run with a plan.
    pub context: String,
    /// Name of the agent of the run.
    pub agent: String,
    /// Model of the run; empty for the default.
    pub model: String,
    /// Turns and attempts that completed before: of the context for a turn of a conversation, else of the run. None
    /// for points of a run or a plan.
    pub turn_index: Option<u32>,
    /// Position of the step in its plan, from 0. None for a turn of a conversation, and for points of a run.
    pub step_index: Option<u32>,
    /// What it is about.
    pub payload: Payload,
}

/// What a question is about; see `cairn/hook/v1/hook.proto`.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // Described in the contract.
pub enum Payload {
    RunStart {
        goal: String,
        is_turn: bool,
    },
    RunEnd {
        status: EndStatus,
        failure: Option<Failure>,
        usage: Usage,
    },
    PlanProposed {
        plan: PlanDraft,
        /// Empty for the first plan of a run.
        feedback: String,
    },
    StepStart {
        title: String,
        description: String,
        /// Empty for a step of the model.
        tool: String,
    },
    TurnStart {
        message: Option<Message>,
    },
    Request(Box<NextRequest>),
    Retry {
        tool_turn: u32,
        attempt: u32,
        failure: Failure,
    },
    Reply {
        tool_turn: u32,
        text: String,
        calls: Vec<ToolCall>,
        usage: Usage,
    },
    Call(AskedCall),
    Result {
        call: AskedCall,
        output: String,
        is_error: bool,
        reason: String,
        duration_ms: u64,
    },
    Compaction {
        is_requested: bool,
        /// Empty for the built-in one.
        prompt: String,
    },
    Error(Failure),
    TurnEnd {
        response: String,
        summary: String,
        usage: Usage,
    },
    StepEnd {
        title: String,
        description: String,
        status: EndStatus,
        summary: String,
        failure: Option<Failure>,
    },
}

/// A call that hooks are asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedCall {
    /// Its name.
    pub call: CallRef,
    /// The name of its tool.
    pub tool: String,
    /// The arguments that are sent, as JSON.
    pub arguments: String,
    /// The arguments as the model wrote them, if hooks changed them.
    pub asked: Option<String>,
    /// What its tool may do.
    pub effect: Effect,
}

/// How a run or a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndStatus {
    /// It completed.
    Completed,
    /// It failed.
    Failed,
    /// It was skipped; of a run: cancelled.
    Skipped,
}

/// The next request of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct NextRequest {
    /// Number of the tool turn, from 0.
    pub tool_turn: u32,
    /// The conversation as the request has it.
    pub conversation: Conversation,
    /// The number of the message with which the new messages begin; none if all messages of the turn or the attempt
    /// are new.
    since: Option<u32>,
}

impl NextRequest {
    /// What the request has that the request before it did not have: the reply to that, and what follows. Of the
    /// first request all messages of the turn or the attempt.
    pub fn new_messages(&self) -> impl Iterator<Item = &Entry> {
        let Conversation {
            immutable, behind, ..
        } = &self.conversation;
        let since = self
            .since
            .and_then(|number| behind.iter().position(|entry| entry.number == number));
        let before: &[Entry] = match self.since {
            None => immutable,
            Some(_) => &[],
        };
        before.iter().chain(&behind[since.unwrap_or_default()..])
    }

    /// How many messages the whole request has, without the system prompt.
    pub fn messages(&self) -> u32 {
        u32::try_from(self.all().count()).unwrap_or(u32::MAX)
    }

    /// Bytes of these messages.
    pub fn bytes(&self) -> u64 {
        self.all().map(|message| message.bytes()).sum()
    }

    fn all(&self) -> impl Iterator<Item = std::sync::Arc<Message>> {
        let messages = self.conversation.messages().into_iter();
        messages.filter(|message| message.role != Role::System)
    }
}
