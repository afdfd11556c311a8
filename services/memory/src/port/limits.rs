//! The limits of sessions and documents, and the checks that need nothing but the request.

use super::{
    AppendCommand, BlobUse, Commit, Completion, CopyEvents, Create, DocumentWrite, Limit,
    MemoryWrite, Metadata, Source, StoreError, StoreResult, TranscriptEvent,
};
use crate::metadata;
use bytes::Bytes;
use cairn_engine::limits::{MAX_MEMORY_BYTES, MAX_MEMORY_KEYS, MAX_TRANSITION};
use serde::Deserialize;

/// Keys to which an owner's decisions fill session memory, as far as it sees that.
pub(crate) const OWNER_KEYS: u64 = MAX_MEMORY_KEYS as u64;
/// The same in bytes.
pub(crate) const OWNER_BYTES: u64 = MAX_MEMORY_BYTES as u64;

/// Events of the largest transition that an owner decides.
pub(crate) const OWNER_EVENTS: u64 = MAX_TRANSITION as u64;

/// How large things may get.
///
/// A journal that has reached its limits still takes commands (up to half of the reserve), and
/// transitions that are marked for the reserve. An owner marks a transition if each of its events
/// [ends only](cairn_engine::event::EventKind::ends_only).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of an event: 64 KiB of payload, and 1 KiB for what is around it.
    pub event_bytes: u64,
    /// Events of one transition or creation: at least what may follow from what an owner takes into
    /// one (`cairn_engine::limits::MAX_TRANSITION`), which it has no way to commit otherwise.
    pub events_per_commit: u64,
    /// Events of a journal, without the reserve; the sum of both stays below 2^32.
    pub journal_events: u64,
    /// Bytes of the events of a journal, without the reserve.
    pub journal_bytes: u64,
    /// Events above the journal's limit. What commands leave of it holds a largest transition.
    pub reserve_events: u64,
    /// Bytes above the journal's limit.
    pub reserve_bytes: u64,
    /// Keys up to which clients may fill session memory.
    pub memory_keys: u64,
    /// Bytes of all keys, values and metadata up to which clients may fill session memory.
    pub memory_bytes: u64,
    /// Keys of session memory that an owner's transitions may add to those of clients.
    ///
    /// The owner holds to a limit of its own before it decides, but without the latest writes of
    /// clients. Here is room for both, so that no client can make its transition fail: at least
    /// what the owner may fill by its own limit.
    pub owner_memory_keys: u64,
    /// The same in bytes of keys, values and metadata. With `memory_bytes` it fits into one message, so that
    /// a listing does.
    pub owner_memory_bytes: u64,
    /// Bytes of a value of session memory with its metadata.
    pub value_bytes: u64,
    /// Bytes of a checkpoint.
    pub checkpoint_bytes: u64,
    /// Bytes of a blob.
    pub blob_bytes: u64,
    /// Bytes of all blobs of a session: each counts once, also if no event names it. Parts of large
    /// results fill at most three quarters.
    pub session_blob_bytes: u64,
    /// Bytes that may be appended without ownership while an owner has not seen them. They all
    /// travel in the answer to its next transition.
    pub unseen_bytes: u64,
    /// Bytes of the value of a document.
    pub document_bytes: u64,
    /// Documents of one kind in a namespace, and tombstones of such documents: with more of these, the oldest
    /// go before their time.
    pub documents: u64,
    /// Bytes of the ids and values of all documents of one kind in a namespace.
    pub collection_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        const KIB: u64 = 1024;
        const MIB: u64 = 1024 * KIB;
        Self {
            event_bytes: 65 * KIB,
            events_per_commit: OWNER_EVENTS,
            journal_events: 100_000,
            journal_bytes: 256 * MIB,
            reserve_events: 2 * OWNER_EVENTS,
            reserve_bytes: 16 * MIB,
            memory_keys: 512,
            memory_bytes: MIB,
            owner_memory_keys: OWNER_KEYS,
            owner_memory_bytes: OWNER_BYTES,
            value_bytes: 64 * KIB,
            checkpoint_bytes: 64 * MIB,
            blob_bytes: 3 * MIB,
            session_blob_bytes: 1024 * MIB,
            unseen_bytes: 2 * MIB,
            document_bytes: 256 * KIB,
            documents: 50_000,
            collection_bytes: 64 * MIB,
        }
    }
}

/// Who appends, which decides how far into the reserve it may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// Work: none of the reserve.
    Normal,
    /// Commands: half of the reserve.
    Command,
    /// A transition that is marked for it, or a copy: all of the reserve.
    Reserve,
}

/// Who changes session memory, which decides how far it may fill it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryWriter {
    /// Without ownership.
    Client,
    /// In its transition.
    Owner,
}

impl Limits {
    pub(crate) fn check_create(&self, create: &Create) -> StoreResult<()> {
        self.check_events(&create.events)
    }

    pub(crate) fn check_commit(&self, commit: &Commit) -> StoreResult<()> {
        self.check_events(&commit.events)?;
        for change in &commit.memory_writes {
            self.check_memory(change)?;
        }
        let checkpoint = commit.checkpoint.as_ref().map_or(0, |c| size(&c.state));
        at_most(checkpoint, self.checkpoint_bytes, Limit::CheckpointBytes)
    }

    /// What a copy brings: a page of a transcript, what completes it.
    pub(crate) fn check_copy(&self, copy: &CopyEvents) -> StoreResult<()> {
        if let Source::Transcript(page) = &copy.source {
            let transcript = &page.transcript;
            for TranscriptEvent { event, blob, .. } in &transcript.events {
                at_most(size(event), self.event_bytes, Limit::EventBytes)?;
                blob.iter().try_for_each(|blob| self.check_blob(blob))?;
            }
            page.blobs
                .iter()
                .try_for_each(|blob| self.check_blob(blob))?;
            self.check_journal(transcript.last_seq, 0, Room::Reserve)?;
        }
        let mut completion = copy.completion.iter();
        completion.try_for_each(|completion| self.check_completion(completion))
    }

    fn check_completion(&self, completion: &Completion) -> StoreResult<()> {
        self.check_events(&completion.events)?;
        let (mut keys, mut bytes) = (0, 0);
        for entry in &completion.memory {
            self.check_value(&entry.value, &entry.metadata)?;
            keys += 1;
            bytes += u64::try_from(entry.bytes()).unwrap_or(u64::MAX);
        }
        let (most_keys, most_bytes) = self.memory_room(MemoryWriter::Owner);
        at_most(keys, most_keys, Limit::MemoryKeys)?;
        at_most(bytes, most_bytes, Limit::MemoryBytes)
    }

    pub(crate) fn check_command(&self, command: &AppendCommand) -> StoreResult<()> {
        at_most(size(&command.event), self.event_bytes, Limit::EventBytes)
    }

    pub(crate) fn check_memory(&self, change: &MemoryWrite) -> StoreResult<()> {
        match change {
            MemoryWrite::Set {
                value, metadata, ..
            } => self.check_value(value, metadata),
            MemoryWrite::Remove { .. } | MemoryWrite::Clear => Ok(()),
        }
    }

    fn check_value(&self, value: &str, metadata: &Metadata) -> StoreResult<()> {
        let bytes = value.len() + metadata::bytes(metadata);
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        at_most(bytes, self.value_bytes, Limit::ValueBytes)
    }

    /// Keys and bytes that session memory may grow to.
    pub(crate) fn memory_room(&self, writer: MemoryWriter) -> (u64, u64) {
        let (keys, bytes) = match writer {
            MemoryWriter::Client => (0, 0),
            MemoryWriter::Owner => (self.owner_memory_keys, self.owner_memory_bytes),
        };
        (
            self.memory_keys.saturating_add(keys),
            self.memory_bytes.saturating_add(bytes),
        )
    }

    pub(crate) fn check_document(&self, write: &DocumentWrite) -> StoreResult<()> {
        let value = write.value.as_deref().unwrap_or_default();
        at_most(size(value), self.document_bytes, Limit::DocumentBytes)
    }

    pub(crate) fn check_blob(&self, data: &[u8]) -> StoreResult<()> {
        at_most(size(data), self.blob_bytes, Limit::BlobBytes)
    }

    /// Whether the blobs of a session may grow to so many bytes by such a blob.
    pub(crate) fn check_session_blobs(&self, bytes: u64, what: BlobUse) -> StoreResult<()> {
        let allowed = match what {
            BlobUse::Event => self.session_blob_bytes,
            BlobUse::Part => self.session_blob_bytes / 4 * 3,
        };
        at_most(bytes, allowed, Limit::SessionBlobBytes)
    }

    /// Whether a journal may grow to `events` events of `bytes` bytes.
    pub(crate) fn check_journal(&self, events: u64, bytes: u64, room: Room) -> StoreResult<()> {
        let (most_events, most_bytes) = self.journal_room(room);
        at_most(events, most_events, Limit::JournalEvents)?;
        at_most(bytes, most_bytes, Limit::JournalBytes)
    }

    /// Events and bytes that a journal may grow to.
    pub(crate) fn journal_room(&self, room: Room) -> (u64, u64) {
        let share = |reserve: u64| match room {
            Room::Normal => 0,
            Room::Command => reserve / 2,
            Room::Reserve => reserve,
        };
        (
            self.journal_events
                .saturating_add(share(self.reserve_events)),
            self.journal_bytes.saturating_add(share(self.reserve_bytes)),
        )
    }

    /// How full a journal of so many events and bytes is, in thousandths of the limits without the reserve:
    /// the larger of both shares. Above 1000 the journal is in its reserve.
    pub fn journal_permille(&self, events: u64, bytes: u64) -> u32 {
        let share = |size: u64, limit: u64| size.saturating_mul(1000) / limit.max(1);
        let events = share(events, self.journal_events);
        let permille = events.max(share(bytes, self.journal_bytes));
        u32::try_from(permille).unwrap_or(u32::MAX)
    }

    fn check_events(&self, events: &[Bytes]) -> StoreResult<()> {
        let count = u64::try_from(events.len()).unwrap_or(u64::MAX);
        at_most(count, self.events_per_commit, Limit::EventsPerCommit)?;
        events
            .iter()
            .try_for_each(|event| at_most(size(event), self.event_bytes, Limit::EventBytes))
    }
}

pub(crate) fn at_most(value: u64, allowed: u64, what: Limit) -> StoreResult<()> {
    if value <= allowed {
        return Ok(());
    }
    Err(StoreError::limit(what, allowed))
}

fn size(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
