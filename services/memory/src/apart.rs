//! Blobs that events name: the one that an event is stored in, and those that it lists.

use crate::port::{SessionKey, Store, StoreError, StoreResult, Stored};
use bytes::Bytes;
use cairn_engine::key::hex;
use cairn_proto::convert::Named;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

/// The digest of the blob that the event is kept in, if it is stored apart.
pub(crate) fn blob_of(event: &[u8]) -> Option<String> {
    Named::by(event).apart.map(|apart| apart.digest)
}

/// The digests of the blobs that the event lists, in order.
pub(crate) fn listed(event: &[u8]) -> Vec<String> {
    let blobs = Named::by(event).blobs.into_iter();
    blobs.map(|blob| blob.digest).collect()
}

/// The digests of all blobs that the event names.
pub(crate) fn named(event: &[u8]) -> Vec<String> {
    let Named { apart, blobs } = Named::by(event);
    let apart = apart.into_iter().map(|apart| apart.digest);
    apart
        .chain(blobs.into_iter().map(|blob| blob.digest))
        .collect()
}

/// The error for a journal with a reference to nothing.
pub(crate) fn lacks_blob(digest: String) -> StoreError {
    StoreError::Damaged(Stored::Blob(digest))
}

/// The digest by which blobs are stored: SHA-256 in hexadecimal.
pub(crate) fn digest_of(data: &[u8]) -> String {
    hex(&Sha256::digest(data))
}

/// A blob that an event of the session lists.
///
/// # Errors
/// `Damaged` also if the session lacks the blob.
pub(crate) async fn listed_blob(
    store: &dyn Store,
    key: &SessionKey,
    digest: String,
) -> StoreResult<Bytes> {
    match store.get_blob(key, &digest).await {
        Err(StoreError::NotFound) => Err(lacks_blob(digest)),
        found => found,
    }
}

/// The event itself, if this is a reference to it. Events are opaque to the store: what is no
/// message is no reference.
pub(crate) async fn whole(
    store: &Arc<dyn Store>,
    key: &SessionKey,
    event: Bytes,
) -> StoreResult<Bytes> {
    match blob_of(&event) {
        None => Ok(event),
        Some(digest) => store.get_blob(key, &digest).await,
    }
}
