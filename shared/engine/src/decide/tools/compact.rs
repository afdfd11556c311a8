//! `compact`: the model asks that its older messages give way to a summary.

use super::{Answers, CallRefusal, CallRejection, STEP, StateTool, arguments};
use crate::decide::{Decision, Rejection};
use crate::event::{AttemptRef, CallRef};
use crate::limits::MAX_COMPACTION_TEXT;
use crate::message::ToolCall;
use crate::session::{Attempt, Call, CallStatus};
use serde::Deserialize;

/// Its name.
const COMPACT: &str = "compact";

pub(super) const TOOL: StateTool = StateTool {
    name: COMPACT,
    description: "Replaces the older messages of this conversation by a summary before your next message; the newest ones stay as they are. Use it when a piece of work is done and its details are not needed any more. Say with keep_in_mind what the summary must not lose.",
    parameters: r#"{"type":"object","properties":{"keep_in_mind":{"type":"string","description":"What the summary must keep: names, numbers, decisions, open questions."}},"additionalProperties":false}"#,
    answers: Answers::InTransition(check),
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CompactArguments {
    #[serde(default)]
    keep_in_mind: Option<String>,
}

/// The call is answered once the other calls of the reply have ended.
fn check(
    _: &mut Decision<'_>,
    _: CallRef,
    call: &ToolCall,
) -> Result<Option<String>, CallRejection> {
    let asked: CompactArguments = arguments(call)?;
    let bytes = asked.keep_in_mind.unwrap_or_default().len();
    if bytes > MAX_COMPACTION_TEXT {
        let message =
            format!("keep_in_mind has {bytes} bytes; at most {MAX_COMPACTION_TEXT} are allowed");
        return Err(Rejection::refused(CallRefusal::TooLarge, message));
    }
    Ok(None)
}

/// What the last reply asks for by its calls of `compact`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::decide) struct Compactions {
    /// The first call.
    pub(in crate::decide) call: CallRef,
    /// What the summary is to keep; may be empty.
    pub(in crate::decide) keep_in_mind: String,
    /// Further calls.
    pub(in crate::decide) repeated: Vec<CallRef>,
    /// The reply asks to end the step, too.
    pub(in crate::decide) ends_step: bool,
}

/// A call of `compact` that is left open asks for a compaction. None if there is none, or if other calls are
/// still open. A call that asks to end the step waits itself.
pub(in crate::decide) fn compactions(attempt: &Attempt, name: AttemptRef) -> Option<Compactions> {
    let is_open = |call: &Call, tool: &str| {
        call.call.name == tool && matches!(call.status, CallStatus::Requested)
    };
    let asking = |call: &Call| is_open(call, COMPACT);
    let ends_step = |call: &Call| is_open(call, STEP);
    let mut asked = attempt.last_calls(name).filter(|(_, call)| asking(call));
    let (call, first) = asked.next()?;
    let repeated = asked.map(|(call, _)| call).collect();
    let may_wait = |call: &Call| call.is_finished() || asking(call) || ends_step(call);
    if !attempt.calls.iter().all(may_wait) {
        return None;
    }
    let arguments: CompactArguments = arguments(&first.call).unwrap_or_default();
    Some(Compactions {
        call,
        keep_in_mind: arguments.keep_in_mind.unwrap_or_default(),
        repeated,
        ends_step: attempt.calls.iter().any(ends_step),
    })
}
