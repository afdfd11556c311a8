//! What an owner has sent to the executor of an attempt.

use crate::owner::permit;
use cairn_engine::event::{AttemptRef, Effect};
use cairn_engine::message::{Media, ToolCall};
use cairn_engine::session::{Attempt, Call, CallStatus};
use cairn_proto::event::{CallMedia, CallRef};
use cairn_proto::executor::{Acknowledgement, CallResult};
use std::collections::BTreeMap;

/// What the executor knows; by default, the conversation through the last reply.
#[derive(Debug, Default)]
pub(super) struct Sent {
    tool_turns: u32,
    /// The number of the newest change of the conversation.
    newest_op: u64,
    /// Calls of the last reply, by their positions.
    calls: BTreeMap<u32, Standing>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// The executor may make it.
    Open,
    Held,
    Ended,
}

impl Standing {
    fn of(call: &Call) -> Self {
        match (&call.status, call.effect) {
            (CallStatus::Finished { .. }, _) => Self::Ended,
            (CallStatus::Requested, Effect::Pure | Effect::Idempotent)
            | (CallStatus::Intended { .. }, _) => Self::Open,
            _ => Self::Held,
        }
    }
}

impl Sent {
    /// The executor itself has reported the result.
    pub(super) fn knows_end_of(&mut self, call: CallRef) {
        self.calls.insert(call.index, Standing::Ended);
    }

    /// What the executor does not know yet. It knows it from then on.
    pub(super) fn changes(&mut self, name: AttemptRef, attempt: &Attempt) -> Acknowledgement {
        if self.tool_turns != attempt.tool_turns {
            self.tool_turns = attempt.tool_turns;
            self.calls.clear();
        }
        let known = self.newest_op.saturating_sub(attempt.ops_through);
        let ops = attempt.waiting_ops.iter().skip(known as usize).cloned();
        let mut changes = Acknowledgement {
            ops: ops.map(Into::into).collect(),
            ..Acknowledgement::default()
        };
        self.newest_op = attempt.newest_op();
        for (name, call) in attempt.last_calls(name) {
            let standing = Standing::of(call);
            if self.calls.insert(name.index, standing) == Some(standing) {
                continue;
            }
            let at: CallRef = name.into();
            match standing {
                Standing::Open => {
                    let ToolCall {
                        name, arguments, ..
                    } = &call.call;
                    let permitted = permit(at, name, arguments, call.effect.into());
                    changes.permitted_calls.push(permitted);
                }
                Standing::Held => changes.held_calls.push(at),
                Standing::Ended => changes.results.extend(result_of(at, call)),
            }
        }
        changes
    }
}

fn result_of(at: CallRef, call: &Call) -> Option<CallResult> {
    let CallStatus::Finished {
        output,
        is_error,
        reason,
    } = &call.status
    else {
        return None;
    };
    Some(CallResult {
        call: Some(at),
        output: output.clone(),
        is_error: *is_error,
        reason: reason.clone(),
        media: call.media.iter().map(shown).collect(),
        ..CallResult::default()
    })
}

fn shown(media: &Media) -> CallMedia {
    CallMedia {
        mime_type: media.mime.clone(),
        data: media.data.clone(),
        is_shown: true,
        ..CallMedia::default()
    }
}
