//! Events as they stand in a session's stream.
//!
//! An event's field has the event as its value. The field's name says what a row of the embedded store
//! says around an event: a letter for whether more of the same transition follow, which is the mark of
//! its [checksum], and the checksum.

use crate::checksum;
use crate::port::{StoreError, StoreResult};
use bytes::Bytes;

/// Bytes of a field's name.
pub(super) const NAME: usize = 1 + checksum::BYTES;

/// More events of the transition follow.
const MORE: u8 = b'm';

/// The event is the last of its transition.
const END: u8 = b'e';

/// The name of an event's field.
pub(super) fn name(seq: u64, ends: bool, event: &[u8]) -> [u8; NAME] {
    let letter = if ends { END } else { MORE };
    let [a, b, c, d] = checksum::placed(seq, !ends, event).to_le_bytes();
    [letter, a, b, c, d]
}

/// Whether the event of a field is the last of its transition.
pub(super) fn ends(name: &[u8]) -> bool {
    name.first() == Some(&END)
}

/// The checksums of events whose numbers only the script will know, as scripts take them.
pub(super) fn sums(events: &[Bytes]) -> Vec<u8> {
    let sums = events
        .iter()
        .map(|event| checksum::unplaced(event).to_le_bytes());
    sums.flatten().collect()
}

/// Refuses events that are not what was written. They follow `after_seq`; the names of their fields
/// stand together.
pub(super) fn check<'a>(
    after_seq: u64,
    names: &[u8],
    events: impl IntoIterator<Item = &'a Bytes>,
) -> StoreResult<()> {
    let mut names = names.chunks(NAME);
    // Nothing follows a cursor that is beyond all numbers.
    for (event, seq) in events.into_iter().zip(after_seq.saturating_add(1)..) {
        let Some([letter @ (END | MORE), sum @ ..]) = names.next() else {
            return Err(StoreError::damaged_event(seq));
        };
        let sum = sum.try_into().map(u32::from_le_bytes);
        let sum = sum.map_err(|_| StoreError::damaged_event(seq))?;
        checksum::check_event(seq, *letter == MORE, event, sum)?;
    }
    Ok(())
}
