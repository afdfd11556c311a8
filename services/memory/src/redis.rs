//! The shared backend: Redis 7 or later, without modules, for processes on many machines.
//!
//! Each operation is one script (`scripts/`), which checks first and then writes. Before it, bare
//! commands store checkpoints and blobs. Time is the server's. All keys of a session, and its queues,
//! have the tag of its partition (`keys`), so that a script has them in one place on a cluster too.
//!
//! Amid the move of a slot of a cluster its sessions are unavailable. What a replica had not got yet
//! is lost when it takes over from its master: that is told, and the sessions are quarantined. Watchers of
//! documents list them anew.
//!
//! | module | what |
//! |---|---|
//! | `create`, `copy`, `commit`, `checkpoint`, `append`, `claim`, `lease`, `read`, `list`, `document` | the operations: arguments, script, answer |
//! | `journal` | events in a stream, with their checksums |
//! | `entry` | entries of session memory in a hash |
//! | `unchanged` | session memory that need not be read again |
//! | `servers`, `ask`, `layout`, `node` | which server is asked, and the connection to it |
//! | `script`, `answer`, `failure` | scripts, their answers, what went wrong |
//! | `format` | which formats of stores and sessions are known |
//! | `open`, `options`, `address`, `settings`, `rights`, `durability` | opening a store, and what its servers promise |
//! | `survey`, `lookout`, `outage` | settings of all servers and replicas, and whether they take writes, also while the store is open |
//! | `hints` | what processes report to each other, and may be lost |
//! | `witness`, `vouch` | what was answered, held against servers that take over |
//! | `identity` | whether the servers hold the store that was opened |
//! | `waiting` | sessions that wait for what no resource has |
//! | `queue`, `time` | where there may be work; the time that is told |

mod address;
mod answer;
mod append;
mod ask;
mod checkpoint;
mod claim;
mod clocks;
mod commit;
mod copy;
mod create;
mod document;
mod durability;
mod entry;
mod failure;
mod fill;
mod format;
mod hints;
mod identity;
mod idle;
mod inner;
mod journal;
mod keys;
mod layout;
mod lease;
mod list;
mod lookout;
mod node;
mod notes;
mod open;
mod options;
mod outage;
#[cfg(any(test, feature = "conformance"))]
mod probe;
mod queue;
mod read;
mod rights;
mod script;
mod servers;
mod settings;
mod survey;
mod time;
mod unchanged;
mod vouch;
mod waiting;
mod witness;

pub use address::{ClientCertificate, RedisUrl};
pub use durability::Durability;
pub use format::Formats;
pub use open::OpenError;
pub use options::{RedisConfig, RedisMode, RedisOptions};
#[cfg(any(test, feature = "conformance"))]
pub use probe::{ProbedSession, RedisProbe};

use crate::hub::{Hub, ReadPage, follow, listen};
use crate::port::{
    AppendCommand, Appended, BlobUse, Checkpoint, ClaimRequest, Claims, Commit, Committed, Copied,
    CopyEvents, Create, Created, DeltaStream, End, EventPage, EventStream, Fill, IdleSession,
    Level, ListQuery, MemoryEntry, MemoryList, MemoryWrite, ReleaseRequest, RenewRequest, Renewed,
    SessionKey, SessionPage, Store, StoreResult, Transcript, WaitingSession,
};
use async_trait::async_trait;
use bytes::Bytes;
use cairn_rpc::Principal;
use hints::Hints;
use identity::Identity;
use inner::Inner;
use lookout::Lookout;
use open::Opened;
use queue::Queue;
use script::Scripts;
use servers::Servers;
use std::fmt;
use std::sync::Arc;
use time::Time;
use tokio::sync::watch;
use unchanged::Unchanged;
use witness::Witness;

/// Events that a follower reads from the store at once.
const FOLLOW_EVENTS: usize = 1000;

/// A store on Redis.
///
/// What was answered survives the death of every process, the servers included, if these sync
/// their log with each write.
pub struct RedisStore {
    inner: Arc<Inner>,
    id: String,
}

impl RedisStore {
    /// Connects to the servers and opens the store, which is made if there is none.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn open(config: &RedisConfig, options: RedisOptions) -> Result<Self, OpenError> {
        let opened = open::open(config, &options).await?;
        Ok(Self::start(opened, config, options))
    }

    /// Looks at the servers' settings, as opening does, and at nothing else: no store is made.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn examine(config: &RedisConfig) -> Result<Durability, OpenError> {
        open::examine(config).await
    }

    /// [`open`](Self::open) for whoever cannot wait in a task: blocks the thread meanwhile. The store connects
    /// anew when it is asked first, from there.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_blocking(config: &RedisConfig, options: RedisOptions) -> Result<Self, OpenError> {
        // The caller's thread may belong to a runtime, and may not be the one to wait then.
        let opened = std::thread::scope(|scope| {
            let open = || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .map_err(|source| OpenError::Thread { source })?;
                let opened = runtime.block_on(open::open(config, &options))?;
                // The connections' tasks end with this runtime.
                opened
                    .layout
                    .nodes()
                    .iter()
                    .for_each(|node| node.disconnect());
                opened.plan.disconnect();
                Ok(opened)
            };
            let thread = scope.spawn(open);
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        Ok(Self::start(opened, config, options))
    }

    fn start(opened: Opened, config: &RedisConfig, options: RedisOptions) -> Self {
        let time = Time::new(&options);
        let formats = options.formats();
        let scripts = Scripts::new(time.clock(), formats);
        #[cfg(debug_assertions)]
        let scripts = scripts.sabotaged(options.sabotage);
        let (hub, queue) = (Arc::new(Hub::new()), Arc::new(Queue::new(options.seed)));
        let names = opened.names;
        let quarantine = Scripts::new(time.clock(), formats).quarantine;
        let witness = Witness::new(names.clone(), quarantine, hub.clone());
        let identity = Identity::new(names.clone(), opened.id.clone());
        let servers = Arc::new_cyclic(|servers| {
            let lookout = Lookout::new(
                servers.clone(),
                opened.plan.clone(),
                names.clone(),
                options.look_again,
                config.require_durable,
                opened.picture,
            );
            Servers::new(opened.plan, opened.layout, time, identity, witness, lookout)
        });
        let process = format!("{:016x}", options.seed);
        let hints = Hints::new(
            servers.clone(),
            hub.clone(),
            queue.clone(),
            names.clone(),
            process.clone(),
        );
        let inner = Inner {
            #[cfg(debug_assertions)]
            fail_point: crate::fail_point::FailPoint::new(options.commit_hook),
            servers,
            scripts,
            names,
            formats,
            limits: options.limits,
            unchanged: Unchanged::default(),
            hub,
            queue,
            hints,
            process,
        };
        Self {
            inner: Arc::new(inner),
            id: opened.id,
        }
    }

    /// Names the data: another id at the same address is another store.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether the servers keep what was answered, as their settings were when they were last looked
    /// at: each minute, when a server is another than it was, and soon again while one does not
    /// answer. The log tells of changes.
    pub fn durability(&self) -> watch::Receiver<Durability> {
        self.inner.servers.lookout.durability()
    }
}

impl RedisStore {
    /// What keeps the servers from their work, by the last look: they do not answer, are full, are
    /// replicas, or their clocks differ by more than a third of a lease. Empty if nothing is known that
    /// does. Looked at when calls fail, and then each second until it is over. The log tells when that
    /// begins and ends.
    pub fn outages(&self) -> watch::Receiver<Vec<String>> {
        self.inner.servers.lookout.outages()
    }

    /// How many losses of acknowledged writes were found since the store was opened, one a session.
    /// The log names them.
    pub fn losses(&self) -> watch::Receiver<u64> {
        self.inner.servers.witness.losses()
    }
}

impl Drop for RedisStore {
    fn drop(&mut self) {
        self.inner.hub.closed();
        self.inner.hints.close();
        self.inner.servers.close_now();
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn close(&self) {
        self.inner.hub.closed();
        self.inner.hints.close();
        self.inner.servers.close().await;
    }

    async fn now(&self) -> StoreResult<i64> {
        self.inner.now().await
    }

    async fn create(&self, create: Create) -> StoreResult<Created> {
        self.inner.create(create).await
    }

    async fn copy_events(&self, copy: CopyEvents) -> StoreResult<Copied> {
        self.inner.copy_events(copy).await
    }

    async fn transcript(&self, key: &SessionKey, after_seq: u64) -> StoreResult<Transcript> {
        self.inner.transcript(key, after_seq).await
    }

    async fn drop_unfinished(&self, max: usize) -> StoreResult<usize> {
        self.inner.drop_unfinished(max).await
    }

    async fn delete(&self, key: &SessionKey) -> StoreResult<bool> {
        self.inner.delete(key, None, End::Deleted).await
    }

    async fn idle(&self, after_ms: Option<u64>, max: usize) -> StoreResult<Vec<IdleSession>> {
        self.inner.idle(after_ms, max).await
    }

    async fn delete_unchanged(
        &self,
        key: &SessionKey,
        last_seq: u64,
        end: End,
    ) -> StoreResult<bool> {
        self.inner.delete(key, Some(last_seq), end).await
    }

    async fn list(&self, namespace: &str, query: &ListQuery) -> StoreResult<SessionPage> {
        self.inner.list(namespace, query).await
    }

    async fn commit(&self, commit: Commit) -> StoreResult<Committed> {
        self.inner.commit(commit).await
    }

    async fn append_command(&self, command: AppendCommand) -> StoreResult<Appended> {
        self.inner.append_command(command).await
    }

    async fn read(&self, key: &SessionKey, after_seq: u64, max: usize) -> StoreResult<EventPage> {
        self.inner.read(key, after_seq, max).await
    }

    async fn follow(&self, key: &SessionKey, after_seq: u64) -> StoreResult<EventStream> {
        let (inner, session) = (self.inner.clone(), key.clone());
        let read: ReadPage = Box::new(move |after_seq| {
            let (inner, key) = (inner.clone(), session.clone());
            Box::pin(async move { inner.read(&key, after_seq, FOLLOW_EVENTS).await })
        });
        let interest = self.inner.hints.events(key);
        let events = follow(&self.inner.hub, key, after_seq, read).await?;
        Ok(interest.kept_by(events))
    }

    async fn publish_delta(&self, key: &SessionKey, delta: Bytes) -> StoreResult<()> {
        self.inner.hub.publish(key, delta.clone());
        self.inner.hints.publish(key, &delta).await;
        Ok(())
    }

    async fn deltas(&self, key: &SessionKey) -> StoreResult<DeltaStream> {
        let deltas = listen(&self.inner.hub, key);
        let interest = self.inner.hints.deltas(key).await;
        Ok(interest.kept_by(deltas))
    }

    async fn checkpoint(
        &self,
        key: &SessionKey,
        at_or_before_seq: u64,
    ) -> StoreResult<Option<Checkpoint>> {
        self.inner.checkpoint(key, at_or_before_seq).await
    }

    async fn put_blob(&self, key: &SessionKey, data: Bytes, what: BlobUse) -> StoreResult<String> {
        self.inner.put_blob(key, data, what).await
    }

    async fn get_blob(&self, key: &SessionKey, digest: &str) -> StoreResult<Bytes> {
        self.inner.get_blob(key, digest).await
    }

    async fn claim(&self, request: ClaimRequest) -> StoreResult<Claims> {
        self.inner.claim(request).await
    }

    async fn queued(&self, level: Level) -> StoreResult<u64> {
        self.inner.queued(level).await
    }

    async fn waiting(&self, max: usize) -> StoreResult<Vec<WaitingSession>> {
        self.inner.waiting(max).await
    }

    async fn wake(&self, key: &SessionKey) -> StoreResult<bool> {
        self.inner.wake(key).await
    }

    async fn fill(&self) -> StoreResult<Option<Fill>> {
        self.inner.fill().await
    }

    fn refuses_new(&self) -> bool {
        self.inner.servers.lookout.refuses_new()
    }

    async fn renew(&self, request: RenewRequest) -> StoreResult<Renewed> {
        self.inner.renew(request).await
    }

    async fn release(&self, request: ReleaseRequest) -> StoreResult<()> {
        self.inner.release(request).await
    }

    async fn quarantine(
        &self,
        key: &SessionKey,
        accepted_losses: Option<u64>,
    ) -> StoreResult<bool> {
        self.inner.quarantine(key, accepted_losses).await
    }

    async fn release_quarantine(&self, key: &SessionKey, accept_loss: bool) -> StoreResult<()> {
        self.inner.release_quarantine(key, accept_loss).await
    }

    async fn write_memory(
        &self,
        key: &SessionKey,
        change: MemoryWrite,
        by: &Principal,
    ) -> StoreResult<u64> {
        self.inner.write_memory(key, &change, by).await
    }

    async fn get_memory(&self, key: &SessionKey, name: &str) -> StoreResult<Option<MemoryEntry>> {
        self.inner.get_memory(key, name).await
    }

    async fn list_memory(&self, key: &SessionKey) -> StoreResult<MemoryList> {
        self.inner.list_memory(key).await
    }
}
