//! What the cases work with.

use crate::port::{
    AppendCommand, Appended, Claim, ClaimRequest, Claims, Commit, Committed, Create, Created,
    Header, LeaseChange, LeaseRequest, Level, Limits, OwnedSession, RenewRequest, RequestId,
    SessionKey, Store, StoreError, StoreResult, StoredEvent,
};
use bytes::Bytes;
use cairn_rpc::{Authentication, Principal};
use futures::future::BoxFuture;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Length of the leases in the cases. Short, so that a backend with a clock of its own can wait
/// for its end.
pub(super) const LEASE: u32 = 1000;

/// The namespace of the cases.
pub(super) const SPACE: &str = "space";

/// A store to be tested, and how time passes for it.
pub struct Subject {
    /// Empty, and opened with [`limits`].
    pub store: Arc<dyn Store>,
    /// Lets this many milliseconds pass on the store's clock.
    pub pass: Box<dyn Fn(u64) -> BoxFuture<'static, ()> + Send + Sync>,
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subject")
    }
}

/// The limits that a subject's store is opened with: small enough to be reached.
pub fn limits() -> Limits {
    Limits {
        events_per_commit: 1024,
        journal_events: 2000,
        journal_bytes: 4 << 20,
        reserve_events: 20,
        reserve_bytes: 256 << 10,
        memory_keys: 8,
        memory_bytes: 128 << 10,
        owner_memory_keys: 4,
        owner_memory_bytes: 64 << 10,
        checkpoint_bytes: 1 << 20,
        blob_bytes: 256 << 10,
        session_blob_bytes: 512 << 10,
        unseen_bytes: 256 << 10,
        document_bytes: 128 << 10,
        documents: 5000,
        collection_bytes: 2 << 20,
        ..Limits::default()
    }
}

/// A client in the namespace of a session.
pub fn client(key: &SessionKey) -> Principal {
    let namespace = key.namespace().parse().unwrap();
    Principal::new(Authentication::Socket, "uid:1000", namespace).unwrap()
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "names and numbers alike are given"
)]
pub(super) fn key(session: impl ToString) -> SessionKey {
    SessionKey::new(SPACE, session.to_string())
}

/// So many sessions of a namespace that share a partition where a store has partitions, which go by
/// the first byte of a digest.
pub(super) fn neighbours(namespace: &str, count: usize) -> Vec<SessionKey> {
    let names = (0_u32..).map(|number| format!("n{number}"));
    let neighbours = names.filter(|name| {
        let digest = Sha256::digest(format!("{namespace}/{name}"));
        digest.first() == Some(&7)
    });
    let neighbours = neighbours.take(count);
    neighbours
        .map(|name| SessionKey::new(namespace, name))
        .collect()
}

pub(super) fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// One event a word.
pub(super) fn events(words: &str) -> Vec<Bytes> {
    words.split_whitespace().map(bytes).collect()
}

/// Events as text: `1:a 2:b`.
pub(super) fn shown(events: &[StoredEvent]) -> String {
    let show =
        |stored: &StoredEvent| format!("{}:{}", stored.seq, String::from_utf8_lossy(&stored.event));
    events.iter().map(show).collect::<Vec<_>>().join(" ")
}

pub(super) fn request(id: &str) -> RequestId {
    RequestId {
        id: id.to_owned(),
        digest: bytes(&format!("digest of {id}")),
    }
}

/// A creation with the events `made` and `first`, and without an owner.
pub(super) fn creation(key: &SessionKey) -> Create {
    Create {
        key: key.clone(),
        request: request("creation"),
        operation_id: "create-1".to_owned(),
        events: events("made first"),
        last_command_seq: 0,
        header: Header::default(),
        lease: None,
        time_to_live_ms: None,
    }
}

pub(super) fn creation_by(key: &SessionKey, owner: &str) -> Create {
    Create {
        lease: Some(LeaseRequest {
            owner: owner.to_owned(),
            lease_ms: LEASE,
        }),
        ..creation(key)
    }
}

pub(super) fn command(key: &SessionKey, id: &str) -> AppendCommand {
    AppendCommand {
        key: key.clone(),
        request: request(id),
        event: bytes(id),
        repeat_only: false,
        lease: None,
        operation_id: String::new(),
        needs: Level::FIRST,
        level: Level::FIRST,
    }
}

pub(super) fn claim_request(owner: &str) -> ClaimRequest {
    ClaimRequest {
        owner: owner.to_owned(),
        max_sessions: 10,
        lease_ms: LEASE,
        wait: Duration::ZERO,
        only: None,
        level: Level::FIRST,
    }
}

impl Subject {
    pub(super) async fn pass(&self, ms: u64) {
        (self.pass)(ms).await;
    }

    /// Lets every lease that was just taken run out.
    pub(super) async fn outlive_leases(&self) {
        self.pass(u64::from(LEASE) + 1).await;
    }

    pub(super) async fn parked(&self, id: impl ToString) -> SessionKey {
        let key = key(id);
        self.store.create(creation(&key)).await.unwrap();
        key
    }

    /// A session that `owner` made and leased.
    pub(super) async fn owned(&self, id: impl ToString, owner: &str) -> Owner {
        let key = key(id);
        let created: Created = self.store.create(creation_by(&key, owner)).await.unwrap();
        let lease = created.lease.expect("a lease was asked for");
        self.owner(key, owner, lease.epoch, 0, 2)
    }

    fn owner(&self, key: SessionKey, owner: &str, epoch: u64, version: u64, seen: u64) -> Owner {
        Owner {
            store: self.store.clone(),
            key,
            owner: owner.to_owned(),
            epoch,
            version,
            seen,
        }
    }

    pub(super) async fn claims(&self, owner: &str) -> Claims {
        self.store.claim(claim_request(owner)).await.unwrap()
    }

    /// What can be claimed now, by id; it is claimed by this.
    pub(super) async fn claimed(&self, owner: &str) -> Vec<String> {
        let claims = self.claims(owner).await.claims;
        claims
            .iter()
            .map(|claim| claim.key.session().to_owned())
            .collect()
    }

    /// Claims the one session that can be claimed, and reads what its new owner has to know.
    pub(super) async fn claim_one(&self, owner: &str) -> Owner {
        let claims = self.claims(owner).await.claims;
        let [claim] = &claims[..] else {
            panic!("one session can be claimed, not {claims:?}");
        };
        self.owner_of(claim, owner).await
    }

    pub(super) async fn owner_of(&self, claim: &Claim, owner: &str) -> Owner {
        let page = self.store.read(&claim.key, u64::MAX, 1).await.unwrap();
        let (version, seen) = (page.version, page.last_seq);
        self.owner(claim.key.clone(), owner, claim.lease.epoch, version, seen)
    }

    /// The whole journal as text.
    pub(super) async fn journal(&self, key: &SessionKey) -> String {
        shown(&self.store.read(key, 0, 10_000).await.unwrap().events)
    }

    pub(super) async fn append(&self, key: &SessionKey, id: &str) -> Appended {
        self.store.append_command(command(key, id)).await.unwrap()
    }
}

/// An owner at work on a session.
#[derive(Clone)]
pub(super) struct Owner {
    pub(super) store: Arc<dyn Store>,
    pub(super) key: SessionKey,
    pub(super) owner: String,
    pub(super) epoch: u64,
    pub(super) version: u64,
    pub(super) seen: u64,
}

static OPERATIONS: AtomicU64 = AtomicU64::new(0);

impl Owner {
    /// The owner's next transition, with one event a word.
    pub(super) fn next(&self, words: &str) -> Commit {
        let number = OPERATIONS.fetch_add(1, Ordering::Relaxed);
        Commit {
            key: self.key.clone(),
            owner: self.owner.clone(),
            epoch: self.epoch,
            version: self.version,
            operation_id: format!("operation-{number}"),
            seen_seq: self.seen,
            events: events(words),
            memory_writes: Vec::new(),
            header: Header::default(),
            lease: LeaseChange::Renew,
            lease_ms: LEASE,
            checkpoint: None,
            from_reserve: false,
            no_progress: false,
        }
    }

    /// The next transition, which parks.
    pub(super) fn parking(&self, due_unix_ms: Option<i64>) -> Commit {
        Commit {
            lease: LeaseChange::Park { due_unix_ms },
            ..self.next("parked")
        }
    }

    /// Makes a transition and takes its answer in.
    pub(super) async fn make(&mut self, commit: Commit) -> StoreResult<Committed> {
        let count = u64::try_from(commit.events.len()).unwrap();
        let committed = self.store.commit(commit).await?;
        self.version += 1;
        self.seen = committed.first_seq + count - 1;
        Ok(committed)
    }

    pub(super) async fn commit(&mut self, words: &str) -> Committed {
        self.make(self.next(words)).await.unwrap()
    }

    pub(super) async fn park(&mut self, due_unix_ms: Option<i64>) -> Committed {
        self.make(self.parking(due_unix_ms)).await.unwrap()
    }

    /// Renews the lease, which confirms the claim.
    pub(super) async fn renew(&self) {
        let renewal = RenewRequest {
            owner: self.owner.clone(),
            sessions: vec![OwnedSession {
                key: self.key.clone(),
                epoch: self.epoch,
            }],
            lease_ms: LEASE,
        };
        let renewed = self.store.renew(renewal).await.unwrap();
        assert_eq!((renewed.lost, renewed.unanswered), (vec![], vec![]));
    }

    /// What the next transition is answered; nothing is taken in.
    pub(super) async fn error(&self, commit: Commit) -> StoreError {
        self.store.commit(commit).await.unwrap_err()
    }
}
