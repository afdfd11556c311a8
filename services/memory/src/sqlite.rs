//! The embedded backend: one SQLite file, or memory for tests.
//!
//! One thread writes (`writer`), in groups that share an fsync; reads have connections of their own
//! (`readers`). The log is synced at each commit (WAL, synchronous FULL), so what was answered
//! survives. One process holds a file (`holder`). A store without its log, or without the end of it, is
//! refused (`log`, `mark`, `extent`).

mod append;
mod awake;
mod blob;
mod check;
mod checkpoint;
mod claim;
mod claim_count;
mod commit;
mod copy;
mod create;
mod document;
mod extent;
mod gather;
mod holder;
mod idle;
mod journal;
mod lease;
mod list;
mod log;
mod mark;
mod memory;
mod open;
mod operation;
mod options;
mod pack;
#[cfg(any(test, feature = "conformance"))]
mod raw_probe;
mod read;
mod readers;
mod removal;
mod row;
mod schema;
#[cfg(test)]
mod tests;
mod waiting;
mod writer;

pub use open::OpenError;
pub use options::SqliteOptions;
#[cfg(any(test, feature = "conformance"))]
pub use raw_probe::RawProbe;

use crate::apart::digest_of;
use crate::hub::{Hub, ReadPage, follow, listen};
use crate::port::{
    AppendCommand, Appended, BlobUse, Checkpoint, ClaimRequest, Claims, Commit, Committed, Copied,
    CopyEvents, Create, Created, DeltaStream, End, EventPage, EventStream, IdleSession, Level,
    ListQuery, MemoryEntry, MemoryList, MemoryWrite, ReleaseRequest, RenewRequest, Renewed,
    SessionKey, SessionPage, Store, StoreError, StoreResult, Transcript, WaitingSession,
};
use crate::turns::Turns;
use async_trait::async_trait;
use awake::Awake;
use bytes::Bytes;
use cairn_rpc::Principal;
use extent::Follower;
use holder::Lock;
use open::{FULL, Full, Opened, Opening, open_file, open_memory, open_target};
use operation::{Operation, Shared, Task, Time};
use readers::{Pool, Readers};
use std::cell::Cell;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;
use tokio::sync::mpsc;
use writer::Writer;

/// Operations that may wait for the writer's thread before callers have to wait themselves.
const QUEUE: usize = 1024;

/// Events that a follower reads from the store at once.
const FOLLOW_EVENTS: usize = 1000;

/// A store in one SQLite file.
///
/// Dropping it waits until everything that was asked of it is done, and gives up the file.
pub struct SqliteStore {
    /// `None` if the store is open for reading only.
    tasks: Option<mpsc::Sender<Task>>,
    /// Why it is open for reading only.
    refusal: &'static str,
    /// Held while the store is open for reading only because its disk was full.
    lock: Option<Lock>,
    thread: Option<JoinHandle<()>>,
    awake: Awake,
    readers: Readers,
    shared: Arc<Shared>,
}

impl SqliteStore {
    /// Opens a file as its holder, and makes it (and its folder) if there is none.
    ///
    /// Ends the leases of owners that died with an earlier holder. Blocks for as long as SQLite
    /// needs to take up what a crash left. On a disk without room for that, the store is opened for reading,
    /// see [`outage`](Self::outage).
    ///
    /// # Errors
    /// See [`OpenError`]; nothing has been changed then.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, OpenError> {
        let now = unix_ms(&options);
        let opened = match open_file(path.as_ref(), now, &options)? {
            Opening::Whole(opened) => *opened,
            Opening::Full(full) => return Ok(Self::full(full, options)),
        };
        let target = readers::Target::File(opened.path.clone());
        let pool = Pool::new(target, options.readers);
        Self::start(opened, options, |_| Readers::Pool(Arc::new(pool)))
    }

    /// Opens a store that dies with the value, for tests.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn in_memory(options: SqliteOptions) -> Result<Self, OpenError> {
        let opened = open_memory(unix_ms(&options), options.max_pages)?;
        Self::start(opened, options, |tasks| Readers::Writer(tasks.downgrade()))
    }

    /// Opens a file for reading, whoever holds it. Every change is answered `Unavailable`, and so
    /// is following once the end is reached: nobody tells a reader of changes.
    ///
    /// # Errors
    /// See [`OpenError`]; in particular [`OpenError::Missing`].
    pub fn open_readonly(
        path: impl AsRef<Path>,
        options: SqliteOptions,
    ) -> Result<Self, OpenError> {
        let target = open_target(path.as_ref())?;
        let refusal = "the store is open for reading only";
        Ok(Self::reading(target, refusal, None, options))
    }

    /// A store on a full disk.
    fn full(full: Full, options: SqliteOptions) -> Self {
        let Full { lock, target } = full;
        Self::reading(target, FULL, Some(lock), options)
    }

    fn reading(
        target: readers::Target,
        refusal: &'static str,
        lock: Option<Lock>,
        options: SqliteOptions,
    ) -> Self {
        let pool = Pool::new(target, options.readers);
        Self {
            tasks: None,
            refusal,
            lock,
            thread: None,
            awake: Awake::default(),
            readers: Readers::Pool(Arc::new(pool)),
            shared: Arc::new(shared(options, Vec::new())),
        }
    }

    /// Why the store takes no writes although it was opened as its holder, and until it is opened again: its
    /// disk was full.
    pub fn outage(&self) -> Option<&'static str> {
        self.lock.as_ref().map(|_| self.refusal)
    }

    fn start(
        opened: Opened,
        options: SqliteOptions,
        readers: impl FnOnce(&mpsc::Sender<Task>) -> Readers,
    ) -> Result<Self, OpenError> {
        let (sender, queue) = mpsc::channel(QUEUE);
        let readers = readers(&sender);
        #[cfg(debug_assertions)]
        let fail_point = crate::fail_point::FailPoint::new(options.commit_hook.clone());
        let follower = opened.lock.as_ref().map(|_| Follower::new(&opened.path));
        let follower = follower.transpose().map_err(|source| OpenError::Io {
            path: log::path_of(&opened.path),
            source,
        })?;
        let max_pages = options.max_pages;
        let shared = Arc::new(shared(options, opened.holder));
        let writer = Writer {
            conn: opened.conn,
            lock: opened.lock,
            follower,
            shared: shared.clone(),
            max_pages,
            lease_floor: Cell::new(i64::MIN),
            slept: 0,
            removing: Cell::new(true),
            removed: Instant::now(),
            #[cfg(debug_assertions)]
            fail_point,
        };
        let thread = std::thread::Builder::new()
            .name("cairn-store".to_owned())
            .spawn(move || writer.run(queue))
            .map_err(|source| OpenError::Thread { source })?;
        Ok(Self {
            tasks: Some(sender),
            refusal: "",
            lock: None,
            thread: Some(thread),
            awake: Awake::default(),
            readers,
            shared,
        })
    }

    async fn write<O: Operation>(&self, operation: O) -> StoreResult<O::Answer> {
        let Some(tasks) = &self.tasks else {
            return Err(StoreError::unavailable(self.refusal));
        };
        let (job, answer) = operation::pending(operation);
        if tasks.send(Task::Write(job)).await.is_err() {
            return Err(StoreError::closed());
        }
        let lost = || StoreError::unknown("the store closed before it answered");
        self.awake.wait(answer).await.unwrap_or_else(|| Err(lost()))
    }
}

fn unix_ms(options: &SqliteOptions) -> i64 {
    i64::try_from(options.clock.unix_ms()).unwrap_or(i64::MAX)
}

fn shared(options: SqliteOptions, holder: Vec<u8>) -> Shared {
    Shared {
        turns: Turns::default(),
        limits: options.limits,
        time: Time::new(options.clock),
        hub: Arc::new(Hub::new()),
        holder,
        local_owners: options.local_owners.into_iter().collect(),
        #[cfg(debug_assertions)]
        sabotage: options.sabotage,
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.shared.hub.closed();
        self.readers.close_now();
        drop(self.tasks.take());
        if let Some(thread) = self.thread.take() {
            // A panic there was reported there.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn close(&self) {
        self.shared.hub.closed();
        self.readers.close().await;
        if let Some(tasks) = &self.tasks {
            let (told, closed) = tokio::sync::oneshot::channel();
            if tasks.send(Task::Close(told)).await.is_ok() {
                let _ = closed.await;
            }
        }
    }

    async fn now(&self) -> StoreResult<i64> {
        Ok(self.shared.now())
    }

    async fn create(&self, create: Create) -> StoreResult<Created> {
        self.shared.limits.check_create(&create)?;
        self.write(create::CreateOp::new(create)).await
    }

    async fn copy_events(&self, copy: CopyEvents) -> StoreResult<Copied> {
        self.shared.limits.check_copy(&copy)?;
        self.write(copy::CopyOp::new(copy)).await
    }

    async fn transcript(&self, key: &SessionKey, after_seq: u64) -> StoreResult<Transcript> {
        let key = key.clone();
        let read = move |conn: &_| copy::read_transcript(conn, &key, after_seq);
        self.readers.read(read).await
    }

    async fn drop_unfinished(&self, max: usize) -> StoreResult<usize> {
        self.write(copy::DropOp { max }).await
    }

    async fn delete(&self, key: &SessionKey) -> StoreResult<bool> {
        self.write(create::DeleteOp::new(key, None, End::Deleted))
            .await
    }

    async fn idle(&self, after_ms: Option<u64>, max: usize) -> StoreResult<Vec<IdleSession>> {
        self.write(idle::IdleOp { after_ms, max }).await
    }

    async fn delete_unchanged(
        &self,
        key: &SessionKey,
        last_seq: u64,
        end: End,
    ) -> StoreResult<bool> {
        self.write(create::DeleteOp::new(key, Some(last_seq), end))
            .await
    }

    async fn list(&self, namespace: &str, query: &ListQuery) -> StoreResult<SessionPage> {
        let (namespace, query) = (namespace.to_owned(), query.clone());
        let read = move |conn: &_| list::sessions(conn, &namespace, &query);
        self.readers.read(read).await
    }

    async fn commit(&self, commit: Commit) -> StoreResult<Committed> {
        self.shared.limits.check_commit(&commit)?;
        self.write(commit::CommitOp::new(commit)).await
    }

    async fn append_command(&self, command: AppendCommand) -> StoreResult<Appended> {
        self.shared.limits.check_command(&command)?;
        self.write(append::AppendOp::new(command)).await
    }

    async fn read(&self, key: &SessionKey, after_seq: u64, max: usize) -> StoreResult<EventPage> {
        let (shared, key) = (self.shared.clone(), key.clone());
        let read = move |conn: &_| read::events(conn, &shared.limits, &key, after_seq, max);
        self.readers.read(read).await
    }

    async fn follow(&self, key: &SessionKey, after_seq: u64) -> StoreResult<EventStream> {
        let (readers, shared) = (self.readers.clone(), self.shared.clone());
        let session = key.clone();
        let read: ReadPage = Box::new(move |after_seq| {
            let (readers, shared, key) = (readers.clone(), shared.clone(), session.clone());
            Box::pin(async move {
                let read = move |conn: &_| {
                    read::events(conn, &shared.limits, &key, after_seq, FOLLOW_EVENTS)
                };
                readers.read(read).await
            })
        });
        let stream = follow(&self.shared.hub, key, after_seq, read).await?;
        if self.tasks.is_none() {
            return Ok(readers::until_caught_up(stream, Vec::is_empty));
        }
        Ok(stream)
    }

    async fn checkpoint(
        &self,
        key: &SessionKey,
        at_or_before_seq: u64,
    ) -> StoreResult<Option<Checkpoint>> {
        let key = key.clone();
        let read = move |conn: &_| read::checkpoint(conn, &key, at_or_before_seq);
        self.readers.read(read).await
    }

    async fn put_blob(&self, key: &SessionKey, data: Bytes, what: BlobUse) -> StoreResult<String> {
        self.shared.limits.check_blob(&data)?;
        let content = data.clone();
        let digest = tokio::task::spawn_blocking(move || digest_of(&content));
        let digest = digest.await.map_err(StoreError::unavailable)?;
        let put = blob::PutBlobOp {
            key: key.clone(),
            digest,
            data,
            what,
        };
        self.write(put).await
    }

    async fn get_blob(&self, key: &SessionKey, digest: &str) -> StoreResult<Bytes> {
        let (key, digest) = (key.clone(), digest.to_owned());
        let read = move |conn: &_| blob::get(conn, &key, &digest);
        self.readers.read(read).await
    }

    async fn claim(&self, request: ClaimRequest) -> StoreResult<Claims> {
        self.claim_waiting(request).await
    }

    async fn queued(&self, level: Level) -> StoreResult<u64> {
        let now = self.now().await?;
        self.readers
            .read(move |conn: &_| claim::queued(conn, now, level))
            .await
    }

    async fn waiting(&self, max: usize) -> StoreResult<Vec<WaitingSession>> {
        let now = self.now().await?;
        self.readers
            .read(move |conn: &_| waiting::longest(conn, now, max))
            .await
    }

    async fn wake(&self, key: &SessionKey) -> StoreResult<bool> {
        self.write(waiting::WakeOp::new(key)).await
    }

    async fn renew(&self, request: RenewRequest) -> StoreResult<Renewed> {
        self.write(lease::RenewOp(request)).await
    }

    async fn release(&self, request: ReleaseRequest) -> StoreResult<()> {
        self.write(lease::ReleaseOp(request)).await
    }

    async fn quarantine(
        &self,
        key: &SessionKey,
        accepted_losses: Option<u64>,
    ) -> StoreResult<bool> {
        let quarantine = lease::SetAsideOp::new(key, accepted_losses);
        self.write(quarantine).await
    }

    async fn release_quarantine(&self, key: &SessionKey, accept_loss: bool) -> StoreResult<()> {
        let key = key.clone();
        let release = lease::ReleaseQuarantineOp { key, accept_loss };
        self.write(release).await
    }

    async fn publish_delta(&self, key: &SessionKey, delta: Bytes) -> StoreResult<()> {
        self.shared.hub.publish(key, delta);
        Ok(())
    }

    async fn deltas(&self, key: &SessionKey) -> StoreResult<DeltaStream> {
        Ok(listen(&self.shared.hub, key))
    }

    async fn write_memory(
        &self,
        key: &SessionKey,
        change: MemoryWrite,
        by: &Principal,
    ) -> StoreResult<u64> {
        self.shared.limits.check_memory(&change)?;
        let write = memory::MemoryOp::new(key.clone(), change, by.clone());
        self.write(write).await
    }

    async fn get_memory(&self, key: &SessionKey, name: &str) -> StoreResult<Option<MemoryEntry>> {
        let (key, name) = (key.clone(), name.to_owned());
        let read = move |conn: &_| memory::read_one(conn, &key, &name);
        self.readers.read(read).await
    }

    async fn list_memory(&self, key: &SessionKey) -> StoreResult<MemoryList> {
        let key = key.clone();
        let read = move |conn: &_| memory::read_all(conn, &key);
        self.readers.read(read).await
    }
}
