//! Sessions that begin as copies of others.

use super::{End, Header, MemoryEntry, RequestId, SessionKey};
use bytes::Bytes;

/// See [`Store::copy_events`](super::Store::copy_events).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyEvents {
    /// Where the events come from.
    pub source: Source,
    /// The session to be. In the source's namespace.
    pub child: SessionKey,
    /// Names the request for repeats.
    pub request: RequestId,
    /// Events after this one are not copied; `None` for all that there are when the copy is begun.
    /// Never 0. Ignored for a transcript, which is copied whole.
    pub at_seq: Option<u64>,
    /// What the child is given once everything is copied, and with which it is there.
    pub completion: Option<Completion>,
}

/// Where the events of a copy come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The beginning of a session of the store.
    Session(SessionKey),
    /// A journal that the caller brings, page by page.
    Transcript(TranscriptPage),
}

impl Source {
    /// The session's id as stores keep it beside a copy: empty for a transcript, as no id is.
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Session(key) => key.session(),
            Self::Transcript(_) => "",
        }
    }

    /// Whether a session that ended so may be made again from this source. The mark of a session in
    /// the archive keeps late writes away; its own journal may come back.
    pub(crate) fn revives(&self, end: End) -> bool {
        matches!(self, Self::Transcript(_)) && end == End::Archived
    }
}

/// A page of a journal that the caller brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptPage {
    /// The events of the page, and the facts of the whole journal, which are the same in each call.
    pub transcript: Transcript,
    /// The number of the event before the page. Nothing is copied unless the copy has come exactly so
    /// far.
    pub after_seq: u64,
    /// The first event of the page belongs to the transition of the event before it.
    pub continues: bool,
    /// Blobs that events of this page or of later ones list. They are kept, whether or not the events of
    /// the page are copied.
    pub blobs: Vec<Bytes>,
}

/// A part of a journal with all that another store needs to hold the session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transcript {
    /// Number of the last event of the whole journal.
    pub last_seq: u64,
    /// How long the session stays without any change, if it was made so.
    pub time_to_live_ms: Option<u64>,
    /// Events in their order, without gaps.
    pub events: Vec<TranscriptEvent>,
}

/// An event of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptEvent {
    /// Opaque, but for the blobs that it names.
    pub event: Bytes,
    /// The blob that the event is stored in, if it is stored apart. Blobs that it lists are not here.
    pub blob: Option<Bytes>,
    /// The event is the last of its transition.
    pub ends: bool,
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

/// How long a copy stays that nobody continues with.
pub(crate) const UNFINISHED_MS: i64 = 60 * 60 * 1000;

/// About how many bytes of events and blobs one call copies.
pub(crate) const COPY_BYTES: usize = 1 << 20;
