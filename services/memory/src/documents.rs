//! The rules of documents: pure, and the same in all stores. Scripts of the shared store repeat [`change`].

use crate::checksum;
use crate::port::{
    Document, DocumentPage, DocumentWrite, Limit, Limits, Position, StoreError, StoreResult,
    Stored, at_most,
};
use cairn_engine::key::hex;
use sha2::{Digest as _, Sha256};

/// How long the tombstone of a deleted document stays.
pub(crate) const TOMBSTONE_MS: i64 = 30 * 24 * 60 * 60 * 1000;

/// A retry is known by its operation until so many later changes of the collection.
pub(crate) const REMEMBERED: u64 = 1000;

/// Most bytes of ids and values in a page, unless one document alone has more.
pub(crate) const PAGE_BYTES: usize = 1 << 20;

/// Most documents that a watcher is given at once.
pub(crate) const WATCHED: usize = 1000;

/// What a collection adds up to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Number of the last change.
    pub(crate) counter: u64,
    /// Tombstones up to this version may be gone.
    pub(crate) floor: u64,
    /// Documents that are not deleted.
    pub(crate) documents: u64,
    /// Bytes of their ids and values.
    pub(crate) bytes: u64,
    /// Deleted documents that are not forgotten.
    pub(crate) tombstones: u64,
}

/// What a collection has under an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) version: u64,
    /// Bytes of the value; `None` for a tombstone.
    pub(crate) value_bytes: Option<u64>,
}

/// What a collection adds up to after a write, whose version is the new counter; `None` if there is nothing to
/// delete.
///
/// With more tombstones than there may be documents, the oldest one goes and the floor rises to its version.
pub(crate) fn change(
    before: &Totals,
    found: Option<Found>,
    write: &DocumentWrite,
    limits: &Limits,
) -> StoreResult<Option<Totals>> {
    let living = found.and_then(|found| Some((found.version, found.value_bytes?)));
    let version = living.map_or(0, |(version, _)| version);
    if !write.expected.is(version) {
        return Err(StoreError::DocumentVersion { found: version });
    }
    let id = size(write.id.as_bytes());
    let old = living.map_or(0, |(_, value)| id + value);
    let mut after = *before;
    after.counter += 1;
    after.bytes -= old;
    match (&write.value, living) {
        (None, None) => return Ok(None),
        (None, Some(_)) => {
            after.documents -= 1;
            after.tombstones += 1;
        }
        (Some(value), living) => {
            after.bytes += id + size(value);
            after.documents += u64::from(living.is_none());
            after.tombstones -= u64::from(living.is_none() && found.is_some());
        }
    }
    if after.documents > before.documents {
        at_most(after.documents, limits.documents, Limit::Documents)?;
    }
    if after.bytes > before.bytes {
        at_most(after.bytes, limits.collection_bytes, Limit::CollectionBytes)?;
    }
    Ok(Some(after))
}

/// Where a reader stands who stood at a position and read the page after it; without a position, the reader
/// had nothing.
///
/// # Errors
/// `Relist` if the page does not continue from the position.
pub(crate) fn advance(position: Option<&Position>, page: &DocumentPage) -> StoreResult<Position> {
    let head = &page.head;
    let start = || Position {
        incarnation: head.incarnation.clone(),
        counter: 0,
        since: head.counter,
    };
    let position = position.cloned().unwrap_or_else(start);
    let continues = position.incarnation == head.incarnation
        && position.counter <= head.counter
        && position.counter.max(position.since) >= head.floor;
    if !continues {
        return Err(StoreError::Relist);
    }
    let last = page.documents.last().map(|document| document.version);
    let counter = match page.is_last {
        true => head.counter,
        false => last.unwrap_or(position.counter),
    };
    Ok(Position {
        counter,
        ..position
    })
}

/// Distinguishes a retry from another request with its operation.
pub(crate) fn digest(write: &DocumentWrite) -> String {
    let marker = match write.value.is_some() {
        true => "put",
        false => "deleted",
    };
    let digest = Sha256::new()
        .chain_update(&write.id)
        .chain_update(" ")
        .chain_update(write.expected.text())
        .chain_update(" ")
        .chain_update(marker)
        .chain_update(" ")
        .chain_update(write.value.as_deref().unwrap_or_default())
        .finalize();
    hex(&digest)
}

/// The checksum that a document is stored with.
pub(crate) fn sum(id: &str, value: &[u8]) -> u32 {
    checksum::unplaced(value).wrapping_add(checksum::unplaced(id.as_bytes()))
}

/// Refuses a document that is not what was written; a tombstone has no checksum.
pub(crate) fn check(document: Document, stored: Option<u32>) -> StoreResult<Document> {
    let value = document.value.as_deref();
    match value.map(|value| sum(&document.id, value)) == stored {
        true => Ok(document),
        false => Err(StoreError::Damaged(Stored::Document(document.id))),
    }
}

fn size(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
