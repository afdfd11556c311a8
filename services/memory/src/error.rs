//! The store's results as errors of the RPCs, and what can go wrong when the service is built.

use crate::janitor::ArchiveError;
use crate::port::{Limit, SessionKey, StoreError, Stored};
use crate::redis;
use crate::sqlite::OpenError;
use cairn_rpc::{ErrorKind, RpcError};
use std::time::Duration;

/// Reason: the caller does not own the session any more.
pub const FENCED: &str = "FENCED";
/// Reason: the caller's picture of the session is not the store's.
pub const CONFLICT: &str = "CONFLICT";
/// Reason: the store has lost acknowledged writes of the session; the metadata `known` and `stored`
/// say how far it went back.
pub const WENT_BACK: &str = "WENT_BACK";
/// Reason: the session was quarantined because acknowledged writes of it are lost, and releasing it has
/// to accept that.
pub const WRITES_LOST: &str = "WRITES_LOST";
/// Reason: the session is stored in a form that only a newer version knows.
pub const NEWER_VERSION: &str = "NEWER_VERSION";
/// Reason: what is stored is not what was written; the metadata `stored` says which part: an `event` or a
/// `checkpoint` with its `seq`, a `blob` with its `digest`, or a `document` with its `document`.
pub const DAMAGED: &str = "DAMAGED";
/// Reason: the session was deleted; the metadata `end` says how: `deleted`, `expired`, `archived`.
pub const TERMINAL: &str = "TERMINAL";
/// In the metadata of [`TERMINAL`]: how the session ended.
pub const END: &str = "end";
/// Reason: the request id, or the session's id, was used for another request.
pub const REQUEST_MISMATCH: &str = "REQUEST_MISMATCH";
/// Reason: the document does not have the expected version; the metadata `version` is the version that it has, 0
/// if it does not exist.
pub const DOCUMENT_VERSION: &str = "DOCUMENT_VERSION";
/// Reason: the store cannot give all changes since the position; the documents have to be listed again.
pub const RELIST: &str = "RELIST";
/// Reason: an event of a transcript lists a blob that was not sent; the metadata `seq` and `digest` say which.
pub const BLOB_MISSING: &str = "BLOB_MISSING";
/// Reason: a size limit, or no room on the disk; the metadata `limit` and `allowed` say which.
pub const LIMIT: &str = "LIMIT";
/// Reason: the store cannot work now, and nothing was written.
pub const NOT_WRITTEN: &str = "NOT_WRITTEN";
/// Reason: nobody knows whether it was written; the same call, repeated, finds out.
pub const OUTCOME_UNKNOWN: &str = "OUTCOME_UNKNOWN";

/// Why the service cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The store cannot be opened.
    #[error("the store cannot be opened")]
    Store(#[from] OpenError),
    /// The store on Redis cannot be opened.
    #[error("the store on Redis cannot be opened")]
    Redis(#[from] redis::OpenError),
    /// The archive cannot be opened.
    #[error("the archive of store.retention cannot be written")]
    Archive(#[from] ArchiveError),
    /// A limit makes no sense.
    #[error("limits.{field} is {value}; allowed: {allowed}")]
    Limits {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What is allowed.
        allowed: &'static str,
    },
}

impl From<StoreError> for RpcError {
    fn from(error: StoreError) -> Self {
        let text = error.to_string();
        let is_closed = error.is_closed();
        match error {
            StoreError::Fenced => Self::conflict(text).reason(FENCED),
            StoreError::Conflict => Self::conflict(text).reason(CONFLICT),
            StoreError::DocumentVersion { found } => Self::conflict(text)
                .reason(DOCUMENT_VERSION)
                .meta("version", found.to_string()),
            StoreError::Relist => Self::new(ErrorKind::OutOfRange, text).reason(RELIST),
            StoreError::WentBack { known, stored } => Self::new(ErrorKind::DataLoss, text)
                .reason(WENT_BACK)
                .meta("known", known.to_string())
                .meta("stored", stored.to_string()),
            StoreError::WritesLost => Self::precondition(text).reason(WRITES_LOST),
            StoreError::Newer { .. } => Self::precondition(text).reason(NEWER_VERSION),
            StoreError::Damaged(part) => damaged(text, &part),
            StoreError::Terminal(end) => Self::new(ErrorKind::NotFound, text)
                .reason(TERMINAL)
                .meta(END, end.name()),
            StoreError::NotFound => Self::new(ErrorKind::NotFound, text),
            StoreError::RequestMismatch => {
                Self::new(ErrorKind::AlreadyExists, text).reason(REQUEST_MISMATCH)
            }
            StoreError::BlobMissing { seq, digest } => Self::precondition(text)
                .reason(BLOB_MISSING)
                .meta("seq", seq.to_string())
                .meta("digest", digest),
            StoreError::Limit { what, allowed } => {
                let error = Self::exhausted(text)
                    .reason(LIMIT)
                    .meta("limit", what.name())
                    .meta("allowed", allowed.to_string());
                match what {
                    // The owner's next transition makes room.
                    Limit::UnseenBytes => error.retry_after(RETRY_AFTER),
                    _ => error,
                }
            }
            // What the backend says is for the log: it names files and servers.
            StoreError::Unavailable { reason } => {
                if is_closed {
                    tracing::debug!(reason, "a call came to its end with the store");
                } else {
                    tracing::warn!(reason, "the store is unavailable");
                }
                Self::unavailable("the store is unavailable, and nothing was written")
                    .reason(NOT_WRITTEN)
                    .retry_after(RETRY_AFTER)
            }
            StoreError::Unknown { reason } => {
                tracing::error!(reason, "an operation's outcome is unknown");
                Self::unavailable("it is not known whether the operation happened; repeat it")
                    .reason(OUTCOME_UNKNOWN)
                    .retry_after(RETRY_AFTER)
            }
        }
    }
}

fn damaged(text: String, part: &Stored) -> RpcError {
    let error = RpcError::new(ErrorKind::DataLoss, text).reason(DAMAGED);
    match part {
        Stored::Event(seq) => error.meta("stored", "event").meta("seq", seq.to_string()),
        Stored::Checkpoint(seq) => error
            .meta("stored", "checkpoint")
            .meta("seq", seq.to_string()),
        Stored::Blob(digest) => error.meta("stored", "blob").meta("digest", digest),
        Stored::Document(id) => error.meta("stored", "document").meta("document", id),
    }
}

const RETRY_AFTER: Duration = Duration::from_millis(200);

/// An error of an operation on one session, naming it.
pub(crate) fn about(key: &SessionKey) -> impl Fn(StoreError) -> RpcError + '_ {
    move |error| match error {
        StoreError::NotFound => RpcError::not_found("session", key.session()),
        StoreError::Damaged(ref part) => {
            // The server's log has the text and not the metadata.
            let text = format!("session \"{}\": {error}", key.session());
            damaged(text, part).meta("session", key.session())
        }
        error => RpcError::from(error).meta("session", key.session()),
    }
}

/// The same, where the number that the store knows less of is a cursor that the caller has named:
/// it may be wrong, and nothing be lost.
pub(crate) fn about_cursor(key: &SessionKey) -> impl Fn(StoreError) -> RpcError + '_ {
    move |error| match error {
        StoreError::WentBack { known, stored } => {
            let text = StoreError::WentBack { known, stored }.to_string();
            RpcError::new(ErrorKind::OutOfRange, text)
                .reason(WENT_BACK)
                .meta("session", key.session())
                .meta("known", known.to_string())
                .meta("stored", stored.to_string())
        }
        error => about(key)(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    /// Keeps the levels of what is logged.
    #[derive(Clone, Default)]
    struct Levels(Arc<Mutex<Vec<Level>>>);

    impl Subscriber for Levels {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            self.0.lock().unwrap().push(*event.metadata().level());
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn the_end_of_a_store_is_nothing_to_warn_of() {
        for (error, level) in [
            (StoreError::closed(), Level::DEBUG),
            (StoreError::unavailable("disk I/O error"), Level::WARN),
        ] {
            let levels = Levels::default();
            let told = tracing::subscriber::with_default(levels.clone(), || RpcError::from(error));
            assert_eq!(told.kind(), ErrorKind::Unavailable);
            assert_eq!(*levels.0.lock().unwrap(), [level]);
        }
    }
}
