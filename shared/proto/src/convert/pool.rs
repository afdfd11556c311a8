//! What the pool lacks.

use super::error::ConvertError;
use super::wire::{OnWire, known, plain_record};
use crate::event as proto;
use cairn_engine::event::ShortageKind;
use cairn_engine::pool::Missing;

plain_record! {
    Missing => proto::MissingCapability { capability, level, available, total, tools }
}

impl From<ShortageKind> for proto::ShortageKind {
    fn from(kind: ShortageKind) -> Self {
        match kind {
            ShortageKind::Busy => Self::Busy,
            ShortageKind::None => Self::None,
        }
    }
}

impl OnWire<i32> for ShortageKind {
    fn to_wire(self) -> i32 {
        proto::ShortageKind::from(self).into()
    }

    fn from_wire(wire: i32, field: &str) -> Result<Self, ConvertError> {
        Ok(match known(wire, field)? {
            proto::ShortageKind::Busy => Self::Busy,
            proto::ShortageKind::None => Self::None,
            proto::ShortageKind::Unspecified => return Err(ConvertError::missing(field)),
        })
    }
}
