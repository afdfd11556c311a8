//! A look at all that a store holds.

use super::SqliteStore;
use super::operation::Stop;
use crate::apart::{listed, listed_blob};
use crate::port::{SessionKey, Store as _, StoreError, StoreResult, Stored};
use rusqlite::Connection;

const LIVING: &str = "SELECT sid, namespace, id FROM session WHERE sid > ?1 \
    AND deleted_ms IS NULL AND namespace <> '' ORDER BY sid LIMIT 256";

impl SqliteStore {
    /// Reads every event, checkpoint and blob of every session, and reports what is damaged: of each
    /// session the first event, or the first blob that an event names, and the newest checkpoint. Takes
    /// as long as a read of the file, and a few MiB of memory. No write waits for it.
    ///
    /// # Errors
    /// `Unavailable` if the file cannot be read, or is damaged where sessions are listed.
    pub async fn check(&self, mut report: impl FnMut(&SessionKey, Stored)) -> StoreResult<()> {
        let mut after = 0;
        loop {
            let page = self.readers.read(move |conn| living(conn, after)).await?;
            let Some((last, _)) = page.last() else {
                return Ok(());
            };
            after = *last;
            for (_, key) in &page {
                for checked in [
                    self.check_events(key).await,
                    self.check_checkpoints(key).await,
                ] {
                    match checked {
                        Err(StoreError::Damaged(part)) => report(key, part),
                        // Deleted meanwhile.
                        Ok(()) | Err(StoreError::Terminal(_) | StoreError::NotFound) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
    }

    async fn check_events(&self, key: &SessionKey) -> StoreResult<()> {
        let mut seq = 0;
        loop {
            let page = self.transcript(key, seq).await?;
            if page.events.is_empty() {
                return Ok(());
            }
            for digest in page.events.iter().flat_map(|event| listed(&event.event)) {
                listed_blob(self, key, digest).await?;
            }
            seq += page.events.len() as u64;
        }
    }

    async fn check_checkpoints(&self, key: &SessionKey) -> StoreResult<()> {
        let mut newest = u64::MAX;
        while let Some(checkpoint) = self.checkpoint(key, newest).await? {
            newest = checkpoint.through_seq.saturating_sub(1);
        }
        Ok(())
    }
}

fn living(conn: &Connection, after: i64) -> Result<Vec<(i64, SessionKey)>, Stop> {
    let mut select = conn.prepare_cached(LIVING)?;
    let session = |row: &rusqlite::Row<'_>| {
        let (namespace, id): (String, String) = (row.get(1)?, row.get(2)?);
        Ok((row.get(0)?, SessionKey::new(namespace, id)))
    };
    let sessions = select.query_map([after], session)?;
    Ok(sessions.collect::<Result<_, _>>()?)
}
