//! Sessions that begin as copies of others.

use super::{Header, MemoryEntry, RequestId, SessionKey};
use bytes::Bytes;

/// See [`Store::copy_events`](super::Store::copy_events).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyEvents {
    /// The session whose beginning is copied.
    pub source: SessionKey,
    /// The session to be. In the source's namespace.
    pub child: SessionKey,
    /// Names the request for repeats.
    pub request: RequestId,
    /// Events after this one are not copied; `None` for all that there are when the copy is begun.
    /// Never 0.
    pub at_seq: Option<u64>,
    /// What the child is given once everything is copied, and with which it is there.
    pub completion: Option<Completion>,
}

/// What makes a session out of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// Follow the copied ones; may use the reserve above the journal's limits.
    pub events: Vec<Bytes>,
    /// Session memory as it is from then on: what the copied events and these add up to, each key
    /// once.
    pub memory: Vec<MemoryEntry>,
    /// The first notes.
    pub header: Header,
    /// When the session is to be claimed; `None` for not before it is woken.
    pub due_unix_ms: Option<i64>,
}

/// How far a copy has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// The last event that is copied: where the last transition ends that ends at or before the
    /// number asked for.
    pub cut_seq: u64,
    /// Events up to here are copied, with the blobs that they name.
    pub copied_through: u64,
    /// The child is there, since now or before.
    pub is_complete: bool,
    /// The store's time.
    pub now_unix_ms: i64,
}

/// How long a copy stays that nobody goes on with.
pub(crate) const UNFINISHED_MS: i64 = 60 * 60 * 1000;

/// About how many bytes of events and blobs one call copies.
pub(crate) const COPY_BYTES: usize = 1 << 20;
