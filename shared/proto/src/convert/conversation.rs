//! What a model is sent of one conversation, and its changes.

use super::error::{ConvertError, required};
use super::wire::{OnWire, known, record};
use crate::event::{self as proto, context_changed::Conversation as Whose};
use cairn_engine::conversation::{Conversation, ConversationRef, Layer, LayerKind, Op};
use cairn_engine::event::ContextChanged;

record! {
    Conversation => proto::Conversation { system, changed, immutable, compressed, incremental, scratch }
}
record! { Layer => proto::Layer { kind, text } }

impl OnWire<i32> for LayerKind {
    fn to_wire(self) -> i32 {
        use proto::LayerKind as Wire;
        let wire = match self {
            Self::Prompt => Wire::Prompt,
            Self::Environment => Wire::Environment,
            Self::Memory => Wire::Memory,
            Self::Agent => Wire::Agent,
        };
        wire.into()
    }

    fn from_wire(wire: i32, field: &str) -> Result<Self, ConvertError> {
        use proto::LayerKind as Wire;
        Ok(match known(wire, field)? {
            Wire::Prompt => Self::Prompt,
            Wire::Environment => Self::Environment,
            Wire::Memory => Self::Memory,
            Wire::Agent => Self::Agent,
            Wire::Unspecified => return Err(ConvertError::missing(field)),
        })
    }
}

impl From<ContextChanged> for proto::ContextChanged {
    fn from(changed: ContextChanged) -> Self {
        let same_layers = changed.same_layers.into_iter();
        let conversation = match changed.conversation {
            ConversationRef::Attempt(attempt) => Whose::Attempt(attempt.into()),
            ConversationRef::Context(name) => Whose::Context(name),
        };
        Self {
            conversation: Some(conversation),
            same_layers: same_layers.map(OnWire::to_wire).collect(),
            ops: changed.ops.to_wire(),
            version: changed.version,
            popped: changed.popped.map(Into::into),
            is_steering: changed.is_steering,
        }
    }
}

impl TryFrom<proto::ContextChanged> for ContextChanged {
    type Error = ConvertError;

    fn try_from(changed: proto::ContextChanged) -> Result<Self, ConvertError> {
        let same_layers = changed.same_layers.into_iter();
        let same_layers = same_layers.map(|kind| OnWire::from_wire(kind, "same_layers"));
        let conversation = match changed.conversation {
            Some(Whose::Attempt(attempt)) => {
                ConversationRef::Attempt(required("attempt", Some(attempt))?)
            }
            Some(Whose::Context(name)) => ConversationRef::Context(name),
            None => return Err(ConvertError::missing("conversation")),
        };
        let popped = changed.popped.map(|it| required("popped", Some(it)));
        Ok(Self {
            conversation,
            version: changed.version,
            popped: popped.transpose()?,
            is_steering: changed.is_steering,
            same_layers: same_layers.collect::<Result<_, _>>()?,
            ops: OnWire::from_wire(changed.ops, "ops")?,
        })
    }
}

impl From<Op> for proto::Op {
    fn from(op: Op) -> Self {
        use proto::op::Op as Wire;
        let placed = |index, message| proto::PlacedMessage {
            index,
            message: OnWire::to_wire(message),
        };
        let op = match op {
            Op::Append(message) => Wire::Append(message.into()),
            Op::Update { index, message } => Wire::Update(placed(index, message)),
            Op::Insert { index, message } => Wire::Insert(placed(index, message)),
            Op::Remove { index } => Wire::Remove(proto::MessageIndex { index }),
            Op::Pop => Wire::Pop(proto::LastMessage {}),
            Op::Retain(role) => Wire::Retain(proto::RoleOnly {
                role: role.to_wire(),
            }),
            Op::Clear => Wire::Clear(proto::AllMessages {}),
            Op::Compact { messages, summary } => Wire::Compact(proto::Compaction {
                messages,
                summary: summary.to_wire(),
            }),
            Op::SetLayer(layer) => Wire::SetLayer(layer.into()),
            Op::Remind(layer) => Wire::Remind(layer.into()),
            Op::Notice(text) => Wire::Notice(text),
            Op::SetWindow(messages) => Wire::SetWindow(proto::WindowChange {
                window: messages.map(|messages| proto::Window { messages }),
            }),
        };
        Self { op: Some(op) }
    }
}

impl TryFrom<proto::Op> for Op {
    type Error = ConvertError;

    fn try_from(op: proto::Op) -> Result<Self, ConvertError> {
        use proto::op::Op as Wire;
        let unknown = || ConvertError::unknown("op", "is missing or newer than this version");
        let op = op.op.ok_or_else(unknown)?;
        Ok(match op {
            Wire::Append(message) => Self::Append(required("append", Some(message))?),
            Wire::Update(placed) => Self::Update {
                index: placed.index,
                message: required("update.message", placed.message)?,
            },
            Wire::Insert(placed) => Self::Insert {
                index: placed.index,
                message: required("insert.message", placed.message)?,
            },
            Wire::Remove(named) => Self::Remove { index: named.index },
            Wire::Pop(_) => Self::Pop,
            Wire::Retain(only) => Self::Retain(OnWire::from_wire(only.role, "retain.role")?),
            Wire::Clear(_) => Self::Clear,
            Wire::Compact(compaction) => Self::Compact {
                messages: compaction.messages,
                summary: required("compact.summary", compaction.summary)?,
            },
            Wire::SetLayer(layer) => Self::SetLayer(required("set_layer", Some(layer))?),
            Wire::Remind(layer) => Self::Remind(required("remind", Some(layer))?),
            Wire::Notice(text) => Self::Notice(text),
            Wire::SetWindow(change) => Self::SetWindow(change.window.map(|window| window.messages)),
        })
    }
}
