//! Session memory: the table that the memory events add up to.
//!
//! The columns `metadata` (a JSON object), `created_ms` and `updated_ms` came later than the table. A row that an
//! earlier version wrote has none of them.

use super::append::{Appending, append_unowned};
use super::operation::{Operation, Stop, Tx};
use super::row::Session;
use super::schema::{to_i64, to_u64};
use crate::hub::Hub;
use crate::memory_event::memory_event;
use crate::metadata::{self, to_text};
use crate::port::{
    Limit, Limits, MemoryEntry, MemoryList, MemoryWrite, MemoryWriter, Metadata, Room, SessionKey,
    at_most,
};
use cairn_rpc::Principal;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::HashMap;

/// Of a table from before.
const COLUMNS: &str = "ALTER TABLE memory ADD COLUMN metadata TEXT;
ALTER TABLE memory ADD COLUMN created_ms INTEGER;
ALTER TABLE memory ADD COLUMN updated_ms INTEGER;
";

/// As the table, for a connection that cannot change it.
const STAND_IN: &str = "PRAGMA temp_store = MEMORY;
CREATE TEMP VIEW memory AS SELECT sid, key, value, NULL AS metadata, NULL AS created_ms, \
  NULL AS updated_ms FROM main.memory;
";

const SET: &str = "INSERT INTO memory (sid, key, value, metadata, created_ms, updated_ms) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?5) ON CONFLICT (sid, key) DO UPDATE SET value = excluded.value, \
    metadata = excluded.metadata, updated_ms = max(excluded.updated_ms, coalesce(created_ms, 0))";

const INSERT: &str = "INSERT INTO memory (sid, key, value, metadata, created_ms, updated_ms) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

/// Adds the columns that a file from before lacks.
pub(super) fn prepare(conn: &Connection) -> rusqlite::Result<()> {
    if is_whole(conn)? {
        return Ok(());
    }
    conn.execute_batch(&format!("BEGIN IMMEDIATE; {COLUMNS} COMMIT;"))
}

/// Lets a connection read a file from before without a change of the file.
pub(super) fn stand_in(conn: &Connection) -> rusqlite::Result<()> {
    if is_whole(conn)? {
        return Ok(());
    }
    conn.execute_batch(STAND_IN)
}

fn is_whole(conn: &Connection) -> rusqlite::Result<bool> {
    let find = "SELECT count(*) FROM pragma_table_info('memory') WHERE name = 'updated_ms'";
    conn.query_row(find, [], |row| row.get(0))
}

/// See [`Store::write_memory`](crate::port::Store::write_memory).
pub(super) struct MemoryOp {
    key: SessionKey,
    change: MemoryWrite,
    by: Principal,
    happened: Option<Appending>,
}

impl MemoryOp {
    pub(super) fn new(key: SessionKey, change: MemoryWrite, by: Principal) -> Self {
        Self {
            key,
            change,
            by,
            happened: None,
        }
    }
}

impl Operation for MemoryOp {
    type Answer = u64;

    fn apply(&mut self, tx: &Tx<'_>) -> Result<u64, Stop> {
        self.happened = None;
        let session = Session::living(tx.conn, &self.key)?;
        let size = MemoryPlan::new(tx.conn, &session).after(
            std::slice::from_ref(&self.change),
            tx.limits(),
            MemoryWriter::Client,
        )?;
        let event = memory_event(&self.change, &self.by, tx.now).into();
        let appending = append_unowned(tx, &session, event, Room::Normal)?;
        write(tx.conn, session.sid, &self.change, tx.now)?;
        tx.conn
            .prepare_cached(
                "UPDATE session SET memory_keys = ?2, memory_bytes = ?3 WHERE sid = ?1",
            )?
            .execute(params![session.sid, to_i64(size.keys), to_i64(size.bytes)])?;
        let seq = appending.seq;
        self.happened = Some(appending);
        Ok(seq)
    }

    fn announce(&self, hub: &Hub) {
        if let Some(happened) = &self.happened {
            hub.appended(
                &self.key,
                happened.seq,
                std::slice::from_ref(&happened.event),
            );
        }
    }
}

/// How much there is in a session's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemorySize {
    pub(super) keys: u64,
    /// Of keys, values and metadata.
    pub(super) bytes: u64,
}

/// How much there will be: found out before anything is written.
pub(super) struct MemoryPlan<'a> {
    conn: &'a Connection,
    sid: i64,
    size: MemorySize,
    cleared: bool,
    /// Bytes of the keys that were looked at, with their values; `None` if they are absent.
    touched: HashMap<&'a str, Option<u64>>,
}

impl<'a> MemoryPlan<'a> {
    pub(super) fn new(conn: &'a Connection, session: &Session) -> Self {
        Self {
            conn,
            sid: session.sid,
            size: session.memory,
            cleared: false,
            touched: HashMap::new(),
        }
    }

    /// The size after all changes. Only growth can be refused.
    pub(super) fn after(
        mut self,
        changes: &'a [MemoryWrite],
        limits: &Limits,
        writer: MemoryWriter,
    ) -> Result<MemorySize, Stop> {
        let before = self.size;
        for change in changes {
            match change {
                MemoryWrite::Set {
                    key,
                    value,
                    metadata,
                    ..
                } => {
                    let bytes = key.len() + value.len() + metadata::bytes(metadata);
                    self.put(key, Some(bytes))?;
                }
                MemoryWrite::Remove { key } => self.put(key, None)?,
                MemoryWrite::Clear => {
                    self.size = MemorySize { keys: 0, bytes: 0 };
                    self.cleared = true;
                    self.touched.clear();
                }
            }
        }
        let after = self.size;
        let (keys, bytes) = limits.memory_room(writer);
        if after.keys > before.keys {
            at_most(after.keys, keys, Limit::MemoryKeys)?;
        }
        if after.bytes > before.bytes {
            at_most(after.bytes, bytes, Limit::MemoryBytes)?;
        }
        Ok(after)
    }

    fn put(&mut self, key: &'a str, bytes: Option<usize>) -> rusqlite::Result<()> {
        let bytes = bytes.map(|bytes| u64::try_from(bytes).unwrap_or(u64::MAX));
        let was = match self.touched.get(key) {
            Some(&was) => was,
            None if self.cleared => None,
            None => self.stored(key)?,
        };
        self.size.keys += u64::from(bytes.is_some());
        self.size.keys -= u64::from(was.is_some());
        self.size.bytes += bytes.unwrap_or(0);
        self.size.bytes -= was.unwrap_or(0);
        self.touched.insert(key, bytes);
        Ok(())
    }

    fn stored(&self, key: &str) -> rusqlite::Result<Option<u64>> {
        let bytes = |row: &Row<'_>| {
            let metadata = metadata::bytes(&metadata_of(row, 1)?);
            Ok(to_u64(row.get(0)?) + u64::try_from(metadata).unwrap_or(u64::MAX))
        };
        self.conn
            .prepare_cached(
                "SELECT octet_length(key) + octet_length(value), metadata FROM memory \
                 WHERE sid = ?1 AND key = ?2",
            )?
            .query_row(params![self.sid, key], bytes)
            .optional()
    }
}

/// Changes the table alone.
pub(super) fn write(
    conn: &Connection,
    sid: i64,
    change: &MemoryWrite,
    now: i64,
) -> rusqlite::Result<()> {
    match change {
        MemoryWrite::Set {
            key,
            value,
            metadata,
            at_unix_ms,
        } => {
            let (metadata, at) = (to_text(metadata), at_unix_ms.unwrap_or(now));
            conn.prepare_cached(SET)?
                .execute(params![sid, key, value, metadata, at])?
        }
        MemoryWrite::Remove { key } => conn
            .prepare_cached("DELETE FROM memory WHERE sid = ?1 AND key = ?2")?
            .execute(params![sid, key])?,
        MemoryWrite::Clear => conn
            .prepare_cached("DELETE FROM memory WHERE sid = ?1")?
            .execute([sid])?,
    };
    Ok(())
}

/// Adds an entry of a copy to the table alone.
pub(super) fn insert(conn: &Connection, sid: i64, entry: &MemoryEntry) -> rusqlite::Result<()> {
    conn.prepare_cached(INSERT)?.execute(params![
        sid,
        entry.key,
        entry.value,
        to_text(&entry.metadata),
        entry.created_unix_ms,
        entry.updated_unix_ms,
    ])?;
    Ok(())
}

/// See [`Store::get_memory`](crate::port::Store::get_memory).
pub(super) fn read_one(
    conn: &Connection,
    key: &SessionKey,
    name: &str,
) -> Result<Option<MemoryEntry>, Stop> {
    let session = Session::living(conn, key)?;
    let found = conn
        .prepare_cached(
            "SELECT key, value, metadata, created_ms, updated_ms FROM memory \
             WHERE sid = ?1 AND key = ?2",
        )?
        .query_row(params![session.sid, name], entry)
        .optional()?;
    Ok(found)
}

/// See [`Store::list_memory`](crate::port::Store::list_memory).
pub(super) fn read_all(conn: &Connection, key: &SessionKey) -> Result<MemoryList, Stop> {
    let session = Session::living(conn, key)?;
    let mut select = conn.prepare_cached(
        "SELECT key, value, metadata, created_ms, updated_ms FROM memory \
         WHERE sid = ?1 ORDER BY key",
    )?;
    Ok(MemoryList {
        entries: select
            .query_map([session.sid], entry)?
            .collect::<Result<_, _>>()?,
        last_seq: session.last_seq,
    })
}

fn entry(row: &Row<'_>) -> rusqlite::Result<MemoryEntry> {
    Ok(MemoryEntry {
        key: row.get(0)?,
        value: row.get(1)?,
        metadata: metadata_of(row, 2)?,
        created_unix_ms: row.get(3)?,
        updated_unix_ms: row.get(4)?,
    })
}

fn metadata_of(row: &Row<'_>, column: usize) -> rusqlite::Result<Metadata> {
    let text: Option<String> = row.get(column)?;
    metadata::of_text(text.as_deref()).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
    })
}
