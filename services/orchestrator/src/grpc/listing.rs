//! Lists of sessions.

use super::present::pending_messages;
use super::present::public_status;
use super::{Answer, key_of};
use crate::key::SessionKey;
use crate::requests::Requests;
use crate::store::Quarantine;
use crate::store::{DAMAGED, EVENT_UNREADABLE, NEWER_VERSION, for_namespace};
use cairn_proto::event as event_pb;
use cairn_proto::memory as memory_pb;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, Namespace, RpcError, check_text, principal};
use tonic::{Request, Response};

/// Statuses or reasons in a filter.
const MOST: usize = 8;
/// Longest agent and prefix in a filter, in bytes.
const MAX_AGENT: usize = 128;
const MAX_PREFIX: usize = 800;

pub(super) async fn sessions(
    requests: &Requests,
    request: Request<pb::ListSessionsRequest>,
) -> Answer<pb::ListSessionsResponse> {
    let namespace = principal(&request)?.namespace().clone();
    let asked = request.into_inner();
    if asked.page_size > 1000 {
        let error = RpcError::invalid("page_size", format!("is {}", asked.page_size));
        return Err(error.allowed("0 to 1000").into());
    }
    let order = match pb::SessionOrder::try_from(asked.order) {
        Ok(pb::SessionOrder::Unspecified | pb::SessionOrder::Created) => {
            memory_pb::SessionOrder::Created
        }
        Ok(pb::SessionOrder::Changed) => memory_pb::SessionOrder::Changed,
        Err(_) => {
            let error = RpcError::invalid("order", format!("is {}", asked.order));
            return Err(error.allowed("0 to 2").into());
        }
    };
    let request = memory_pb::ListSessionsRequest {
        page_size: asked.page_size,
        page_token: asked.page_token,
        filter: Some(filter(&asked.filter.unwrap_or_default())?),
        order: order.into(),
        ascending: asked.ascending,
    };
    let page = page(requests, &namespace, request).await?;
    let level = requests.config().level();
    Ok(Response::new(pb::ListSessionsResponse {
        sessions: page
            .sessions
            .into_iter()
            .map(|entry| summary(entry, level))
            .collect(),
        next_page_token: page.next_page_token,
    }))
}

/// The open questions of one session, or of all sessions of a tenant.
pub(super) async fn pending(
    requests: &Requests,
    request: Request<pb::ListPendingRequest>,
) -> Answer<pb::ListPendingResponse> {
    let mut answer = pb::ListPendingResponse::default();
    let asked = request.get_ref().filter.clone().unwrap_or_default();
    let filter = filter(&asked)?;
    let is_asked =
        |open: &pb::Pending| asked.pending.is_empty() || asked.pending.contains(&open.reason);
    let tools = requests.deps().dispatch.catalogue().facts.clone();
    if !request.get_ref().session.is_empty() {
        let key = key_of(&request, &request.get_ref().session)?;
        let session = requests.store().view(&key).await?.session;
        let open = pending_messages(&key, &session, &tools).into_iter();
        answer.pending.extend(open.filter(is_asked));
        return Ok(Response::new(answer));
    }
    for key in waiting(requests, principal(&request)?.namespace(), filter).await? {
        match requests.store().view(&key).await {
            Ok(loaded) => {
                let open = pending_messages(&key, &loaded.session, &tools).into_iter();
                answer.pending.extend(open.filter(is_asked));
            }
            // It was there when the sessions were listed.
            Err(error) if is_gone(&error) => {}
            Err(error) if is_unreadable(&error) => answer.unreadable.push(unreadable(&key, &error)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Response::new(answer))
}

fn is_gone(error: &RpcError) -> bool {
    error.kind() == ErrorKind::NotFound
}

/// It will be so until another version reads it, or a person repairs the store: the sessions beside
/// it are listed meanwhile.
fn is_unreadable(error: &RpcError) -> bool {
    [NEWER_VERSION, EVENT_UNREADABLE, DAMAGED].contains(&error.reason_name())
}

fn unreadable(key: &SessionKey, error: &RpcError) -> pb::UnreadableSession {
    let cause = error.causes();
    tracing::warn!(session = %key, %error, cause, "session cannot be read");
    pb::UnreadableSession {
        session: key.id.to_string(),
        reason: error.reason_name().to_owned(),
        message: error.to_string(),
    }
}

/// The sessions of a tenant that wait for a person, and pass the filter.
async fn waiting(
    requests: &Requests,
    namespace: &Namespace,
    filter: memory_pb::SessionFilter,
) -> Result<Vec<SessionKey>, RpcError> {
    let filter = memory_pb::SessionFilter {
        has_pending: true,
        ..filter
    };
    let mut waiting = Vec::new();
    let mut request = memory_pb::ListSessionsRequest {
        page_size: 1000,
        filter: Some(filter),
        ..memory_pb::ListSessionsRequest::default()
    };
    loop {
        let page = page(requests, namespace, request.clone()).await?;
        let found = page.sessions.iter();
        waiting.extend(found.map(|entry| SessionKey::new(namespace, &entry.session)));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return Ok(waiting);
        }
    }
}

/// The filter as the store takes it.
fn filter(asked: &pb::SessionFilter) -> Result<memory_pb::SessionFilter, RpcError> {
    use memory_pb::SessionStatus as Noted;
    for (name, count) in [
        ("statuses", asked.statuses.len()),
        ("pending", asked.pending.len()),
    ] {
        if count > MOST {
            let error = RpcError::invalid(format!("filter.{name}"), format!("has {count} entries"));
            return Err(error.allowed("at most 8"));
        }
    }
    let (mut statuses, mut quarantined) = (Vec::new(), false);
    for (index, status) in asked.statuses.iter().enumerate() {
        match pb::SessionStatus::try_from(*status) {
            Ok(pb::SessionStatus::Idle) => statuses.push(Noted::Idle.into()),
            Ok(pb::SessionStatus::Running) => statuses.push(Noted::Running.into()),
            Ok(pb::SessionStatus::Waiting) => statuses.push(Noted::Waiting.into()),
            Ok(pb::SessionStatus::Paused) => statuses.push(Noted::Paused.into()),
            Ok(pb::SessionStatus::Quarantined) => quarantined = true,
            Ok(pb::SessionStatus::Unspecified) | Err(_) => {
                let field = format!("filter.statuses[{index}]");
                return Err(RpcError::invalid(field, format!("is {status}")).allowed("1 to 5"));
            }
        }
    }
    let mut pending = Vec::new();
    for (index, reason) in asked.pending.iter().enumerate() {
        match event_pb::WaitReason::try_from(*reason) {
            Ok(reason) if reason != event_pb::WaitReason::Unspecified => {
                pending.push(reason as u32)
            }
            _ => {
                let field = format!("filter.pending[{index}]");
                return Err(RpcError::invalid(field, format!("is {reason}")).allowed("1 to 6"));
            }
        }
    }
    check_text("filter.agent", &asked.agent, MAX_AGENT)?;
    check_text("filter.prefix", &asked.prefix, MAX_PREFIX)?;
    for (name, time) in [
        ("changed_after_unix_ms", asked.changed_after_unix_ms),
        ("changed_before_unix_ms", asked.changed_before_unix_ms),
    ] {
        if time < 0 {
            let error = RpcError::invalid(format!("filter.{name}"), "is negative");
            return Err(error.allowed("0, or a time"));
        }
    }
    Ok(memory_pb::SessionFilter {
        statuses,
        quarantined,
        pending,
        has_pending: asked.has_pending,
        agent: asked.agent.clone(),
        prefix: asked.prefix.clone(),
        changed_after_unix_ms: asked.changed_after_unix_ms,
        changed_before_unix_ms: asked.changed_before_unix_ms,
    })
}

async fn page(
    requests: &Requests,
    namespace: &Namespace,
    request: memory_pb::ListSessionsRequest,
) -> Result<memory_pb::ListSessionsResponse, RpcError> {
    let request = for_namespace(namespace, request);
    let page = requests.store().journal().list_sessions(request).await?;
    Ok(page.into_inner())
}

/// A session as a process of this level lists it.
fn summary(entry: memory_pb::SessionEntry, level: u32) -> pb::SessionSummary {
    let quarantine = Quarantine::read(entry.quarantined, entry.quarantine_reason());
    let needs = entry.needs;
    let newer_version = (needs > level).then_some(pb::NewerVersion { needs, level });
    let status = match (newer_version, entry.status()) {
        // Its runs have ended, and it waits for nothing.
        (Some(_), memory_pb::SessionStatus::Idle) | (None, _) => entry.status(),
        (Some(_), _) => memory_pb::SessionStatus::Waiting,
    };
    let status = public_status(status, quarantine);
    let pending = entry.pending.iter().map(|open| pb::PendingKind {
        reason: i32::try_from(open.kind).unwrap_or_default(),
        since_unix_ms: open.since_unix_ms,
        count: open.count,
    });
    pb::SessionSummary {
        pending: pending.collect(),
        agent: entry.agent,
        tokens: entry.tokens,
        cost_nano_usd: entry.cost_nano_usd,
        id: entry.session,
        status: status.into(),
        title: entry.title,
        created_unix_ms: entry.created_unix_ms,
        updated_unix_ms: entry.updated_unix_ms,
        last_seq: entry.last_seq,
        quarantine_reason: Quarantine::to_public(quarantine),
        newer_version,
    }
}
