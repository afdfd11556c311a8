//! Documents.
//!
//! A collection is a row with what it adds up to. A tombstone is a row of `document` without a value. A write is
//! remembered in one of a thousand slots of its collection, by its version: the write that comes a thousand
//! changes later takes the slot.
//!
//! The incarnation is the opening of the store: what a file lacks that was restored from a copy, no reader of an
//! earlier opening takes for the same data.

use super::SqliteStore;
use super::operation::{Operation, Shared, Stop, Tx};
use super::readers;
use super::schema::{to_i64, to_u64};
use crate::documents::{self, Found, PAGE_BYTES, REMEMBERED, TOMBSTONE_MS, Totals, WATCHED};
use crate::hub::{Hub, ReadDocuments, watch_documents};
use crate::port::{
    Collection, Document, DocumentPage, DocumentStream, DocumentWrite, DocumentWritten, Documents,
    Head, Position, StoreError, StoreResult, Stored,
};
use async_trait::async_trait;
use bytes::Bytes;
use cairn_engine::key::hex;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

pub(super) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS collection (
  cid INTEGER PRIMARY KEY,
  namespace TEXT NOT NULL,
  kind TEXT NOT NULL,
  counter INTEGER NOT NULL,
  floor INTEGER NOT NULL,
  documents INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  tombstones INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS collection_name ON collection (namespace, kind);
CREATE TABLE IF NOT EXISTS document (
  num INTEGER PRIMARY KEY,
  cid INTEGER NOT NULL,
  id TEXT NOT NULL,
  version INTEGER NOT NULL,
  changed_ms INTEGER NOT NULL,
  sum INTEGER,
  value BLOB
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS document_id ON document (cid, id);
CREATE UNIQUE INDEX IF NOT EXISTS document_version ON document (cid, version);
CREATE INDEX IF NOT EXISTS document_tombstone ON document (cid, version) WHERE sum IS NULL;
CREATE TABLE IF NOT EXISTS document_write (
  cid INTEGER NOT NULL,
  slot INTEGER NOT NULL,
  operation TEXT NOT NULL,
  digest TEXT NOT NULL,
  version INTEGER NOT NULL,
  PRIMARY KEY (cid, slot)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS document_operation ON document_write (cid, operation);
";

pub(super) const FIND_COLLECTION: &str = "SELECT cid, counter, floor, documents, bytes, tombstones \
    FROM collection WHERE namespace = ?1 AND kind = ?2";

pub(super) const FIND_WRITE: &str =
    "SELECT digest, version FROM document_write WHERE cid = ?1 AND operation = ?2";

/// Reading a size reads no value.
pub(super) const FIND: &str =
    "SELECT version, length(value) FROM document WHERE cid = ?1 AND id = ?2";

pub(super) const GET: &str = "SELECT id, version, changed_ms, sum, value FROM document \
    WHERE cid = ?1 AND id = ?2 AND sum IS NOT NULL";

pub(super) const LIST: &str = "SELECT id, version, changed_ms, sum, value FROM document \
    WHERE cid = ?1 AND version > ?2 ORDER BY version LIMIT ?3";

pub(super) const TOMBSTONES: &str = "SELECT num, version, changed_ms FROM document \
    INDEXED BY document_tombstone WHERE cid = ?1 AND sum IS NULL ORDER BY version LIMIT ?2";

/// Makes the tables in a file from before.
pub(super) fn prepare(conn: &Connection) -> rusqlite::Result<()> {
    let find = "SELECT count(*) FROM sqlite_schema WHERE name = 'document_operation'";
    let is_there: bool = conn.query_row(find, [], |row| row.get(0))?;
    if is_there {
        return Ok(());
    }
    conn.execute_batch(&format!("BEGIN IMMEDIATE; {TABLES} COMMIT;"))
}

/// A collection's row.
struct CollectionRow {
    cid: i64,
    totals: Totals,
}

impl CollectionRow {
    fn find(conn: &Connection, collection: &Collection) -> rusqlite::Result<Option<Self>> {
        let name = params![collection.namespace(), collection.kind().name()];
        let row = |row: &Row<'_>| {
            let number = |index| row.get(index).map(to_u64);
            Ok(Self {
                cid: row.get(0)?,
                totals: Totals {
                    counter: number(1)?,
                    floor: number(2)?,
                    documents: number(3)?,
                    bytes: number(4)?,
                    tombstones: number(5)?,
                },
            })
        };
        conn.prepare_cached(FIND_COLLECTION)?
            .query_row(name, row)
            .optional()
    }
}

/// See [`Documents::write_document`].
struct WriteOp {
    write: DocumentWrite,
    digest: String,
    sum: Option<u32>,
    happened: bool,
}

impl WriteOp {
    fn new(write: DocumentWrite) -> Self {
        let value = write.value.as_deref();
        Self {
            digest: documents::digest(&write),
            sum: value.map(|value| documents::sum(&write.id, value)),
            write,
            happened: false,
        }
    }

    /// The version of the write if it happened before.
    fn known(&self, conn: &Connection, cid: i64) -> Result<Option<u64>, Stop> {
        let known: Option<(String, i64)> = conn
            .prepare_cached(FIND_WRITE)?
            .query_row(params![cid, self.write.operation_id], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        match known {
            Some((digest, _)) if digest != self.digest => Err(StoreError::RequestMismatch.into()),
            known => Ok(known.map(|(_, version)| to_u64(version))),
        }
    }

    fn found(&self, conn: &Connection, cid: i64) -> rusqlite::Result<Option<Found>> {
        let found = |row: &Row<'_>| {
            let value_bytes: Option<i64> = row.get(1)?;
            Ok(Found {
                version: row.get(0).map(to_u64)?,
                value_bytes: value_bytes.map(to_u64),
            })
        };
        conn.prepare_cached(FIND)?
            .query_row(params![cid, self.write.id], found)
            .optional()
    }

    /// Writes the document or its tombstone, and remembers the operation.
    fn keep(&self, tx: &Tx<'_>, cid: i64, version: u64) -> rusqlite::Result<()> {
        let write = &self.write;
        tx.conn
            .prepare_cached(
                "INSERT INTO document (cid, id, version, changed_ms, sum, value) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (cid, id) DO UPDATE SET \
                 version = excluded.version, changed_ms = excluded.changed_ms, \
                 sum = excluded.sum, value = excluded.value",
            )?
            .execute(params![
                cid,
                write.id,
                to_i64(version),
                tx.now,
                self.sum.map(i64::from),
                write.value.as_deref(),
            ])?;
        tx.conn
            .prepare_cached(
                "INSERT OR REPLACE INTO document_write (cid, slot, operation, digest, version) \
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![
                cid,
                to_i64(version % REMEMBERED),
                write.operation_id,
                self.digest,
                to_i64(version),
            ])?;
        Ok(())
    }
}

impl Operation for WriteOp {
    type Answer = DocumentWritten;

    fn apply(&mut self, tx: &Tx<'_>) -> Result<DocumentWritten, Stop> {
        self.happened = false;
        let answer = |duplicate, version| DocumentWritten {
            duplicate,
            version,
            now_unix_ms: tx.now,
        };
        let row = CollectionRow::find(tx.conn, &self.write.collection)?;
        let (mut totals, mut found) = (Totals::default(), None);
        if let Some(row) = &row {
            if let Some(version) = self.known(tx.conn, row.cid)? {
                return Ok(answer(true, version));
            }
            totals = row.totals;
            found = self.found(tx.conn, row.cid)?;
        }
        let after = documents::change(&totals, found, &self.write, tx.limits())?;
        let Some(mut after) = after else {
            return Ok(answer(false, 0));
        };
        let cid = match row {
            Some(row) => row.cid,
            None => begin(tx.conn, &self.write.collection)?,
        };
        self.keep(tx, cid, after.counter)?;
        if after.tombstones > tx.limits().documents {
            let (_, floor) = bury(tx.conn, cid, i64::MAX, 1)?;
            after.floor = after.floor.max(floor);
            after.tombstones -= 1;
        }
        add_up(tx.conn, cid, &after)?;
        tx.step();
        self.happened = true;
        Ok(answer(false, after.counter))
    }

    fn announce(&self, hub: &Hub) {
        if self.happened {
            hub.documents_changed(&self.write.collection);
        }
    }
}

/// Makes the row of a collection, and answers its number.
fn begin(conn: &Connection, collection: &Collection) -> rusqlite::Result<i64> {
    conn.prepare_cached(
        "INSERT INTO collection (namespace, kind, counter, floor, documents, bytes, tombstones) \
         VALUES (?1, ?2, 0, 0, 0, 0, 0)",
    )?
    .execute(params![collection.namespace(), collection.kind().name()])?;
    Ok(conn.last_insert_rowid())
}

fn add_up(conn: &Connection, cid: i64, totals: &Totals) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "UPDATE collection SET counter = ?2, floor = ?3, documents = ?4, bytes = ?5, \
         tombstones = ?6 WHERE cid = ?1",
    )?
    .execute(params![
        cid,
        to_i64(totals.counter),
        to_i64(totals.floor),
        to_i64(totals.documents),
        to_i64(totals.bytes),
        to_i64(totals.tombstones),
    ])?;
    Ok(())
}

/// Removes the oldest tombstones of a collection that were made by a time, at most so many; answers how many, and
/// the version of the last one.
fn bury(conn: &Connection, cid: i64, until_ms: i64, max: usize) -> rusqlite::Result<(usize, u64)> {
    let most = i64::try_from(max).unwrap_or(i64::MAX);
    let oldest: Vec<(i64, i64, i64)> = conn
        .prepare_cached(TOMBSTONES)?
        .query_map(params![cid, most], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?
        .collect::<Result<_, _>>()?;
    let mut remove = conn.prepare_cached("DELETE FROM document WHERE num = ?1")?;
    let (mut count, mut last) = (0, 0);
    for (num, version, changed_ms) in oldest {
        if changed_ms > until_ms {
            break;
        }
        remove.execute([num])?;
        (count, last) = (count + 1, to_u64(version));
    }
    Ok((count, last))
}

/// See [`Documents::purge_documents`].
struct PurgeOp {
    max: usize,
}

impl Operation for PurgeOp {
    type Answer = usize;

    const ONLY_IF_AWAITED: bool = true;

    fn apply(&mut self, tx: &Tx<'_>) -> Result<usize, Stop> {
        let until = tx.now.saturating_sub(TOMBSTONE_MS);
        let cids: Vec<i64> = tx
            .conn
            .prepare_cached("SELECT cid FROM collection WHERE tombstones > 0")?
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        let mut raise = tx.conn.prepare_cached(
            "UPDATE collection SET floor = max(floor, ?2), tombstones = tombstones - ?3 \
             WHERE cid = ?1",
        )?;
        let mut purged = 0;
        for cid in cids {
            let (count, floor) = bury(tx.conn, cid, until, self.max - purged)?;
            if count > 0 {
                raise.execute(params![cid, to_i64(floor), to_i64(count as u64)])?;
            }
            purged += count;
        }
        Ok(purged)
    }
}

fn get(conn: &Connection, collection: &Collection, id: &str) -> Result<Option<Document>, Stop> {
    let Some(row) = CollectionRow::find(conn, collection)? else {
        return Ok(None);
    };
    let found = conn
        .prepare_cached(GET)?
        .query_row(params![row.cid, id], read)
        .optional()
        .map_err(Stop::reading(Stored::Document(id.to_owned())))?;
    let Some((document, sum)) = found else {
        return Ok(None);
    };
    Ok(Some(documents::check(document, sum)?))
}

fn list(
    conn: &Connection,
    incarnation: String,
    collection: &Collection,
    after: u64,
    max: usize,
) -> Result<DocumentPage, Stop> {
    let row = CollectionRow::find(conn, collection)?;
    let totals = row.as_ref().map_or_else(Totals::default, |row| row.totals);
    let mut page = DocumentPage {
        head: Head {
            incarnation,
            counter: totals.counter,
            floor: totals.floor,
        },
        documents: Vec::new(),
        is_last: true,
    };
    let Some(row) = row else {
        return Ok(page);
    };
    let one_more = i64::try_from(max).unwrap_or(i64::MAX).saturating_add(1);
    let mut select = conn.prepare_cached(LIST)?;
    let mut rows = select.query(params![row.cid, to_i64(after), one_more])?;
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let (document, sum) = read(row)?;
        bytes += document.id.len() + document.value.as_ref().map_or(0, Bytes::len);
        let is_full = bytes > PAGE_BYTES && !page.documents.is_empty();
        if is_full || page.documents.len() == max {
            page.is_last = false;
            break;
        }
        page.documents.push(documents::check(document, sum)?);
    }
    Ok(page)
}

/// A document with its checksum; a tombstone has none.
fn read(row: &Row<'_>) -> rusqlite::Result<(Document, Option<u32>)> {
    let sum: Option<i64> = row.get(3)?;
    let value: Option<Vec<u8>> = row.get(4)?;
    let document = Document {
        id: row.get(0)?,
        version: row.get(1).map(to_u64)?,
        changed_unix_ms: row.get(2)?,
        value: value.map(Bytes::from),
    };
    Ok((document, sum.and_then(|sum| u32::try_from(sum).ok())))
}

/// Readers of a store that is open for reading only know no opening.
fn incarnation(shared: &Shared) -> String {
    match shared.holder.is_empty() {
        true => "reader".to_owned(),
        false => hex(&shared.holder),
    }
}

#[async_trait]
impl Documents for SqliteStore {
    async fn write_document(&self, write: DocumentWrite) -> StoreResult<DocumentWritten> {
        self.shared.limits.check_document(&write)?;
        self.write(WriteOp::new(write)).await
    }

    async fn get_document(
        &self,
        collection: &Collection,
        id: &str,
    ) -> StoreResult<Option<Document>> {
        let (collection, id) = (collection.clone(), id.to_owned());
        let read = move |conn: &_| get(conn, &collection, &id);
        self.readers.read(read).await
    }

    async fn list_documents(
        &self,
        collection: &Collection,
        after: u64,
        max: usize,
    ) -> StoreResult<DocumentPage> {
        let (incarnation, collection) = (incarnation(&self.shared), collection.clone());
        let read = move |conn: &_| list(conn, incarnation, &collection, after, max);
        self.readers.read(read).await
    }

    async fn watch_documents(
        &self,
        collection: &Collection,
        after: Option<Position>,
    ) -> StoreResult<DocumentStream> {
        let (readers, incarnation) = (self.readers.clone(), incarnation(&self.shared));
        let watched = collection.clone();
        let read: ReadDocuments = Box::new(move |after| {
            let (readers, incarnation) = (readers.clone(), incarnation.clone());
            let collection = watched.clone();
            Box::pin(async move {
                let read = move |conn: &_| list(conn, incarnation, &collection, after, WATCHED);
                readers.read(read).await
            })
        });
        let stream = watch_documents(&self.shared.hub, collection, after, read).await?;
        if self.tasks.is_none() {
            return Ok(readers::until_caught_up(stream, |changes| {
                changes.documents.is_empty()
            }));
        }
        Ok(stream)
    }

    async fn purge_documents(&self, max: usize) -> StoreResult<usize> {
        self.write(PurgeOp { max }).await
    }
}
