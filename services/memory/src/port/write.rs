//! What is written: creations, transitions, commands.

use super::{Lease, LeaseRequest, Level, Metadata, PendingKind, StoredEvent};
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;

/// A session in its namespace. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey {
    namespace: Arc<str>,
    session: Arc<str>,
}

impl SessionKey {
    /// A key of two names that were checked already: neither is empty, and neither holds anything
    /// but ASCII letters, digits, `_`, `.` and `-`.
    pub fn new(namespace: impl Into<Arc<str>>, session: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: namespace.into(),
            session: session.into(),
        }
    }

    /// The tenant's space.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The session's id in it.
    pub fn session(&self) -> &str {
        &self.session
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.session)
    }
}

/// What a session is doing, for listings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SessionStatus {
    /// No run is active.
    #[default]
    Idle,
    /// A run is active.
    Running,
    /// A run waits for somebody.
    Waiting,
    /// A run is paused.
    Paused,
}

impl SessionStatus {
    /// As stores keep it. Never given to another status: it is on disks.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Idle => 0,
            Self::Running => 1,
            Self::Waiting => 2,
            Self::Paused => 3,
        }
    }

    /// The way back; a number of nothing is idle.
    pub(crate) fn of_number(number: i64) -> Self {
        match number {
            1 => Self::Running,
            2 => Self::Waiting,
            3 => Self::Paused,
            _ => Self::Idle,
        }
    }
}

/// The owner's notes, replaced by each of its transitions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// For listings.
    pub status: SessionStatus,
    /// Every command up to this seq has been accepted or refused.
    pub handled_through: u64,
    /// For listings; short, because it is written with each transition.
    pub title: String,
    /// For listings: the agent that the session runs under; short, too.
    pub agent: String,
    /// For listings: input and output tokens of all runs together.
    pub tokens: u64,
    /// For listings: what all runs cost, in billionths of a US dollar.
    pub cost_nano_usd: u64,
    /// For listings: what the session asks a person, ordered by kind; a few entries at most.
    pub pending: Vec<PendingKind>,
    /// The level of an owner that can read the session. Notes raise what is stored, and never lower it.
    pub needs: Level,
    /// What the session waits for that no resource has, an entry for each need: at most 8, sorted, each 1 to
    /// 512 bytes of printable ASCII. Opaque to the store; see [`Store::waiting`](super::Store::waiting).
    pub waits_for: Vec<String>,
}

/// A client's request, by which its repeats are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId {
    /// Chosen by the client; unique in the session.
    pub id: String,
    /// Digest of what is asked, by which a repeat is told from another request.
    pub digest: Bytes,
}

/// See [`Store::create`](super::Store::create).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Create {
    /// The session to be.
    pub key: SessionKey,
    /// Names the request for repeats.
    pub request: RequestId,
    /// Names this very attempt, so that its repeat gets the lease that it took.
    pub operation_id: String,
    /// The first events; the first of them gets the number 1.
    pub events: Vec<Bytes>,
    /// Number of the last command among the events; 0 if there is none.
    pub last_command_seq: u64,
    /// The first notes.
    pub header: Header,
    /// Who takes the lease, if anybody.
    pub lease: Option<LeaseRequest>,
    /// How long it stays without any change before it may go; see
    /// [`Store::idle`](super::Store::idle).
    pub time_to_live_ms: Option<u64>,
}

/// A session was made, now or before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// It had been made before, by the same request.
    pub duplicate: bool,
    /// The caller's lease, if it has one.
    pub lease: Option<Lease>,
    /// The store's time.
    pub now_unix_ms: i64,
}

/// A change of session memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryWrite {
    /// Gives a key a value, whatever it had before.
    Set {
        /// The key: 1 to 128 bytes without control characters.
        key: String,
        /// The value.
        value: String,
        /// Replaces the metadata that the key had before.
        metadata: Metadata,
        /// Time of the event that sets the value; `None` for the store's time of the write.
        at_unix_ms: Option<i64>,
    },
    /// Takes a key out.
    Remove {
        /// The key.
        key: String,
    },
    /// Takes all keys out.
    Clear,
}

impl MemoryWrite {
    /// Sets a value without metadata, at the store's time.
    pub fn set(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self::Set {
            key: key.into(),
            value: value.into(),
            metadata: Metadata::new(),
            at_unix_ms: None,
        }
    }
}

/// What becomes of the lease with a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseChange {
    /// The caller stays owner, for a full lease from now on.
    Renew,
    /// The caller lets go.
    Park {
        /// When the session is to be claimed again; `None` for not before it is woken.
        due_unix_ms: Option<i64>,
    },
}

/// The fold of a journal up to a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The last event that it covers; never 0.
    pub through_seq: u64,
    /// Opaque.
    pub state: Bytes,
}

/// See [`Store::commit`](super::Store::commit).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The session.
    pub key: SessionKey,
    /// The caller.
    pub owner: String,
    /// From its claim.
    pub epoch: u64,
    /// The owner's transitions so far.
    pub version: u64,
    /// Names this transition for repeats; not empty, and unique in the session.
    pub operation_id: String,
    /// The last event that the caller has folded.
    pub seen_seq: u64,
    /// In their order; may be none.
    pub events: Vec<Bytes>,
    /// Goes with the memory events among them, in their order.
    pub memory_writes: Vec<MemoryWrite>,
    /// The notes from now on. `handled_through` is at most `seen_seq`.
    pub header: Header,
    /// What becomes of the lease.
    pub lease: LeaseChange,
    /// Length of the lease, should it go on.
    pub lease_ms: u32,
    /// A fold to keep; it covers at most `seen_seq`. A later one of the same number replaces it.
    pub checkpoint: Option<Checkpoint>,
    /// The events may use the reserve above the journal's limits.
    pub from_reserve: bool,
    /// The events tell of no progress, as when an attempt is merely taken up again.
    pub no_progress: bool,
}

/// A transition happened, now or before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// It had happened before.
    pub duplicate: bool,
    /// Number of the caller's first event; the number of the next event if it had none.
    pub first_seq: u64,
    /// What others appended after `seen_seq` and before `first_seq`.
    pub others: Vec<StoredEvent>,
    /// End of the lease, if the caller still owns the session.
    pub lease_until_unix_ms: Option<i64>,
    /// The store's time.
    pub now_unix_ms: i64,
    /// How full the journal is now; see [`Limits::journal_permille`](super::Limits::journal_permille).
    /// A duplicate has the present value, too.
    pub journal_permille: u32,
}

impl Committed {
    /// Whether the caller still owns the session.
    pub fn owned(&self) -> bool {
        self.lease_until_unix_ms.is_some()
    }
}

/// See [`Store::append_command`](super::Store::append_command).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendCommand {
    /// The session.
    pub key: SessionKey,
    /// Names the request for repeats.
    pub request: RequestId,
    /// The command.
    pub event: Bytes,
    /// Answers a repeat and appends nothing.
    pub repeat_only: bool,
    /// Who takes the lease if none runs, if anybody.
    pub lease: Option<LeaseRequest>,
    /// Names this very attempt, so that its repeat gets the lease that it took.
    pub operation_id: String,
    /// The level of an owner that can read the command. The session needs at least this from now on.
    pub needs: Level,
    /// The caller's level. A session that needs more gives no lease.
    pub level: Level,
}

/// A command stands in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// It had been appended before.
    pub duplicate: bool,
    /// Its number; 0 if it was to be a repeat and is none, and so was not appended.
    pub seq: u64,
    /// The session is quarantined: nobody answers the command before it is released.
    pub quarantined: bool,
    /// The lease that the command took.
    pub taken: Option<Taken>,
    /// The store's time.
    pub now_unix_ms: i64,
}

/// A lease that came with something else than a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// The lease.
    pub lease: Lease,
    /// Whoever owned the session before is proven dead together with its tools.
    pub previous_holder_dead: bool,
}

/// What a blob holds, which decides how far it may fill the session's quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobUse {
    /// An event that is stored apart. It may fill the whole quota.
    Event,
    /// A part of a large result. It may fill three quarters of the quota, so that a session full of
    /// results still stores large events.
    Part,
}
