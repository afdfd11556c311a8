//! Commands of clients: stored first, then acted upon by the owner, answered from the journal.

mod admission;
mod answer;
mod create;
pub(crate) mod fork;
pub(crate) mod import;
mod until_known;

pub(crate) use admission::{Admission, admit};
pub(crate) use answer::Answer;
pub(crate) use create::{NewSession, create};

use crate::agents;
use crate::config::Config;
use crate::deps::Deps;
use crate::key::{SessionKey, derived_session_id, in_journal};
use crate::owner::{Beginning, Ownership};
use crate::readers::Readers;
use crate::sessions::{Reservation, Sessions, begin_claimed};
use crate::store::{LARGEST_INLINE_EVENT, Store, for_session, within};
use admission::{Backlog, is_there};
use answer::{answer_of, left_to_newer, not_stored, refusal_of_unstored};
use cairn_engine::command::Command;
use cairn_engine::decide::{Agents, agents_needed};
use cairn_engine::event::{CommandReceived, Event};
use cairn_engine::key::digest;
use cairn_engine::session::Session;
use cairn_proto::memory as pb;
use cairn_rpc::{Namespace, Principal, RpcError};
use prost::Message as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_stream::StreamExt as _;
use until_known::until_known;

/// How long the store may take to store a command.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// A session that has not answered a command for this long may be quarantined, or left to a newer version.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// How often this is looked at again.
const LATER_LOOKS: Duration = Duration::from_secs(5);

/// What becomes of a request to a session that is quarantined.
const STORED: &str = "this request is stored, and answered";

/// What requests of clients need.
#[derive(Debug)]
pub(crate) struct Requests {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) readers: Readers,
    backlog: Backlog,
}

impl Requests {
    pub(crate) fn new(sessions: Arc<Sessions>) -> Self {
        let readers = Readers::new(sessions.deps.config.stream_bytes);
        Self {
            sessions,
            readers,
            backlog: Backlog::default(),
        }
    }

    pub(crate) fn deps(&self) -> &Deps {
        &self.sessions.deps
    }

    pub(crate) fn store(&self) -> &Store {
        &self.deps().store
    }

    pub(crate) fn config(&self) -> &Config {
        &self.deps().config
    }
}

/// Starts a run in a session of its own. The session's id, and so the answer to a repeat, follows
/// from the request.
///
/// A command that fits into the journal is part of the operation that makes the session. A larger
/// one has to be stored apart, which takes a session: it is submitted to the empty one, and a
/// client whose answer was lost in between repeats its request.
///
/// Nothing is stored if its agent cannot be used.
pub(crate) async fn start_in_new_session(
    requests: &Arc<Requests>,
    admission: Admission,
    principal: &Principal,
    request_id: String,
    time_to_live_ms: u64,
    command: Command,
) -> Result<(SessionKey, Answer), RpcError> {
    let namespace = principal.namespace();
    let is_small = encoded_command(&command).len() < LARGEST_INLINE_EVENT / 2;
    let agents = agents_of(requests, namespace, &command).await?;
    let hooks = Box::pin(requests.deps().present_hooks(namespace)).await?;
    let admission = match unusable(&agents) {
        Some(fault) => Admission::OnlyRepeats(fault),
        None => admission,
    };
    if let Admission::OnlyRepeats(full) = &admission {
        let id = derived_session_id(namespace, &request_id);
        if !is_there(requests, &SessionKey::new(namespace, &id)).await? {
            return Err(full.clone());
        }
    }
    let mut new = NewSession {
        id: String::new(),
        request_id,
        title: String::new(),
        time_to_live_ms,
        principal: principal.clone(),
        command: None,
        agents,
        hooks,
    };
    if is_small {
        new.command = Some(command);
        let (key, answer) = create(requests, new, admission).await?;
        let answer = answer.ok_or_else(|| RpcError::internal("the command has no answer"))?;
        return Ok((key, answer?));
    }
    let request_id = format!("start-{}", derived_session_id(namespace, &new.request_id));
    let (key, _) = create(requests, new, Admission::without_reservation()).await?;
    let answer = submit_if(admission, requests, principal, &key, &request_id, command).await?;
    Ok((key, answer))
}

/// The agents that the first command of a session names.
async fn agents_of(
    requests: &Requests,
    namespace: &Namespace,
    command: &Command,
) -> Result<Agents, RpcError> {
    let session = Session::default();
    let needed = agents_needed(&session, Some(command));
    Box::pin(agents::read_all(
        requests.deps(),
        namespace,
        &session,
        &needed,
    ))
    .await
}

/// Why a command is refused whose agent cannot be used. Nothing is stored, so a retry may succeed.
fn unusable(agents: &Agents) -> Option<RpcError> {
    let mut faults = agents.0.values().filter_map(|agent| agent.as_ref().err());
    let fault = faults.next()?;
    Some(refusal_of_unstored(fault.refusal, &fault.message))
}

/// Stores a command for an existing session, and waits for the owner's answer. One that is refused is
/// answered if it is a repeat.
pub(crate) async fn submit_if(
    admission: Admission,
    requests: &Arc<Requests>,
    principal: &Principal,
    key: &SessionKey,
    request_id: &str,
    command: Command,
) -> Result<Answer, RpcError> {
    let digest = digest(&[&encoded_command(&command)]);
    let event = Event {
        at: requests.store().clock.now(),
        answers: 0,
        principal: Some(in_journal(principal)),
        kind: CommandReceived {
            request_id: request_id.to_owned(),
            command,
        }
        .into(),
    };
    let needs = requests.store().needs(&event);
    let encoded = requests.store().encode(key, vec![event]).await?;
    let event = encoded.events.into_iter().next().unwrap_or_default();
    let request = pb::AppendCommandRequest {
        session: key.id.to_string(),
        request_id: request_id.to_owned(),
        request_digest: digest.to_vec().into(),
        event,
        repeat_only: matches!(admission, Admission::OnlyRepeats(_)),
        needs,
        level: requests.config().level(),
        ..pb::AppendCommandRequest::default()
    };
    let appended = match admission {
        Admission::OnlyRepeats(full) => {
            let appended = append(requests, key, request).await?;
            if appended.seq == 0 {
                return Err(full);
            }
            requests.sessions.on_command(key);
            appended
        }
        Admission::Accepted { reservation } => {
            // Between the store's commit and the owner's begin the session is leased and has no owner:
            // a client that hangs up does not end this task.
            let (requests, key) = (requests.clone(), key.clone());
            let spawner = requests.sessions.clone();
            let appending = append_and_own(requests, key, request, reservation);
            spawner
                .spawn(appending)
                .await
                .map_err(RpcError::internal)??
        }
    };
    let answer = wait_for_answer(requests, key, &appended).await;
    answer.map_err(left_to_newer)
}

/// Appends a command. If this process has capacity and no lease of the session runs, it owns the session
/// from the same operation on.
async fn append_and_own(
    requests: Arc<Requests>,
    key: SessionKey,
    mut request: pb::AppendCommandRequest,
    reservation: Option<Reservation>,
) -> Result<pb::AppendCommandResponse, RpcError> {
    let sessions = &requests.sessions;
    let may_own = !sessions.has(&key) && !sessions.is_draining();
    let reservation = reservation.or_else(|| Reservation::new(sessions).ok());
    let reservation = reservation.filter(|_| may_own);
    if reservation.is_some() {
        request.owner.clone_from(&requests.config().owner);
        request.lease_ms = requests.config().lease_ms();
        request.operation_id = uuid::Uuid::now_v7().simple().to_string();
    }
    let appended = append(&requests, &key, request).await?;
    match reservation {
        Some(reservation) if appended.epoch > 0 => {
            let ownership = Ownership {
                key,
                epoch: appended.epoch,
                lease_until: appended.lease_until_unix_ms,
                beginning: Beginning::TakenOver {
                    holder_dead: appended.previous_holder_dead,
                },
            };
            begin_claimed(sessions, vec![(reservation, ownership)]);
        }
        _ => sessions.on_command(&key),
    }
    Ok(appended)
}

async fn append(
    requests: &Requests,
    key: &SessionKey,
    request: pb::AppendCommandRequest,
) -> Result<pb::AppendCommandResponse, RpcError> {
    let store = requests.store();
    let append = |time| {
        let request = within(time, for_session(key, request.clone()));
        let mut journal = store.journal();
        async move { Ok(journal.append_command(request).await?.into_inner()) }
    };
    let asked = store.clock.now();
    let appended = match request.owner.as_str() {
        "" => append(ANSWER_TIME).await,
        _ => until_known(key, requests.config().lease, append).await,
    };
    let appended = appended.map_err(not_stored)?;
    if appended.epoch > 0 {
        store.clock.take(asked, appended.store_time_unix_ms);
    }
    Ok(appended)
}

async fn wait_for_answer(
    requests: &Arc<Requests>,
    key: &SessionKey,
    appended: &pb::AppendCommandResponse,
) -> Result<Answer, RpcError> {
    let command_seq = appended.seq;
    let mut stalled = requests.sessions.stalled.subscribe();
    let mut events = requests.store().follow(key, command_seq, false).await?;
    let mut looks = tokio::time::interval_at(Instant::now() + FIRST_LOOK, LATER_LOOKS);
    loop {
        let page = tokio::select! {
            page = events.next() => page,
            _ = looks.tick() => {
                // A session that is worked on here is not held up, and a look that fails says nothing.
                let is_here = requests.sessions.has(key);
                if !is_here && let Ok(Some(error)) = requests.store().held_up(key, STORED).await {
                    return Err(error);
                }
                continue;
            }
            Ok((stalled, error)) = stalled.recv() => {
                if stalled == *key {
                    return Err(error);
                }
                continue;
            }
        };
        let gone = || RpcError::not_found("session", &key.id);
        let page = page.ok_or_else(gone)??;
        // The journal holds no answer (a repeated request may have one), and nobody makes one.
        if page.events.is_empty() && appended.quarantined {
            // Or has it been released meanwhile?
            match requests.store().quarantine(key).await? {
                Some(quarantine) => return Err(quarantine.error(key, STORED)),
                None => continue,
            }
        }
        for stored in page.events {
            let store = requests.store();
            let event = store.answer_to(key, &stored, command_seq).await?;
            let answer = event.and_then(|event| answer_of(event, stored.seq, command_seq));
            if let Some(answer) = answer {
                return answer;
            }
        }
    }
}

/// What a repeat of the request has to have in common with it.
fn encoded_command(command: &Command) -> Vec<u8> {
    let mut command = command.clone();
    // A client that asks again may do so in another span.
    match &mut command {
        Command::StartRun(start) => start.trace_parent.clear(),
        Command::SubmitTurn(turn) => turn.trace_parent.clear(),
        Command::CompactContext(compact) => compact.trace_parent.clear(),
        _ => {}
    }
    cairn_proto::event::Command::from(command).encode_to_vec()
}
