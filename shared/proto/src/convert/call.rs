//! What calls of tools carry, and what people approve.

use super::error::{ConvertError, required};
use super::wire::{OnWire, plain_record, record};
use crate::event as proto;
use crate::executor as wire;
use cairn_engine::command::{ApprovalRevoked, RevokeApproval};
use cairn_engine::decide::Unfinished;
use cairn_engine::event::{
    ApprovalGranted, CallFinished, CallMedia, CallRejudged, InputRequested, ToolInput,
    ToolQuestion, ToolsFound,
};
use cairn_engine::rules::Condition;

record! { CallRejudged => proto::CallRejudged { call, tool_digest, resolved, effect } }
record! { InputRequested => proto::InputRequested { call, question } }
record! { ToolsFound => proto::ToolsFound { attempt, tools } }
record! { ApprovalGranted => proto::ApprovalGranted { grant, tool, tool_digest, when, agent } }
record! { ApprovalRevoked => proto::ApprovalRevoked { grant } }
plain_record! { RevokeApproval => proto::RevokeApproval { grant } }
plain_record! { Condition => proto::Condition { name, pattern } }
plain_record! { CallMedia => proto::CallMedia { mime_type, name, data } }

impl From<ToolQuestion> for proto::ToolQuestion {
    fn from(question: ToolQuestion) -> Self {
        Self {
            requests_json: question.requests,
            request_state: question.state,
            text: question.text,
            choices: question.choices,
        }
    }
}

impl From<proto::ToolQuestion> for ToolQuestion {
    fn from(question: proto::ToolQuestion) -> Self {
        Self {
            text: question.text,
            choices: question.choices,
            requests: question.requests_json,
            state: question.request_state,
        }
    }
}

impl From<ToolInput> for proto::ToolInput {
    fn from(input: ToolInput) -> Self {
        Self {
            responses_json: input.responses,
            request_state: input.state,
        }
    }
}

/// What an executor reports of one call.
#[derive(Debug, Clone, PartialEq)]
pub enum Reported {
    /// It has ended.
    Finished(CallFinished),
    /// It has not.
    Unfinished(Unfinished),
}

impl TryFrom<wire::CallResult> for Reported {
    type Error = ConvertError;

    fn try_from(result: wire::CallResult) -> Result<Self, ConvertError> {
        let call = required("call", result.call)?;
        if let Some(question) = result.question {
            let question = question.into();
            return Ok(Self::Unfinished(Unfinished::Asks(InputRequested {
                call,
                question,
            })));
        }
        // The owner judges it by the tool that its own catalogue has.
        if result.tool_digest.is_some() {
            let resolved = result.resolved.into_iter().map(Into::into).collect();
            return Ok(Self::Unfinished(Unfinished::Rejudge { call, resolved }));
        }
        Ok(Self::Finished(CallFinished {
            call,
            output: result.output,
            is_error: result.is_error,
            reason: result.reason,
            duration_ms: result.duration_ms,
            media: result.media.into_iter().map(Into::into).collect(),
        }))
    }
}
