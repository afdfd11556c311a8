//! Large payloads.

use super::operation::{Operation, Stop, Tx};
use super::row::Session;
use super::schema::{to_i64, to_u64};
use crate::checksum::check_blob;
use crate::port::{BlobUse, SessionKey, StoreError, Stored};
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};

/// See [`Store::put_blob`](crate::port::Store::put_blob).
pub(super) struct PutBlobOp {
    pub(super) key: SessionKey,
    pub(super) digest: String,
    pub(super) data: Bytes,
    pub(super) what: BlobUse,
}

impl Operation for PutBlobOp {
    type Answer = String;

    fn apply(&mut self, tx: &Tx<'_>) -> Result<String, Stop> {
        let session = Session::living(tx.conn, &self.key)?;
        let known = tx
            .conn
            .prepare_cached("SELECT 1 FROM blob WHERE sid = ?1 AND digest = ?2")?
            .exists(params![session.sid, self.digest])?;
        if known {
            return Ok(self.digest.clone());
        }
        let bytes = session.blob_bytes + u64::try_from(self.data.len()).unwrap_or(u64::MAX);
        tx.limits().check_session_blobs(bytes, self.what)?;
        tx.conn
            .prepare_cached("INSERT INTO blob (sid, digest, data) VALUES (?1, ?2, ?3)")?
            .execute(params![session.sid, self.digest, &self.data[..]])?;
        tx.conn
            .prepare_cached("UPDATE session SET blob_bytes = ?2 WHERE sid = ?1")?
            .execute(params![session.sid, to_i64(bytes)])?;
        Ok(self.digest.clone())
    }
}

/// See [`Store::get_blob`](crate::port::Store::get_blob).
pub(super) fn get(conn: &Connection, key: &SessionKey, digest: &str) -> Result<Bytes, Stop> {
    let session = Session::living(conn, key)?;
    let data: Option<Vec<u8>> = conn
        .prepare_cached("SELECT data FROM blob WHERE sid = ?1 AND digest = ?2")?
        .query_row(params![session.sid, digest], |row| row.get(0))
        .optional()
        .map_err(Stop::reading(Stored::Blob(digest.to_owned())))?;
    let data = data.ok_or(StoreError::NotFound)?;
    Ok(check_blob(digest, data.into())?)
}

/// How many bytes the blob has, if the session has one of that digest. There may be no session yet.
pub(super) fn length(
    conn: &Connection,
    sid: Option<i64>,
    digest: &str,
) -> rusqlite::Result<Option<u64>> {
    conn.prepare_cached("SELECT octet_length(data) FROM blob WHERE sid = ?1 AND digest = ?2")?
        .query_row(params![sid, digest], |row| row.get(0).map(to_u64))
        .optional()
}
