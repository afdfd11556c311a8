//! Conversions between the contracts and the engine's vocabulary, at the edge and nowhere else.
//!
//! Towards the wire every conversion is a `From` that moves its strings. From the wire it is a
//! `From` where every message has a meaning, and a `TryFrom` with a [`ConvertError`] that names the
//! field where it does not. Conversions check the shape and not the sense: whether a run exists or
//! a goal may be empty is for the engine to say.
//!
//! Numbers that an enum does not have, as a newer version may send them, are read like the
//! `*_UNSPECIFIED` value if the contract says what that means, and refused otherwise, as are choices and
//! names that are not known. An event that has one is left to a newer version. Its envelope is marked with the
//! level that it needs, which is looked at first.
//!
//! Journals are kept for ever, so what was ever written must decode for ever: `tests/golden` holds
//! encoded events that do.

mod agent;
mod call;
mod command;
mod compaction;
mod conversation;
mod error;
mod event;
mod executor;
mod hook;
mod kinds;
mod message;
mod mode;
mod plan;
mod pool;
mod turn;
mod wire;

pub use call::Reported;
pub use compaction::summarised;
pub use error::{ConvertError, repeated, required};

use crate::event::{self as proto, event::Kind};
use cairn_engine::event::Event;
use prost::Message as _;
use wire::OnWire as _;

/// An event as it was read from a journal.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are events, and a box would cost each of them"
)]
#[derive(Debug, Clone, PartialEq)]
pub enum Decoded {
    /// One that the engine knows.
    Event(Event),
    /// The event is a blob of the session; read that and decode it in place of this.
    StoredApart {
        /// SHA-256 of the encoded event, in hexadecimal.
        digest: String,
        /// Length of the encoded event in bytes.
        size: u64,
    },
    /// It needs a reader of this level, which is above the one that was given; or it has a kind or a value that
    /// this version does not know, whatever it says that it needs. Nothing else of it was read.
    Newer {
        /// The level of [`LEVEL`](cairn_engine::level::LEVEL), from 1.
        needs: u32,
    },
}

/// The encoded event, ready to be stored. It is marked with the level that it needs, or with `least` if that
/// is more: 1, but in tests of what older readers make of it. Each string is copied twice: out of the event,
/// and into the bytes. [`encode_own_event`] saves the first copy.
///
/// The same event always gives the same bytes.
pub fn encode_event(event: &Event, least: u32) -> Vec<u8> {
    encode_own_event(event.clone(), least)
}

/// As [`encode_event`], for an event that is of no use afterwards.
pub fn encode_own_event(event: Event, least: u32) -> Vec<u8> {
    let mut event = proto::Event::from(event);
    event.needs = event.needs.max(needs_to_wire(least));
    event.encode_to_vec()
}

/// The encoded event that stands for one kept as a blob. `at`, `needs` and `blobs` are that event's own,
/// `digest` is what `PutBlob` answered and `size` the number of bytes put.
pub fn encode_stored_apart(
    at: u64,
    needs: u32,
    blobs: Vec<proto::Blob>,
    digest: String,
    size: u64,
) -> Vec<u8> {
    let event = proto::Event {
        at_unix_ms: at.to_wire(),
        needs: needs_to_wire(needs),
        blobs,
        kind: Some(Kind::StoredApart(proto::StoredApart { digest, size })),
        ..Default::default()
    };
    event.encode_to_vec()
}

/// The blobs that an encoded event names. Decoding it reads the envelope and skips the rest, whatever kind
/// of event it is.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Named {
    /// The blob that the event is stored in, if it is stored apart.
    #[prost(message, optional, tag = "31")]
    pub apart: Option<proto::StoredApart>,
    /// The blobs that the event lists, in order.
    #[prost(message, repeated, tag = "59")]
    pub blobs: Vec<proto::Blob>,
}

impl Named {
    /// What an encoded event names. Bytes that are no message name nothing.
    pub fn by(event: &[u8]) -> Self {
        Self::decode(event).unwrap_or_default()
    }
}

/// A level as messages have it. The first one takes no bytes.
fn needs_to_wire(needs: u32) -> u32 {
    if needs <= 1 { 0 } else { needs }
}

/// Reads an encoded event, as a reader of this level.
///
/// # Errors
/// The bytes are no `cairn.event.v1.Event`, or one that lacks a field.
pub fn decode_event(bytes: &[u8], level: u32) -> Result<Decoded, ConvertError> {
    let event = proto::Event::decode(bytes)
        .map_err(|error| ConvertError::new("event", format!("cannot be decoded: {error}")))?;
    read_event(event, level)
}

/// As [`decode_event`], for an event that is decoded already.
///
/// # Errors
/// The event lacks a field.
pub fn read_event(event: proto::Event, level: u32) -> Result<Decoded, ConvertError> {
    let needs = event.needs.max(1);
    if needs > level {
        return Ok(Decoded::Newer { needs });
    }
    match Decoded::try_from(event) {
        // Stores keep checksums, so it is not damaged: a newer version has not marked what it added.
        Err(ConvertError { is_newer: true, .. }) => Ok(Decoded::Newer { needs }),
        read => read,
    }
}
