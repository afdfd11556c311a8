//! What came of a call, on the wire.

use super::list::millis;
use crate::error::ToolError;
use crate::invoke::Outcome;
use crate::progress::ProgressStep;
use crate::text;
use crate::tool::{FileState, InputRequired, Media, Output, Preview};
use cairn_engine::limits::{LARGEST_UNDIVIDED_RESULT, MAX_RESULT, MAX_RESULT_PART};
use cairn_proto::event;
use cairn_proto::tools as proto;
use cairn_proto::tools::invoke_tool_response::Message;
use cairn_proto::tools::preview_tool_response::Outcome as Outcomes;
use cairn_rpc::RpcError;
use cairn_views::elicitation;
use tonic::Status;

pub(super) fn progress(step: ProgressStep) -> proto::ToolProgress {
    proto::ToolProgress {
        progress: step.progress,
        total: step.total,
        message: step.message,
    }
}

/// A call whose outcome nobody knows has no result: the error says so to its owner.
pub(super) fn answer(outcome: Outcome) -> Result<proto::ToolResult, Status> {
    let duration_ms = millis(outcome.elapsed);
    let result = match outcome.result {
        Ok(output) => done(output),
        Err(ToolError::Unknown(message)) => {
            return Err(RpcError::unavailable(message).reason("CALL_LOST").into());
        }
        Err(ToolError::InputRequired(asked)) => proto::ToolResult {
            question: Some(question(asked)),
            ..Default::default()
        },
        Err(error) => failed(error),
    };
    Ok(proto::ToolResult {
        duration_ms,
        ..result
    })
}

/// A result, whose text goes before it in parts if it is long.
pub(super) struct Divided {
    /// The text that goes in parts; empty if the result has it.
    text: String,
    /// Bytes of it that were sent.
    sent: usize,
    /// None once it was sent.
    result: Option<proto::ToolResult>,
}

impl Divided {
    pub(super) fn of(mut result: proto::ToolResult) -> Self {
        let text = match result.output.len() > LARGEST_UNDIVIDED_RESULT {
            true => {
                result.is_cut |= result.output.len() > MAX_RESULT;
                text::cut(std::mem::take(&mut result.output), MAX_RESULT)
            }
            false => String::new(),
        };
        Self {
            text,
            sent: 0,
            result: Some(result),
        }
    }

    /// The next message; none after the result. A part ends between two characters.
    pub(super) fn next_message(&mut self) -> Option<Message> {
        let rest = &self.text[self.sent..];
        if rest.is_empty() {
            return self.result.take().map(Message::Result);
        }
        let part = &rest[..rest.floor_char_boundary(MAX_RESULT_PART)];
        self.sent += part.len();
        Some(Message::Part(part.to_owned()))
    }
}

fn question(asked: InputRequired) -> event::ToolQuestion {
    let (text, choices) = elicitation::question(&asked.requests);
    event::ToolQuestion {
        requests_json: asked.requests,
        request_state: asked.state,
        text,
        choices,
    }
}

fn done(output: Output) -> proto::ToolResult {
    proto::ToolResult {
        output: output.text,
        is_cut: output.is_cut,
        media: output.media.into_iter().map(media).collect(),
        file: output.file.map(file),
        ..Default::default()
    }
}

/// What a write would change, or the result that its call would end with.
pub(super) fn previewed(result: Result<Preview, ToolError>) -> proto::PreviewToolResponse {
    let outcome = match result {
        Ok(preview) => Outcomes::Preview(proto::Preview {
            path: preview.path,
            before_digest: preview.digests.before,
            after_digest: preview.digests.after,
            diff: preview.diff,
            added: preview.added,
            removed: preview.removed,
            is_protected: preview.is_protected,
        }),
        Err(error) => Outcomes::Result(failed(error)),
    };
    proto::PreviewToolResponse {
        outcome: Some(outcome),
    }
}

fn file(file: FileState) -> event::FileState {
    event::FileState {
        path: file.path,
        digest: file.digest,
    }
}

fn failed(error: ToolError) -> proto::ToolResult {
    proto::ToolResult {
        output: error.to_text(),
        is_error: true,
        reason: error.reason().to_owned(),
        unsent: match error {
            ToolError::Rejudge(rejudge) => Some(proto::Unsent {
                tool_digest: rejudge.tool_digest,
                resolved: rejudge.resolved.into_iter().map(Into::into).collect(),
                file: rejudge.file.map(file),
            }),
            _ => None,
        },
        ..Default::default()
    }
}

fn media(media: Media) -> event::CallMedia {
    event::CallMedia {
        mime_type: media.mime_type,
        name: media.name,
        data: media.data,
        is_shown: false,
    }
}
