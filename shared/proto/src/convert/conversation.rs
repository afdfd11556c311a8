//! What a model is sent of one conversation, and its changes.

use super::error::{ConvertError, required};
use super::wire::{OnWire, known, plain_record};
use crate::event::{self as proto, context_changed::Conversation as Whose};
use cairn_engine::conversation::{
    Conversation, ConversationRef, Entry, KnownLayer, Layer, LayerKind, Measured, MemoryMark, Op,
    Reminded, Reminder,
};
use cairn_engine::event::{AttemptRef, ContextChanged, MemoryWriter, NotesFrame};
use std::sync::Arc;

plain_record! { MemoryMark => proto::MemoryMark { owner, clients } }
plain_record! { Measured => proto::Measured { tokens, estimate, through, model } }
plain_record! { NotesFrame => proto::NotesFrame { before, after } }

impl From<Entry> for proto::NumberedMessage {
    fn from(entry: Entry) -> Self {
        Self {
            number: entry.number,
            message: Arc::unwrap_or_clone(entry.message).to_wire(),
            compaction: entry.compaction.to_wire(),
        }
    }
}

impl TryFrom<proto::NumberedMessage> for Entry {
    type Error = ConvertError;

    fn try_from(numbered: proto::NumberedMessage) -> Result<Self, ConvertError> {
        Ok(Self {
            number: numbered.number,
            message: Arc::new(required("message", numbered.message)?),
            compaction: OnWire::from_wire(numbered.compaction, "compaction")?,
        })
    }
}

/// An executor need not know which messages are reminders. It is sent only what the window has.
impl From<Conversation> for proto::Conversation {
    fn from(conversation: Conversation) -> Self {
        Self {
            system: conversation.system.to_wire(),
            immutable: conversation.immutable.to_wire(),
            compressed: conversation.compressed.to_wire(),
            incremental: conversation.incremental.to_wire(),
            behind: conversation.behind.to_wire(),
            scratch: conversation.scratch,
            last_number: conversation.last_number,
            measured: conversation.measured.map(Into::into),
        }
    }
}

impl TryFrom<proto::Conversation> for Conversation {
    type Error = ConvertError;

    fn try_from(conversation: proto::Conversation) -> Result<Self, ConvertError> {
        Ok(Self {
            system: OnWire::from_wire(conversation.system, "system")?,
            immutable: OnWire::from_wire(conversation.immutable, "immutable")?,
            compressed: OnWire::from_wire(conversation.compressed, "compressed")?,
            incremental: OnWire::from_wire(conversation.incremental, "incremental")?,
            behind: OnWire::from_wire(conversation.behind, "behind")?,
            scratch: conversation.scratch,
            last_number: conversation.last_number,
            measured: conversation.measured.map(Into::into),
            ..Self::default()
        })
    }
}

/// The number of a text follows from the journal.
impl From<Layer> for proto::Layer {
    fn from(layer: Layer) -> Self {
        Self {
            kind: layer.kind.to_wire(),
            text: layer.text.to_string(),
            through: mark(layer.through),
            names: layer.names,
            allotted: layer.allotted,
        }
    }
}

impl TryFrom<proto::Layer> for Layer {
    type Error = ConvertError;

    fn try_from(layer: proto::Layer) -> Result<Self, ConvertError> {
        Ok(Self {
            kind: OnWire::from_wire(layer.kind, "kind")?,
            text: layer.text.into(),
            number: 0,
            through: layer.through.map(Into::into).unwrap_or_default(),
            names: layer.names,
            allotted: layer.allotted,
        })
    }
}

impl From<KnownLayer> for proto::KnownLayer {
    fn from(layer: KnownLayer) -> Self {
        Self {
            kind: layer.kind.to_wire(),
            number: layer.number,
            through: mark(layer.through),
            names: layer.names,
        }
    }
}

impl TryFrom<proto::KnownLayer> for KnownLayer {
    type Error = ConvertError;

    fn try_from(layer: proto::KnownLayer) -> Result<Self, ConvertError> {
        Ok(Self {
            kind: OnWire::from_wire(layer.kind, "kind")?,
            number: layer.number,
            through: layer.through.map(Into::into).unwrap_or_default(),
            names: layer.names,
        })
    }
}

/// No changes are not written.
fn mark(mark: MemoryMark) -> Option<proto::MemoryMark> {
    (mark != MemoryMark::default()).then(|| mark.into())
}

impl From<Reminder> for proto::Reminder {
    fn from(reminder: Reminder) -> Self {
        let (kind, text) = (reminder.of.kind().to_wire(), reminder.text);
        match reminder.of {
            Reminded::Layer { digest, .. } => Self {
                kind,
                text,
                digest,
                ..Self::default()
            },
            Reminded::Memory { since, through } => Self {
                kind,
                text,
                since: since.map(Into::into),
                through: mark(through),
                ..Self::default()
            },
        }
    }
}

impl TryFrom<proto::Reminder> for Reminder {
    type Error = ConvertError;

    fn try_from(reminder: proto::Reminder) -> Result<Self, ConvertError> {
        let kind: LayerKind = OnWire::from_wire(reminder.kind, "kind")?;
        let of = match kind {
            LayerKind::Memory => Reminded::Memory {
                since: reminder.since.map(Into::into),
                through: reminder.through.map(Into::into).unwrap_or_default(),
            },
            _ => Reminded::Layer {
                kind,
                digest: reminder.digest,
            },
        };
        let text = reminder.text;
        Ok(Self { text, of })
    }
}

/// A client has none.
impl OnWire<Option<proto::MemoryWriter>> for Option<MemoryWriter> {
    fn to_wire(self) -> Option<proto::MemoryWriter> {
        self.map(|writer| proto::MemoryWriter {
            attempt: match writer {
                MemoryWriter::Attempt(attempt) => Some(attempt.into()),
                MemoryWriter::Command => None,
            },
        })
    }

    fn from_wire(wire: Option<proto::MemoryWriter>, _field: &str) -> Result<Self, ConvertError> {
        Ok(
            wire.map(|writer| match writer.attempt.map(AttemptRef::from) {
                Some(attempt) => MemoryWriter::Attempt(attempt),
                None => MemoryWriter::Command,
            }),
        )
    }
}

/// Notes of a step have none.
impl OnWire<Option<proto::NotesFrame>> for Option<NotesFrame> {
    fn to_wire(self) -> Option<proto::NotesFrame> {
        self.map(Into::into)
    }

    fn from_wire(wire: Option<proto::NotesFrame>, _field: &str) -> Result<Self, ConvertError> {
        Ok(wire.map(Into::into))
    }
}

impl OnWire<i32> for LayerKind {
    fn to_wire(self) -> i32 {
        use proto::LayerKind as Wire;
        let wire = match self {
            Self::Prompt => Wire::Prompt,
            Self::Agent => Wire::Agent,
            Self::Context => Wire::Context,
            Self::Environment => Wire::Environment,
            Self::Capabilities => Wire::Capabilities,
            Self::Pool => Wire::Pool,
            Self::Memory => Wire::Memory,
            Self::Instructions => Wire::Instructions,
            Self::Mode => Wire::Mode,
        };
        wire.into()
    }

    fn from_wire(wire: i32, field: &str) -> Result<Self, ConvertError> {
        use proto::LayerKind as Wire;
        Ok(match known(wire, field)? {
            Wire::Prompt => Self::Prompt,
            Wire::Agent => Self::Agent,
            Wire::Context => Self::Context,
            Wire::Environment => Self::Environment,
            Wire::Capabilities => Self::Capabilities,
            Wire::Pool => Self::Pool,
            Wire::Memory => Self::Memory,
            Wire::Instructions => Self::Instructions,
            Wire::Mode => Self::Mode,
            Wire::Unspecified => return Err(ConvertError::missing(field)),
        })
    }
}

impl From<ContextChanged> for proto::ContextChanged {
    fn from(changed: ContextChanged) -> Self {
        let conversation = match changed.conversation {
            ConversationRef::Attempt(attempt) => Whose::Attempt(attempt.into()),
            ConversationRef::Context(name) => Whose::Context(name),
        };
        Self {
            conversation: Some(conversation),
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
        let conversation = match changed.conversation {
            Some(Whose::Attempt(attempt)) => {
                ConversationRef::Attempt(required("attempt", Some(attempt))?)
            }
            Some(Whose::Context(name)) => ConversationRef::Context(name),
            None => return Err(ConvertError::no_choice("conversation")),
        };
        let popped = changed.popped.map(|it| required("popped", Some(it)));
        Ok(Self {
            conversation,
            version: changed.version,
            popped: popped.transpose()?,
            is_steering: changed.is_steering,
            ops: OnWire::from_wire(changed.ops, "ops")?,
        })
    }
}

impl From<Op> for proto::Op {
    fn from(op: Op) -> Self {
        use proto::op::Op as Wire;
        let op = match op {
            Op::Append(message) => Wire::Append(message.into()),
            Op::Update { number, message } => Wire::Update(proto::NumberedMessage {
                number,
                message: message.to_wire(),
                ..Default::default()
            }),
            Op::Insert { before, message } => Wire::Insert(proto::InsertedMessage {
                before: before.unwrap_or_default(),
                message: message.to_wire(),
            }),
            Op::Remove { number } => Wire::Remove(proto::MessageNumber { number }),
            Op::Pop => Wire::Pop(proto::LastMessage {}),
            Op::Retain(role) => Wire::Retain(proto::RoleOnly {
                role: role.to_wire(),
            }),
            Op::Clear => Wire::Clear(proto::AllMessages {}),
            Op::SetLayer(layer) => Wire::SetLayer(layer.into()),
            Op::UseLayer(layer) => Wire::UseLayer(layer.into()),
            Op::Remind(reminder) => Wire::Remind(reminder.into()),
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
        let op = op.op.ok_or_else(|| ConvertError::no_choice("op"))?;
        Ok(match op {
            Wire::Append(message) => Self::Append(required("append", Some(message))?),
            Wire::Update(numbered) => Self::Update {
                number: numbered.number,
                message: required("update.message", numbered.message)?,
            },
            Wire::Insert(inserted) => Self::Insert {
                before: Some(inserted.before).filter(|number| *number > 0),
                message: required("insert.message", inserted.message)?,
            },
            Wire::Remove(named) => Self::Remove {
                number: named.number,
            },
            Wire::Pop(_) => Self::Pop,
            Wire::Retain(only) => Self::Retain(OnWire::from_wire(only.role, "retain.role")?),
            Wire::Clear(_) => Self::Clear,
            Wire::SetLayer(layer) => Self::SetLayer(required("set_layer", Some(layer))?),
            Wire::UseLayer(layer) => Self::UseLayer(required("use_layer", Some(layer))?),
            Wire::Remind(reminder) => Self::Remind(required("remind", Some(reminder))?),
            Wire::Notice(text) => Self::Notice(text),
            Wire::SetWindow(change) => Self::SetWindow(change.window.map(|window| window.messages)),
        })
    }
}
