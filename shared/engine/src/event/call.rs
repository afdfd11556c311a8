//! Events about replies and calls.

#![allow(missing_docs)] // Fields are described once, in `cairn/event/v1/event.proto`.

use super::{AttemptRef, CallRef, Effect, RequestedCall};
use crate::command::Settlement;
use crate::message::{FinishReason, Media, Message, PlacedOpaque, Usage};
use crate::pending::PendingId;
use crate::rules::Condition;
use serde::{Deserialize, Serialize};

/// A call is about to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct CallIntended {
    pub call: CallRef,
    pub not_after: u64,
    pub time_limit_ms: u64,
    pub in_process: bool,
}

/// An intended call was not sent, and waits until the run continues.
#[derive(Debug, Clone, PartialEq)]
pub struct CallHeld {
    pub call: CallRef,
}

/// A call had begun, and its outcome is not known.
#[derive(Debug, Clone, PartialEq)]
pub struct CallInDoubt {
    pub call: CallRef,
    pub settle_after: u64,
}

/// A call waits for the approval of a person.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalRequested {
    pub call: CallRef,
    pub digest: String,
}

/// A call that was not sent is judged anew: as newly requested, of the tool as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRejudged {
    pub call: CallRef,
    pub tool_digest: String,
    pub resolved: Vec<Condition>,
    pub effect: Effect,
    pub previews: bool,
}

/// What a call would change is known, and the call is judged by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallPreviewed {
    pub call: CallRef,
    pub preview: CallPreview,
}

/// What a call that writes a file would change, as its tool says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallPreview {
    /// The path of the file, as in [`FileState`].
    pub path: String,
    /// The digest of the file as it is; empty if there is no such file.
    pub before_digest: String,
    /// The digest that the file would have.
    pub after_digest: String,
    /// The change as a unified diff, which may be cut.
    pub diff: String,
    /// Lines that the call would add.
    pub added: u32,
    /// Lines that the call would remove.
    pub removed: u32,
    /// Cairn, git or an agent reads or runs the file on its own, so a person approves each write.
    pub is_protected: bool,
}

/// A tool asks a person in the middle of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputRequested {
    pub call: CallRef,
    pub question: ToolQuestion,
}

/// What a tool asks, as its server and as people understand it, and what it wants back with the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolQuestion {
    pub text: String,
    pub choices: Vec<String>,
    pub requests: String,
    pub state: Option<String>,
}

/// The answer to a [`ToolQuestion`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolInput {
    pub responses: String,
    pub state: Option<String>,
}

/// An image, a sound or a file in a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallMedia {
    pub mime_type: String,
    pub name: String,
    pub data: Vec<u8>,
    pub is_shown: bool,
}

/// As a model gets it.
impl From<&CallMedia> for Media {
    fn from(media: &CallMedia) -> Self {
        Self {
            mime: media.mime_type.clone(),
            data: media.data.clone(),
        }
    }
}

/// The model may call tools that it has searched for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolsFound {
    pub attempt: AttemptRef,
    pub tools: Vec<String>,
}

/// The model asked a person something.
#[derive(Debug, Clone, PartialEq)]
pub struct QuestionAsked {
    pub call: CallRef,
    pub question: String,
    pub choices: Vec<String>,
}

/// A person decided a pending question.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    pub pending: PendingId,
    pub settlement: Settlement,
    pub settle_after: u64,
    pub responses: String,
}

/// The decision about a call in doubt takes effect.
#[derive(Debug, Clone, PartialEq)]
pub struct CallSettled {
    pub call: CallRef,
    pub settlement: Settlement,
    pub output: String,
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
    /// What only its provider can read.
    pub opaque: Vec<PlacedOpaque>,
    /// Why it ended.
    pub finish: FinishReason,
    /// What the reply cost.
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
    /// Hooks are asked about it, and nothing follows from it before they have answered.
    pub held: bool,
}

impl ReplyReceived {
    /// What the model is sent of it later.
    pub(crate) fn message(&self) -> Message {
        let calls = self.calls.iter().map(|asked| asked.call.clone());
        Message::reply(self.text.clone(), calls.collect(), self.opaque.clone())
    }
}

/// A call's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFinished {
    /// Which call.
    pub call: CallRef,
    /// The result that the model gets.
    pub output: String,
    /// The output tells of a failure.
    pub is_error: bool,
    /// Stable name of the failure; empty without one.
    pub reason: String,
    /// From sending to result.
    pub duration_ms: u64,
    /// Images, sounds and files of the result.
    pub media: Vec<CallMedia>,
    /// The whole result, if the output is only its beginning.
    pub whole: Option<Box<ResultHandle>>,
    /// The file that a file tool read or wrote, as it was then.
    pub file: Option<FileState>,
    /// Of a call that asked a model: what that used up.
    pub usage: Option<Usage>,
    /// The provider that answered such a call; empty for others.
    pub provider: String,
    /// The model that answered such a call; empty for others.
    pub model: String,
    /// Hooks are asked about it, and the model gets it as they leave it.
    pub held: bool,
}

/// A file as a call read or wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    pub path: String,
    pub digest: String,
}

/// A blob of the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    pub digest: String,
    pub size: u32,
}

/// A result that is longer than a model gets at once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultHandle {
    /// Its name in the session. An executor's report has none: the decision about it gives the name.
    pub handle: String,
    /// Of the whole text.
    pub bytes: u64,
    /// Of the whole text, as [`Lines`](crate::lines::Lines) counts them.
    pub lines: u64,
    /// Bytes at the end that were not kept.
    pub lost_bytes: u64,
    /// The tool gave more than its own limit allows. The rest was neither counted nor kept.
    pub is_cut: bool,
    /// The text without what was not kept, in parts. The envelope of the event has this list.
    pub blobs: Vec<Blob>,
}

impl CallFinished {
    /// The reason that says for certain that nothing was done, so that the call may be sent again.
    pub const NOT_SENT: &str = "NotSent";
    /// The reason of a call that a person, the rules, the mode of the session or the tools' settings did not allow.
    pub const DENIED: &str = "Denied";
    /// The reason of a write of a file that its model has not read as it is.
    pub const NOT_READ: &str = "NotRead";
    /// The reason of a call whose arguments its tool does not take.
    pub const INVALID_ARGUMENTS: &str = "InvalidArguments";
    /// The reason of a call that a hook did not allow, or whose result a hook withheld.
    pub const HOOK_BLOCKED: &str = "HookBlocked";
}
