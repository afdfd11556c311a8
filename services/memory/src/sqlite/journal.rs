//! Rows of the journal.

use super::operation::Stop;
use super::pack::{Packed, unpack};
use super::schema::{position, seq_of};
use crate::port::{StoreError, StoredEvent};
use rusqlite::{Connection, OptionalExtension, params};

/// Appends an operation's events; the first gets the number `first_seq`.
pub(super) fn append(
    conn: &Connection,
    sid: i64,
    first_seq: u64,
    packed: &Packed,
) -> rusqlite::Result<()> {
    let mut insert = conn.prepare_cached("INSERT INTO journal (pos, events) VALUES (?1, ?2)")?;
    for (place, row) in &packed.rows {
        insert.execute(params![position(sid, first_seq + place), row])?;
    }
    Ok(())
}

/// Where the row lies that holds an event: it may begin earlier.
pub(super) fn row_of(conn: &Connection, sid: i64, seq: u64) -> rusqlite::Result<i64> {
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
    if from > to || max_events == 0 {
        return Ok(events);
    }
    let start = row_of(conn, sid, from)?;
    let mut select = conn.prepare_cached(
        "SELECT pos, events FROM journal WHERE pos BETWEEN ?1 AND ?2 ORDER BY pos",
    )?;
    let mut rows = select.query(params![start, position(sid, to)])?;
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let first_seq = seq_of(row.get(0)?);
        let unpacked = unpack(first_seq, row.get(1)?).map_err(StoreError::unavailable)?;
        for event in unpacked {
            if event.seq < from {
                continue;
            }
            bytes += event.event.len();
            let full = events.len() == max_events || (bytes > max_bytes && !events.is_empty());
            if event.seq > to || full {
                return Ok(events);
            }
            events.push(event);
        }
    }
    Ok(events)
}
