//! Events: one row a kind.

use super::Decoded;
use super::error::ConvertError;
use super::kinds::decode;
use super::wire::{OnWire, known, plain_record, record};
use crate::event as proto;
use cairn_engine::event::{
    AttemptRef, Budget, CallFinished, CallRef, Effect, Event, OpenCall, ReplyReceived,
    RequestedCall, WaitReason,
};
use cairn_engine::pending::PendingId;
use cairn_engine::principal::{Authentication, Principal};
use cairn_engine::refusal::Refusal;

/// Takes the kinds in three lists: those whose fields have the same names on both sides, those
/// whose names differ (`engine => message`), and those that are structs of their own.
macro_rules! kinds {
    (
        same { $($name:ident: $kind:ident { $($field:ident),* })* }
        renamed { $($other_name:ident: $other:ident { $($ours:ident => $theirs:ident),* })* }
        records { $($record_name:ident: $record:ident)* }
    ) => {
        impl From<EventKind> for Kind {
            fn from(kind: EventKind) -> Self {
                match kind {
                    $(EventKind::$kind(event::$kind { $($field),* }) => Self::$kind(proto::$kind {
                        $($field: $field.to_wire()),*
                    }),)*
                    $(EventKind::$other(event::$other { $($ours),* }) => Self::$other(proto::$other {
                        $($theirs: $ours.to_wire()),*
                    }),)*
                    $(EventKind::$record(record) => Self::$record(record.into()),)*
                }
            }
        }

        /// `Err` holds what stands for an event that is stored apart.
        pub(super) fn decode(kind: Kind) -> Result<Result<EventKind, Decoded>, ConvertError> {
            Ok(Ok(match kind {
                $(Kind::$kind(proto::$kind { $($field),* }) => {
                    event::$kind {
                        $($field: read($field, stringify!($name), stringify!($field))?),*
                    }.into()
                })*
                $(Kind::$other(proto::$other { $($theirs),* }) => {
                    event::$other {
                        $($ours: read($theirs, stringify!($other_name), stringify!($theirs))?),*
                    }.into()
                })*
                $(Kind::$record(message) => EventKind::$record(
                    message.try_into().map_err(|error: ConvertError| {
                        error.within(stringify!($record_name))
                    })?,
                ),)*
                Kind::StoredApart(proto::StoredApart { digest, size }) => {
                    return Ok(Err(Decoded::StoredApart { digest, size }));
                }
            }))
        }
    };
}

pub(super) use kinds;

record! {
    ReplyReceived => proto::ReplyReceived {
        attempt, tool_turn, text, calls, opaque, finish, usage, provider, model, duration_ms,
        ops_through, estimated_tokens, window_tokens, held
    }
}
record! {
    CallFinished => proto::CallFinished {
        call, output, is_error, reason, duration_ms, media, whole, file, usage, provider, model, held
    }
}
record! { OpenCall => proto::OpenCall { call, output } }
record! { RequestedCall => proto::RequestedCall { call, effect, tool_digest, previews, hooked } }
record! { CallRef => proto::CallRef { attempt, tool_turn, index } }
plain_record! { AttemptRef => proto::AttemptRef { run, step, attempt } }

pub(super) fn read<E: OnWire<W>, W>(wire: W, kind: &str, field: &str) -> Result<E, ConvertError> {
    E::from_wire(wire, field).map_err(|error| error.within(kind))
}

impl From<Event> for proto::Event {
    fn from(event: Event) -> Self {
        Self {
            blobs: event.kind.blobs().to_vec().to_wire(),
            at_unix_ms: event.at.to_wire(),
            answers: event.answers,
            principal: event.principal.map(Into::into),
            needs: super::needs_to_wire(event.kind.needs()),
            kind: Some(event.kind.into()),
        }
    }
}

/// Of an event whose level was checked, or is of no matter.
impl TryFrom<proto::Event> for Decoded {
    type Error = ConvertError;

    fn try_from(event: proto::Event) -> Result<Self, ConvertError> {
        let at = OnWire::from_wire(event.at_unix_ms, "at_unix_ms")?;
        let needs = event.needs.max(1);
        let Some(kind) = event.kind else {
            return Ok(Self::Newer { needs });
        };
        let mut kind = match decode(kind)? {
            Ok(kind) => kind,
            Err(apart) => return Ok(apart),
        };
        if !event.blobs.is_empty() {
            kind.set_blobs(OnWire::from_wire(event.blobs, "blobs")?);
        }
        let principal = event.principal.map(Principal::try_from).transpose();
        Ok(Self::Event(Event {
            at,
            answers: event.answers,
            principal: principal.map_err(|error| error.within("principal"))?,
            kind,
        }))
    }
}

record! { Principal => proto::Principal { subject, namespace, authentication } }

impl OnWire<i32> for Authentication {
    fn to_wire(self) -> i32 {
        use proto::Authentication as Wire;
        let wire = match self {
            Self::Process => Wire::Process,
            Self::Socket => Wire::Socket,
            Self::Token => Wire::Token,
            Self::Anonymous => Wire::Anonymous,
            Self::Service => Wire::Service,
        };
        wire.into()
    }

    fn from_wire(wire: i32, field: &str) -> Result<Self, ConvertError> {
        use proto::Authentication as Wire;
        Ok(match known(wire, field)? {
            Wire::Process => Self::Process,
            Wire::Socket => Self::Socket,
            Wire::Token => Self::Token,
            Wire::Anonymous => Self::Anonymous,
            Wire::Service => Self::Service,
            Wire::Unspecified => return Err(ConvertError::missing(field)),
        })
    }
}

impl OnWire<String> for PendingId {
    fn to_wire(self) -> String {
        self.to_string()
    }

    fn from_wire(wire: String, field: &str) -> Result<Self, ConvertError> {
        let unknown = || ConvertError::new(field, format!("'{wire}' names no question"));
        Self::parse(&wire).ok_or_else(unknown)
    }
}

impl OnWire<String> for Refusal {
    fn to_wire(self) -> String {
        self.name().to_owned()
    }

    fn from_wire(wire: String, field: &str) -> Result<Self, ConvertError> {
        if wire.is_empty() {
            return Err(ConvertError::missing(field));
        }
        let unknown =
            || ConvertError::unknown(field, "is a reason that this version does not know");
        Self::named(&wire).ok_or_else(unknown)
    }
}

impl From<Effect> for proto::Effect {
    fn from(effect: Effect) -> Self {
        match effect {
            Effect::Pure => Self::Pure,
            Effect::Idempotent => Self::Idempotent,
            Effect::Effectful => Self::Effectful,
            Effect::State => Self::State,
        }
    }
}

/// What nobody promised to be harmless is taken to have effects.
impl From<proto::Effect> for Effect {
    fn from(effect: proto::Effect) -> Self {
        match effect {
            proto::Effect::Pure => Self::Pure,
            proto::Effect::Idempotent => Self::Idempotent,
            proto::Effect::Unspecified | proto::Effect::Effectful => Self::Effectful,
            proto::Effect::State => Self::State,
        }
    }
}

impl OnWire<i32> for Effect {
    fn to_wire(self) -> i32 {
        proto::Effect::from(self).into()
    }

    fn from_wire(wire: i32, _field: &str) -> Result<Self, ConvertError> {
        Ok(proto::Effect::try_from(wire).unwrap_or_default().into())
    }
}

/// Where there may be no tool: unspecified is none, and an effect from a newer version is not none.
impl OnWire<i32> for Option<Effect> {
    fn to_wire(self) -> i32 {
        self.map_or(proto::Effect::Unspecified.into(), Effect::to_wire)
    }

    fn from_wire(wire: i32, field: &str) -> Result<Self, ConvertError> {
        let is_set = wire != i32::from(proto::Effect::Unspecified);
        is_set.then(|| Effect::from_wire(wire, field)).transpose()
    }
}

impl From<WaitReason> for proto::WaitReason {
    fn from(reason: WaitReason) -> Self {
        match reason {
            WaitReason::InDoubt => Self::InDoubt,
            WaitReason::Budget => Self::Budget,
            WaitReason::Approval => Self::Approval,
            WaitReason::Question => Self::Question,
            WaitReason::PlanReview => Self::PlanReview,
            WaitReason::Context => Self::Context,
            WaitReason::Capability => Self::Capability,
            WaitReason::Hook => Self::Hook,
        }
    }
}

impl TryFrom<proto::WaitReason> for WaitReason {
    type Error = ConvertError;

    fn try_from(reason: proto::WaitReason) -> Result<Self, ConvertError> {
        match reason {
            proto::WaitReason::InDoubt => Ok(Self::InDoubt),
            proto::WaitReason::Budget => Ok(Self::Budget),
            proto::WaitReason::Approval => Ok(Self::Approval),
            proto::WaitReason::Question => Ok(Self::Question),
            proto::WaitReason::PlanReview => Ok(Self::PlanReview),
            proto::WaitReason::Context => Ok(Self::Context),
            proto::WaitReason::Capability => Ok(Self::Capability),
            proto::WaitReason::Hook => Ok(Self::Hook),
            proto::WaitReason::Unspecified => Err(ConvertError::missing("reason")),
        }
    }
}

impl From<Budget> for proto::Budget {
    fn from(budget: Budget) -> Self {
        match budget {
            Budget::Turns => Self::Turns,
            Budget::Tokens => Self::Tokens,
            Budget::Cost => Self::Cost,
            Budget::Time => Self::Time,
            Budget::Calls => Self::Calls,
            Budget::ToolTurns => Self::ToolTurns,
        }
    }
}

impl OnWire<i32> for Budget {
    fn to_wire(self) -> i32 {
        proto::Budget::from(self).into()
    }

    fn from_wire(wire: i32, field: &str) -> Result<Self, ConvertError> {
        Ok(match known(wire, field)? {
            proto::Budget::Turns => Self::Turns,
            proto::Budget::Tokens => Self::Tokens,
            proto::Budget::Cost => Self::Cost,
            proto::Budget::Time => Self::Time,
            proto::Budget::Calls => Self::Calls,
            proto::Budget::ToolTurns => Self::ToolTurns,
            proto::Budget::Unspecified => return Err(ConvertError::missing(field)),
        })
    }
}

impl OnWire<i32> for WaitReason {
    fn to_wire(self) -> i32 {
        proto::WaitReason::from(self).into()
    }

    fn from_wire(wire: i32, field: &str) -> Result<Self, ConvertError> {
        let reason = known::<proto::WaitReason>(wire, field)?;
        Self::try_from(reason).map_err(|_| ConvertError::missing(field))
    }
}
