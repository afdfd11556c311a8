//! Sessions that begin as copies of others.
//!
//! A child that is not complete is a row of `session` that no name leads to: its namespace is empty,
//! which none is, and its id holds namespace and session. Its other columns say where it stands:
//! `op_id` the source, `op_first_seq` the cut, `last_seq` how far it is copied. Completing it gives it
//! its name.

use super::commit::announce_events;
use super::create::remove_rows;
use super::operation::{Operation, Stop, Tx};
use super::pack::{Packed, unpack};
use super::row::{Session, find_request, keep_request};
use super::schema::{position, seq_of, to_i64, to_u64};
use super::{idle, journal};
use crate::apart::blob_of;
use crate::hub::Hub;
use crate::port::{
    COPY_BYTES, Completion, Copied, CopyEvents, Room, SessionKey, StoreError, UNFINISHED_MS,
};
use rusqlite::{Connection, OptionalExtension, params};

const BEGIN: &str = "INSERT INTO session (namespace, id, created_ms, updated_ms, status, last_seq, \
    journal_bytes, handled_through, last_command_seq, floor_seq, op_id, op_first_seq, epoch, \
    lease_until_ms, title) VALUES ('', ?1, ?2, ?2, 0, 0, 0, 0, 0, 0, ?3, ?4, 0, 0, '')";

const COMPLETE: &str = "UPDATE session SET namespace = ?2, id = ?3, created_ms = ?4, \
    updated_ms = ?4, status = ?5, last_seq = ?6, journal_bytes = ?7, handled_through = ?8, \
    floor_seq = ?6, op_id = '', op_first_seq = 1, due_ms = ?9, memory_keys = ?10, \
    memory_bytes = ?11, title = ?12 WHERE sid = ?1";

pub(super) const UNFINISHED: &str =
    "SELECT sid FROM session WHERE namespace = '' AND updated_ms <= ?1 LIMIT ?2";

/// See [`Store::copy_events`](crate::port::Store::copy_events).
pub(super) struct CopyOp {
    copy: CopyEvents,
    /// The first number of the events that complete the child, once they have.
    completed: Option<u64>,
}

/// A child that is not complete.
struct Staged {
    /// `None` before it is begun.
    sid: Option<i64>,
    cut: u64,
    through: u64,
    journal_bytes: u64,
    blob_bytes: u64,
}

/// A row of the source's journal, as far as it is copied.
struct Row {
    first_seq: u64,
    row: Vec<u8>,
    events: u64,
    bytes: u64,
}

/// What one call copies.
#[derive(Default)]
struct Batch {
    rows: Vec<Row>,
    /// The blobs that the events name.
    blobs: Vec<String>,
}

impl CopyOp {
    pub(super) fn new(copy: CopyEvents) -> Self {
        Self {
            copy,
            completed: None,
        }
    }

    /// Whether it is this request that made the session.
    fn is_ours(&self, tx: &Tx<'_>, session: &Session) -> Result<u64, Stop> {
        let request = &self.copy.request;
        match find_request(tx.conn, session.sid, &request.id)? {
            Some((digest, cut)) if digest == request.digest => Ok(cut),
            _ => Err(StoreError::RequestMismatch.into()),
        }
    }

    fn staged(&self, tx: &Tx<'_>, source: &Session) -> Result<Staged, Stop> {
        let Some(session) = Session::find(tx.conn, &hidden(&self.copy.child))? else {
            return Ok(Staged {
                sid: None,
                cut: cut(tx.conn, source, self.copy.at_seq)?,
                through: 0,
                journal_bytes: 0,
                blob_bytes: 0,
            });
        };
        self.is_ours(tx, &session)?;
        if session.op_id != self.copy.source.session() {
            return Err(StoreError::RequestMismatch.into());
        }
        Ok(Staged {
            sid: Some(session.sid),
            cut: session.op_first_seq,
            through: session.last_seq,
            journal_bytes: session.journal_bytes,
            blob_bytes: session.blob_bytes,
        })
    }

    /// Copies some more; whatever may be refused has been read by then.
    fn go_on(&self, tx: &Tx<'_>, source: &Session, staged: &mut Staged) -> Result<(), Stop> {
        let batch = read_batch(tx.conn, source.sid, staged)?;
        let sid = match staged.sid {
            Some(sid) => sid,
            None => self.begin(tx, staged.cut)?,
        };
        let mut insert = tx
            .conn
            .prepare_cached("INSERT INTO journal (pos, events) VALUES (?1, ?2)")?;
        for row in &batch.rows {
            insert.execute(params![position(sid, row.first_seq), row.row])?;
            staged.through += row.events;
            staged.journal_bytes += row.bytes;
        }
        for digest in &batch.blobs {
            staged.blob_bytes += copy_blob(tx.conn, source.sid, sid, digest)?;
        }
        tx.conn
            .prepare_cached(
                "UPDATE session SET updated_ms = ?2, last_seq = ?3, journal_bytes = ?4, \
                 blob_bytes = ?5 WHERE sid = ?1",
            )?
            .execute(params![
                sid,
                tx.now,
                to_i64(staged.through),
                to_i64(staged.journal_bytes),
                to_i64(staged.blob_bytes),
            ])?;
        Ok(())
    }

    fn begin(&self, tx: &Tx<'_>, cut: u64) -> rusqlite::Result<i64> {
        let CopyEvents {
            source,
            child,
            request,
            ..
        } = &self.copy;
        let id = hidden(child);
        tx.conn.prepare_cached(BEGIN)?.execute(params![
            id.session(),
            tx.now,
            source.session(),
            to_i64(cut)
        ])?;
        let sid = tx.conn.last_insert_rowid();
        keep_request(tx.conn, sid, &request.id, &request.digest, cut)?;
        Ok(sid)
    }

    fn complete(
        &self,
        tx: &Tx<'_>,
        source: &Session,
        staged: &Staged,
        completion: &Completion,
    ) -> Result<(), Stop> {
        let Some(sid) = staged.sid.filter(|_| staged.through == staged.cut) else {
            return Err(StoreError::Conflict.into());
        };
        let packed = Packed::new(&completion.events);
        let last = staged.cut + packed.count;
        let journal_bytes = staged.journal_bytes + packed.bytes;
        tx.limits()
            .check_journal(last, journal_bytes, Room::Reserve)?;
        let ttl = idle::time_to_live(tx.conn, source.sid)?;
        journal::append(tx.conn, sid, staged.cut + 1, &packed)?;
        let mut insert = tx
            .conn
            .prepare_cached("INSERT INTO memory (sid, key, value) VALUES (?1, ?2, ?3)")?;
        let mut memory_bytes = 0;
        for entry in &completion.memory {
            insert.execute(params![sid, entry.key, entry.value])?;
            memory_bytes += (entry.key.len() + entry.value.len()) as u64;
        }
        let (child, header) = (&self.copy.child, &completion.header);
        tx.conn.prepare_cached(COMPLETE)?.execute(params![
            sid,
            child.namespace(),
            child.session(),
            tx.now,
            header.status.number(),
            to_i64(last),
            to_i64(journal_bytes),
            to_i64(header.handled_through),
            completion.due_unix_ms,
            to_i64(completion.memory.len() as u64),
            to_i64(memory_bytes),
            header.title,
        ])?;
        idle::enter(tx.conn, sid, ttl, tx.now)?;
        Ok(())
    }
}

impl Operation for CopyOp {
    type Answer = Copied;

    fn apply(&mut self, tx: &Tx<'_>) -> Result<Copied, Stop> {
        self.completed = None;
        let answer = |cut_seq, copied_through, is_complete| Copied {
            cut_seq,
            copied_through,
            is_complete,
            now_unix_ms: tx.now,
        };
        if let Some(child) = Session::find(tx.conn, &self.copy.child)? {
            if let Some(end) = child.end {
                return Err(StoreError::Terminal(end).into());
            }
            let cut = self.is_ours(tx, &child)?;
            return Ok(answer(cut, cut, true));
        }
        let source = Session::living(tx.conn, &self.copy.source)?;
        let mut staged = self.staged(tx, &source)?;
        match &self.copy.completion {
            Some(completion) => {
                self.complete(tx, &source, &staged, completion)?;
                self.completed = Some(staged.cut + 1);
            }
            None => self.go_on(tx, &source, &mut staged)?,
        }
        tx.step();
        Ok(answer(staged.cut, staged.through, self.completed.is_some()))
    }

    fn announce(&self, hub: &Hub) {
        if let (Some(first_seq), Some(completion)) = (self.completed, &self.copy.completion) {
            announce_events(hub, &self.copy.child, first_seq, &completion.events);
            hub.work();
        }
    }
}

/// The name of a child that is not complete.
fn hidden(child: &SessionKey) -> SessionKey {
    let id = format!("{}/{}", child.namespace(), child.session());
    SessionKey::new("", id)
}

/// Where the last transition ends that ends at or before `at`.
fn cut(conn: &Connection, source: &Session, at: Option<u64>) -> Result<u64, Stop> {
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
        "SELECT pos, substr(events, 1, 1) FROM journal WHERE pos BETWEEN ?1 AND ?2 ORDER BY pos DESC",
    )?;
    let sid = source.sid;
    let mut rows = select.query(params![position(sid, 0), position(sid, at + 1)])?;
    while let Some(row) = rows.next()? {
        let flag: Vec<u8> = row.get(1)?;
        if Packed::starts(&flag) {
            let before = seq_of(row.get(0)?).saturating_sub(1);
            // What a session was made with is no transition.
            return Ok(if before == 0 { at } else { before });
        }
    }
    Ok(at)
}

fn read_batch(conn: &Connection, sid: i64, staged: &Staged) -> Result<Batch, Stop> {
    let mut select = conn.prepare_cached(
        "SELECT pos, events FROM journal WHERE pos BETWEEN ?1 AND ?2 ORDER BY pos",
    )?;
    let wanted = params![position(sid, staged.through + 1), position(sid, staged.cut)];
    let mut rows = select.query(wanted)?;
    let (mut batch, mut bytes) = (Batch::default(), 0_u64);
    while bytes < COPY_BYTES as u64
        && let Some(row) = rows.next()?
    {
        let (first_seq, row): (_, Vec<u8>) = (seq_of(row.get(0)?), row.get(1)?);
        let events = unpack(first_seq, row.clone()).map_err(StoreError::unavailable)?;
        let events = events
            .into_iter()
            .take_while(|event| event.seq <= staged.cut);
        let mut copied = Row {
            first_seq,
            row,
            events: 0,
            bytes: 0,
        };
        for event in events {
            copied.events += 1;
            copied.bytes += event.event.len() as u64;
            if let Some(digest) = blob_of(&event.event) {
                bytes += blob_length(conn, sid, &digest)?.unwrap_or(0);
                batch.blobs.push(digest);
            }
        }
        copied
            .row
            .truncate(Packed::length(copied.events, copied.bytes));
        bytes += copied.row.len() as u64;
        batch.rows.push(copied);
    }
    Ok(batch)
}

fn blob_length(conn: &Connection, sid: i64, digest: &str) -> rusqlite::Result<Option<u64>> {
    conn.prepare_cached("SELECT octet_length(data) FROM blob WHERE sid = ?1 AND digest = ?2")?
        .query_row(params![sid, digest], |row| row.get(0).map(to_u64))
        .optional()
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
    Ok(blob_length(conn, to, digest)?.unwrap_or(0))
}

/// See [`Store::drop_unfinished`](crate::port::Store::drop_unfinished).
pub(super) struct DropOp {
    pub(super) max: usize,
}

impl Operation for DropOp {
    type Answer = usize;

    const ONLY_IF_AWAITED: bool = true;

    fn apply(&mut self, tx: &Tx<'_>) -> Result<usize, Stop> {
        let max = i64::try_from(self.max).unwrap_or(i64::MAX);
        let before = tx.now.saturating_sub(UNFINISHED_MS);
        let sids: Vec<i64> = tx
            .conn
            .prepare_cached(UNFINISHED)?
            .query_map(params![before, max], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for &sid in &sids {
            remove_rows(tx.conn, sid)?;
            tx.conn
                .prepare_cached("DELETE FROM session WHERE sid = ?1")?
                .execute([sid])?;
        }
        Ok(sids.len())
    }
}
