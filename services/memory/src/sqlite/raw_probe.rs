//! The raw limit: the rows of the common transition, written with bare SQL.
//!
//! The same tables, pragmas and driver as the store's, and nothing around them: what a benchmark
//! puts beside its figures.

use super::schema::{create, position, set_up_writer};
use rusqlite::{Connection, params};
use std::path::Path;

/// A database with some sessions, on which transitions can be made.
#[derive(Debug)]
pub struct RawProbe {
    conn: Connection,
    seqs: Vec<u64>,
}

impl RawProbe {
    /// Makes a database at a path where there is none, with this many sessions.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn create(path: &Path, sessions: usize) -> rusqlite::Result<Self> {
        let conn = Connection::open(path)?;
        set_up_writer(&conn)?;
        create(&conn)?;
        for session in 1..=sessions {
            conn.execute(
                "INSERT INTO session (sid, namespace, id, created_ms, updated_ms, status, \
                 last_seq, journal_bytes, handled_through, last_command_seq, floor_seq, op_id, \
                 op_first_seq, epoch, owner, holder, lease_until_ms, title) \
                 VALUES (?1, 'default', ?2, 0, 0, 1, 0, 0, 0, 0, 0, '', 0, 1, \
                 'an owner with a name of usual length', randomblob(16), 0, '')",
                params![number(session), format!("session-{session}")],
            )?;
        }
        Ok(Self {
            conn,
            seqs: vec![0; sessions],
        })
    }

    /// One transition each of some sessions, by index from 0, all in one SQL transaction: a
    /// journal row of `payload` and a change of the session's row.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn commit(&mut self, sessions: &[usize], payload: &[u8]) -> rusqlite::Result<()> {
        self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        for &session in sessions {
            self.seqs[session] += 1;
            let (sid, seq) = (number(session + 1), self.seqs[session]);
            self.conn
                .prepare_cached("INSERT INTO journal (pos, events) VALUES (?1, ?2)")?
                .execute(params![position(sid, seq), payload])?;
            let count = i64::try_from(seq).unwrap_or(i64::MAX);
            self.conn
                .prepare_cached(
                    "UPDATE session SET updated_ms = ?2, status = 1, version = ?2, \
                     last_seq = ?2, journal_bytes = ?2, handled_through = 0, floor_seq = ?2, \
                     unseen_bytes = 0, op_id = ?3, op_first_seq = ?2, lease_until_ms = ?2, \
                     claims = 0, memory_keys = 0, memory_bytes = 0, title = '', agent = '', \
                     tokens = ?2, cost_nano_usd = ?2 WHERE sid = ?1",
                )?
                .execute(params![sid, count, format!("operation-{count}")])?;
        }
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }
}

fn number(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
}
