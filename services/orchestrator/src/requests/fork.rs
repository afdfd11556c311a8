//! Sessions that begin as copies of others.
//!
//! The store copies; what a copy needs to be a session of its own is decided here, from the other
//! session as it was at the cut. Whoever dies in between leaves something that nobody can see, and
//! the same request continues with it anywhere.

use super::Requests;
use super::admission::{Admission, admit, admit_idle, is_there};
use crate::key::{SessionKey, derived_session_id, in_journal};
use crate::owner::facts;
use crate::store::Quarantine;
use crate::store::{for_session, header};
use bytes::Bytes;
use cairn_engine::command::Command;
use cairn_engine::decide::{Fork, Input};
use cairn_engine::key::digest;
use cairn_engine::session::{Received, Session};
use cairn_proto::convert::encode_own_event;
use cairn_proto::memory as pb;
use cairn_proto::memory::memory_write::Set;
use cairn_rpc::{Principal, RpcError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) parent: SessionKey,
    /// Who asks for it.
    pub(crate) principal: Principal,
    /// 0 for all that there is.
    pub(crate) at_seq: u64,
    pub(crate) request_id: String,
    /// Of the session to be; empty to derive it from the request.
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) continues: bool,
    /// Whatever the store has lost of the parent may be done again.
    pub(crate) accepts_loss: bool,
}

/// Makes the session, and says where it was cut.
pub(crate) async fn fork(
    requests: &Arc<Requests>,
    asked: Asked,
) -> Result<(SessionKey, u64), RpcError> {
    let namespace = &asked.parent.namespace;
    let id = match asked.id.as_str() {
        // No request of another kind has a space in its id.
        "" => derived_session_id(namespace, &format!("fork {}", asked.request_id)),
        id => id.to_owned(),
    };
    let child = SessionKey::new(namespace, &id);
    if child == asked.parent {
        let error = RpcError::invalid("new_session", "is the session to be copied");
        return Err(error.allowed("another id, or nothing"));
    }
    let admission = match asked.continues {
        true => admit(requests, None).await,
        false => admit_idle(requests).await,
    };
    if !is_there(requests, &child).await? {
        if let Admission::OnlyRepeats(full) = &admission {
            return Err(full.clone());
        }
        lost_nothing(requests, &asked).await?;
    }
    let request = pb::CopyEventsRequest {
        at_seq: whole(requests, &asked).await?,
        ..request(&asked, &child)
    };
    let copied = copy(requests, &asked, &child, &request).await?;
    if copied.complete {
        return Ok((child, copied.cut_seq));
    }
    // Also while it was copied.
    lost_nothing(requests, &asked).await?;
    let completion = completion(requests, &asked, &copied).await?;
    let completed = pb::CopyEventsRequest {
        completion: Some(completion),
        ..request
    };
    let completed = send(requests, &child, completed).await?;
    drop(admission);
    Ok((child, completed.cut_seq))
}

/// What the store has lost of the parent was done, and the copy does not know that.
async fn lost_nothing(requests: &Requests, asked: &Asked) -> Result<(), RpcError> {
    let parent = &asked.parent;
    if !asked.accepts_loss
        && requests.store().quarantine(parent).await? == Some(Quarantine::WritesLost)
    {
        return Err(Quarantine::refuse_copy(parent));
    }
    Ok(())
}

/// The first events of a session are no transition, and each can be the last of a copy. But a run
/// that began with its plan is never without: such a cut falls back to before the run.
async fn whole(requests: &Requests, asked: &Asked) -> Result<u64, RpcError> {
    /// SessionCreated, CommandReceived, RunStarted.
    const FIRST_RUN: u64 = 3;
    if asked.at_seq != FIRST_RUN {
        return Ok(asked.at_seq);
    }
    let before = requests
        .store()
        .view_at(&asked.parent, FIRST_RUN - 1)
        .await?;
    let brings_plan = |received: &Received| match &received.command {
        Command::StartRun(start) => start.plan.is_some(),
        _ => false,
    };
    let is_within = before.commands.values().any(|it| brings_plan(it));
    Ok(FIRST_RUN - u64::from(is_within))
}

fn request(asked: &Asked, child: &SessionKey) -> pb::CopyEventsRequest {
    let (at, continues) = (asked.at_seq.to_be_bytes(), [u8::from(asked.continues)]);
    let parts = [
        b"fork".as_slice(),
        asked.parent.id.as_bytes(),
        &at[..],
        asked.title.as_bytes(),
        &continues[..],
    ];
    pb::CopyEventsRequest {
        session: child.id.to_string(),
        source: asked.parent.id.to_string(),
        request_id: asked.request_id.clone(),
        request_digest: digest(&parts).to_vec().into(),
        at_seq: asked.at_seq,
        completion: None,
        transcript: None,
    }
}

/// Has the store copy until everything is there.
async fn copy(
    requests: &Requests,
    asked: &Asked,
    child: &SessionKey,
    request: &pb::CopyEventsRequest,
) -> Result<pb::CopyEventsResponse, RpcError> {
    loop {
        let copied = send(requests, child, request.clone()).await;
        let copied = copied.map_err(|error| match error.reason_name() {
            // Otherwise the session is shorter than it was a moment ago.
            "WENT_BACK" if asked.at_seq > 0 => {
                let last = error.metadata("stored").unwrap_or_default();
                let error = RpcError::invalid("at_seq", "is after the last event");
                error.allowed(format!("1 to {last}, or 0 for now"))
            }
            // The session that is there, or is being made, has another beginning.
            "REQUEST_MISMATCH" if !asked.id.is_empty() => error.meta("field", "new_session"),
            _ => error,
        })?;
        if copied.complete || copied.copied_through >= copied.cut_seq {
            return Ok(copied);
        }
    }
}

/// Copies events into a new session. The store's clock is set by the answer.
pub(super) async fn send(
    requests: &Requests,
    child: &SessionKey,
    request: pb::CopyEventsRequest,
) -> Result<pb::CopyEventsResponse, RpcError> {
    let store = requests.store();
    let asked = store.clock.now();
    let mut journal = store.journal();
    let answer = journal.copy_events(for_session(child, request)).await?;
    let answer = answer.into_inner();
    store.clock.take(asked, answer.store_time_unix_ms);
    Ok(answer)
}

/// What the copy is given to be a session of its own.
async fn completion(
    requests: &Requests,
    asked: &Asked,
    copied: &pb::CopyEventsResponse,
) -> Result<pb::CopyCompletion, RpcError> {
    let store = requests.store();
    let mut session = store.view_at(&asked.parent, copied.cut_seq).await?;
    let fork = Fork {
        session: asked.parent.id.to_string(),
        request_id: asked.request_id.clone(),
        principal: Some(in_journal(&asked.principal)),
        title: asked.title.clone(),
        continues: asked.continues,
    };
    let forked = Input::Forked(fork);
    decided(requests, &mut session, forked, copied.store_time_unix_ms)
}

/// What makes a session of its own out of the fold of another one, or of an archive, by the store's time.
pub(crate) fn decided(
    requests: &Requests,
    session: &mut Session,
    input: Input,
    now_unix_ms: i64,
) -> Result<pb::CopyCompletion, RpcError> {
    let catalogue = requests.deps().dispatch.catalogue();
    let offered = BTreeMap::new();
    // The owner begins.
    let facts = facts(requests.deps(), &catalogue, &offered, 0, false);
    let decided = session.decide(input, &facts);
    let decided = decided.map_err(RpcError::internal)?;
    // All of them are small.
    let least_needs = requests.config().least_needs();
    let events = decided
        .into_iter()
        .map(|event| encode_own_event(event, least_needs).into());
    Ok(completed(requests, session, events.collect(), now_unix_ms))
}

/// What completes a copy with these events, by its fold with them.
fn completed(
    requests: &Requests,
    session: &Session,
    events: Vec<Bytes>,
    now_unix_ms: i64,
) -> pb::CopyCompletion {
    pb::CopyCompletion {
        events,
        memory: memory(session),
        header: Some(header(session, requests.config().least_needs())),
        due_unix_ms: match session.needs_owner() {
            true => now_unix_ms,
            false => 0,
        },
    }
}

fn memory(session: &Session) -> Vec<Set> {
    let entries = session.memory.iter();
    let set = entries.map(|(key, value)| {
        let details = session.memory.details(key).cloned().unwrap_or_default();
        Set {
            key: key.clone(),
            value: value.clone(),
            metadata: details.metadata,
            updated_unix_ms: i64::try_from(details.updated).unwrap_or(i64::MAX),
            created_unix_ms: i64::try_from(details.created).unwrap_or(i64::MAX),
        }
    });
    set.collect()
}
