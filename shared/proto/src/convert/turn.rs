//! Turns, contexts, and the commands about them.

use super::error::{ConvertError, repeated, required};
use super::wire::{OnWire, known, plain_record, record};
use crate::event as proto;
use cairn_engine::command::{
    BridgeContext, CancelTurn, ChangeContext, CompactContext, ContextCreated, ContextDestroyed,
    ContextOp, ContextSwitched, CreateContext, DestroyContext, Keep, QueuedTurnDropped,
    ResponseFormat, SendMessage, SubmitTurn, SwitchContext, TurnOptions, TurnQueued, WhenBusy,
    WhenFull,
};
use cairn_engine::event::StartedTurn;

plain_record! { CancelTurn => proto::CancelTurn { number, reason } }
plain_record! { SwitchContext => proto::SwitchContext { context } }
plain_record! { StartedTurn => proto::StartedTurn { context, queued, turn_index } }
plain_record! {
    CompactContext => proto::CompactContext {
        context, expected_version, keep, prompt, keep_in_mind, model, trace_parent
    }
}
record! { ContextCreated => proto::ContextCreated { context, agent } }
record! { ContextSwitched => proto::ContextSwitched { context } }
record! { ContextDestroyed => proto::ContextDestroyed { context } }
record! { TurnQueued => proto::TurnQueued { number } }
record! { QueuedTurnDropped => proto::QueuedTurnDropped { number, reason, failure } }

impl From<ChangeContext> for proto::ChangeContext {
    fn from(change: ChangeContext) -> Self {
        Self {
            context: change.context,
            expected_version: change.expected_version,
            ops: change.ops.to_wire(),
        }
    }
}

impl TryFrom<proto::ChangeContext> for ChangeContext {
    type Error = ConvertError;

    fn try_from(change: proto::ChangeContext) -> Result<Self, ConvertError> {
        Ok(Self {
            context: change.context,
            expected_version: change.expected_version,
            ops: repeated("ops", change.ops)?,
        })
    }
}

impl From<ContextOp> for proto::ContextOp {
    fn from(op: ContextOp) -> Self {
        use proto::context_op::Op as Wire;
        let placed = |index, message| proto::PlacedMessage {
            index,
            message: OnWire::to_wire(message),
        };
        let op = match op {
            ContextOp::Append(message) => Wire::Append(message.into()),
            ContextOp::Update { index, message } => Wire::Update(placed(index, message)),
            ContextOp::Insert { index, message } => Wire::Insert(placed(index, message)),
            ContextOp::Remove { index } => Wire::Remove(proto::MessageIndex { index }),
            ContextOp::Pop => Wire::Pop(proto::LastMessage {}),
            ContextOp::Retain(role) => Wire::Retain(proto::RoleOnly {
                role: role.to_wire(),
            }),
            ContextOp::Clear => Wire::Clear(proto::AllMessages {}),
            ContextOp::SetWindow(messages) => Wire::SetWindow(proto::WindowChange {
                window: messages.map(|messages| proto::Window { messages }),
            }),
            ContextOp::SetWhenFull(when_full) => Wire::SetWhenFull(proto::WhenFullChange {
                when_full: when_full.to_wire(),
            }),
        };
        Self { op: Some(op) }
    }
}

impl TryFrom<proto::ContextOp> for ContextOp {
    type Error = ConvertError;

    fn try_from(op: proto::ContextOp) -> Result<Self, ConvertError> {
        use proto::context_op::Op as Wire;
        let op = op.op.ok_or_else(|| ConvertError::no_choice("op"))?;
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
            Wire::SetWindow(change) => Self::SetWindow(change.window.map(|window| window.messages)),
            Wire::SetWhenFull(change) => {
                let when_full = OnWire::from_wire(change.when_full, "set_when_full.when_full")?;
                Self::SetWhenFull(when_full)
            }
        })
    }
}

/// A run with a plan has none.
impl OnWire<Option<proto::StartedTurn>> for Option<StartedTurn> {
    fn to_wire(self) -> Option<proto::StartedTurn> {
        self.map(Into::into)
    }

    fn from_wire(wire: Option<proto::StartedTurn>, _field: &str) -> Result<Self, ConvertError> {
        Ok(wire.map(Into::into))
    }
}

impl OnWire<i32> for WhenBusy {
    fn to_wire(self) -> i32 {
        let wire = match self {
            Self::Refuse => proto::WhenBusy::Refuse,
            Self::Queue => proto::WhenBusy::Queue,
            Self::Interrupt => proto::WhenBusy::Interrupt,
        };
        wire.into()
    }

    fn from_wire(wire: i32, field: &str) -> Result<Self, ConvertError> {
        Ok(match known(wire, field)? {
            proto::WhenBusy::Unspecified | proto::WhenBusy::Refuse => Self::Refuse,
            proto::WhenBusy::Queue => Self::Queue,
            proto::WhenBusy::Interrupt => Self::Interrupt,
        })
    }
}

/// None is what counts without it: for a turn the setting of its context, for a context the default.
impl From<Option<WhenFull>> for proto::WhenFull {
    fn from(when_full: Option<WhenFull>) -> Self {
        match when_full {
            None => Self::Unspecified,
            Some(WhenFull::Refuse) => Self::Refuse,
            Some(WhenFull::Compact) => Self::Compact,
        }
    }
}

impl OnWire<i32> for Option<WhenFull> {
    fn to_wire(self) -> i32 {
        proto::WhenFull::from(self).into()
    }

    fn from_wire(wire: i32, field: &str) -> Result<Self, ConvertError> {
        Ok(match known(wire, field)? {
            proto::WhenFull::Unspecified => None,
            proto::WhenFull::Refuse => Some(WhenFull::Refuse),
            proto::WhenFull::Compact => Some(WhenFull::Compact),
        })
    }
}

/// None keeps nothing.
impl OnWire<i32> for Option<Keep> {
    fn to_wire(self) -> i32 {
        let wire = match self {
            None => proto::Keep::Unspecified,
            Some(Keep::Nothing) => proto::Keep::Nothing,
            Some(Keep::Complete) => proto::Keep::Complete,
        };
        wire.into()
    }

    fn from_wire(wire: i32, field: &str) -> Result<Self, ConvertError> {
        Ok(match known(wire, field)? {
            proto::Keep::Unspecified => None,
            proto::Keep::Nothing => Some(Keep::Nothing),
            proto::Keep::Complete => Some(Keep::Complete),
        })
    }
}

impl From<SubmitTurn> for proto::SubmitTurn {
    fn from(turn: SubmitTurn) -> Self {
        Self {
            context: turn.context,
            message: turn.message.map(Into::into),
            model: turn.model,
            options: Some(turn.options.into()),
            when_busy: turn.when_busy.to_wire(),
            trace_parent: turn.trace_parent,
            answers_questions: turn.answers_questions,
        }
    }
}

impl TryFrom<proto::SubmitTurn> for SubmitTurn {
    type Error = ConvertError;

    fn try_from(turn: proto::SubmitTurn) -> Result<Self, ConvertError> {
        let message = turn.message.map(|it| required("message", Some(it)));
        Ok(Self {
            context: turn.context,
            message: message.transpose()?,
            model: turn.model,
            options: match turn.options {
                None => TurnOptions::default(),
                options => required("options", options)?,
            },
            when_busy: OnWire::from_wire(turn.when_busy, "when_busy")?,
            trace_parent: turn.trace_parent,
            answers_questions: turn.answers_questions,
        })
    }
}

impl From<TurnOptions> for proto::TurnOptions {
    fn from(options: TurnOptions) -> Self {
        Self {
            temperature: options.temperature_milli.map(|milli| milli as f32 / 1000.0),
            max_output_tokens: options.max_output_tokens,
            response_format: options.format.to_wire(),
            tools: options.tools.map(|names| proto::ToolNames { names }),
            max_tool_turns: options.max_tool_turns,
            when_full: options.when_full.to_wire(),
            keep: options.keep.to_wire(),
            at_limit: options.at_limit.to_wire(),
            max_turns: options.max_turns,
        }
    }
}

impl TryFrom<proto::TurnOptions> for TurnOptions {
    type Error = ConvertError;

    fn try_from(options: proto::TurnOptions) -> Result<Self, ConvertError> {
        let milli = |temperature: f32| match temperature {
            0.0..=2.0 => Ok((temperature * 1000.0).round() as u32),
            _ => {
                let problem = format!("is {temperature}; 0 to 2 is allowed");
                Err(ConvertError::new("temperature", problem))
            }
        };
        Ok(Self {
            temperature_milli: options.temperature.map(milli).transpose()?,
            max_output_tokens: options.max_output_tokens,
            format: OnWire::from_wire(options.response_format, "response_format")?,
            tools: options.tools.map(|tools| tools.names),
            max_tool_turns: options.max_tool_turns,
            when_full: OnWire::from_wire(options.when_full, "when_full")?,
            keep: OnWire::from_wire(options.keep, "keep")?,
            at_limit: OnWire::from_wire(options.at_limit, "at_limit")?,
            max_turns: options.max_turns,
        })
    }
}

/// Text is the form of a reply that names none.
impl OnWire<Option<proto::ResponseFormat>> for ResponseFormat {
    fn to_wire(self) -> Option<proto::ResponseFormat> {
        use proto::response_format::Format;
        let format = match self {
            Self::Text => return None,
            Self::JsonObject => Format::JsonObject(proto::JsonObject {}),
            Self::JsonSchema { name, schema } => Format::JsonSchema(proto::JsonSchema {
                name,
                schema_json: schema,
            }),
        };
        Some(proto::ResponseFormat {
            format: Some(format),
        })
    }

    fn from_wire(wire: Option<proto::ResponseFormat>, field: &str) -> Result<Self, ConvertError> {
        use proto::response_format::Format;
        let Some(wire) = wire else {
            return Ok(Self::Text);
        };
        match wire.format {
            Some(Format::JsonObject(_)) => Ok(Self::JsonObject),
            Some(Format::JsonSchema(schema)) => Ok(Self::JsonSchema {
                name: schema.name,
                schema: schema.schema_json,
            }),
            None => Err(ConvertError::no_choice(format!("{field}.format"))),
        }
    }
}

impl From<SendMessage> for proto::SendMessage {
    fn from(sent: SendMessage) -> Self {
        Self {
            step: sent.step.map_or(0, Into::into),
            message: sent.message.to_wire(),
        }
    }
}

impl TryFrom<proto::SendMessage> for SendMessage {
    type Error = ConvertError;

    fn try_from(sent: proto::SendMessage) -> Result<Self, ConvertError> {
        Ok(Self {
            step: Some(sent.step).filter(|step| *step > 0).map(Into::into),
            message: required("message", sent.message)?,
        })
    }
}

impl From<CreateContext> for proto::CreateContext {
    fn from(create: CreateContext) -> Self {
        Self {
            name: create.name,
            system_prompt: create.prompt,
            immutable: create.immutable.to_wire(),
            window: create.window.map(|messages| proto::Window { messages }),
            when_full: create.when_full.to_wire(),
            agent: create.agent,
        }
    }
}

impl TryFrom<proto::CreateContext> for CreateContext {
    type Error = ConvertError;

    fn try_from(create: proto::CreateContext) -> Result<Self, ConvertError> {
        Ok(Self {
            name: create.name,
            prompt: create.system_prompt,
            immutable: repeated("immutable", create.immutable)?,
            window: create.window.map(|window| window.messages),
            when_full: OnWire::from_wire(create.when_full, "when_full")?,
            agent: create.agent,
        })
    }
}

impl From<DestroyContext> for proto::DestroyContext {
    fn from(destroy: DestroyContext) -> Self {
        Self {
            context: destroy.context,
            conclusions: destroy.conclusions.into_iter().collect(),
            ask_model: destroy.ask_model,
        }
    }
}

impl From<proto::DestroyContext> for DestroyContext {
    fn from(destroy: proto::DestroyContext) -> Self {
        Self {
            context: destroy.context,
            conclusions: destroy.conclusions.into_iter().collect(),
            ask_model: destroy.ask_model,
        }
    }
}

impl From<BridgeContext> for proto::BridgeContext {
    fn from(bridge: BridgeContext) -> Self {
        Self {
            from: bridge.from,
            to: bridge.to,
            values: bridge.values.into_iter().collect(),
        }
    }
}

impl From<proto::BridgeContext> for BridgeContext {
    fn from(bridge: proto::BridgeContext) -> Self {
        Self {
            from: bridge.from,
            to: bridge.to,
            values: bridge.values.into_iter().collect(),
        }
    }
}
