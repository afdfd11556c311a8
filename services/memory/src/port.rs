//! The port: what the memory service asks of a backend, and what a backend promises.
//!
//! # The contract
//!
//! **Durable on return.** When a method that writes returns `Ok`, what it wrote survives the death
//! of every process and, as far as the disk keeps its word, of the machine. A session here is its
//! journal, header, session memory, lease and place in the queue, all together.
//!
//! **Atomic.** Each method is one operation: everything it says happens, or nothing. All checks
//! come before the first write, so a refused operation leaves no trace. Concurrent operations on a
//! session are as if one came after the other, and readers never see half of one.
//!
//! **Order.** Events of a session are numbered from 1 without gaps, in the order in which the
//! operations took effect. The events of one operation are contiguous. What a caller was told is
//! seen by every read that begins afterwards.
//!
//! **Lost replies.** [`StoreError::Unknown`], a broken connection or a dropped future leave open
//! whether the operation happened. The caller repeats it unchanged:
//!
//! | operation | a repeat is known by | and answers |
//! |---|---|---|
//! | [`create`](Store::create) | request id | `duplicate`, and the lease if the operation id is the same and it still runs |
//! | [`copy_events`](Store::copy_events) | request id and digest, for the child's life | where it continues, or that it is complete |
//! | [`commit`](Store::commit) | operation id, if no later transition came | `duplicate` with the first answer; `owned` tells whether the epoch still holds |
//! | [`append_command`](Store::append_command) | request id, for the session's life | `duplicate` with the first seq, and the lease if the operation id is the same, it is still the caller's and no transition came since |
//! | [`delete`](Store::delete), [`delete_unchanged`](Store::delete_unchanged), [`renew`](Store::renew), [`release`](Store::release), [`put_blob`](Store::put_blob), [`quarantine`](Store::quarantine), [`release_quarantine`](Store::release_quarantine), [`wake`](Store::wake) | nothing to know | the same state as after once |
//! | [`write_memory`](Store::write_memory) | – | a second event with the same effect |
//! | [`write_document`](Documents::write_document) | operation id, until 1,000 later changes of the collection | `duplicate` with the first version |
//! | [`claim`](Store::claim) | – | nothing; the leases of a lost answer run out, and such claims do not count |
//!
//! **Ownership.** A session has at most one owner. Each claim raises its epoch, and an owner's
//! writes carry the epoch: once somebody else has claimed, an owner that was frozen gets
//! [`StoreError::Fenced`], however late it wakes up. A lease that ran out still admits its
//! owner's writes until somebody claims: the epoch decides, not the time.
//!
//! **Without ownership** a living session takes only commands and changes of session memory. The
//! owner gets them in its answer. Neither can make its next transition fail: what it has not seen
//! is bounded (`unseen_bytes`), and clients fill session memory to a part of what it may hold. The
//! rest is for owners; one that sets nothing by which memory, as far as it has seen that, would
//! grow beyond `owner_memory_keys` or `owner_memory_bytes` is never refused for what it sets. The
//! limits of the journal are no different for having been reached by others: a transition beyond
//! them needs its reserve.
//!
//! **Levels.** A session *needs* a [`Level`]: the highest that its creation, a command, a transition or the
//! completion of a copy named for it. Nothing lowers it. A claim gives no session that needs more than the
//! claimer's level, and a command takes no lease of one. Such a session waits as it is: no claim of it is
//! counted, and it keeps no other waiting. Its owner keeps the lease, whatever the session needs.
//!
//! **Waiting.** A session waits for capabilities while the [`waits_for`](Header::waits_for) of its last notes is
//! not empty. Since when is the store's time of the creation, completion of a copy or transition by which these
//! became its needs. Notes that repeat the needs keep that time, and so does a claim: a session whose owner finds
//! nothing and parks again keeps its place. Needs and time are as durable as the notes. Parking is a clean end,
//! which takes its own claim back, so claims that find nothing never quarantine a session. A copy does not wait
//! for what its source waits for.
//!
//! **Going back.** Replicas of Redis get writes after these were answered, so with Sentinel, or
//! replicas of a cluster, a failover may lose what was answered last; `min-replicas-to-write` makes
//! that rarer, because a master without replicas near refuses to write, and not impossible. A backend
//! whose servers lose what they acknowledged (a replica that takes over without the last writes)
//! cannot undo that, but is not silent about it as long as somebody knows what is lost: whoever knows
//! more of a session than the store holds is answered [`StoreError::WentBack`], and what is known to
//! lack something, also if others have written since, is quarantined, because going on from an older
//! state could repeat what had side effects. The session itself counts the losses that somebody has
//! accepted: what was learned under an older count is no reason any more.
//!
//! **Time** is the store's, in milliseconds since 1970. It follows the clock of the store's servers, also
//! where that is corrected: one wrong reading lasts until the next. Callers' clocks play no part. Where the
//! store and its owners are on one machine, a lease lasts longer by the time for which that slept.
//!
//! **Hints** (long polls, [`follow`](Store::follow)) may be lost without harm: who waits looks at
//! the store again, and each renewal tells of unhandled commands.
//!
//! **Documents** belong to no session: a namespace has them, by kind. The documents of one kind in a namespace
//! are a [`Collection`] with one counter. Each change takes the next number, which is then the version of the
//! document; a deletion is a change, and leaves a tombstone for thirty days. No change of a document is atomic
//! with a change of a session or of another document. Servers that lose acknowledged changes do not quarantine
//! anything here: the [incarnation](Head::incarnation) of the collection becomes another one, and its watchers
//! have to list it anew, also if others have written over what was lost.
//!
//! Events, checkpoints and blobs are opaque, with two exceptions. The store writes the events of
//! [`write_memory`](Store::write_memory) itself. In other events it reads which blobs they name: the
//! blob of an event that is stored apart, and the blobs that the event lists
//! (`cairn.event.v1.Event.blobs`).
//!
//! **Blobs** end with their session and never before, also those that no event names: an owner that is
//! killed between [`put_blob`](Store::put_blob) and its commit leaves such blobs. A blob counts once in
//! the session's quota, however many events name it.

mod copy;
mod document;
mod error;
mod level;
mod limits;
mod list;
mod ownership;
mod read;
mod write;

pub(crate) use copy::{COPY_BYTES, UNFINISHED_MS};
pub use copy::{
    Completion, Copied, CopyEvents, Source, Transcript, TranscriptEvent, TranscriptPage,
};
pub use document::{
    Collection, Document, DocumentChanges, DocumentKind, DocumentPage, DocumentStream,
    DocumentWrite, DocumentWritten, Documents, Expected, Head, Position,
};
pub use error::{End, Limit, StoreError, StoreResult, Stored};
pub use level::Level;
pub use limits::Limits;
pub(crate) use limits::{MemoryWriter, OWNER_BYTES, OWNER_EVENTS, OWNER_KEYS, Room, at_most};
pub use list::{
    ListFilter, ListOrder, ListQuery, PageToken, PendingKind, SessionEntry, SessionPage,
};
pub(crate) use list::{MOST_LOOKED_AT, pending_of, pending_text, tenth};
pub use ownership::{
    Claim, ClaimRequest, Claims, Lease, LeaseRequest, OwnedSession, Quarantine, ReleaseRequest,
    RenewRequest, Renewed, WaitingSession,
};
pub(crate) use ownership::{waits_of, waits_text};
pub use read::{
    DeltaStream, EventPage, EventStream, Fill, IdleSession, MemoryEntry, MemoryList, Metadata,
    StoredEvent,
};
pub use write::{
    AppendCommand, Appended, BlobUse, Checkpoint, Commit, Committed, Create, Created, Header,
    LeaseChange, MemoryWrite, RequestId, SessionKey, SessionStatus, Taken,
};

use async_trait::async_trait;
use bytes::Bytes;
use cairn_rpc::Principal;

/// Where sessions live, and [`Documents`]. See the [module](self) for what holds for all methods.
///
/// Every method may answer [`StoreError::Unavailable`] (nothing was written), and every method
/// that writes [`StoreError::Unknown`]. Methods on one session answer [`StoreError::NotFound`] if
/// it never existed in that namespace, [`StoreError::Terminal`] if it is no more, and
/// [`StoreError::Newer`] if only a newer version knows how it is stored. Methods that read events,
/// checkpoints or blobs check each against its checksum or digest, and answer
/// [`StoreError::Damaged`] in place of one that is not what was written. Limits on
/// what a request alone shows (the size of an event) are checked before anything else.
#[async_trait]
pub trait Store: Documents + Send + Sync + 'static {
    /// Does what was asked before, and lets go of all that the store holds: files, locks,
    /// connections. What is asked later is answered `Unavailable`. Further calls do nothing.
    async fn close(&self);

    /// The store's time.
    async fn now(&self) -> StoreResult<i64>;

    /// Makes a session with its first events, and leases it to the caller if one is named.
    ///
    /// Without an owner the session is parked; it is queued at once if it holds an unhandled
    /// command. The creation is no transition: the version is 0 after it. The session needs the level of its
    /// header.
    ///
    /// # Errors
    /// `RequestMismatch` if the session exists and this request did not make it, or did with
    /// another digest; `Limit`.
    async fn create(&self, create: Create) -> StoreResult<Created>;

    /// Continues with making a session out of the beginning of another: copies some events, with the
    /// blobs that they name, or, with a completion, makes the child be there.
    ///
    /// The first call of a request says where the cut is, and begins; each continues from what is
    /// copied, so that it may be repeated at any time, by several callers too. Events keep their
    /// numbers, and the ends of transitions stay what they are. A call copies about 1 MiB, and an event
    /// once all its blobs are copied: an event with large blobs may take several calls. A cut falls back
    /// to the end of a transition; the events of a creation stand each for itself. Until it is complete the child is
    /// there for nobody but this method: it is not listed, read, claimed or written to. What nobody
    /// continues with for an hour is removed by [`drop_unfinished`](Self::drop_unfinished).
    ///
    /// A complete child has a version, an epoch and a place in listings of its own, and the time to
    /// live of its source, counted anew. It knows the request that made it and none of its source's,
    /// and none of the copied commands wakes anybody. Whether the source is quarantined plays no part.
    /// The child waits for the capabilities that its header names, since the completion. The child needs the
    /// level of its header or, if that is higher, the level that the source needs when the copy is completed: also
    /// where the event that raised it is behind the cut.
    ///
    /// The source may be a transcript. Each call then brings the next page, and the copy is the whole
    /// journal with the transcript's time to live. Blobs that events list come in the page of their event
    /// or before. The child needs the level of its header. A session that
    /// ended as archived may be made again from a transcript. Epoch and version continue from the mark, so
    /// late owners stay fenced.
    ///
    /// # Errors
    /// `RequestMismatch` if the child is there, or is being made, by another request or with another
    /// digest; `Terminal` if it is no more. Unless it is complete: `NotFound` and `Terminal` of the
    /// source; `WentBack` if the source has not come so far; `Conflict` for a completion while
    /// events are missing; `BlobMissing` for an event of a transcript that lists a blob which no page
    /// brought; `Limit`.
    async fn copy_events(&self, copy: CopyEvents) -> StoreResult<Copied>;

    /// Reads events after a cursor with what a copy of the session in another store needs: about
    /// 1 MiB of events and the blobs that they are stored in, and at least one event unless the cursor is
    /// at the end. Blobs that events list are left to [`get_blob`](Self::get_blob).
    ///
    /// # Errors
    /// `Damaged` also if the store lacks a blob that an event is stored in.
    async fn transcript(&self, key: &SessionKey, after_seq: u64) -> StoreResult<Transcript>;

    /// Removes what [`copy_events`](Self::copy_events) has begun and nobody has gone on with for an
    /// hour, at most `max` of them; answers how many.
    async fn drop_unfinished(&self, max: usize) -> StoreResult<usize>;

    /// Removes the session with all that belongs to it, ends its lease and raises its epoch.
    ///
    /// A mark stays for thirty days, by which late writes are told `Terminal`. Answers whether
    /// this call did it.
    async fn delete(&self, key: &SessionKey) -> StoreResult<bool>;

    /// Some of the sessions that may go, at most `max`. A session may go that is *idle*, which is
    /// to say that its status is idle, nobody owns it, it is not queued, holds no unhandled command
    /// and is not quarantine; and the time since its last change is over its time to live or, if it
    /// was made without one, over `after_ms`. Without `after_ms` those do not go.
    ///
    /// A session that is named and not taken away keeps no other from being named. What a look
    /// costs does not depend on how many sessions there are, and none of it is paid by commits,
    /// commands or changes of session memory. Whoever asks with another `after_ms` than before may
    /// be told of some sessions later than they may go, never earlier.
    async fn idle(&self, after_ms: Option<u64>, max: usize) -> StoreResult<Vec<IdleSession>>;

    /// Does what [`delete`](Self::delete) does, if the session is idle and its last event is still
    /// this one; the mark says `end`. Answers whether this call did it: `false` also for a session
    /// that was deleted before.
    async fn delete_unchanged(
        &self,
        key: &SessionKey,
        last_seq: u64,
        end: End,
    ) -> StoreResult<bool>;

    /// Lists the living sessions of a namespace that pass a filter, in an order, from the end of the
    /// page before on. Reads headers, and nothing of the journals.
    ///
    /// A page looks at a bounded number of sessions, so it may be short or empty and still say where the
    /// next one begins. In the order of creation, a session that exists during the whole listing and
    /// passes the filter comes exactly once. In the order of last changes, a session that changes
    /// meanwhile moves to the newest end.
    async fn list(&self, namespace: &str, query: &ListQuery) -> StoreResult<SessionPage>;

    /// The owner's transition: appends events, replaces the header, materialises session memory,
    /// keeps a checkpoint, and renews the lease or lets it go.
    ///
    /// A checkpoint takes the place of older ones: the newest two of a session stay, and of the others
    /// a number that grows with the logarithm of the journal's length. One that the store loses costs
    /// time only.
    ///
    /// The level that the session needs is that of the header if it is higher than before, and stays
    /// otherwise. The time since when it waits for capabilities is this one if the header names other needs than
    /// before, and stays otherwise.
    ///
    /// A transition that would let go while a command is unhandled keeps the lease instead, and
    /// says so by `owned`. Events other than none, unless marked as no progress, reset the count
    /// of claims without progress.
    ///
    /// # Errors
    /// In this order: `Terminal`; a duplicate is answered; `WentBack` if the caller has made more
    /// transitions than the store holds; `Fenced` if the caller is not the owner with the current
    /// epoch; `Conflict` if the version is another, or if the caller has
    /// not folded what it must have (its last transition, or all there was when it claimed), or
    /// pretends to have handled or folded what it has not seen; `Limit`.
    async fn commit(&self, commit: Commit) -> StoreResult<Committed>;

    /// Appends a command without ownership and wakes the session: it is queued if no lease runs,
    /// and otherwise its owner's long poll is told. One that is only to be answered if it is a repeat
    /// changes nothing. The level that the session needs rises to the command's, in the same operation.
    ///
    /// With a lease request, a command that is appended where no lease runs takes the lease in the same
    /// operation, as a [`claim`](Self::claim) does: the epoch rises, the session is in no queue, and the
    /// claim counts from the owner's first commit or renewal. Nothing is taken of a session that is set
    /// aside. Nor is anything taken of one that needs more than the caller's level, or that the next claim
    /// quarantines: these are queued.
    ///
    /// # Errors
    /// `RequestMismatch` if the request id is known with another digest; `Limit`.
    async fn append_command(&self, command: AppendCommand) -> StoreResult<Appended>;

    /// Reads events after a cursor, at most `max` and about 1 MiB, together with the header, all
    /// of one moment. A cursor at or past the end reads nothing.
    async fn read(&self, key: &SessionKey, after_seq: u64, max: usize) -> StoreResult<EventPage>;

    /// Reads events after a cursor and follows the journal: batches in order, without gaps,
    /// nothing twice. One empty batch tells that the follower has caught up. The stream ends when
    /// the session is deleted, and with an error if the store closes.
    ///
    /// A slow follower holds up nobody.
    ///
    /// # Errors
    /// `WentBack`, at once or later, if the cursor lies beyond the journal's end: the store has lost
    /// what the follower has seen, or the cursor is none of this session's.
    async fn follow(&self, key: &SessionKey, after_seq: u64) -> StoreResult<EventStream>;

    /// Shows something to those who listen to the session at this moment, in any process. A hint
    /// and no more: nothing is stored, and nobody is told that it did not arrive. A session that
    /// does not exist has no listeners.
    async fn publish_delta(&self, key: &SessionKey, delta: Bytes) -> StoreResult<()>;

    /// What is published of a session from now on. Who listens too slowly misses some; what comes
    /// is in order. Ends when the store closes.
    async fn deltas(&self, key: &SessionKey) -> StoreResult<DeltaStream>;

    /// The newest checkpoint whose number is at most the given one, if any.
    async fn checkpoint(
        &self,
        key: &SessionKey,
        at_or_before_seq: u64,
    ) -> StoreResult<Option<Checkpoint>>;

    /// Stores a large payload under the SHA-256 of its content, and answers that in hexadecimal.
    ///
    /// # Errors
    /// `Limit`, but not for a payload that the session has.
    async fn put_blob(&self, key: &SessionKey, data: Bytes, what: BlobUse) -> StoreResult<String>;

    /// Reads a large payload; `NotFound` also if the session has none of that digest.
    async fn get_blob(&self, key: &SessionKey, digest: &str) -> StoreResult<Bytes>;

    /// Claims sessions whose lease has run out or that are due, in this order; waits for some.
    ///
    /// Those that are due are taken from each namespace in turn, and of one namespace whoever has
    /// waited longest: a tenant that queues much keeps no other waiting. Only the first 256 of a queue
    /// are looked at, so that a claim costs the same however long it is.
    ///
    /// Each claim raises the epoch. A session with five claims without progress is quarantined instead:
    /// it may be what its owners die of. A claim counts from the owner's first [`commit`](Self::commit)
    /// or [`renew`](Self::renew) under its epoch, which shows that the answer came. A lost answer counts
    /// nothing, however often that happens. So an owner renews before it does anything else with a
    /// session: if the session kills it at once, the claim counts. A commit with progress sets the count
    /// to zero, and a clean end ([`release`](Self::release), parking) takes its own claim back.
    ///
    /// No session is claimed that needs more than the caller's level, nor is it quarantined by the call. It
    /// does not count among the first 256. A claimer of its level gets it at once.
    ///
    /// Also returns sessions that the caller owns and that got commands since the last answer; a lost
    /// answer loses that hint. With `max_sessions` of 0 the answer has only those.
    ///
    /// # Errors
    /// `Terminal` if one session is named that was deleted, also while it is waited for.
    async fn claim(&self, request: ClaimRequest) -> StoreResult<Claims>;

    /// How many sessions wait that a claimer of this level could claim now. Sessions of servers that do not
    /// answer, or are late, are left out. A shared store may count a session that needs more, until a claimer
    /// of a level that is too low has met it.
    async fn queued(&self, level: Level) -> StoreResult<u64>;

    /// The parked sessions of all namespaces that wait for capabilities, at most `max`, the longest waiting first.
    ///
    /// A session that has an owner is not among them, even if its lease has ended. Neither is a session that is
    /// quarantined, or that is queued and due. A session that is queued for later is among them. Sessions that wait
    /// for nothing cost the call nothing. Sessions of servers that do not answer, or are late, are left out.
    async fn waiting(&self, max: usize) -> StoreResult<Vec<WaitingSession>>;

    /// Queues a session that waits for capabilities, as a [command](Self::append_command) does: the session is due
    /// from now on, and a later time is brought forward. What it waits for stays, and since when, until its owner
    /// notes something else.
    ///
    /// Answers whether this call queued it. The call has no effect, and answers `false`, on a session that has an
    /// owner, is due, is quarantined, or waits for nothing any more. So a retry of a call that queued the session
    /// answers `false`.
    async fn wake(&self, key: &SessionKey) -> StoreResult<bool>;

    /// How full the fullest of its servers is, if their memory is limited and they tell.
    async fn fill(&self) -> StoreResult<Option<Fill>> {
        Ok(None)
    }

    /// Whether no new work should be begun, because the store was opened as one that keeps what it
    /// answers, and its servers do not any more. What was accepted continues.
    fn refuses_new(&self) -> bool {
        false
    }

    /// Renews leases in one batch, and returns which are lost and which have unhandled commands. The
    /// first renewal of a claim confirms it, see [`claim`](Self::claim).
    async fn renew(&self, request: RenewRequest) -> StoreResult<Renewed>;

    /// Gives a session back, to be claimed at once or after a delay. A clean end: the claim is not
    /// counted.
    ///
    /// # Errors
    /// `Fenced` if another claim came after the caller's.
    async fn release(&self, request: ReleaseRequest) -> StoreResult<()>;

    /// Sets a session aside: ends its lease, takes it out of the queue, and leaves it to
    /// [`release_quarantine`](Self::release_quarantine). For a session of which acknowledged writes
    /// are lost, so that it must not be gone on with before somebody has looked at it.
    ///
    /// `accepted_losses` is what [`read`](Self::read) said of that when the caller learned what it
    /// misses. If it is more by now, somebody has accepted what is missing: then nothing is done, and
    /// `false` is answered. `None` for whatever was accepted.
    async fn quarantine(&self, key: &SessionKey, accepted_losses: Option<u64>)
    -> StoreResult<bool>;

    /// Queues a session that was quarantined. Does nothing to others. With a loss that is accepted it
    /// counts that for good (`accepted_losses`), so that nobody sets it aside for the same once more.
    ///
    /// # Errors
    /// `WritesLost` if that is why it was quarantined and `accept_loss` is false.
    async fn release_quarantine(&self, key: &SessionKey, accept_loss: bool) -> StoreResult<()>;

    /// Changes session memory without ownership and appends the event that says so, with who asked
    /// for it; answers the event's number. Taking out an absent key is a change, too.
    ///
    /// # Errors
    /// `Limit`, also for what an owner's transition could still set.
    async fn write_memory(
        &self,
        key: &SessionKey,
        change: MemoryWrite,
        by: &Principal,
    ) -> StoreResult<u64>;

    /// Reads one key of session memory; an absent one is `None`.
    async fn get_memory(&self, key: &SessionKey, name: &str) -> StoreResult<Option<MemoryEntry>>;

    /// Reads all of session memory, and which events it is the sum of, both of one moment.
    async fn list_memory(&self, key: &SessionKey) -> StoreResult<MemoryList>;
}
