//! What goes to a model and comes back, and failures.

use super::error::ConvertError;
use super::wire::{OnWire, known, plain_record, record};
use crate::event as proto;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::{
    FinishReason, Media, Message, Notice, Opaque, Part, PlacedOpaque, Role, ToolCall, ToolResult,
    Usage,
};

plain_record! {
    Usage => proto::Usage {
        input_tokens, cached_input_tokens, cache_write_tokens, output_tokens, reasoning_tokens,
        cost_nano_usd, unpriced_tokens, model_calls
    }
}
record! { Message => proto::Message { role, parts } }
plain_record! { ToolResult => proto::ToolResult { call_id, text, is_error } }
plain_record! { Media => proto::Media { mime, data } }
plain_record! { Opaque => proto::Opaque { provider, model, kind, json } }
record! { PlacedOpaque => proto::PlacedOpaque { calls, text_bytes, opaque } }

impl proto::Part {
    /// The text that the author of the message wrote. None for another part, and for a text of Cairn.
    pub fn said(&self) -> Option<&str> {
        match &self.part {
            Some(proto::part::Part::Text(text)) if !self.synthetic && !self.workspace => Some(text),
            _ => None,
        }
    }
}

/// A part without marks.
impl From<proto::part::Part> for proto::Part {
    fn from(part: proto::part::Part) -> Self {
        Self {
            part: Some(part),
            ..Self::default()
        }
    }
}

impl From<Part> for proto::Part {
    fn from(part: Part) -> Self {
        use proto::part::Part as Wire;
        let part = match part {
            Part::Text(text) => Wire::Text(text),
            Part::Call(call) => Wire::Call(call.into()),
            Part::Result(result) => Wire::Result(result.into()),
            Part::Media(media) => Wire::Media(media.into()),
            Part::Opaque(opaque) => Wire::Opaque(opaque.into()),
            Part::Notice(notice) => {
                return Self {
                    part: Some(Wire::Text(notice.text)),
                    synthetic: true,
                    workspace: notice.is_of_workspace,
                };
            }
        };
        part.into()
    }
}

impl TryFrom<proto::Part> for Part {
    type Error = ConvertError;

    fn try_from(part: proto::Part) -> Result<Self, ConvertError> {
        use proto::part::Part as Wire;
        let is_of_workspace = part.workspace;
        let is_notice = part.synthetic || is_of_workspace;
        Ok(match part.part {
            Some(Wire::Text(text)) if is_notice => Self::Notice(Notice {
                text,
                is_of_workspace,
            }),
            Some(Wire::Text(text)) => Self::Text(text),
            Some(Wire::Call(call)) => Self::Call(call.into()),
            Some(Wire::Result(result)) => Self::Result(result.into()),
            Some(Wire::Media(media)) => Self::Media(media.into()),
            Some(Wire::Opaque(opaque)) => Self::Opaque(opaque.into()),
            None => return Err(ConvertError::no_choice("part")),
        })
    }
}

impl From<FinishReason> for proto::FinishReason {
    fn from(finish: FinishReason) -> Self {
        match finish {
            FinishReason::Stop => Self::Stop,
            FinishReason::ToolCalls => Self::ToolCalls,
            FinishReason::Length => Self::Length,
            FinishReason::Refusal => Self::Refusal,
            FinishReason::Other => Self::Unspecified,
        }
    }
}

impl OnWire<i32> for FinishReason {
    fn to_wire(self) -> i32 {
        proto::FinishReason::from(self).into()
    }

    fn from_wire(wire: i32, field: &str) -> Result<Self, ConvertError> {
        use proto::FinishReason as Wire;
        Ok(match known(wire, field)? {
            Wire::Stop => Self::Stop,
            Wire::ToolCalls => Self::ToolCalls,
            Wire::Length => Self::Length,
            Wire::Refusal => Self::Refusal,
            Wire::Unspecified => Self::Other,
        })
    }
}

impl From<ToolCall> for proto::ToolCall {
    fn from(call: ToolCall) -> Self {
        Self {
            id: call.id,
            name: call.name,
            arguments_json: call.arguments,
        }
    }
}

impl From<proto::ToolCall> for ToolCall {
    fn from(call: proto::ToolCall) -> Self {
        Self {
            id: call.id,
            name: call.name,
            arguments: call.arguments_json,
        }
    }
}

impl From<Role> for proto::Role {
    fn from(role: Role) -> Self {
        match role {
            Role::System => Self::System,
            Role::User => Self::User,
            Role::Assistant => Self::Assistant,
            Role::Tool => Self::Tool,
        }
    }
}

impl TryFrom<proto::Role> for Role {
    type Error = ConvertError;

    fn try_from(role: proto::Role) -> Result<Self, ConvertError> {
        match role {
            proto::Role::System => Ok(Self::System),
            proto::Role::User => Ok(Self::User),
            proto::Role::Assistant => Ok(Self::Assistant),
            proto::Role::Tool => Ok(Self::Tool),
            proto::Role::Unspecified => Err(ConvertError::missing("role")),
        }
    }
}

impl OnWire<i32> for Role {
    fn to_wire(self) -> i32 {
        proto::Role::from(self).into()
    }

    fn from_wire(wire: i32, field: &str) -> Result<Self, ConvertError> {
        let role = known::<proto::Role>(wire, field)?;
        Self::try_from(role).map_err(|_| ConvertError::missing(field))
    }
}

/// Whether it is recoverable is told to readers of the wire, and not believed from there: kind and
/// reason say it.
impl From<Failure> for proto::Failure {
    fn from(failure: Failure) -> Self {
        Self {
            recoverable: failure.is_recoverable(),
            kind: proto::FailureKind::from(failure.kind).into(),
            reason: failure.reason,
            message: failure.message,
        }
    }
}

impl From<proto::Failure> for Failure {
    fn from(failure: proto::Failure) -> Self {
        Self {
            kind: failure.kind().into(),
            reason: failure.reason,
            message: failure.message,
        }
    }
}

impl From<FailureKind> for proto::FailureKind {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Llm => Self::Llm,
            FailureKind::Tool => Self::Tool,
            FailureKind::Memory => Self::Memory,
            FailureKind::PlanParse => Self::PlanParse,
            FailureKind::HookBlocked => Self::HookBlocked,
            FailureKind::LimitExceeded => Self::LimitExceeded,
            FailureKind::Config => Self::Config,
            FailureKind::Other => Self::Other,
        }
    }
}

impl From<proto::FailureKind> for FailureKind {
    fn from(kind: proto::FailureKind) -> Self {
        match kind {
            proto::FailureKind::Llm => Self::Llm,
            proto::FailureKind::Tool => Self::Tool,
            proto::FailureKind::Memory => Self::Memory,
            proto::FailureKind::PlanParse => Self::PlanParse,
            proto::FailureKind::HookBlocked => Self::HookBlocked,
            proto::FailureKind::LimitExceeded => Self::LimitExceeded,
            proto::FailureKind::Config => Self::Config,
            proto::FailureKind::Unspecified | proto::FailureKind::Other => Self::Other,
        }
    }
}
