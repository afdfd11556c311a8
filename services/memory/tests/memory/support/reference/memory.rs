//! Changes of session memory.

use super::{Reference, Session};
use cairn_memory::port::{MemoryWrite, SessionKey, StoreResult};
use cairn_proto::event::{
    self as wire, Event, MemoryCleared, MemoryRemoved, MemorySet, event::Kind,
};
use cairn_rpc::Principal;
use prost::Message as _;

impl Session {
    pub(super) fn change(&mut self, change: &MemoryWrite) {
        match change {
            MemoryWrite::Set { key, value } => {
                self.memory.insert(key.clone(), value.clone());
            }
            MemoryWrite::Remove { key } => {
                self.memory.remove(key);
            }
            MemoryWrite::Clear => self.memory.clear(),
        }
    }
}

impl Reference {
    pub(crate) fn write_memory(
        &mut self,
        key: &SessionKey,
        change: &MemoryWrite,
        by: &Principal,
    ) -> StoreResult<u64> {
        let at_unix_ms = self.now;
        let principal = Some(wire::Principal {
            subject: by.subject().to_owned(),
            namespace: by.namespace().to_string(),
            authentication: wire::Authentication::Socket.into(),
        });
        let session = self.living(key)?;
        session.change(change);
        let kind = Some(match change.clone() {
            MemoryWrite::Set { key, value } => Kind::MemorySet(MemorySet {
                key,
                value,
                writer: None,
            }),
            MemoryWrite::Remove { key } => Kind::MemoryRemoved(MemoryRemoved { key, writer: None }),
            MemoryWrite::Clear => Kind::MemoryCleared(MemoryCleared {}),
        });
        session.events.push(
            Event {
                at_unix_ms,
                principal,
                kind,
                ..Default::default()
            }
            .encode_to_vec()
            .into(),
        );
        session.ends.push(true);
        session.updated_at = at_unix_ms;
        Ok(session.last())
    }
}
