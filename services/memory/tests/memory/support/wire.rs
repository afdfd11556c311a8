//! Between the port's types and messages, on the side of the client.

use cairn_memory::error::{
    BLOB_MISSING, CONFLICT, DAMAGED, DOCUMENT_VERSION, END, FENCED, LIMIT, NOT_WRITTEN,
    OUTCOME_UNKNOWN, RELIST, REQUEST_MISMATCH, TERMINAL, WENT_BACK, WRITES_LOST,
};
use cairn_memory::port::*;
use cairn_proto::memory as pb;
use cairn_rpc::{Principal, RpcError, with_principal};
use tonic::{Code, Request, Status};

pub(crate) fn in_namespace<T>(namespace: &str, message: T) -> Request<T> {
    let principal = Principal::service("test", namespace.parse().unwrap());
    with_principal(Request::new(message), &principal)
}

pub(crate) fn about<T>(key: &SessionKey, message: T) -> Request<T> {
    in_namespace(key.namespace(), message)
}

pub(crate) fn session(key: &SessionKey) -> String {
    key.session().to_owned()
}

/// The closed list of results, from what the contracts say about errors.
#[allow(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
pub(crate) fn refused(status: Status) -> StoreError {
    let error = RpcError::from_status(&status);
    match (status.code(), error.reason_name()) {
        (Code::Aborted, FENCED) => StoreError::Fenced,
        (Code::NotFound, TERMINAL) => {
            StoreError::Terminal(End::from_name(error.metadata(END).unwrap()).unwrap())
        }
        (Code::FailedPrecondition, WRITES_LOST) => StoreError::WritesLost,
        (Code::FailedPrecondition, BLOB_MISSING) => StoreError::BlobMissing {
            seq: error.metadata("seq").unwrap().parse().unwrap(),
            digest: error.metadata("digest").unwrap().to_owned(),
        },
        (Code::AlreadyExists, REQUEST_MISMATCH) => StoreError::RequestMismatch,
        (Code::DataLoss | Code::OutOfRange, WENT_BACK) => {
            let number = |name| error.metadata(name).unwrap().parse().unwrap();
            StoreError::WentBack {
                known: number("known"),
                stored: number("stored"),
            }
        }
        (Code::DataLoss, DAMAGED) => {
            let seq = || error.metadata("seq").unwrap().parse().unwrap();
            StoreError::Damaged(match error.metadata("stored").unwrap() {
                "event" => Stored::Event(seq()),
                "checkpoint" => Stored::Checkpoint(seq()),
                "document" => Stored::Document(error.metadata("document").unwrap().to_owned()),
                _ => Stored::Blob(error.metadata("digest").unwrap().to_owned()),
            })
        }
        (Code::NotFound, _) => StoreError::NotFound,
        (Code::Aborted, CONFLICT) => StoreError::Conflict,
        (Code::Aborted, DOCUMENT_VERSION) => StoreError::DocumentVersion {
            found: error.metadata("version").unwrap().parse().unwrap(),
        },
        (Code::OutOfRange, RELIST) => StoreError::Relist,
        // What the message alone shows to be wrong is named by field.
        (Code::InvalidArgument, _) if error.violations()[0].allowed.contains("seen_seq") => {
            StoreError::Conflict
        }
        (Code::ResourceExhausted, LIMIT) => StoreError::Limit {
            what: Limit::from_name(error.metadata("limit").unwrap()).unwrap(),
            allowed: error.metadata("allowed").unwrap().parse().unwrap(),
        },
        (Code::Unavailable, NOT_WRITTEN) => StoreError::unavailable(error),
        (Code::Unavailable, OUTCOME_UNKNOWN) => StoreError::unknown(error),
        (code, reason) => panic!("{code:?} {reason}: {error}"),
    }
}

/// Messages tell twice whether a session is quarantined.
pub(crate) fn quarantine(is_set_aside: bool, reason: i32) -> Option<Quarantine> {
    let told = match pb::QuarantineReason::try_from(reason).unwrap() {
        pb::QuarantineReason::Unspecified => None,
        pb::QuarantineReason::Claims => Some(Quarantine::Claims),
        pb::QuarantineReason::WritesLost => Some(Quarantine::WritesLost),
    };
    assert_eq!(told.is_some(), is_set_aside);
    told
}

pub(crate) fn header(header: Header) -> Option<pb::Header> {
    let status = match header.status {
        SessionStatus::Idle => pb::SessionStatus::Idle,
        SessionStatus::Running => pb::SessionStatus::Running,
        SessionStatus::Waiting => pb::SessionStatus::Waiting,
        SessionStatus::Paused => pb::SessionStatus::Paused,
    };
    Some(pb::Header {
        status: status.into(),
        handled_through: header.handled_through,
        title: header.title,
        agent: header.agent,
        tokens: header.tokens,
        cost_nano_usd: header.cost_nano_usd,
        pending: header.pending.into_iter().map(open).collect(),
        needs: header.needs.number().into(),
        waits_for: header.waits_for,
    })
}

fn open(open: PendingKind) -> pb::PendingKind {
    pb::PendingKind {
        kind: open.kind.into(),
        since_unix_ms: open.since_unix_ms,
        count: open.count,
    }
}

pub(crate) fn pending(pending: Vec<pb::PendingKind>) -> Vec<PendingKind> {
    let open = |open: pb::PendingKind| PendingKind {
        kind: u8::try_from(open.kind).unwrap(),
        since_unix_ms: open.since_unix_ms,
        count: open.count,
    };
    pending.into_iter().map(open).collect()
}

pub(crate) fn header_of(message: pb::Header) -> Header {
    Header {
        status: status(message.status),
        handled_through: message.handled_through,
        title: message.title,
        agent: message.agent,
        tokens: message.tokens,
        cost_nano_usd: message.cost_nano_usd,
        pending: pending(message.pending),
        needs: level(message.needs),
        waits_for: message.waits_for,
    }
}

pub(crate) fn level(number: u32) -> Level {
    Level::of_number(number).unwrap()
}

pub(crate) fn status(number: i32) -> SessionStatus {
    match pb::SessionStatus::try_from(number).unwrap() {
        pb::SessionStatus::Running => SessionStatus::Running,
        pb::SessionStatus::Waiting => SessionStatus::Waiting,
        pb::SessionStatus::Paused => SessionStatus::Paused,
        _ => SessionStatus::Idle,
    }
}

pub(crate) fn stored(events: Vec<pb::StoredEvent>) -> Vec<StoredEvent> {
    let convert = |pb::StoredEvent { seq, event }| StoredEvent { seq, event };
    events.into_iter().map(convert).collect()
}

pub(crate) fn keys(sessions: Vec<pb::SessionRef>) -> Vec<SessionKey> {
    let convert = |pb::SessionRef { namespace, session }| SessionKey::new(namespace, session);
    sessions.into_iter().map(convert).collect()
}

pub(crate) fn reference(key: &SessionKey) -> Option<pb::SessionRef> {
    Some(pb::SessionRef {
        namespace: key.namespace().to_owned(),
        session: session(key),
    })
}

pub(crate) fn memory_write(change: MemoryWrite) -> pb::MemoryWrite {
    use pb::memory_write::{Change, Set};
    let change = match change {
        MemoryWrite::Set {
            key,
            value,
            metadata,
            at_unix_ms,
        } => Change::Set(Set {
            key,
            value,
            metadata,
            updated_unix_ms: at_unix_ms.unwrap_or(0),
            created_unix_ms: 0,
        }),
        MemoryWrite::Remove { key } => Change::Remove(key),
        MemoryWrite::Clear => Change::Clear(true),
    };
    pb::MemoryWrite {
        change: Some(change),
    }
}

pub(crate) fn commit_request(commit: Commit) -> pb::CommitRequest {
    let (lease_change, due_unix_ms) = match commit.lease {
        LeaseChange::Renew => (pb::LeaseChange::Renew, 0),
        LeaseChange::Park { due_unix_ms } => (pb::LeaseChange::Park, due_unix_ms.unwrap_or(0)),
    };
    pb::CommitRequest {
        session: session(&commit.key),
        owner: commit.owner,
        epoch: commit.epoch,
        version: commit.version,
        operation_id: commit.operation_id,
        seen_seq: commit.seen_seq,
        events: commit.events,
        memory_writes: commit.memory_writes.into_iter().map(memory_write).collect(),
        header: header(commit.header),
        lease_change: lease_change.into(),
        lease_ms: commit.lease_ms,
        due_unix_ms,
        checkpoint: commit.checkpoint.map(|checkpoint| pb::Checkpoint {
            through_seq: checkpoint.through_seq,
            state: checkpoint.state,
        }),
        from_reserve: commit.from_reserve,
        no_progress: commit.no_progress,
    }
}

pub(crate) fn create_request(create: Create) -> pb::CreateSessionRequest {
    let lease = create.lease;
    pb::CreateSessionRequest {
        session: session(&create.key),
        request_id: create.request.id,
        request_digest: create.request.digest,
        events: create.events,
        last_command_seq: create.last_command_seq,
        header: header(create.header),
        owner: lease
            .as_ref()
            .map(|lease| lease.owner.clone())
            .unwrap_or_default(),
        lease_ms: lease.map_or(0, |lease| lease.lease_ms),
        operation_id: create.operation_id,
        time_to_live_ms: create.time_to_live_ms.unwrap_or(0),
    }
}
