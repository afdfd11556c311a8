//! The mark of an open store: a bit in the database's `user_version`, beside the format.
//!
//! Everything that is committed lies in the write-ahead log until a checkpoint copies it into the file.
//! Without its log, such a store looks like an older one, or an empty one. The mark is the difference: it
//! is in the file itself as long as the log may hold anything that the file does not.
//!
//! The order keeps a kill at any moment from looking like a lost log. Wherever the kill comes, the file has
//! no mark, or the log has a header:
//!
//! | step | mark in the file | log |
//! |---|---|---|
//! | SQLite opens a closed store | no | empty |
//! | [`begin`](super::open) commits the mark with its first changes | no | has them, synced |
//! | [`set`] copies the log into the file, and syncs the file | yes | as it was |
//! | operations; SQLite writes the log from its start again, and never empties it | yes | has a header |
//! | [`clear`] copies the log into the file, and syncs the file | yes | as it was |
//! | [`clear`] commits that the mark is gone | yes | has that, synced |
//! | SQLite closes: it copies the log into the file, and syncs the file | no | as it was |
//! | SQLite closes: it removes the log | no | gone |
//!
//! SQLite would do the last two steps also where the mark was not cleared, and is kept from it by
//! `NO_CKPT_ON_CLOSE`. Nothing empties the log of an open store: `wal_checkpoint(TRUNCATE)` is not used.
//! Readers never remove a log. A store in memory has none.

use super::schema::{FORMAT, OPEN};
use rusqlite::Connection;
use rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;

/// Writes the mark as a part of an open transaction.
pub(super) fn write(conn: &Connection) -> rusqlite::Result<()> {
    conn.pragma_update(None, "user_version", FORMAT | OPEN)
}

/// Keeps the log of an open store where the connection is closed before the mark is cleared.
pub(super) fn keep_log(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_db_config(SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(())
}

/// Makes the mark durable in the file, once it is committed.
pub(super) fn set(conn: &Connection) -> rusqlite::Result<()> {
    keep_log(conn)?;
    // Waits for reads of other processes that need the file as it was.
    if !checkpoint(conn, "FULL")? {
        tracing::warn!("another process reads the store: a loss of its log is not noticed for now");
    }
    Ok(())
}

/// Takes the mark away, before the connection is closed.
pub(super) fn clear(conn: &Connection) -> rusqlite::Result<()> {
    checkpoint(conn, "PASSIVE")?;
    conn.pragma_update(None, "user_version", FORMAT)?;
    conn.set_db_config(SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    Ok(())
}

/// Answers whether nothing was in the way.
fn checkpoint(conn: &Connection, mode: &str) -> rusqlite::Result<bool> {
    let sql = format!("PRAGMA wal_checkpoint({mode})");
    conn.query_row(&sql, [], |row| Ok(row.get::<_, i64>(0)? == 0))
}
