//! What a decision is about.

use super::Fork;
use crate::command::Command;
use crate::event::{AttemptRef, CallFinished, CallPreview, CallRef, InputRequested, ResultHandle};
use crate::failure::Failure;
use crate::hooks::{Gate, Outcome};
use crate::message::{FinishReason, PlacedOpaque, ToolCall, Usage};
use crate::plan::PlanDraft;
use crate::pool::Missing;
use crate::principal::Principal;
use crate::rules::Condition;
use std::collections::BTreeMap;

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
    /// The executor reports results, and what came of the next question to the model.
    Report {
        /// The attempt that it is about.
        attempt: AttemptRef,
        /// Results of calls that have ended.
        results: Vec<CallFinished>,
        /// Calls that have not ended: not sent, because they are not what was judged, or asking a person.
        unfinished: Vec<Unfinished>,
        /// The model's next reply. At most one of this, `full` and `summary` is there.
        reply: Option<Reply>,
        /// The attempt cannot go on. Of a reply beside it only the usage counts.
        failure: Option<Failure>,
        /// The model was not asked, because its next request takes too much of the window.
        full: Option<FullRequest>,
        /// The model wrote the summary that was asked for, or did not.
        summary: Option<Box<Summarised>>,
        /// The model is to be asked again after an error. The executor waits for the acknowledgement.
        retry: Option<Box<Retry>>,
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
    /// Resources of the pool carry out an attempt.
    Placed {
        /// The attempt.
        attempt: AttemptRef,
        /// Ids of the resources, the executor first.
        resources: Vec<String>,
        /// From asking for a slot to getting one, in milliseconds.
        waited_ms: u64,
        /// The executor may have begun, so its calls may have been sent.
        has_begun: bool,
    },
    /// An attempt waits for what the pool lacks. Saying so again changes nothing.
    Short {
        /// The attempt.
        attempt: AttemptRef,
        /// What it lacks.
        missing: Vec<Missing>,
        /// No resource has it. Otherwise all that have it are taken.
        is_none: bool,
    },
    /// Resources have what attempts lack.
    Found {
        /// The attempts. Those that lack nothing are passed over.
        attempts: Vec<AttemptRef>,
    },
    /// Time has passed, or steps are ready that a full transition had no room to start.
    Tick,
    /// The session has been copied from another one, up to the end of a transition.
    Forked(Fork),
    /// The owner has found the result of a call; see [`Work::Answer`](crate::outstanding::Work::Answer).
    Answered {
        /// The call.
        call: CallRef,
        /// What came of it.
        answer: Answer,
    },
    /// The owner has asked a tool what a call would change; see
    /// [`Work::Preview`](crate::outstanding::Work::Preview).
    Previewed {
        /// The call.
        call: CallRef,
        /// What came of it.
        outcome: Previewed,
    },
    /// Hooks answered; see [`Work::AskHooks`](crate::outstanding::Work::AskHooks). An answer to a question that is
    /// not open any more changes nothing.
    Hooked {
        /// The question.
        gate: Gate,
        /// Of PreToolCall one for each call that was asked about, by position; else exactly one.
        outcomes: Vec<Outcome>,
        /// The wholes of long results of skipped calls, without their names, by positions of the calls: the text of the
        /// outcome is the beginning then.
        wholes: BTreeMap<u32, Box<ResultHandle>>,
    },
    /// A hook that a run asks is not there any more, or is another one.
    HooksMissing {
        /// The run.
        run: u32,
        /// Names of the hooks that are not there.
        missing: Vec<String>,
        /// Names of the hooks that have another digest.
        changed: Vec<String>,
    },
    /// The session has been restored from an archive of all its events.
    Imported,
    /// The journal takes nothing any more but what settles and ends.
    LimitReached {
        /// What the run ends with.
        failure: Failure,
    },
}

/// A request that takes too much of the window of its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FullRequest {
    /// Tokens of the whole request, by what is known of the model.
    pub tokens: u64,
    /// The estimate of the whole request, as for any model.
    pub estimated_tokens: u64,
    /// Tokens of the window.
    pub window: u64,
    /// Most tokens of a reply; 0 for not known.
    pub max_output_tokens: u32,
    /// The provider refused it for its length.
    pub is_refused: bool,
}

/// A model is to be asked again after an error that may pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// From 0 within the attempt.
    pub tool_turn: u32,
    /// How often the model was asked for this reply so far, from 1.
    pub attempt: u32,
    /// The error.
    pub failure: Failure,
}

/// What became of a question for a summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summarised {
    /// What the model wrote, or why it wrote nothing.
    pub outcome: Result<String, Failure>,
    /// What was used up.
    pub usage: Usage,
    /// The provider that answered.
    pub provider: String,
    /// The model that answered.
    pub model: String,
    /// From question to answer.
    pub duration_ms: u64,
}

/// What the owner has found for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The result that the model gets.
    pub output: String,
    /// Stable name of the failure; empty without one.
    pub reason: &'static str,
    /// The whole of a long result, without its name: the output is its beginning then.
    pub whole: Option<Box<ResultHandle>>,
}

impl Answer {
    /// The reason of an answer that was not found within its time limit.
    pub const TIMEOUT: &str = "Timeout";
    /// The reason of an answer that cannot be found.
    pub const FAILED: &str = "ExecutionFailed";

    /// A result.
    pub fn found(output: String) -> Self {
        Self {
            output,
            reason: "",
            whole: None,
        }
    }

    /// A result that is longer than a model gets at once: its beginning, and the whole.
    pub fn long(beginning: String, whole: ResultHandle) -> Self {
        Self {
            whole: Some(Box::new(whole)),
            ..Self::found(beginning)
        }
    }

    /// A failure: its name, and the words that the model gets.
    pub fn failed(reason: &'static str, output: impl Into<String>) -> Self {
        Self {
            output: output.into(),
            reason,
            whole: None,
        }
    }
}

/// What a tool says of a call that it has not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Previewed {
    /// The call would change this.
    Shown(CallPreview),
    /// The call would fail, or nothing can be said of it: it ends so.
    Failed {
        /// The result that the model gets.
        output: String,
        /// Stable name of the failure.
        reason: String,
    },
    /// Its tool or its values are others than were judged.
    Rejudge {
        /// The texts of its arguments that lead elsewhere by links.
        resolved: Vec<Condition>,
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
    /// The executor's estimate of the request, tools included; 0 for not known.
    pub estimated_tokens: u64,
    /// Tokens of the model's window; 0 for not known.
    pub window_tokens: u64,
}
