//! What sessions had that ended, removed in slices: a large one would hold the writer's thread for
//! seconds.
//!
//! A session that ends is noted in `removal`. Its mark stays in `session`, and no number of a session is
//! given again while rows of it are left. What has no name any more, such as a copy that nobody
//! completed, is hidden: its row goes last.

use super::operation::Tx;
use rusqlite::{Connection, OptionalExtension as _, params};

/// Made at each opening, so that files from before have it too.
pub(super) const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS removal (sid INTEGER PRIMARY KEY) STRICT";

/// A slice ends once it has removed so many bytes of large rows. These are 256 pages, and as many are the
/// pages of the rows of a slice where each row has a page of its own. A disk that writes 20 MiB in a second,
/// which is slow, takes 50 ms for them, and no commit waits longer. A row that is larger goes by itself, and
/// takes its time.
const SLICE_BYTES: i64 = 1 << 20;

/// Rows with their sizes, and how one of them is removed. Reading a size reads no value.
const LARGE: [(&str, &str); 3] = [
    (
        "SELECT pos, length(events) FROM journal \
         WHERE pos BETWEEN (?1 << 32) AND ((?1 << 32) | 4294967295) LIMIT 256",
        "DELETE FROM journal WHERE pos = ?1",
    ),
    (
        "SELECT pos, length(state) FROM checkpoint \
         WHERE pos BETWEEN (?1 << 32) AND ((?1 << 32) | 4294967295) LIMIT 256",
        "DELETE FROM checkpoint WHERE pos = ?1",
    ),
    (
        "SELECT num, length(data) FROM blob WHERE sid = ?1 LIMIT 256",
        "DELETE FROM blob WHERE num = ?1",
    ),
];

/// Rows that are small.
const SMALL: [&str; 2] = [
    "DELETE FROM request WHERE sid = ?1 \
     AND id IN (SELECT id FROM request WHERE sid = ?1 LIMIT 256)",
    "DELETE FROM memory WHERE sid = ?1 \
     AND key IN (SELECT key FROM memory WHERE sid = ?1 LIMIT 16)",
];

/// Makes the table if the file has none.
pub(super) fn prepare(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(TABLE)
}

/// What the session has is to be removed.
pub(super) fn begin(tx: &Tx<'_>, sid: i64) -> rusqlite::Result<()> {
    tx.conn
        .prepare_cached("INSERT OR IGNORE INTO removal (sid) VALUES (?1)")?
        .execute([sid])?;
    tx.removing.set(true);
    Ok(())
}

/// The same, its row included, whose name is free from now on.
pub(super) fn hide(tx: &Tx<'_>, sid: i64) -> rusqlite::Result<()> {
    tx.conn
        .prepare_cached(
            "UPDATE session SET namespace = '', id = '/' || sid, updated_ms = ?2 WHERE sid = ?1",
        )?
        .execute(params![sid, i64::MAX])?;
    begin(tx, sid)
}

/// Removes a slice. `false` if nothing was left to be removed.
pub(super) fn slice(conn: &Connection) -> rusqlite::Result<bool> {
    let first: Option<i64> = conn
        .prepare_cached("SELECT sid FROM removal LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    let Some(sid) = first else {
        return Ok(false);
    };
    for (select, remove) in LARGE {
        if remove_large(conn, sid, select, remove)? {
            return Ok(true);
        }
    }
    for remove in SMALL {
        if conn.prepare_cached(remove)?.execute([sid])? > 0 {
            return Ok(true);
        }
    }
    conn.prepare_cached("DELETE FROM session WHERE sid = ?1 AND namespace = ''")?
        .execute([sid])?;
    conn.prepare_cached("DELETE FROM removal WHERE sid = ?1")?
        .execute([sid])?;
    Ok(true)
}

/// Whether there was something to remove.
fn remove_large(conn: &Connection, sid: i64, select: &str, remove: &str) -> rusqlite::Result<bool> {
    let rows: Vec<(i64, i64)> = conn
        .prepare_cached(select)?
        .query_map([sid], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut remove = conn.prepare_cached(remove)?;
    let mut bytes = 0;
    for (key, size) in &rows {
        remove.execute([key])?;
        bytes += size;
        if bytes >= SLICE_BYTES {
            break;
        }
    }
    Ok(!rows.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::schema;

    fn count(conn: &Connection, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        conn.query_row(&sql, [], |row| row.get(0)).unwrap()
    }

    /// Sessions 1 and 2 with as many rows of each kind.
    fn filled(rows: i64, bytes: usize) -> Connection {
        let conn = Connection::open_in_memory().unwrap();
        schema::create(&conn).unwrap();
        prepare(&conn).unwrap();
        for sid in [1, 2] {
            for row in 0..rows {
                let pos = schema::position(sid, row.cast_unsigned());
                let value = vec![7_u8; bytes];
                let name = row.to_string();
                for (sql, key) in [
                    ("INSERT INTO journal (pos, events) VALUES (?1, ?2)", pos),
                    (
                        "INSERT INTO checkpoint (pos, state, sum) VALUES (?1, ?2, 0)",
                        pos,
                    ),
                ] {
                    conn.execute(sql, params![key, value]).unwrap();
                }
                let blob = "INSERT INTO blob (sid, digest, data) VALUES (?1, ?2, ?3)";
                conn.execute(blob, params![sid, name, value]).unwrap();
                let request = "INSERT INTO request (sid, id, digest, seq) VALUES (?1, ?2, ?3, 0)";
                conn.execute(request, params![sid, name, [0_u8]]).unwrap();
                let memory = "INSERT INTO memory (sid, key, value) VALUES (?1, ?2, '')";
                conn.execute(memory, params![sid, name]).unwrap();
            }
        }
        conn
    }

    /// Rows and bytes of all tables.
    fn extent(conn: &Connection) -> (i64, i64) {
        let tables = ["journal", "checkpoint", "blob", "request", "memory"];
        let rows = tables.map(|table| count(conn, table)).iter().sum();
        let columns = [
            ("journal", "events"),
            ("checkpoint", "state"),
            ("blob", "data"),
        ];
        let bytes = columns.map(|(table, column)| {
            let sql = format!("SELECT coalesce(sum(length({column})), 0) FROM {table}");
            let bytes = conn.query_row(&sql, [], |row| row.get::<_, i64>(0));
            bytes.unwrap()
        });
        (rows, bytes.iter().sum())
    }

    /// What one slice writes is what a commit waits for: at most 1 MiB and a row, or 256 rows.
    #[test]
    fn no_slice_removes_more_than_a_disk_writes_in_50_ms() {
        for (rows, bytes) in [(20, 300 * 1024), (3, 3 << 20), (600, 1), (700, 3_000)] {
            let conn = filled(rows, bytes);
            conn.execute("INSERT INTO removal (sid) VALUES (1)", [])
                .unwrap();
            let largest = i64::try_from(bytes).unwrap();
            let (mut before, mut slices) = (extent(&conn), 0);
            while slice(&conn).unwrap() {
                let after = extent(&conn);
                let removed = (before.0 - after.0, before.1 - after.1);
                assert!(removed.0 <= 256, "{rows} of {bytes}: {removed:?}");
                // The row that reaches the bound is the last one.
                assert!(
                    removed.1 < SLICE_BYTES + largest,
                    "{rows} of {bytes}: {removed:?}"
                );
                (before, slices) = (after, slices + 1);
            }
            assert_eq!(before.0, 5 * rows, "the other session has all of its rows");
            assert!(slices > 5, "{rows} of {bytes}: {slices} slices");
        }
    }

    #[test]
    fn a_slice_removes_a_part_of_one_session() {
        for (rows, bytes, first) in [
            // As many rows as have a MiB.
            (20, 300 * 1024, 4),
            // One that is larger goes by itself.
            (3, 3 << 20, 1),
            (300, 1, 256),
        ] {
            let conn = filled(rows, bytes);
            conn.execute("INSERT INTO removal (sid) VALUES (1)", [])
                .unwrap();
            assert!(slice(&conn).unwrap());
            assert_eq!(
                count(&conn, "journal"),
                2 * rows - first,
                "{rows} of {bytes}"
            );
            assert_eq!(count(&conn, "blob"), 2 * rows);
            while slice(&conn).unwrap() {}
            for table in ["journal", "checkpoint", "blob", "request", "memory"] {
                assert_eq!(count(&conn, table), rows, "{table}");
            }
            assert_eq!(count(&conn, "removal"), 0);
        }
    }
}
