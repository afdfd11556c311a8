//! What an executor reports.

use super::error::ConvertError;
use super::wire::{OnWire, record};
use crate::executor as proto;
use cairn_engine::decide::{Reply, Retry};

record! { Retry => proto::RetryReport { tool_turn, attempt, failure } }

impl From<Reply> for proto::Reply {
    fn from(reply: Reply) -> Self {
        Self {
            tool_turn: reply.tool_turn,
            text: reply.text,
            tool_calls: reply.calls.to_wire(),
            opaque: reply.opaque.to_wire(),
            finish: reply.finish.to_wire(),
            usage: reply.usage.to_wire(),
            provider: reply.provider,
            model: reply.model,
            duration_ms: reply.duration_ms,
            ops_through: reply.ops_through,
            estimated_tokens: reply.estimated_tokens,
            window_tokens: reply.window_tokens,
        }
    }
}

impl TryFrom<proto::Reply> for Reply {
    type Error = ConvertError;

    fn try_from(reply: proto::Reply) -> Result<Self, ConvertError> {
        Ok(Self {
            tool_turn: reply.tool_turn,
            text: reply.text,
            calls: OnWire::from_wire(reply.tool_calls, "tool_calls")?,
            opaque: OnWire::from_wire(reply.opaque, "opaque")?,
            finish: OnWire::from_wire(reply.finish, "finish")?,
            usage: OnWire::from_wire(reply.usage, "usage")?,
            provider: reply.provider,
            model: reply.model,
            duration_ms: reply.duration_ms,
            ops_through: reply.ops_through,
            estimated_tokens: reply.estimated_tokens,
            window_tokens: reply.window_tokens,
        })
    }
}
