//! The tables, and how a connection is set up.
//!
//! What the common transition touches is one row of `session` and one new row of `journal`; no
//! index holds a column that it changes. The two columns for listings that have an index, `changed` and
//! `pending`, are written only if they differ: `changed` is the tenth of a second of the last change. The column
//! `taken` is the operation that took the lease with a command. The column `needs` is the level of an owner
//! that can read the session, written only if it rises; `session_due` has it, so that a claim passes over
//! what it cannot take without reading rows. A journal row is one operation's events. The rows of a
//! session lie together because its number makes the upper half of their key. The status of a
//! session that was deleted says how it ended. The column `claims` is a
//! [`ClaimCount`](super::claim_count::ClaimCount). There is one more table in `idle`, one in `waiting`, and
//! there are those of `document`.

use super::document;
use rusqlite::Connection;

/// "Cair", by which a file is known to be a store of Cairn.
pub(super) const APPLICATION_ID: i32 = 0x4361_6972;

/// The format that this program writes, and the newest that it reads.
pub(super) const FORMAT: i32 = 1;

/// Beside the format: the store is open, or was not closed. See [`mark`](super::mark).
pub(super) const OPEN: i32 = 1 << 16;

pub(super) const TABLES: &str = "
CREATE TABLE session (
  sid INTEGER PRIMARY KEY,
  namespace TEXT NOT NULL,
  id TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL,
  deleted_ms INTEGER,
  status INTEGER NOT NULL,
  version INTEGER NOT NULL DEFAULT 0,
  last_seq INTEGER NOT NULL,
  journal_bytes INTEGER NOT NULL,
  handled_through INTEGER NOT NULL,
  last_command_seq INTEGER NOT NULL,
  floor_seq INTEGER NOT NULL,
  unseen_bytes INTEGER NOT NULL DEFAULT 0,
  op_id TEXT NOT NULL,
  op_first_seq INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  owner TEXT,
  holder BLOB,
  lease_until_ms INTEGER NOT NULL,
  due_ms INTEGER,
  claims INTEGER NOT NULL DEFAULT 0,
  quarantined INTEGER NOT NULL DEFAULT 0,
  holder_dead INTEGER NOT NULL DEFAULT 0,
  memory_keys INTEGER NOT NULL DEFAULT 0,
  memory_bytes INTEGER NOT NULL DEFAULT 0,
  blob_bytes INTEGER NOT NULL DEFAULT 0,
  title TEXT NOT NULL,
  agent TEXT NOT NULL DEFAULT '',
  tokens INTEGER NOT NULL DEFAULT 0,
  cost_nano_usd INTEGER NOT NULL DEFAULT 0,
  pending TEXT NOT NULL DEFAULT '-',
  changed INTEGER NOT NULL DEFAULT 0,
  taken TEXT,
  needs INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE UNIQUE INDEX session_name ON session (namespace, id);
CREATE INDEX session_living ON session (namespace) WHERE deleted_ms IS NULL;
CREATE INDEX session_changed ON session (namespace, changed, id) WHERE deleted_ms IS NULL;
CREATE INDEX session_asking ON session (namespace) WHERE deleted_ms IS NULL AND pending <> '-';
CREATE INDEX session_deleted ON session (deleted_ms) WHERE deleted_ms IS NOT NULL;
CREATE INDEX session_due ON session (due_ms, needs) WHERE due_ms IS NOT NULL;
CREATE INDEX session_owned ON session (owner) WHERE owner IS NOT NULL;
CREATE TABLE journal (pos INTEGER PRIMARY KEY, events BLOB NOT NULL) STRICT;
CREATE TABLE checkpoint (
  pos INTEGER PRIMARY KEY,
  state BLOB NOT NULL,
  sum INTEGER NOT NULL
) STRICT;
CREATE TABLE request (
  sid INTEGER NOT NULL,
  id TEXT NOT NULL,
  digest BLOB NOT NULL,
  seq INTEGER NOT NULL,
  PRIMARY KEY (sid, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE memory (
  sid INTEGER NOT NULL,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  metadata TEXT,
  created_ms INTEGER,
  updated_ms INTEGER,
  PRIMARY KEY (sid, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE blob (
  num INTEGER PRIMARY KEY,
  sid INTEGER NOT NULL,
  digest TEXT NOT NULL,
  data BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX blob_digest ON blob (sid, digest);
";

/// The settings on which the promise of durability rests, for the connection that writes.
///
/// # Errors
/// Those of SQLite; of the file not being a database first of all.
pub(super) fn set_up_writer(conn: &Connection) -> rusqlite::Result<String> {
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    conn.execute_batch(
        "PRAGMA synchronous = FULL;
         PRAGMA fullfsync = ON;
         PRAGMA checkpoint_fullfsync = ON;
         PRAGMA journal_size_limit = 67108864;
         PRAGMA cache_size = -8192;
         PRAGMA trusted_schema = OFF;
         PRAGMA temp_store = MEMORY;",
    )?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(mode)
}

/// The same for a connection that only reads.
pub(super) fn set_up_reader(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF;")?;
    conn.set_prepared_statement_cache_capacity(32);
    Ok(())
}

/// Makes the tables in an empty database, all or none.
pub(super) fn create(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(&format!(
        "BEGIN IMMEDIATE; {TABLES} {}
         PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT};
         COMMIT;",
        document::TABLES
    ))
}

/// Key of a row that belongs to event `seq` of session `sid`.
pub(super) fn position(sid: i64, seq: u64) -> i64 {
    (sid << 32) | i64::from(u32::try_from(seq).unwrap_or(u32::MAX))
}

/// Number of the event that a key belongs to.
pub(super) fn seq_of(position: i64) -> u64 {
    to_u64(position & i64::from(u32::MAX))
}

/// SQLite has signed integers only; nothing here comes near the difference.
pub(super) fn to_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The way back.
pub(super) fn to_u64(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
