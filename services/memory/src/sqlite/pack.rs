//! The events of one operation as the bytes of journal rows.
//!
//! A row is a byte that tells whether it continues with the operation of the row before, and then
//! each event as its length (four bytes, the lowest first), its [checksum](crate::checksum) and its
//! bytes. The mark of a checksum is the row's first byte, on the row's first event. Nearly every
//! operation is one row; only a very large one is cut, so that reading a page never loads all of it.

use crate::checksum;
use crate::port::{StoreError, StoreResult, StoredEvent};
use bytes::{Buf, Bytes};

/// Bytes of events after which a row is closed.
const ROW_BYTES: usize = 512 * 1024;

const STARTS: u8 = 0;
const CONTINUES: u8 = 1;

/// Bytes of an event's length.
const LENGTH: usize = size_of::<u32>();

/// Bytes in front of an event.
const HEAD: usize = LENGTH + checksum::BYTES;

/// The events of one operation, ready to be written.
#[derive(Debug, Default)]
pub(super) struct Packed {
    /// Each row, with the place of its first event among the operation's.
    rows: Vec<(u64, Vec<u8>)>,
    /// The seq of the first event, as far as the checksums know.
    first_seq: u64,
    /// How many events.
    pub(super) count: u64,
    /// How many bytes of events.
    pub(super) bytes: u64,
}

impl Packed {
    /// Copies events into rows and takes their checksums, so that the writer's thread does not have to.
    pub(super) fn new(events: &[Bytes]) -> Self {
        Self::of(STARTS, events)
    }

    /// The same for events that belong to the operation of the row before.
    pub(super) fn continuing(events: &[Bytes]) -> Self {
        Self::of(CONTINUES, events)
    }

    fn of(mut flag: u8, events: &[Bytes]) -> Self {
        let mut packed = Self::default();
        let mut rest = events;
        while !rest.is_empty() {
            let (row, after) = rest.split_at(row_length(rest));
            packed.push(flag, row);
            flag = CONTINUES;
            rest = after;
        }
        packed
    }

    /// The rows for events of which the first has that seq, each with the seq of its first event.
    pub(super) fn rows_from(&mut self, first_seq: u64) -> impl Iterator<Item = (u64, &[u8])> {
        let there = checksum::place(first_seq, false);
        let by = there.wrapping_sub(checksum::place(self.first_seq, false));
        self.first_seq = first_seq;
        for (_, row) in &mut self.rows {
            move_sums(row, by);
        }
        let rows = self.rows.iter();
        rows.map(move |(place, row)| (first_seq + place, &row[..]))
    }

    /// Whether a row is the first of its operation.
    pub(super) fn starts(row: &[u8]) -> bool {
        row.first() != Some(&CONTINUES)
    }

    /// How long a row of so many events of so many bytes is.
    pub(super) fn length(events: u64, bytes: u64) -> usize {
        usize::try_from(1 + HEAD as u64 * events + bytes).unwrap_or(usize::MAX)
    }

    fn push(&mut self, flag: u8, events: &[Bytes]) {
        let bytes: usize = events.iter().map(Bytes::len).sum();
        let mut row = Vec::with_capacity(1 + HEAD * events.len() + bytes);
        row.push(flag);
        for (seq, event) in (self.first_seq + self.count..).zip(events) {
            // An event is far shorter than 4 GiB: its limit was checked.
            let length = u32::try_from(event.len()).unwrap_or(u32::MAX);
            let mark = row.len() == 1 && flag == CONTINUES;
            row.extend_from_slice(&length.to_le_bytes());
            row.extend_from_slice(&checksum::placed(seq, mark, event).to_le_bytes());
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

/// Adds to the checksum of each event of a row that was packed here.
fn move_sums(row: &mut [u8], by: u32) {
    let mut rest = row.get_mut(1..).unwrap_or_default();
    while let Some((head, after)) = rest.split_first_chunk_mut::<HEAD>() {
        let [a, b, c, d, sum @ ..] = head;
        let length = u32::from_le_bytes([*a, *b, *c, *d]);
        *sum = u32::from_le_bytes(*sum).wrapping_add(by).to_le_bytes();
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        rest = after.get_mut(length..).unwrap_or_default();
    }
}

/// The events of a row, as slices of it.
///
/// # Errors
/// `Damaged` with the first event that is not what was written.
pub(super) fn unpack(first_seq: u64, mut rest: Bytes) -> StoreResult<Vec<StoredEvent>> {
    let mut events = Vec::new();
    let flag = rest.first().copied();
    let Some(flag @ (STARTS | CONTINUES)) = flag else {
        return Err(StoreError::damaged_event(first_seq));
    };
    rest.advance(1);
    while !rest.is_empty() {
        let seq = first_seq + u64::try_from(events.len()).unwrap_or(u64::MAX);
        let damaged = || StoreError::damaged_event(seq);
        let mut number = || rest.try_get_u32_le().map_err(|_| damaged());
        let (length, sum) = (number()?, number()?);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > rest.len() {
            return Err(damaged());
        }
        let event = rest.split_to(length);
        let mark = events.is_empty() && flag == CONTINUES;
        checksum::check_event(seq, mark, &event, sum)?;
        events.push(StoredEvent { seq, event });
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn unpack_all(first_seq: u64, packed: &mut Packed) -> Vec<StoredEvent> {
        let rows = packed.rows_from(first_seq);
        rows.flat_map(|(seq, row)| unpack(seq, Bytes::copy_from_slice(row)).unwrap())
            .collect()
    }

    fn damaged(seq: u64) -> StoreResult<Vec<StoredEvent>> {
        Err(StoreError::damaged_event(seq))
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
            let mut packed = Packed::new(&events);
            // As after a transaction that was rolled back.
            let _ = packed.rows_from(3);
            prop_assert_eq!(packed.count, sizes.len() as u64);
            prop_assert_eq!(packed.bytes, sizes.iter().sum::<usize>() as u64);
            let flags: Vec<_> = packed.rows.iter().map(|(_, row)| row[0]).collect();
            prop_assert!(flags.iter().skip(1).all(|&flag| flag == CONTINUES));
            prop_assert!(flags.first().is_none_or(|&flag| flag == STARTS));
            let back = unpack_all(7, &mut packed);
            let seqs: Vec<_> = back.iter().map(|event| event.seq).collect();
            prop_assert_eq!(seqs, (7..7 + sizes.len() as u64).collect::<Vec<_>>());
            let back: Vec<_> = back.into_iter().map(|event| event.event).collect();
            prop_assert_eq!(back, events);
        }

        #[test]
        fn noise_is_no_row(row in proptest::collection::vec(any::<u8>(), 2..64)) {
            prop_assert!(matches!(unpack(1, row.into()), Err(StoreError::Damaged(_))));
        }
    }

    #[test]
    fn every_flipped_byte_is_noticed_and_its_event_named() {
        let events = ["first", "", "the last"].map(Bytes::from);
        let starts = [1, 1 + HEAD + 5, 1 + 2 * HEAD + 5];
        for mut packed in [Packed::new(&events), Packed::continuing(&events)] {
            let (seq, row) = packed.rows_from(7).next().unwrap();
            let row = row.to_vec();
            assert_eq!(unpack(seq, row.clone().into()).unwrap().len(), 3);
            assert_eq!(
                unpack(seq + 1, row.clone().into()),
                damaged(8),
                "at another place"
            );
            for (place, change) in (0..row.len()).flat_map(|at| (1..=255).map(move |it| (at, it))) {
                let mut row = row.clone();
                row[place] ^= change;
                let before = starts.iter().filter(|start| **start <= place).count() as u64;
                assert_eq!(
                    unpack(seq, row.into()),
                    damaged(seq + before.saturating_sub(1))
                );
            }
        }
    }

    #[test]
    fn a_cut_row_is_damaged() {
        let mut packed = Packed::new(&[Bytes::from_static(b"event")]);
        let (_, row) = packed.rows_from(3).next().unwrap();
        for length in [0, 2, row.len() - 1] {
            assert_eq!(
                unpack(3, Bytes::copy_from_slice(&row[..length])),
                damaged(3)
            );
        }
    }
}
