//! What calls of tools carry, and what people approve.

use super::error::{ConvertError, required};
use super::wire::{OnWire, plain_record, record};
use crate::event::{self as proto, grant_scope};
use crate::executor as wire;
use crate::tools;
use cairn_engine::command::{ApprovalRevoked, RevokeApproval};
use cairn_engine::decide::Unfinished;
use cairn_engine::event::{
    ApprovalGranted, Blob, CallFinished, CallMedia, CallPreview, CallPreviewed, CallRejudged,
    FileState, InputRequested, ResultHandle, ToolInput, ToolQuestion, ToolsFound,
};
use cairn_engine::rules::{Condition, GrantScope, ToolServer};

record! { CallRejudged => proto::CallRejudged { call, tool_digest, resolved, effect, previews } }
record! { CallPreviewed => proto::CallPreviewed { call, preview } }
plain_record! {
    CallPreview => proto::CallPreview {
        path, before_digest, after_digest, diff, added, removed, is_protected
    }
}
record! { InputRequested => proto::InputRequested { call, question } }
record! { ToolsFound => proto::ToolsFound { attempt, tools } }
record! {
    ApprovalGranted => proto::ApprovalGranted { grant, tool, tool_digest, when, agent, scope }
}
record! { ApprovalRevoked => proto::ApprovalRevoked { grant } }
plain_record! { RevokeApproval => proto::RevokeApproval { grant } }
plain_record! { Condition => proto::Condition { name, pattern } }
plain_record! { CallMedia => proto::CallMedia { mime_type, name, data, is_shown } }
plain_record! { Blob => proto::Blob { digest, size } }
plain_record! { FileState => proto::FileState { path, digest } }

/// As the tools service says it.
impl From<tools::Preview> for CallPreview {
    fn from(preview: tools::Preview) -> Self {
        Self {
            path: preview.path,
            before_digest: preview.before_digest,
            after_digest: preview.after_digest,
            diff: preview.diff,
            added: preview.added,
            removed: preview.removed,
            is_protected: preview.is_protected,
        }
    }
}

/// What only calls of file tools have.
impl OnWire<Option<proto::FileState>> for Option<FileState> {
    fn to_wire(self) -> Option<proto::FileState> {
        self.map(Into::into)
    }

    fn from_wire(wire: Option<proto::FileState>, _field: &str) -> Result<Self, ConvertError> {
        Ok(wire.map(Into::into))
    }
}

impl From<GrantScope> for proto::GrantScope {
    fn from(scope: GrantScope) -> Self {
        use grant_scope::{Folder, Kind, Prefix, Server, Tool};
        let kind = match scope {
            GrantScope::Tool => Kind::Tool(Tool {}),
            GrantScope::Folder { folder } => Kind::Folder(Folder { folder }),
            GrantScope::Prefix { words, folder } => Kind::Prefix(Prefix { words, folder }),
            GrantScope::Server(ToolServer { name, digest }) => {
                Kind::Server(Server { name, digest })
            }
        };
        Self { kind: Some(kind) }
    }
}

impl TryFrom<proto::GrantScope> for GrantScope {
    type Error = ConvertError;

    fn try_from(scope: proto::GrantScope) -> Result<Self, ConvertError> {
        use grant_scope::{Folder, Kind, Prefix, Server};
        match scope.kind {
            Some(Kind::Tool(_)) => Ok(Self::Tool),
            Some(Kind::Folder(Folder { folder })) => Ok(Self::Folder { folder }),
            Some(Kind::Prefix(Prefix { words, folder })) => Ok(Self::Prefix { words, folder }),
            Some(Kind::Server(Server { name, digest })) => {
                Ok(Self::Server(ToolServer { name, digest }))
            }
            None => Err(ConvertError::no_choice("kind")),
        }
    }
}

/// What only some approvals have.
impl OnWire<Option<proto::GrantScope>> for Option<GrantScope> {
    fn to_wire(self) -> Option<proto::GrantScope> {
        self.map(Into::into)
    }

    fn from_wire(wire: Option<proto::GrantScope>, field: &str) -> Result<Self, ConvertError> {
        wire.map(|wire| required(field, Some(wire))).transpose()
    }
}

/// Without the blobs, which are in the envelope of the event.
impl From<ResultHandle> for proto::ResultHandle {
    fn from(whole: ResultHandle) -> Self {
        Self {
            handle: whole.handle,
            bytes: whole.bytes,
            lines: whole.lines,
            lost_bytes: whole.lost_bytes,
            is_cut: whole.is_cut,
        }
    }
}

/// What only long results have.
impl OnWire<Option<proto::ResultHandle>> for Option<Box<ResultHandle>> {
    fn to_wire(self) -> Option<proto::ResultHandle> {
        self.map(|whole| (*whole).into())
    }

    fn from_wire(wire: Option<proto::ResultHandle>, _field: &str) -> Result<Self, ConvertError> {
        let whole = wire.map(|wire| ResultHandle {
            handle: wire.handle,
            bytes: wire.bytes,
            lines: wire.lines,
            lost_bytes: wire.lost_bytes,
            is_cut: wire.is_cut,
            blobs: Vec::new(),
        });
        Ok(whole.map(Box::new))
    }
}

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
            whole: None,
            file: result.file.map(Into::into),
            usage: result.usage.map(Into::into),
            provider: result.provider,
            model: result.model,
            held: false,
        }))
    }
}
