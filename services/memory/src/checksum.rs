//! Checksums of what is stored, so that damage is noticed when it is read: the same in all stores.
//!
//! The checksum of an event or a checkpoint is the CRC-32 of its bytes plus its place. The place is
//! twice the seq, and one more for an event with a mark, whose meaning is the store's. An event with
//! the seq or the mark of another one is damaged, too. The session plays no part, so a fork copies
//! events as they are stored.
//!
//! The place is added to the CRC and not taken into it: on Redis only the script knows the seq of a
//! new event, and a script can add. A CRC-32 notices every change within 32 bits, so every byte.
//!
//! The digest by which a blob is stored is its checksum.

use crate::apart::digest_of;
use crate::port::{Checkpoint, StoreError, StoreResult, Stored};
use bytes::Bytes;

/// Bytes of a checksum as it is stored, the lowest first.
pub(crate) const BYTES: usize = size_of::<u32>();

/// The checksum of bytes whose place is not known yet.
pub(crate) fn unplaced(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// What a place adds to the checksum.
pub(crate) fn place(seq: u64, mark: bool) -> u32 {
    // Journals are shorter than 2^32 events.
    let seq = u32::try_from(seq).unwrap_or(u32::MAX);
    seq.wrapping_mul(2).wrapping_add(u32::from(mark))
}

/// The checksum of bytes at their place.
pub(crate) fn placed(seq: u64, mark: bool, bytes: &[u8]) -> u32 {
    unplaced(bytes).wrapping_add(place(seq, mark))
}

/// Refuses an event that is not what was written.
pub(crate) fn check_event(seq: u64, mark: bool, event: &[u8], sum: u32) -> StoreResult<()> {
    if placed(seq, mark, event) == sum {
        return Ok(());
    }
    Err(StoreError::damaged_event(seq))
}

/// The checksum of a checkpoint.
pub(crate) fn of_checkpoint(checkpoint: &Checkpoint) -> u32 {
    placed(checkpoint.through_seq, false, &checkpoint.state)
}

/// Refuses a checkpoint that is not what was written, or has lost its checksum.
pub(crate) fn check_checkpoint(checkpoint: &Checkpoint, sum: Option<u32>) -> StoreResult<()> {
    if Some(of_checkpoint(checkpoint)) == sum {
        return Ok(());
    }
    let through = checkpoint.through_seq;
    Err(StoreError::Damaged(Stored::Checkpoint(through)))
}

/// Refuses a blob that is not what was written. Takes some milliseconds for a large one.
pub(crate) fn check_blob(digest: &str, data: Bytes) -> StoreResult<Bytes> {
    if digest_of(&data) == digest {
        return Ok(data);
    }
    Err(StoreError::Damaged(Stored::Blob(digest.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_of_the_bytes_and_their_place() {
        // Other versions have to find the same: python3 -c 'import zlib; print(zlib.crc32(b"a"))'
        assert_eq!(unplaced(b"a"), 3_904_355_907);
        let one = placed(7, false, b"a");
        assert_eq!(check_event(7, false, b"a", one), Ok(()));
        let damaged = Err(StoreError::damaged_event(8));
        assert_eq!(check_event(8, false, b"a", one), damaged);
        for (mark, event) in [(true, b"a"), (false, b"b")] {
            assert!(check_event(7, mark, event, one).is_err());
        }
    }
}
