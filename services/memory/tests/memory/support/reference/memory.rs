//! Changes of session memory.

use super::{Reference, Session};
use cairn_memory::port::{MemoryEntry, MemoryWrite, SessionKey, StoreResult};
use cairn_proto::event::{
    self as wire, Event, MemoryCleared, MemoryRemoved, MemorySet, event::Kind,
};
use cairn_rpc::Principal;
use prost::Message as _;

impl Session {
    pub(super) fn change(&mut self, change: &MemoryWrite, now: i64) {
        match change {
            MemoryWrite::Set {
                key,
                value,
                metadata,
                at_unix_ms,
            } => {
                let at = at_unix_ms.unwrap_or(now);
                let before = self.memory.get(key);
                let created = before.map_or(Some(at), |entry| entry.created_unix_ms);
                let entry = MemoryEntry {
                    key: key.clone(),
                    value: value.clone(),
                    metadata: metadata.clone(),
                    created_unix_ms: created,
                    updated_unix_ms: created.max(Some(at)),
                };
                self.memory.insert(key.clone(), entry);
            }
            MemoryWrite::Remove { key } => {
                self.memory.remove(key);
            }
            MemoryWrite::Clear => self.memory.clear(),
        }
    }
}

impl Reference {
    /// The entries of a session; none if it is not there.
    pub(crate) fn entries(&self, key: &SessionKey) -> Vec<MemoryEntry> {
        let session = self.sessions.get(key.session());
        let entries = session.map(|session| session.memory.values().cloned().collect());
        entries.unwrap_or_default()
    }

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
        session.change(change, at_unix_ms);
        let kind = Some(match change.clone() {
            MemoryWrite::Set {
                key,
                value,
                metadata,
                ..
            } => Kind::MemorySet(MemorySet {
                key,
                value,
                writer: None,
                metadata,
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
