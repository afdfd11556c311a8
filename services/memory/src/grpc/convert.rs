//! Between messages and the port's types. What is wrong with a message is said by field.

use crate::port::{
    Checkpoint, Header, LeaseChange, Level, MemoryEntry, MemoryWrite, Metadata, PendingKind,
    Quarantine, RequestId, SessionKey, SessionStatus, StoredEvent,
};
use bytes::Bytes;
use cairn_proto::memory as pb;
use cairn_proto::time::timestamp;
use cairn_rpc::{Namespace, RpcError, check_request_id, check_session_id, check_text, principal};
use std::str::FromStr as _;
use tonic::Request;

const LEASE_MS: std::ops::RangeInclusive<u32> = 100..=600_000;
/// A second to ten years.
const TIME_TO_LIVE_MS: std::ops::RangeInclusive<u64> = 1000..=315_360_000_000;
const MAX_OPERATION_ID: usize = 64;
const MAX_DIGEST: usize = 64;
const MAX_KEY: usize = 128;
/// Entries of the metadata of a value.
const MAX_METADATA: usize = 16;
const MAX_METADATA_NAME: usize = 64;
const MAX_METADATA_TEXT: usize = 1024;
pub(super) const MAX_TITLE: usize = 800;
const MAX_AGENT: usize = 128;
/// Kinds of questions in a header or a filter.
pub(super) const MAX_KINDS: usize = 8;
const KINDS: std::ops::RangeInclusive<u8> = 1..=31;
/// Needs in a header.
const MAX_NEEDS: usize = 8;
/// Bytes of each of them.
const MAX_NEED: usize = 512;

/// The session that a request names, in the caller's namespace.
pub(super) fn session_key<T>(request: &Request<T>, session: &str) -> Result<SessionKey, RpcError> {
    let namespace = principal(request)?.namespace();
    check_session_id("session", session)?;
    Ok(SessionKey::new(namespace.as_str(), session))
}

/// A session that is named with its namespace, as between an orchestrator and this service.
pub(super) fn referred(
    field: &str,
    session: Option<pb::SessionRef>,
) -> Result<SessionKey, RpcError> {
    let session = session.ok_or_else(|| RpcError::missing(field))?;
    let namespace = Namespace::from_str(&session.namespace)
        .map_err(|_| RpcError::invalid(format!("{field}.namespace"), "is not a namespace"))?;
    check_session_id(&format!("{field}.session"), &session.session)?;
    Ok(SessionKey::new(namespace.as_str(), session.session))
}

pub(super) fn reference(key: &SessionKey) -> pb::SessionRef {
    pb::SessionRef {
        namespace: key.namespace().to_owned(),
        session: key.session().to_owned(),
    }
}

pub(super) fn owner(owner: String) -> Result<String, RpcError> {
    check_request_id("owner", &owner)?;
    Ok(owner)
}

pub(super) fn lease_ms(lease_ms: u32) -> Result<u32, RpcError> {
    if LEASE_MS.contains(&lease_ms) {
        return Ok(lease_ms);
    }
    Err(RpcError::invalid("lease_ms", format!("is {lease_ms}")).allowed("100 to 600000"))
}

/// 0 for none.
pub(super) fn time_to_live(ms: u64) -> Result<Option<u64>, RpcError> {
    if ms == 0 || TIME_TO_LIVE_MS.contains(&ms) {
        return Ok(Some(ms).filter(|&ms| ms > 0));
    }
    let problem = format!("is {ms}");
    Err(RpcError::invalid("time_to_live_ms", problem).allowed("0, or 1000 to 315360000000"))
}

pub(super) fn operation_id(id: String) -> Result<String, RpcError> {
    check_request_id("operation_id", &id)?;
    if id.len() > MAX_OPERATION_ID {
        return Err(
            RpcError::invalid("operation_id", format!("has {} bytes", id.len()))
                .allowed("at most 64"),
        );
    }
    Ok(id)
}

pub(super) fn request_id(id: String, digest: Bytes) -> Result<RequestId, RpcError> {
    check_request_id("request_id", &id)?;
    if digest.is_empty() || digest.len() > MAX_DIGEST {
        let problem = format!("has {} bytes", digest.len());
        return Err(RpcError::invalid("request_digest", problem).allowed("1 to 64 bytes"));
    }
    Ok(RequestId { id, digest })
}

pub(super) fn status(field: &str, status: i32) -> Result<SessionStatus, RpcError> {
    match pb::SessionStatus::try_from(status) {
        Ok(pb::SessionStatus::Unspecified | pb::SessionStatus::Idle) => Ok(SessionStatus::Idle),
        Ok(pb::SessionStatus::Running) => Ok(SessionStatus::Running),
        Ok(pb::SessionStatus::Waiting) => Ok(SessionStatus::Waiting),
        Ok(pb::SessionStatus::Paused) => Ok(SessionStatus::Paused),
        Err(_) => Err(RpcError::invalid(field, format!("is {status}")).allowed("0 to 4")),
    }
}

pub(super) fn header(header: Option<pb::Header>) -> Result<Header, RpcError> {
    let header = header.unwrap_or_default();
    let status = status("header.status", header.status)?;
    if header.title.len() > MAX_TITLE {
        let problem = format!("has {} bytes", header.title.len());
        return Err(RpcError::invalid("header.title", problem).allowed("at most 800 bytes"));
    }
    Ok(Header {
        status,
        handled_through: header.handled_through,
        title: header.title,
        agent: agent("header.agent", header.agent)?,
        tokens: header.tokens,
        cost_nano_usd: header.cost_nano_usd,
        pending: pending(header.pending)?,
        needs: level("header.needs", header.needs)?,
        waits_for: waits_for(header.waits_for)?,
    })
}

/// Sorted, each once.
fn waits_for(mut needs: Vec<String>) -> Result<Vec<String>, RpcError> {
    if needs.len() > MAX_NEEDS {
        let problem = format!("has {} entries", needs.len());
        return Err(RpcError::invalid("header.waits_for", problem).allowed("at most 8"));
    }
    let is_printable = |b: u8| (b' '..=b'~').contains(&b);
    for (index, need) in needs.iter().enumerate() {
        let problem = if need.is_empty() {
            "is empty".to_owned()
        } else if need.len() > MAX_NEED {
            format!("has {} bytes", need.len())
        } else if !need.bytes().all(is_printable) {
            "holds a character that is not printable ASCII".to_owned()
        } else {
            continue;
        };
        let field = format!("header.waits_for[{index}]");
        let error = RpcError::invalid(field, problem);
        return Err(error.allowed("1 to 512 bytes of printable ASCII"));
    }
    needs.sort_unstable();
    needs.dedup();
    Ok(needs)
}

/// 0 for the first level.
pub(super) fn level(field: &str, number: u32) -> Result<Level, RpcError> {
    Level::of_number(number)
        .ok_or_else(|| RpcError::invalid(field, format!("is {number}")).allowed("at most 1000"))
}

pub(super) fn agent(field: &str, agent: String) -> Result<String, RpcError> {
    check_text(field, &agent, MAX_AGENT)?;
    Ok(agent)
}

/// The number of a kind of question.
pub(super) fn kind(field: &str, kind: u32) -> Result<u8, RpcError> {
    match u8::try_from(kind) {
        Ok(kind) if KINDS.contains(&kind) => Ok(kind),
        _ => Err(RpcError::invalid(field, format!("is {kind}")).allowed("1 to 31")),
    }
}

fn pending(pending: Vec<pb::PendingKind>) -> Result<Vec<PendingKind>, RpcError> {
    if pending.len() > MAX_KINDS {
        let problem = format!("has {} entries", pending.len());
        return Err(RpcError::invalid("header.pending", problem).allowed("at most 8"));
    }
    let mut kinds: Vec<PendingKind> = Vec::with_capacity(pending.len());
    for (index, open) in pending.into_iter().enumerate() {
        let field = |name: &str| format!("header.pending[{index}].{name}");
        let found = PendingKind {
            kind: kind(&field("kind"), open.kind)?,
            since_unix_ms: open.since_unix_ms,
            count: open.count,
        };
        if open.since_unix_ms < 0 {
            return Err(RpcError::invalid(field("since_unix_ms"), "is negative").allowed("a time"));
        }
        if open.count == 0 {
            return Err(RpcError::invalid(field("count"), "is 0").allowed("at least 1"));
        }
        if kinds.iter().any(|known| known.kind == found.kind) {
            let problem = "is the kind of another entry";
            return Err(RpcError::invalid(field("kind"), problem).allowed("one entry of each kind"));
        }
        kinds.push(found);
    }
    kinds.sort_unstable_by_key(|open| open.kind);
    Ok(kinds)
}

pub(super) fn header_message(header: Header) -> pb::Header {
    pb::Header {
        status: status_number(header.status),
        handled_through: header.handled_through,
        title: header.title,
        agent: header.agent,
        tokens: header.tokens,
        cost_nano_usd: header.cost_nano_usd,
        pending: pending_messages(header.pending),
        needs: header.needs.number().into(),
        waits_for: header.waits_for,
    }
}

pub(super) fn pending_messages(pending: Vec<PendingKind>) -> Vec<pb::PendingKind> {
    let message = |open: PendingKind| pb::PendingKind {
        kind: open.kind.into(),
        since_unix_ms: open.since_unix_ms,
        count: open.count,
    };
    pending.into_iter().map(message).collect()
}

pub(super) fn status_number(status: SessionStatus) -> i32 {
    let status = match status {
        SessionStatus::Idle => pb::SessionStatus::Idle,
        SessionStatus::Running => pb::SessionStatus::Running,
        SessionStatus::Waiting => pb::SessionStatus::Waiting,
        SessionStatus::Paused => pb::SessionStatus::Paused,
    };
    status.into()
}

pub(super) fn lease_change(change: i32, due_unix_ms: i64) -> Result<LeaseChange, RpcError> {
    match pb::LeaseChange::try_from(change) {
        Ok(pb::LeaseChange::Unspecified | pb::LeaseChange::Renew) => Ok(LeaseChange::Renew),
        Ok(pb::LeaseChange::Park) if due_unix_ms < 0 => {
            Err(RpcError::invalid("due_unix_ms", "is negative").allowed("0, or a time"))
        }
        Ok(pb::LeaseChange::Park) => Ok(LeaseChange::Park {
            due_unix_ms: Some(due_unix_ms).filter(|&due| due > 0),
        }),
        Err(_) => Err(RpcError::invalid("lease_change", format!("is {change}")).allowed("0 to 2")),
    }
}

pub(super) fn memory_key(field: &str, key: String) -> Result<String, RpcError> {
    let problem = if key.is_empty() {
        "is empty".to_owned()
    } else if key.len() > MAX_KEY {
        format!("has {} bytes", key.len())
    } else if key.chars().any(char::is_control) {
        "holds a control character".to_owned()
    } else {
        return Ok(key);
    };
    Err(RpcError::invalid(field, problem).allowed("1 to 128 bytes without control characters"))
}

/// The metadata of a value, if it is within its limits.
pub(super) fn metadata(field: &str, metadata: Metadata) -> Result<Metadata, RpcError> {
    let is_name = |name: &str| (1..=MAX_METADATA_NAME).contains(&name.len());
    let long = |(name, text): (&String, &String)| {
        let bytes = text.len();
        (bytes > MAX_METADATA_TEXT).then(|| format!("has {bytes} bytes under the name \"{name}\""))
    };
    let problem = if metadata.len() > MAX_METADATA {
        format!("has {} entries", metadata.len())
    } else if let Some(name) = metadata.keys().find(|name| !is_name(name.as_str())) {
        format!("has a name of {} bytes", name.len())
    } else if let Some(problem) = metadata.iter().find_map(long) {
        problem
    } else {
        return Ok(metadata);
    };
    let allowed = format!(
        "at most {MAX_METADATA} entries, each with a name of 1 to {MAX_METADATA_NAME} bytes and a \
         text of at most {MAX_METADATA_TEXT} bytes"
    );
    Err(RpcError::invalid(field, problem).allowed(allowed))
}

/// A time in milliseconds since 1970; none for 0.
pub(super) fn time(field: &str, unix_ms: i64) -> Result<Option<i64>, RpcError> {
    if unix_ms < 0 {
        let error = RpcError::invalid(field, "is negative");
        return Err(error.allowed("0, or a time"));
    }
    Ok(Some(unix_ms).filter(|&time| time > 0))
}

pub(super) fn memory_writes(writes: Vec<pb::MemoryWrite>) -> Result<Vec<MemoryWrite>, RpcError> {
    use pb::memory_write::Change;
    let convert = |(index, write): (usize, pb::MemoryWrite)| {
        let field = |name: &str| format!("memory_writes[{index}].{name}");
        match write.change {
            None => Err(RpcError::missing(field("change"))),
            Some(Change::Set(set)) => Ok(MemoryWrite::Set {
                key: memory_key(&field("set.key"), set.key)?,
                value: set.value,
                metadata: metadata(&field("set.metadata"), set.metadata)?,
                at_unix_ms: time(&field("set.updated_unix_ms"), set.updated_unix_ms)?,
            }),
            Some(Change::Remove(key)) => Ok(MemoryWrite::Remove {
                key: memory_key(&field("remove"), key)?,
            }),
            Some(Change::Clear(_)) => Ok(MemoryWrite::Clear),
        }
    };
    writes.into_iter().enumerate().map(convert).collect()
}

pub(super) fn checkpoint(
    checkpoint: Option<pb::Checkpoint>,
    seen_seq: u64,
) -> Result<Option<Checkpoint>, RpcError> {
    let Some(pb::Checkpoint { through_seq, state }) = checkpoint else {
        return Ok(None);
    };
    if through_seq == 0 || through_seq > seen_seq {
        let problem = format!("is {through_seq}");
        return Err(RpcError::invalid("checkpoint.through_seq", problem)
            .allowed(format!("1 to seen_seq, which is {seen_seq}")));
    }
    Ok(Some(Checkpoint { through_seq, state }))
}

pub(super) fn events(events: Vec<StoredEvent>) -> Vec<pb::StoredEvent> {
    let convert = |StoredEvent { seq, event }| pb::StoredEvent { seq, event };
    events.into_iter().map(convert).collect()
}

pub(super) fn memory_entries(session: &str, entries: Vec<MemoryEntry>) -> Vec<pb::MemoryEntry> {
    let convert = |entry| memory_entry(session, entry);
    entries.into_iter().map(convert).collect()
}

/// An entry with its names. A session's id has no colon, so the first one ends it.
pub(super) fn memory_entry(session: &str, entry: MemoryEntry) -> pb::MemoryEntry {
    let namespace = format!("_session_{session}");
    pb::MemoryEntry {
        id: format!("{namespace}:{}", entry.key),
        namespace,
        key: entry.key,
        value: entry.value,
        metadata: entry.metadata,
        create_time: entry.created_unix_ms.map(timestamp),
        update_time: entry.updated_unix_ms.map(timestamp),
    }
}

/// A number that must not be larger than something else in the request.
pub(super) fn at_most(field: &str, value: u64, most: u64, what: &str) -> Result<(), RpcError> {
    if value <= most {
        return Ok(());
    }
    Err(RpcError::invalid(field, format!("is {value}")).allowed(format!("at most {what}, {most}")))
}

/// Why a session is quarantined, if it is, as messages have it.
pub(super) fn quarantine_number(quarantine: Option<Quarantine>) -> i32 {
    let reason = match quarantine {
        None => pb::QuarantineReason::Unspecified,
        Some(Quarantine::Claims) => pb::QuarantineReason::Claims,
        Some(Quarantine::WritesLost) => pb::QuarantineReason::WritesLost,
    };
    reason.into()
}
