//! The events of one operation as the bytes of journal rows.
//!
//! A row is a byte that tells whether it goes on with the operation of the row before, and then
//! each event as its length (four bytes, the lowest first) and its bytes. Nearly every operation
//! is one row; only a very large one is cut, so that reading a page never loads all of it.

use crate::port::StoredEvent;
use bytes::{Buf, Bytes};

/// Bytes of events after which a row is closed.
const ROW_BYTES: usize = 512 * 1024;

const STARTS: u8 = 0;
const CONTINUES: u8 = 1;

/// The events of one operation, ready to be written.
#[derive(Debug, Default)]
pub(super) struct Packed {
    /// Each row, with the place of its first event among the operation's.
    pub(super) rows: Vec<(u64, Vec<u8>)>,
    /// How many events.
    pub(super) count: u64,
    /// How many bytes of events.
    pub(super) bytes: u64,
}

impl Packed {
    pub(super) fn new(events: &[Bytes]) -> Self {
        let mut packed = Self::default();
        let mut rest = events;
        while !rest.is_empty() {
            let (row, after) = rest.split_at(row_length(rest));
            packed.push(row);
            rest = after;
        }
        packed
    }

    /// The same for events that belong to the operation of the row before.
    pub(super) fn continuing(events: &[Bytes]) -> Self {
        let mut packed = Self::new(events);
        let first = packed.rows.first_mut();
        if let Some(flag) = first.and_then(|(_, row)| row.first_mut()) {
            *flag = CONTINUES;
        }
        packed
    }

    /// Whether a row is the first of its operation.
    pub(super) fn starts(row: &[u8]) -> bool {
        row.first() != Some(&CONTINUES)
    }

    /// How long a row of so many events of so many bytes is.
    pub(super) fn length(events: u64, bytes: u64) -> usize {
        usize::try_from(1 + 4 * events + bytes).unwrap_or(usize::MAX)
    }

    fn push(&mut self, events: &[Bytes]) {
        let bytes: usize = events.iter().map(Bytes::len).sum();
        let mut row = Vec::with_capacity(1 + 4 * events.len() + bytes);
        row.push(if self.rows.is_empty() {
            STARTS
        } else {
            CONTINUES
        });
        for event in events {
            // An event is far shorter than 4 GiB: its limit was checked.
            let length = u32::try_from(event.len()).unwrap_or(u32::MAX);
            row.extend_from_slice(&length.to_le_bytes());
            row.extend_from_slice(event);
        }
        self.rows.push((self.count, row));
        self.count += u64::try_from(events.len()).unwrap_or(u64::MAX);
        self.bytes += u64::try_from(bytes).unwrap_or(u64::MAX);
    }
}

fn row_length(events: &[Bytes]) -> usize {
    let mut bytes = 0;
    let fits = |event: &&Bytes| {
        bytes += event.len();
        bytes <= ROW_BYTES
    };
    events.iter().take_while(fits).count().max(1)
}

/// A row that is not what was written.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the journal row of event {first_seq} is damaged")]
pub(super) struct Damaged {
    pub(super) first_seq: u64,
}

/// The events of a row, as slices of it.
pub(super) fn unpack(first_seq: u64, row: Vec<u8>) -> Result<Vec<StoredEvent>, Damaged> {
    let mut rest = Bytes::from(row);
    let damaged = Damaged { first_seq };
    if !matches!(rest.first(), Some(&(STARTS | CONTINUES))) {
        return Err(damaged);
    }
    rest.advance(1);
    let mut events = Vec::new();
    while !rest.is_empty() {
        let length = rest
            .try_get_u32_le()
            .ok()
            .and_then(|l| usize::try_from(l).ok());
        let Some(length) = length.filter(|&length| length <= rest.len()) else {
            return Err(damaged);
        };
        let seq = first_seq + u64::try_from(events.len()).unwrap_or(u64::MAX);
        let event = rest.split_to(length);
        events.push(StoredEvent { seq, event });
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn unpack_all(first_seq: u64, packed: Packed) -> Vec<StoredEvent> {
        let rows = packed.rows.into_iter();
        rows.flat_map(|(place, row)| unpack(first_seq + place, row).unwrap())
            .collect()
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(
            sizes in proptest::collection::vec(prop_oneof![0_usize..20, 0..200_000_usize], 0..20),
        ) {
            let events: Vec<_> = (0_u8..)
                .zip(&sizes)
                .map(|(fill, &size)| Bytes::from(vec![fill; size]))
                .collect();
            let packed = Packed::new(&events);
            prop_assert_eq!(packed.count, sizes.len() as u64);
            prop_assert_eq!(packed.bytes, sizes.iter().sum::<usize>() as u64);
            let flags: Vec<_> = packed.rows.iter().map(|(_, row)| row[0]).collect();
            prop_assert!(flags.iter().skip(1).all(|&flag| flag == CONTINUES));
            prop_assert!(flags.first().is_none_or(|&flag| flag == STARTS));
            let back = unpack_all(7, packed);
            let seqs: Vec<_> = back.iter().map(|event| event.seq).collect();
            prop_assert_eq!(seqs, (7..7 + sizes.len() as u64).collect::<Vec<_>>());
            let back: Vec<_> = back.into_iter().map(|event| event.event).collect();
            prop_assert_eq!(back, events);
        }

        #[test]
        fn damaged_rows_are_told_and_never_panic(row in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(events) = unpack(1, row.clone()) {
                let bytes: usize = events.iter().map(|event| 4 + event.event.len()).sum();
                prop_assert_eq!(bytes + 1, row.len());
            }
        }
    }

    #[test]
    fn a_cut_row_is_damaged() {
        let (_, row) = Packed::new(&[Bytes::from_static(b"event")]).rows.remove(0);
        for length in [0, 2, row.len() - 1] {
            assert_eq!(
                unpack(3, row[..length].to_vec()),
                Err(Damaged { first_seq: 3 })
            );
        }
    }
}
