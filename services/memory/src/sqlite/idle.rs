//! Sessions that may go, found without looking at all of them.
//!
//! Each living session has a row in `rest`, which says from when on it is worth looking at: never
//! later than when it may go. Steps, commands and changes of session memory do not touch it. A look
//! moves it on to what the session itself says by then, and behind those that were not named yet.

use super::operation::{Operation, Stop, Tx};
use super::row::Session;
use super::schema::{to_i64, to_u64};
use crate::port::{IdleSession, SessionKey, SessionStatus};
use rusqlite::{Connection, OptionalExtension, Row, params};

/// Made at each opening, so that files from before have it too.
pub(super) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS rest (
  sid INTEGER PRIMARY KEY,
  ttl_ms INTEGER,
  look_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS rest_by_default ON rest (look_ms) WHERE ttl_ms IS NULL;
CREATE INDEX IF NOT EXISTS rest_by_own ON rest (look_ms) WHERE ttl_ms IS NOT NULL;
";

const ENTER_ALL: &str = "INSERT OR IGNORE INTO rest (sid, ttl_ms, look_ms) \
    SELECT sid, NULL, updated_ms FROM session WHERE deleted_ms IS NULL";

/// Rows that one look goes through at most, of each kind.
const MOST_ROWS: i64 = 512;

macro_rules! look {
    ($which:literal) => {
        concat!(
            "SELECT r.sid, r.ttl_ms, s.namespace, s.id, s.last_seq, s.updated_ms, \
             s.deleted_ms IS NULL AND s.status = 0 AND s.owner IS NULL AND s.due_ms IS NULL \
             AND s.quarantined = 0 AND s.last_command_seq <= s.handled_through \
             FROM rest r CROSS JOIN session s ON s.sid = r.sid WHERE ",
            $which,
            " ORDER BY r.look_ms LIMIT ?2"
        )
    };
}

/// Sessions without a time to live of their own.
pub(super) const BY_DEFAULT: &str = look!("r.ttl_ms IS NULL AND r.look_ms < ?1");

/// Those with one.
pub(super) const BY_OWN: &str = look!("r.ttl_ms IS NOT NULL AND r.look_ms <= ?1");

/// Makes the table if the file has none, and enters the sessions of before.
pub(super) fn prepare(conn: &Connection) -> rusqlite::Result<()> {
    let find = "SELECT count(*) FROM sqlite_schema WHERE name = 'rest_by_own'";
    let is_there: bool = conn.query_row(find, [], |row| row.get(0))?;
    if is_there {
        return Ok(());
    }
    conn.execute_batch(&format!("BEGIN IMMEDIATE; {TABLES} {ENTER_ALL}; COMMIT;"))
}

/// A session was made.
pub(super) fn enter(
    conn: &Connection,
    sid: i64,
    ttl_ms: Option<u64>,
    now: i64,
) -> rusqlite::Result<()> {
    let look = now.saturating_add(ttl_ms.map_or(0, to_i64));
    conn.prepare_cached("INSERT OR REPLACE INTO rest (sid, ttl_ms, look_ms) VALUES (?1, ?2, ?3)")?
        .execute(params![sid, ttl_ms.map(to_i64), look])?;
    Ok(())
}

/// How long a session stays without a change, if it was made so.
pub(super) fn time_to_live(conn: &Connection, sid: i64) -> rusqlite::Result<Option<u64>> {
    let ttl: Option<Option<i64>> = conn
        .prepare_cached("SELECT ttl_ms FROM rest WHERE sid = ?1")?
        .query_row([sid], |row| row.get(0))
        .optional()?;
    Ok(ttl.flatten().map(to_u64))
}

/// A session was deleted.
pub(super) fn leave(conn: &Connection, sid: i64) -> rusqlite::Result<()> {
    conn.prepare_cached("DELETE FROM rest WHERE sid = ?1")?
        .execute([sid])?;
    Ok(())
}

/// Whether nobody works on the session, nor will without being asked.
pub(super) fn is_idle(conn: &Connection, session: &Session) -> rusqlite::Result<bool> {
    let is_queued: bool = conn
        .prepare_cached("SELECT due_ms IS NOT NULL FROM session WHERE sid = ?1")?
        .query_row([session.sid], |row| row.get(0))?;
    Ok(session.status == SessionStatus::Idle
        && session.owner.is_none()
        && session.quarantined.is_none()
        && !session.has_unhandled()
        && !is_queued)
}

/// See [`Store::idle`](crate::port::Store::idle).
pub(super) struct IdleOp {
    pub(super) after_ms: Option<u64>,
    pub(super) max: usize,
}

/// A row with its session, as a look finds them.
struct Found {
    sid: i64,
    ttl_ms: Option<i64>,
    is_idle: bool,
    session: IdleSession,
}

impl Found {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let (namespace, id): (String, String) = (row.get(2)?, row.get(3)?);
        Ok(Self {
            sid: row.get(0)?,
            ttl_ms: row.get(1)?,
            is_idle: row.get(6)?,
            session: IdleSession {
                key: SessionKey::new(namespace, id),
                last_seq: to_u64(row.get(4)?),
                updated_unix_ms: row.get(5)?,
            },
        })
    }

    /// Whether it may go, and when to look at it again: no later than when it may go then.
    fn verdict(&self, now: i64, before: i64) -> (bool, i64) {
        let ttl = self.ttl_ms.unwrap_or(0);
        // A change that makes it idle comes later than now.
        let next = match self.is_idle {
            true => self.session.updated_unix_ms,
            false => now,
        };
        let next = next.saturating_add(ttl);
        let may_go = self.is_idle
            && match self.ttl_ms {
                None => next < before,
                Some(_) => next <= now,
            };
        // Behind all others that may go, and still to be found by the next look.
        let behind = if self.ttl_ms.is_some() { now } else { before };
        (may_go, if may_go { behind } else { next })
    }
}

impl IdleOp {
    fn look(
        &self,
        tx: &Tx<'_>,
        sql: &str,
        before: i64,
        most: usize,
        found: &mut Vec<IdleSession>,
    ) -> rusqlite::Result<()> {
        let mut select = tx.conn.prepare_cached(sql)?;
        let rows = select.query_map(params![before, MOST_ROWS], Found::from_row)?;
        let rows: Vec<Found> = rows.collect::<Result<_, _>>()?;
        let mut move_on = tx
            .conn
            .prepare_cached("UPDATE rest SET look_ms = ?2 WHERE sid = ?1")?;
        for row in rows {
            if found.len() >= most {
                break;
            }
            let (may_go, look) = row.verdict(tx.now, before);
            move_on.execute(params![row.sid, look])?;
            found.extend(may_go.then_some(row.session));
        }
        Ok(())
    }
}

impl Operation for IdleOp {
    type Answer = Vec<IdleSession>;

    const ONLY_IF_AWAITED: bool = true;

    fn apply(&mut self, tx: &Tx<'_>) -> Result<Vec<IdleSession>, Stop> {
        let mut found = Vec::new();
        let Some(after_ms) = self.after_ms else {
            self.look(tx, BY_OWN, tx.now, self.max, &mut found)?;
            return Ok(found);
        };
        // Neither kind keeps the other from being named.
        self.look(tx, BY_OWN, tx.now, self.max.div_ceil(2), &mut found)?;
        let before = tx.now.saturating_sub(to_i64(after_ms));
        self.look(tx, BY_DEFAULT, before, self.max, &mut found)?;
        Ok(found)
    }
}
