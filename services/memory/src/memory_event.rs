//! The events of changes of session memory by clients, which the stores write themselves.

use crate::port::MemoryWrite;
use cairn_proto::event::{self as wire, Event, event::Kind};
use cairn_rpc::{Authentication, Principal};
use prost::Message as _;

/// The event of a change.
pub(crate) fn memory_event(change: &MemoryWrite, by: &Principal, at_unix_ms: i64) -> Vec<u8> {
    let kind = match change.clone() {
        MemoryWrite::Set {
            key,
            value,
            metadata,
            ..
        } => Kind::MemorySet(wire::MemorySet {
            key,
            value,
            writer: None,
            metadata,
        }),
        MemoryWrite::Remove { key } => {
            Kind::MemoryRemoved(wire::MemoryRemoved { key, writer: None })
        }
        MemoryWrite::Clear => Kind::MemoryCleared(wire::MemoryCleared {}),
    };
    let event = Event {
        at_unix_ms,
        principal: Some(to_wire(by)),
        kind: Some(kind),
        ..Default::default()
    };
    event.encode_to_vec()
}

/// A principal as events have it.
pub(crate) fn to_wire(principal: &Principal) -> wire::Principal {
    let authentication = match principal.authentication() {
        Authentication::Process => wire::Authentication::Process,
        Authentication::Socket => wire::Authentication::Socket,
        Authentication::Token => wire::Authentication::Token,
        Authentication::Anonymous => wire::Authentication::Anonymous,
        Authentication::Service => wire::Authentication::Service,
    };
    wire::Principal {
        subject: principal.subject().to_owned(),
        namespace: principal.namespace().to_string(),
        authentication: authentication.into(),
    }
}
