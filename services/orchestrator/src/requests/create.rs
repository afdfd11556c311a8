//! New sessions, made in tasks that no client can interrupt.

use super::admission::Admission;
use super::answer::{Answer, answer_of, left_to_newer};
use super::until_known::until_known;
use super::{Requests, encoded_command, wait_for_answer};
use crate::key::{SessionKey, derived_session_id, in_journal};
use crate::owner::{Beginning, Ownership, facts};
use crate::store::{Acknowledged, Checkpointer, Loaded, for_session, header, within};
use cairn_engine::command::Command;
use cairn_engine::decide::{Agents, Facts, Input};
use cairn_engine::event::Event;
use cairn_engine::hooks::PresentHooks;
use cairn_engine::key::digest;
use cairn_engine::session::Session;
use cairn_proto::memory as pb;
use cairn_rpc::{Principal, RpcError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The command that a session is made with is its second event.
const COMMAND_SEQ: u64 = 2;
/// The creation and the command.
const EVENTS_BEFORE_ANSWER: usize = 2;

/// What a new session is made with.
#[derive(Debug)]
pub(crate) struct NewSession {
    /// Empty to derive it from the request.
    pub(crate) id: String,
    pub(crate) request_id: String,
    pub(crate) title: String,
    /// 0 for as long as the store keeps sessions.
    pub(crate) time_to_live_ms: u64,
    /// Who makes it, in whose namespace it is.
    pub(crate) principal: Principal,
    pub(crate) command: Option<Command>,
    /// The agents that the command names.
    pub(crate) agents: Agents,
    /// The hooks that there are, for the run that the command starts.
    pub(crate) hooks: PresentHooks,
}

/// Makes a session and, with a command that starts a run, owns it from the same operation on.
///
/// Between the store's commit and the owner's begin the session is leased and has no owner, so a task
/// of its own does both: a client that hangs up does not leave the session idle until the lease ends.
/// The task also keeps the place that admission gave to the session. The answer to the command, if there
/// is one, follows from the request and its agent, which may have changed since the session was made: a retry
/// gets the answer that the journal has.
pub(crate) async fn create(
    requests: &Arc<Requests>,
    new: NewSession,
    admission: Admission,
) -> Result<(SessionKey, Option<Result<Answer, RpcError>>), RpcError> {
    let namespace = new.principal.namespace();
    let id = match new.id.as_str() {
        "" => derived_session_id(namespace, &new.request_id),
        id => id.to_owned(),
    };
    let key = SessionKey::new(namespace, &id);
    let digest = digest_of(&new);
    let has_command = new.command.is_some();
    let (request_id, time_to_live_ms) = (new.request_id.clone(), new.time_to_live_ms);
    let (mut session, mut events) = first_events(requests, new)?;
    let mut encoded = requests.store().encode_all(events.clone());
    if !encoded.large.is_empty() {
        // Such as a long prompt of an agent. What is stored apart takes a session, so its owner answers.
        events.truncate(EVENTS_BEFORE_ANSWER);
        session = folded(&events)?;
        encoded = requests.store().encode_all(events.clone());
    }
    let command_seq = if has_command { COMMAND_SEQ } else { 0 };
    let mut numbered = (1..).zip(events).skip(EVENTS_BEFORE_ANSWER);
    let answer = numbered.find_map(|(seq, event)| answer_of(event, seq, COMMAND_SEQ));
    let request = pb::CreateSessionRequest {
        session: id,
        request_id,
        request_digest: digest.to_vec().into(),
        events: encoded.events,
        last_command_seq: command_seq,
        header: Some(header(&session, requests.config().least_needs())),
        owner: if has_command {
            requests.config().owner.clone()
        } else {
            String::new()
        },
        lease_ms: requests.config().lease_ms(),
        operation_id: uuid::Uuid::now_v7().simple().to_string(),
        time_to_live_ms,
    };
    let checkpoints = Checkpointer::begun(encoded.bytes);
    let loaded = Loaded {
        session,
        acknowledged: Acknowledged::default(),
        checkpoints,
        // The first commit says it.
        journal_permille: 0,
    };
    // Boxed, so that it is not moved on its way into the task.
    let making = Box::pin(make(requests.clone(), key.clone(), request, loaded));
    let task = requests.sessions.spawn(async move {
        let made = making.await;
        drop(admission);
        made
    });
    let is_duplicate = task.await.map_err(RpcError::internal)??;
    if !has_command || (answer.is_some() && !is_duplicate) {
        return Ok((key, answer));
    }
    let appended = pb::AppendCommandResponse {
        seq: COMMAND_SEQ,
        ..pb::AppendCommandResponse::default()
    };
    let answer = wait_for_answer(requests, &key, &appended).await;
    Ok((key, Some(answer.map_err(left_to_newer))))
}

/// Says whether the session was there, made by the same request.
async fn make(
    requests: Arc<Requests>,
    key: SessionKey,
    request: pb::CreateSessionRequest,
    loaded: Loaded,
) -> Result<bool, RpcError> {
    let store = requests.store();
    let create = |time| {
        let request = within(time, for_session(&key, request.clone()));
        let mut journal = store.journal();
        async move { Ok(journal.create_session(request).await?.into_inner()) }
    };
    let asked = store.clock.now();
    let answer = until_known(&key, requests.config().lease, create).await?;
    store.clock.take(asked, answer.store_time_unix_ms);
    // A retry has it as well: the answer to one is a duplicate with the lease.
    let has_lease = answer.epoch > 0;
    if has_lease {
        let ownership = Ownership {
            key,
            epoch: answer.epoch,
            lease_until: answer.lease_until_unix_ms,
            beginning: Beginning::Created(Box::new(loaded)),
        };
        requests.sessions.begin(ownership);
    }
    Ok(answer.duplicate)
}

fn first_events(requests: &Requests, new: NewSession) -> Result<(Session, Vec<Event>), RpcError> {
    let catalogue = requests.deps().dispatch.catalogue();
    let now = requests.store().clock.now();
    let mut session = Session::default();
    // The lease will begin no earlier than now.
    let not_after = now + u64::from(requests.config().lease_ms()) * 4 / 5;
    let (offered, starts) = (BTreeMap::new(), !requests.sessions.is_draining());
    let (agents, hooks) = (new.agents, new.hooks);
    let (deps, namespace) = (requests.deps(), new.principal.namespace());
    let pool = deps.dispatch.pool_facts(namespace, BTreeMap::new());
    let facts = Facts {
        agents: &agents,
        pool: &pool,
        hooks: &hooks,
        ..facts(deps, &catalogue, &offered, not_after, starts)
    };
    let input = Input::Create {
        title: new.title,
        time_to_live_ms: new.time_to_live_ms,
        principal: Some(in_journal(&new.principal)),
        command: new.command.map(|command| (new.request_id, command)),
    };
    let events = session.decide(input, &facts);
    Ok((session, events.map_err(RpcError::internal)?))
}

fn folded(events: &[Event]) -> Result<Session, RpcError> {
    let mut session = Session::default();
    for (seq, event) in (1..).zip(events) {
        session.apply(seq, event).map_err(RpcError::internal)?;
    }
    Ok(session)
}

/// Distinguishes a retried creation from another one.
fn digest_of(new: &NewSession) -> [u8; 32] {
    let command: Vec<u8> = new.command.iter().flat_map(encoded_command).collect();
    let ttl = new.time_to_live_ms.to_be_bytes();
    let mut parts = vec![new.title.as_bytes(), &command];
    // As it was before there were any.
    parts.extend((new.time_to_live_ms > 0).then_some(ttl.as_slice()));
    digest(&parts)
}
