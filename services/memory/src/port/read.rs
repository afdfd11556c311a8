//! What is read.

use super::{Header, Quarantine, SessionKey, StoreResult};
use crate::metadata;
use bytes::Bytes;
use futures::stream::BoxStream;
use std::collections::BTreeMap;

/// An event with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// From 1, without gaps.
    pub seq: u64,
    /// Opaque.
    pub event: Bytes,
}

/// Events of a journal, with the header of the same moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPage {
    /// In order, without gaps.
    pub events: Vec<StoredEvent>,
    /// Number of the journal's last event.
    pub last_seq: u64,
    /// The owner's transitions so far.
    pub version: u64,
    /// The owner's notes.
    pub header: Header,
    /// Why it is quarantined, if it is: nobody works on it before it is released.
    pub quarantined: Option<Quarantine>,
    /// How often somebody has accepted that acknowledged writes of it are lost.
    pub accepted_losses: u64,
    /// How full the journal is; see [`Limits::journal_permille`](super::Limits::journal_permille).
    pub journal_permille: u32,
}

/// Batches of events as they come; an empty one says that the follower has caught up.
pub type EventStream = BoxStream<'static, StoreResult<Vec<StoredEvent>>>;

/// What is published of a session, as it comes.
pub type DeltaStream = BoxStream<'static, Bytes>;

/// How full the memory of a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    /// What the server has, in bytes.
    pub used_bytes: u64,
    /// What it may have; above 0.
    pub most_bytes: u64,
}

/// A session that may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleSession {
    /// Which one.
    pub key: SessionKey,
    /// Number of its last event.
    pub last_seq: u64,
    /// Time of its last change, by the store's clock.
    pub updated_unix_ms: i64,
}

/// All of session memory at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemoryList {
    /// Sorted by the bytes of the keys.
    pub entries: Vec<MemoryEntry>,
    /// Number of the journal's last event at that moment.
    pub last_seq: u64,
}

/// Notes beside a value of session memory: texts by name.
pub type Metadata = BTreeMap<String, String>;

/// A key of session memory with its value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemoryEntry {
    /// The key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// What the last set brought.
    pub metadata: Metadata,
    /// Time of the first set since the key was absent; `None` if a version that kept no times made it.
    pub created_unix_ms: Option<i64>,
    /// Time of the last set, and never before `created_unix_ms`; `None` as there.
    pub updated_unix_ms: Option<i64>,
}

impl MemoryEntry {
    /// The bytes that count for the limits of session memory.
    pub(crate) fn bytes(&self) -> usize {
        self.key.len() + self.value.len() + metadata::bytes(&self.metadata)
    }
}
