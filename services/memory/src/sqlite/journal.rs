//! Rows of the journal.

use super::operation::Stop;
use super::pack::{Packed, unpack};
use super::schema::{position, seq_of};
use crate::port::{StoreError, Stored, StoredEvent};
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};

/// Appends an operation's events; the first gets the number `first_seq`.
pub(super) fn append(
    conn: &Connection,
    sid: i64,
    first_seq: u64,
    packed: &mut Packed,
) -> rusqlite::Result<()> {
    let mut insert = conn.prepare_cached("INSERT INTO journal (pos, events) VALUES (?1, ?2)")?;
    for (seq, row) in packed.rows_from(first_seq) {
        insert.execute(params![position(sid, seq), row])?;
    }
    Ok(())
}

/// Where the row lies that holds an event: it may begin earlier.
fn row_of(conn: &Connection, sid: i64, seq: u64) -> rusqlite::Result<i64> {
    let row = conn
        .prepare_cached(
            "SELECT pos FROM journal WHERE pos BETWEEN ?1 AND ?2 ORDER BY pos DESC LIMIT 1",
        )?
        .query_row(params![position(sid, 0), position(sid, seq)], |row| {
            row.get(0)
        })
        .optional()?;
    Ok(row.unwrap_or_else(|| position(sid, seq)))
}

/// A row of a journal, checked.
pub(super) struct Row {
    /// Number of its first event.
    pub(super) first_seq: u64,
    /// As it is stored.
    pub(super) row: Bytes,
    pub(super) events: Vec<StoredEvent>,
}

/// Hands over the rows that hold the events from one number to another, both included, until `take`
/// answers that it takes no more. A journal that lacks an event is damaged, too.
pub(super) fn each_row(
    conn: &Connection,
    sid: i64,
    (from, to): (u64, u64),
    mut take: impl FnMut(Row) -> Result<bool, Stop>,
) -> Result<(), Stop> {
    if from > to {
        return Ok(());
    }
    let start = row_of(conn, sid, from)?;
    let mut select = conn.prepare_cached(
        "SELECT pos, events FROM journal WHERE pos BETWEEN ?1 AND ?2 ORDER BY pos",
    )?;
    let mut rows = select.query(params![start, position(sid, to)])?;
    let mut next = seq_of(start);
    while next <= to {
        let part = Stored::Event(next.max(from));
        let row = rows.next().map_err(Stop::reading(part.clone()))?;
        let Some(row) = row.filter(|row| row.get(0).map(seq_of) == Ok(next)) else {
            return Err(StoreError::Damaged(part).into());
        };
        let row: Vec<u8> = row.get(1).map_err(Stop::reading(part))?;
        let row = Bytes::from(row);
        let row = Row {
            first_seq: next,
            events: unpack(next, row.clone())?,
            row,
        };
        next += row.events.len() as u64;
        if !take(row)? {
            break;
        }
    }
    Ok(())
}

/// Reads events from one number to another, both included, until there are `max_events`, or
/// `max_bytes` are reached.
pub(super) fn read(
    conn: &Connection,
    sid: i64,
    (from, to): (u64, u64),
    max_events: usize,
    max_bytes: usize,
) -> Result<Vec<StoredEvent>, Stop> {
    let mut events = Vec::new();
    if max_events == 0 {
        return Ok(events);
    }
    let mut bytes = 0;
    each_row(conn, sid, (from, to), |row| {
        for event in row.events {
            if event.seq < from {
                continue;
            }
            bytes += event.event.len();
            let full = events.len() == max_events || (bytes > max_bytes && !events.is_empty());
            if event.seq > to || full {
                return Ok(false);
            }
            events.push(event);
        }
        Ok(true)
    })?;
    Ok(events)
}
