//! The mode of a session.

use super::error::ConvertError;
use super::wire::{OnWire, known, record};
use crate::event as proto;
use cairn_engine::command::{ModeSet, SetMode};
use cairn_engine::session::Mode;

record! { ModeSet => proto::ModeSet { mode } }
record! { SetMode => proto::SetMode { mode } }

impl From<Mode> for proto::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Ask => Self::Ask,
            Mode::Plan => Self::Plan,
            Mode::AcceptEdits => Self::AcceptEdits,
        }
    }
}

impl TryFrom<proto::Mode> for Mode {
    type Error = ConvertError;

    fn try_from(mode: proto::Mode) -> Result<Self, ConvertError> {
        match mode {
            proto::Mode::Ask => Ok(Self::Ask),
            proto::Mode::Plan => Ok(Self::Plan),
            proto::Mode::AcceptEdits => Ok(Self::AcceptEdits),
            proto::Mode::Unspecified => Err(ConvertError::missing("mode")),
        }
    }
}

/// A mode from a newer version is refused: read as another, it would allow too much, or too little.
impl OnWire<i32> for Mode {
    fn to_wire(self) -> i32 {
        proto::Mode::from(self).into()
    }

    fn from_wire(wire: i32, field: &str) -> Result<Self, ConvertError> {
        Ok(match known(wire, field)? {
            proto::Mode::Ask => Self::Ask,
            proto::Mode::Plan => Self::Plan,
            proto::Mode::AcceptEdits => Self::AcceptEdits,
            proto::Mode::Unspecified => return Err(ConvertError::missing(field)),
        })
    }
}
