//! Sessions whose time has come: archived, if that is wanted, and deleted whole. Tombstones of documents, too.
//!
//! Every process over a store may do this at the same time. What is deleted has not changed since
//! it was found, which the store checks in the same operation, and what is archived is on the disk
//! by then; whoever dies in between leaves a file that the next one writes again.

mod archive;

pub use archive::{Archive, ArchiveError};

use crate::port::{End, IdleSession, Store, StoreError, StoreResult};
use cairn_rpc::metrics::{self, counter};
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

/// Sessions that are ended after one look.
const BATCH: usize = 64;

/// The time between two looks is a quarter of the retention, within these.
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(60);

/// Ends sessions whose time has come.
pub struct Janitor {
    store: Arc<dyn Store>,
    after: Option<Duration>,
    archive: Option<Archive>,
}

/// What came of one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Sessions that could go.
    pub found: usize,
    /// Those that this call ended.
    pub ended: usize,
    /// Those that could not be archived or deleted. The others of `found` have changed meanwhile,
    /// or somebody else ended them.
    pub failed: usize,
}

#[derive(Debug, thiserror::Error)]
enum EndError {
    #[error("it cannot be archived")]
    Archive(#[from] ArchiveError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Janitor {
    /// Ends sessions of the store that have a time to live, and with `after` all others too that
    /// have been idle for so long. With an archive their journals are written to it first.
    pub fn new(store: Arc<dyn Store>, after: Option<Duration>, archive: Option<Archive>) -> Self {
        Self {
            store,
            after,
            archive,
        }
    }

    /// Looks again and again, until the store closes.
    pub async fn run(&self) {
        let mut pause = self.pause().min(Duration::from_secs(1));
        loop {
            tokio::time::sleep(pause).await;
            pause = self.pause();
            let swept = self.sweep().await;
            self.drop_unfinished().await;
            self.purge_documents().await;
            match swept {
                // There may be more.
                Ok(swept) if swept.found == BATCH && swept.ended > 0 => pause = Duration::ZERO,
                Ok(_) => {}
                Err(error) if error.is_closed() => return,
                Err(error) => tracing::warn!(%error, "cannot look for sessions to be ended"),
            }
        }
    }

    /// Removes copies of sessions that nobody has gone on with for long.
    async fn drop_unfinished(&self) {
        match self.store.drop_unfinished(BATCH).await {
            Ok(0) => {}
            Ok(copies) => {
                tracing::info!(copies, "copies of sessions that were given up are removed")
            }
            Err(error) if error.is_closed() => {}
            Err(error) => tracing::warn!(%error, "cannot look for copies that were given up"),
        }
    }

    /// Removes tombstones of documents that were deleted long ago.
    async fn purge_documents(&self) {
        match self.store.purge_documents(BATCH).await {
            Ok(0) => {}
            Ok(tombstones) => tracing::debug!(tombstones, "tombstones of documents removed"),
            Err(error) if error.is_closed() => {}
            Err(error) => tracing::warn!(%error, "cannot remove tombstones of documents"),
        }
    }

    /// One look, and the end of what it finds: a bounded number of sessions.
    ///
    /// # Errors
    /// Those of the look. What goes wrong with one session is logged and keeps no other.
    pub async fn sweep(&self) -> StoreResult<Swept> {
        let after = self.after.map(|after| after.as_millis());
        let after_ms = after.map(|after| u64::try_from(after).unwrap_or(u64::MAX));
        let idle = self.store.idle(after_ms, BATCH).await?;
        let mut swept = Swept {
            found: idle.len(),
            ..Swept::default()
        };
        for session in &idle {
            match self.end(session).await {
                Ok(true) => swept.ended += 1,
                Ok(false) => {}
                Err(EndError::Store(error)) if error.is_closed() => return Err(error),
                Err(error) => {
                    swept.failed += 1;
                    counter!(metrics::SESSIONS_ENDED, "how" => "failed").increment(1);
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(session = ?session.key, error, "a session cannot be ended");
                }
            }
        }
        Ok(swept)
    }

    async fn end(&self, session: &IdleSession) -> Result<bool, EndError> {
        let (mut how, mut written) = (End::Expired, None);
        if let Some(archive) = &self.archive {
            written = archive.write(&self.store, session).await?;
            if written.is_none() {
                return Ok(false);
            }
            how = End::Archived;
        }
        let IdleSession { key, last_seq, .. } = session;
        let is_ended = self.store.delete_unchanged(key, *last_seq, how).await?;
        if is_ended {
            counter!(metrics::SESSIONS_ENDED, "how" => how.name()).increment(1);
            let how = how.name();
            let changed = session.updated_unix_ms;
            let file = written.as_ref().map(|written| written.path().display());
            let file = file.map(tracing::field::display);
            tracing::info!(session = ?key, how, last_seq, changed, file, "a session was ended");
        }
        Ok(is_ended)
    }

    /// Until the next look: not the same in all processes.
    fn pause(&self) -> Duration {
        let quarter = self.after.map_or(LONGEST, |after| after / 4);
        let roll = RandomState::new().build_hasher().finish() % 256;
        let jitter = u32::try_from(roll).unwrap_or(0);
        quarter.clamp(SHORTEST, LONGEST) * (896 + jitter) / 1024
    }
}

impl fmt::Debug for Janitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Janitor")
            .field("after", &self.after)
            .field("archive", &self.archive)
            .finish_non_exhaustive()
    }
}
