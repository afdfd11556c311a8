//! Session memory: the table that the memory events add up to.

use super::append::{Appending, append_unowned};
use super::operation::{Operation, Stop, Tx};
use super::row::Session;
use super::schema::{to_i64, to_u64};
use crate::hub::Hub;
use crate::memory_event::memory_event;
use crate::port::{
    Limit, Limits, MemoryEntry, MemoryList, MemoryWrite, MemoryWriter, Room, SessionKey, at_most,
};
use cairn_rpc::Principal;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;

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
        write(tx.conn, session.sid, &self.change)?;
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
    /// Of keys and values.
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
                MemoryWrite::Set { key, value } => self.put(key, Some(key.len() + value.len()))?,
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
        self.conn
            .prepare_cached(
                "SELECT octet_length(key) + octet_length(value) FROM memory \
                 WHERE sid = ?1 AND key = ?2",
            )?
            .query_row(params![self.sid, key], |row| row.get(0).map(to_u64))
            .optional()
    }
}

/// Changes the table alone.
pub(super) fn write(conn: &Connection, sid: i64, change: &MemoryWrite) -> rusqlite::Result<()> {
    match change {
        MemoryWrite::Set { key, value } => conn
            .prepare_cached(
                "INSERT INTO memory (sid, key, value) VALUES (?1, ?2, ?3) \
                 ON CONFLICT (sid, key) DO UPDATE SET value = excluded.value",
            )?
            .execute(params![sid, key, value])?,
        MemoryWrite::Remove { key } => conn
            .prepare_cached("DELETE FROM memory WHERE sid = ?1 AND key = ?2")?
            .execute(params![sid, key])?,
        MemoryWrite::Clear => conn
            .prepare_cached("DELETE FROM memory WHERE sid = ?1")?
            .execute([sid])?,
    };
    Ok(())
}

/// See [`Store::get_memory`](crate::port::Store::get_memory).
pub(super) fn read_one(
    conn: &Connection,
    key: &SessionKey,
    name: &str,
) -> Result<Option<String>, Stop> {
    let session = Session::living(conn, key)?;
    let value = conn
        .prepare_cached("SELECT value FROM memory WHERE sid = ?1 AND key = ?2")?
        .query_row(params![session.sid, name], |row| row.get(0))
        .optional()?;
    Ok(value)
}

/// See [`Store::list_memory`](crate::port::Store::list_memory).
pub(super) fn read_all(conn: &Connection, key: &SessionKey) -> Result<MemoryList, Stop> {
    let session = Session::living(conn, key)?;
    let mut select =
        conn.prepare_cached("SELECT key, value FROM memory WHERE sid = ?1 ORDER BY key")?;
    let entry = |row: &rusqlite::Row<'_>| {
        Ok(MemoryEntry {
            key: row.get(0)?,
            value: row.get(1)?,
        })
    };
    Ok(MemoryList {
        entries: select
            .query_map([session.sid], entry)?
            .collect::<Result<_, _>>()?,
        last_seq: session.last_seq,
    })
}
