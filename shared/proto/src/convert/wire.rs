//! How the engine's types lie in the fields of messages, and the macros that apply it field by
//! field, so that a type and its message are one line and cannot drift apart in one direction.

use super::error::{ConvertError, repeated, required};
use cairn_engine::session::StepNo;
use std::collections::BTreeMap;

/// An engine type that is kept in a field of the generated type `W`.
pub(super) trait OnWire<W>: Sized {
    /// For the field.
    fn to_wire(self) -> W;
    /// From the field, whose name is for errors.
    fn from_wire(wire: W, field: &str) -> Result<Self, ConvertError>;
}

macro_rules! same_on_wire {
    ($($type:ty),*) => {$(
        impl OnWire<$type> for $type {
            fn to_wire(self) -> $type {
                self
            }

            fn from_wire(wire: $type, _field: &str) -> Result<Self, ConvertError> {
                Ok(wire)
            }
        }
    )*};
}

same_on_wire!(String, bool, u32, u64, BTreeMap<String, String>);

impl OnWire<u32> for StepNo {
    fn to_wire(self) -> u32 {
        self.into()
    }

    fn from_wire(wire: u32, _field: &str) -> Result<Self, ConvertError> {
        Ok(wire.into())
    }
}

/// Times. One that the wire cannot hold becomes the latest that it can.
impl OnWire<i64> for u64 {
    fn to_wire(self) -> i64 {
        i64::try_from(self).unwrap_or(i64::MAX)
    }

    fn from_wire(wire: i64, field: &str) -> Result<Self, ConvertError> {
        let negative = |_| ConvertError::new(field, format!("is {wire}; it cannot be negative"));
        Self::try_from(wire).map_err(negative)
    }
}

/// Messages, which have to be there.
impl<E, W> OnWire<Option<W>> for E
where
    W: From<E>,
    E: TryFrom<W>,
    ConvertError: From<E::Error>,
{
    fn to_wire(self) -> Option<W> {
        Some(self.into())
    }

    fn from_wire(wire: Option<W>, field: &str) -> Result<Self, ConvertError> {
        required(field, wire)
    }
}

/// What only some have.
impl OnWire<Option<crate::event::Failure>> for Option<cairn_engine::failure::Failure> {
    fn to_wire(self) -> Option<crate::event::Failure> {
        self.map(Into::into)
    }

    fn from_wire(wire: Option<crate::event::Failure>, field: &str) -> Result<Self, ConvertError> {
        wire.map(|wire| required(field, Some(wire))).transpose()
    }
}

impl OnWire<Option<crate::event::Usage>> for Option<cairn_engine::message::Usage> {
    fn to_wire(self) -> Option<crate::event::Usage> {
        self.map(Into::into)
    }

    fn from_wire(wire: Option<crate::event::Usage>, _field: &str) -> Result<Self, ConvertError> {
        Ok(wire.map(Into::into))
    }
}

/// Lists of messages.
impl<E, W> OnWire<Vec<W>> for Vec<E>
where
    W: From<E>,
    E: TryFrom<W>,
    ConvertError: From<E::Error>,
{
    fn to_wire(self) -> Vec<W> {
        self.into_iter().map(W::from).collect()
    }

    fn from_wire(wire: Vec<W>, field: &str) -> Result<Self, ConvertError> {
        repeated(field, wire)
    }
}

/// The value that a number stands for, if this version knows it.
pub(super) fn known<E: TryFrom<i32>>(wire: i32, field: &str) -> Result<E, ConvertError> {
    E::try_from(wire).map_err(|_| {
        let problem = format!("is {wire}; this version knows no such value");
        ConvertError::unknown(field, problem)
    })
}

/// A struct whose message has fields of the same names, and types that convert both ways: every
/// message has a meaning.
macro_rules! plain_record {
    ($engine:ty => $message:ty { $($field:ident),* }) => {
        impl From<$engine> for $message {
            fn from(record: $engine) -> Self {
                Self { $($field: record.$field.into()),* }
            }
        }

        impl From<$message> for $engine {
            fn from(message: $message) -> Self {
                Self { $($field: message.$field.into()),* }
            }
        }
    };
}

/// A struct whose message has fields of the same names, each converted by [`OnWire`].
macro_rules! record {
    ($engine:ty => $message:ty { $($field:ident),* }) => {
        impl From<$engine> for $message {
            fn from(record: $engine) -> Self {
                Self { $($field: OnWire::to_wire(record.$field)),* }
            }
        }

        impl TryFrom<$message> for $engine {
            type Error = ConvertError;

            fn try_from(message: $message) -> Result<Self, ConvertError> {
                Ok(Self { $($field: OnWire::from_wire(message.$field, stringify!($field))?),* })
            }
        }
    };
}

pub(super) use {plain_record, record};
