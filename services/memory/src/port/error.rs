//! What can come of an operation, apart from going well.

use std::fmt;

/// What the port's methods answer.
pub type StoreResult<T> = Result<T, StoreError>;

/// Why an operation did not happen. The list is closed: with "ok" and "duplicate", which are
/// answers, it is all that a caller has to deal with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Somebody else owns the session, or nobody: the caller must stop working on it.
    #[error("the caller does not own the session any more")]
    Fenced,
    /// The caller's picture of the session is not the store's.
    #[error("the session is not at the version that the caller names")]
    Conflict,
    /// The document does not have the version that the caller expects.
    #[error("{}", mismatched(*found))]
    DocumentVersion {
        /// The version that it has; 0 if it does not exist.
        found: u64,
    },
    /// The store cannot give all changes of a collection since the reader's position.
    #[error(
        "the store cannot give all changes since the position: list the documents again from the beginning"
    )]
    Relist,
    /// The store holds less of the session than the caller knows of: it has lost what it had
    /// acknowledged. (Or the caller's number was never this session's.)
    #[error(
        "the store has lost acknowledged writes of the session, or the number is another session's: {known} is known, and the store is at {stored}"
    )]
    WentBack {
        /// What the caller knows of: transitions made, or events seen.
        known: u64,
        /// How many of these the store has.
        stored: u64,
    },
    /// The session was quarantined because acknowledged writes of it are lost, and whoever releases it
    /// has not said that this is known.
    #[error(
        "the session was quarantined because the store has lost acknowledged writes of it: calls with side effects may be made again, and a release has to accept that (accept_loss)"
    )]
    WritesLost,
    /// The session is stored in a form that only a newer version knows. It is left alone.
    #[error(
        "the session is stored in format {found:?}, which a newer version wrote and this one does not know"
    )]
    Newer {
        /// The form.
        found: String,
    },
    /// What is stored is not what was written. Other sessions are not affected. Reads end with it before
    /// they return any of what is damaged; an owner's transition may have happened.
    #[error(
        "{0} is damaged: the store does not have the bytes that were written; restore the store from a \
         copy, or delete the session"
    )]
    Damaged(Stored),
    /// The session is no more.
    #[error("the session {}", .0.words())]
    Terminal(End),
    /// There is no such session, or no such blob in it.
    #[error("it does not exist")]
    NotFound,
    /// The request id belongs to another request, or the session to another creator.
    #[error("the request id, or the session's id, was used for another request")]
    RequestMismatch,
    /// An event of a transcript lists a blob that no page of the transcript has brought.
    #[error("event {seq} lists the blob {digest}, which was not sent with the event or before it")]
    BlobMissing {
        /// Number of the event.
        seq: u64,
        /// The digest of the blob.
        digest: String,
    },
    /// Too large, too many, or no room on the disk. Nothing was written.
    #[error("{}", limited(*what, *allowed))]
    Limit {
        /// Which limit.
        what: Limit,
        /// The limit's value, in its own unit; 0 where there is none to tell.
        allowed: u64,
    },
    /// The store cannot work now. Nothing was written.
    #[error("the store is unavailable: {reason}")]
    Unavailable {
        /// For logs.
        reason: String,
    },
    /// Nobody knows whether it was written. The same operation, repeated, finds out.
    #[error("it is not known whether the operation happened: {reason}")]
    Unknown {
        /// For logs.
        reason: String,
    },
}

/// A part of a session, or a document, by which damage is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    /// The event with this seq.
    Event(u64),
    /// The checkpoint that covers the events up to this seq.
    Checkpoint(u64),
    /// The blob with this digest.
    Blob(String),
    /// The document with this id, which belongs to no session.
    Document(String),
}

impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(seq) => write!(f, "event {seq}"),
            Self::Checkpoint(seq) => write!(f, "the checkpoint of event {seq}"),
            Self::Blob(digest) => write!(f, "blob {digest}"),
            Self::Document(id) => write!(f, "document {id}"),
        }
    }
}

/// How a session came to its end. The mark that stays tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// Somebody deleted it.
    Deleted,
    /// Its time was over.
    Expired,
    /// Its time was over, and its journal is in the archive.
    Archived,
}

impl End {
    const ALL: [Self; 3] = [Self::Deleted, Self::Expired, Self::Archived];

    /// Its name, as stores keep it and clients are told. Never given to another: it is on disks.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Expired => "expired",
            Self::Archived => "archived",
        }
    }

    /// The way back from [`Self::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|end| end.name() == name)
    }

    /// As the embedded store keeps it. Never given to another.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Deleted => 0,
            Self::Expired => 1,
            Self::Archived => 2,
        }
    }

    /// The way back; whatever a newer program knows of, is a deletion at least.
    pub(crate) fn of_number(number: i64) -> Self {
        let found = Self::ALL
            .into_iter()
            .find(|end| i64::from(end.number()) == number);
        found.unwrap_or(Self::Deleted)
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Deleted => "was deleted",
            Self::Expired => "was deleted, because its time to live was over",
            Self::Archived => "was archived and deleted, because its time to live was over",
        }
    }
}

/// Why a store that ends does nothing more.
const CLOSED: &str = "the store is closed";

impl StoreError {
    /// [`StoreError::Unavailable`], because the store is closed or about to be.
    pub fn closed() -> Self {
        Self::unavailable(CLOSED)
    }

    /// Whether it is [`StoreError::closed`]: whoever closed the store knows, and nothing is wrong.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Unavailable { reason } if reason == CLOSED)
    }

    /// [`StoreError::Unavailable`] for a reason.
    pub fn unavailable(reason: impl fmt::Display) -> Self {
        Self::Unavailable {
            reason: reason.to_string(),
        }
    }

    /// [`StoreError::Unknown`] for a reason.
    pub fn unknown(reason: impl fmt::Display) -> Self {
        Self::Unknown {
            reason: reason.to_string(),
        }
    }

    /// [`StoreError::Damaged`] of an event.
    pub fn damaged_event(seq: u64) -> Self {
        Self::Damaged(Stored::Event(seq))
    }

    /// [`StoreError::Limit`].
    pub fn limit(what: Limit, allowed: u64) -> Self {
        Self::Limit { what, allowed }
    }
}

fn mismatched(found: u64) -> String {
    match found {
        0 => "the document does not exist, and the caller expects a version of it".to_owned(),
        found => format!("the document has version {found}, and the caller expects another"),
    }
}

fn limited(what: Limit, allowed: u64) -> String {
    match (what, allowed) {
        (Limit::Disk, 0) => format!("the store is full: {what}"),
        (Limit::Disk, pages) => {
            format!(
                "the store is full: its file has at most {pages} pages of 4 KiB (store.max_pages)"
            )
        }
        _ => format!("{what}: at most {allowed}"),
    }
}

/// The limits that an operation can meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Bytes of one event.
    EventBytes,
    /// Events of one transition.
    EventsPerCommit,
    /// Events of a session's journal.
    JournalEvents,
    /// Bytes of a session's journal.
    JournalBytes,
    /// Keys of a session's memory.
    MemoryKeys,
    /// Bytes of all keys and values of a session's memory.
    MemoryBytes,
    /// Bytes of one value of session memory.
    ValueBytes,
    /// Bytes of a checkpoint.
    CheckpointBytes,
    /// Bytes of a blob.
    BlobBytes,
    /// Bytes of all blobs of a session.
    SessionBlobBytes,
    /// Bytes appended by others since the owner's last transition; its next one makes room.
    UnseenBytes,
    /// Bytes of the value of one document.
    DocumentBytes,
    /// Documents of one kind in a namespace.
    Documents,
    /// Bytes of all documents of one kind in a namespace.
    CollectionBytes,
    /// The room on the disk, or the pages that the store's file may have there if that is limited.
    Disk,
}

impl Limit {
    /// Every limit.
    pub const ALL: [Self; 15] = [
        Self::EventBytes,
        Self::EventsPerCommit,
        Self::JournalEvents,
        Self::JournalBytes,
        Self::MemoryKeys,
        Self::MemoryBytes,
        Self::ValueBytes,
        Self::CheckpointBytes,
        Self::BlobBytes,
        Self::SessionBlobBytes,
        Self::UnseenBytes,
        Self::DocumentBytes,
        Self::Documents,
        Self::CollectionBytes,
        Self::Disk,
    ];

    /// A stable name, for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EventBytes => "event_bytes",
            Self::EventsPerCommit => "events_per_commit",
            Self::JournalEvents => "journal_events",
            Self::JournalBytes => "journal_bytes",
            Self::MemoryKeys => "memory_keys",
            Self::MemoryBytes => "memory_bytes",
            Self::ValueBytes => "value_bytes",
            Self::CheckpointBytes => "checkpoint_bytes",
            Self::BlobBytes => "blob_bytes",
            Self::SessionBlobBytes => "session_blob_bytes",
            Self::UnseenBytes => "unseen_bytes",
            Self::DocumentBytes => "document_bytes",
            Self::Documents => "documents",
            Self::CollectionBytes => "collection_bytes",
            Self::Disk => "disk",
        }
    }

    /// The limit of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|limit| limit.name() == name)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EventBytes => "an event is too large in bytes",
            Self::EventsPerCommit => "a transition has too many events",
            Self::JournalEvents => "the journal has too many events",
            Self::JournalBytes => "the journal is too large in bytes",
            Self::MemoryKeys => "the session's memory has too many keys",
            Self::MemoryBytes => "the session's memory is too large in bytes",
            Self::ValueBytes => "a value with its metadata is too large in bytes",
            Self::CheckpointBytes => "a checkpoint is too large in bytes",
            Self::BlobBytes => "a blob is too large in bytes",
            Self::SessionBlobBytes => "the session's blobs are too large in bytes",
            Self::UnseenBytes => "too many bytes wait for the session's owner",
            Self::DocumentBytes => "a document is too large in bytes",
            Self::Documents => "the namespace has too many documents of this kind",
            Self::CollectionBytes => "the documents of this kind are too large in bytes",
            Self::Disk => "there is no room on its disk",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_tells_what_is_allowed_if_anything_is() {
        for (what, allowed, says) in [
            (
                Limit::MemoryKeys,
                8,
                "the session's memory has too many keys: at most 8",
            ),
            (
                Limit::Disk,
                0,
                "the store is full: there is no room on its disk",
            ),
            (
                Limit::Disk,
                300,
                "the store is full: its file has at most 300 pages of 4 KiB (store.max_pages)",
            ),
        ] {
            assert_eq!(StoreError::limit(what, allowed).to_string(), says);
        }
    }
}
