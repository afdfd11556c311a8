//! Sessions that wait for what no resource has.
//!
//! Each has a row in `waiting`, with the time since when it waits for exactly this. The row stays while an owner
//! works: a claim that finds nothing does not cost the session its place. So a look passes over sessions that have
//! an owner. A session that waits for nothing has no row, and a transition that changes nothing here writes none.

use super::operation::{Operation, Stop, Tx};
use super::row::Session;
use crate::hub::Hub;
use crate::port::{Header, SessionKey, WaitingSession, waits_of, waits_text};
use rusqlite::{Connection, Row, params};

/// Made at each opening, so that files from before have it too.
const TABLES: &str = "
CREATE TABLE IF NOT EXISTS waiting (
  sid INTEGER PRIMARY KEY,
  since_ms INTEGER NOT NULL,
  waits_for TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS waiting_since ON waiting (since_ms);
";

/// As the table, for a connection that cannot make it.
const STAND_IN: &str = "PRAGMA temp_store = MEMORY;
CREATE TEMP TABLE waiting (
  sid INTEGER PRIMARY KEY,
  since_ms INTEGER NOT NULL,
  waits_for TEXT NOT NULL
) STRICT;
CREATE INDEX temp.waiting_since ON waiting (since_ms);
";

pub(super) const LONGEST: &str = "SELECT s.namespace, s.id, w.since_ms, w.waits_for \
    FROM waiting w INDEXED BY waiting_since CROSS JOIN session s ON s.sid = w.sid \
    WHERE s.deleted_ms IS NULL AND s.owner IS NULL AND s.quarantined = 0 \
    AND (s.due_ms IS NULL OR s.due_ms > ?1) ORDER BY w.since_ms, w.sid LIMIT ?2";

const WAKE: &str = "UPDATE session SET due_ms = ?2 WHERE sid = ?1 AND owner IS NULL \
    AND quarantined = 0 AND (due_ms IS NULL OR due_ms > ?2)";

/// Makes the table if the file has none.
pub(super) fn prepare(conn: &Connection) -> rusqlite::Result<()> {
    if is_there(conn)? {
        return Ok(());
    }
    conn.execute_batch(&format!("BEGIN IMMEDIATE; {TABLES} COMMIT;"))
}

/// Lets a connection read a file from before, which has no such table, without a change of the file.
pub(super) fn stand_in(conn: &Connection) -> rusqlite::Result<()> {
    if is_there(conn)? {
        return Ok(());
    }
    conn.execute_batch(STAND_IN)
}

fn is_there(conn: &Connection) -> rusqlite::Result<bool> {
    let find = "SELECT count(*) FROM sqlite_schema WHERE name = 'waiting_since'";
    conn.query_row(find, [], |row| row.get(0))
}

/// Keeps what a session waits for, and since when. `before` is what it waited for.
pub(super) fn note(
    conn: &Connection,
    sid: i64,
    before: &str,
    header: &Header,
    now: i64,
) -> rusqlite::Result<()> {
    let waits_for = waits_text(&header.waits_for);
    if waits_for == before {
        return Ok(());
    }
    if waits_for.is_empty() {
        return leave(conn, sid);
    }
    conn.prepare_cached(
        "INSERT OR REPLACE INTO waiting (sid, since_ms, waits_for) VALUES (?1, ?2, ?3)",
    )?
    .execute(params![sid, now, waits_for])?;
    Ok(())
}

/// A session was deleted, or waits for nothing any more.
pub(super) fn leave(conn: &Connection, sid: i64) -> rusqlite::Result<()> {
    conn.prepare_cached("DELETE FROM waiting WHERE sid = ?1")?
        .execute([sid])?;
    Ok(())
}

/// See [`Store::waiting`](crate::port::Store::waiting).
pub(super) fn longest(
    conn: &Connection,
    now: i64,
    max: usize,
) -> Result<Vec<WaitingSession>, Stop> {
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    let session = |row: &Row<'_>| {
        let (namespace, id): (String, String) = (row.get(0)?, row.get(1)?);
        Ok(WaitingSession {
            key: SessionKey::new(namespace, id),
            since_unix_ms: row.get(2)?,
            waits_for: waits_of(&row.get::<_, String>(3)?),
        })
    };
    let mut select = conn.prepare_cached(LONGEST)?;
    let sessions = select.query_map(params![now, max], session)?;
    Ok(sessions.collect::<Result<_, _>>()?)
}

/// See [`Store::wake`](crate::port::Store::wake).
pub(super) struct WakeOp {
    key: SessionKey,
    is_queued: bool,
}

impl WakeOp {
    pub(super) fn new(key: &SessionKey) -> Self {
        Self {
            key: key.clone(),
            is_queued: false,
        }
    }
}

impl Operation for WakeOp {
    type Answer = bool;

    fn apply(&mut self, tx: &Tx<'_>) -> Result<bool, Stop> {
        self.is_queued = false;
        let session = Session::living(tx.conn, &self.key)?;
        if session.waits_for.is_empty() {
            return Ok(false);
        }
        let queued = tx
            .conn
            .prepare_cached(WAKE)?
            .execute(params![session.sid, tx.now])?;
        self.is_queued = queued > 0;
        Ok(self.is_queued)
    }

    fn announce(&self, hub: &Hub) {
        if self.is_queued {
            hub.work();
        }
    }
}
