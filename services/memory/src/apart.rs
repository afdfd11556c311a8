//! Events that are stored apart: the journal has a reference, and a blob of the session the event.

use crate::port::{SessionKey, Store, StoreError, StoreResult, Stored};
use bytes::Bytes;
use cairn_engine::key::hex;
use cairn_proto::event::StoredApart;
use prost::Message;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

/// The part of a `cairn.event.v1.Event` that matters here; whatever else it says is skipped.
#[derive(Clone, PartialEq, Message)]
struct Reference {
    #[prost(message, optional, tag = "31")]
    apart: Option<StoredApart>,
}

/// The blob that the event is kept in, if it is stored apart.
pub(crate) fn blob_of(event: &Bytes) -> Option<String> {
    let reference = Reference::decode(event.clone()).unwrap_or_default();
    reference.apart.map(|apart| apart.digest)
}

/// The error for a journal with a reference to nothing.
pub(crate) fn lacks_blob(digest: String) -> StoreError {
    StoreError::Damaged(Stored::Blob(digest))
}

/// The digest by which blobs are stored: SHA-256 in hexadecimal.
pub(crate) fn digest_of(data: &[u8]) -> String {
    hex(&Sha256::digest(data))
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
