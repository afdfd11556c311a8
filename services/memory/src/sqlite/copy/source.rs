//! The beginning of a session, as the source of a copy.

use super::super::operation::Stop;
use super::super::pack::{Packed, unpack};
use super::super::row::Session;
use super::super::schema::{position, seq_of};
use super::super::{blob, journal};
use super::Staged;
use crate::apart::named;
use crate::port::{COPY_BYTES, StoreError, Stored};
use bytes::Bytes;
use rusqlite::{Connection, params};
use std::collections::BTreeSet;

/// A row of the source's journal, as far as it is copied.
struct Row {
    first_seq: u64,
    row: Bytes,
    events: u64,
    bytes: u64,
}

/// What one call copies.
#[derive(Default)]
pub(super) struct Batch {
    rows: Vec<Row>,
    /// Blobs that events name and the child does not have: those of the rows, and of the row that comes next.
    blobs: BTreeSet<String>,
}

/// Where the last transition ends that ends at or before `at`.
pub(super) fn cut(conn: &Connection, source: &Session, at: Option<u64>) -> Result<u64, Stop> {
    let at = at.unwrap_or(source.last_seq);
    if at > source.last_seq {
        return Err(StoreError::WentBack {
            known: at,
            stored: source.last_seq,
        }
        .into());
    }
    if at == source.last_seq {
        return Ok(at);
    }
    // Each row but the last ends where the next begins.
    let mut select = conn.prepare_cached(
        "SELECT pos, events FROM journal WHERE pos BETWEEN ?1 AND ?2 ORDER BY pos DESC",
    )?;
    let sid = source.sid;
    let mut rows = select.query(params![position(sid, 0), position(sid, at + 1)])?;
    let mut behind = at + 2;
    while let Some(row) = rows.next().map_err(Stop::reading(Stored::Event(at)))? {
        let (first_seq, row): (_, Vec<u8>) = (seq_of(row.get(0)?), row.get(1)?);
        let starts = Packed::starts(&row);
        let next = first_seq + unpack(first_seq, row.into())?.len() as u64;
        if next < behind {
            return Err(StoreError::damaged_event(next).into());
        }
        behind = first_seq;
        if starts {
            let before = first_seq.saturating_sub(1);
            // What a session was made with is no transition.
            return Ok(if before == 0 { at } else { before });
        }
    }
    Ok(at)
}

/// Reads what one call copies. A row is copied once all blobs that its events name are, which may take
/// several calls.
pub(super) fn read(conn: &Connection, sid: i64, staged: &Staged) -> Result<Batch, Stop> {
    let (mut batch, mut bytes) = (Batch::default(), 0);
    let wanted = (staged.through + 1, staged.cut);
    journal::each_row(conn, sid, wanted, |row| {
        let mut copied = Row {
            first_seq: row.first_seq,
            row: row.row,
            events: 0,
            bytes: 0,
        };
        let events = row.events.iter();
        for event in events.take_while(|event| event.seq <= staged.cut) {
            copied.events += 1;
            copied.bytes += event.event.len() as u64;
            for digest in named(&event.event) {
                if blob::length(conn, staged.sid, &digest)?.is_some() {
                    continue;
                }
                if bytes >= COPY_BYTES as u64 {
                    return Ok(false);
                }
                // A blob that is not there was none for the source's readers either.
                if let Some(length) = blob::length(conn, Some(sid), &digest)?
                    && batch.blobs.insert(digest)
                {
                    bytes += length;
                }
            }
        }
        copied
            .row
            .truncate(Packed::length(copied.events, copied.bytes));
        bytes += copied.row.len() as u64;
        batch.rows.push(copied);
        Ok(bytes < COPY_BYTES as u64)
    })?;
    Ok(batch)
}

/// Writes what was read of the source.
pub(super) fn append(
    conn: &Connection,
    from: i64,
    to: i64,
    batch: &Batch,
    staged: &mut Staged,
) -> rusqlite::Result<()> {
    let mut insert = conn.prepare_cached("INSERT INTO journal (pos, events) VALUES (?1, ?2)")?;
    for row in &batch.rows {
        insert.execute(params![position(to, row.first_seq), &row.row[..]])?;
        staged.through += row.events;
        staged.journal_bytes += row.bytes;
    }
    for digest in &batch.blobs {
        staged.blob_bytes += copy_blob(conn, from, to, digest)?;
    }
    Ok(())
}

/// Answers by how many bytes the child's blobs grow.
fn copy_blob(conn: &Connection, from: i64, to: i64, digest: &str) -> rusqlite::Result<u64> {
    let copied = conn
        .prepare_cached(
            "INSERT OR IGNORE INTO blob (sid, digest, data) \
             SELECT ?2, digest, data FROM blob WHERE sid = ?1 AND digest = ?3",
        )?
        .execute(params![from, to, digest])?;
    if copied == 0 {
        return Ok(0);
    }
    Ok(blob::length(conn, Some(to), digest)?.unwrap_or(0))
}
