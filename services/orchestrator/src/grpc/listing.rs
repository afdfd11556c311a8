//! Lists of sessions.

use super::present::pending_messages;
use super::present::public_status;
use super::{Answer, key_of};
use crate::key::SessionKey;
use crate::requests::Requests;
use crate::store::Quarantine;
use crate::store::{DAMAGED, EVENT_UNREADABLE, NEWER_VERSION, for_namespace};
use cairn_proto::memory as memory_pb;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, Namespace, RpcError, principal};
use tonic::{Request, Response};

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
    let page = page(requests, &namespace, asked.page_size, asked.page_token).await?;
    Ok(Response::new(pb::ListSessionsResponse {
        sessions: page.sessions.into_iter().map(summary).collect(),
        next_page_token: page.next_page_token,
    }))
}

/// The open questions of one session, or of all sessions of a tenant.
pub(super) async fn pending(
    requests: &Requests,
    request: Request<pb::ListPendingRequest>,
) -> Answer<pb::ListPendingResponse> {
    let mut answer = pb::ListPendingResponse::default();
    if !request.get_ref().session.is_empty() {
        let key = key_of(&request, &request.get_ref().session)?;
        let session = requests.store().view(&key).await?.session;
        answer.pending = pending_messages(&key, &session);
        return Ok(Response::new(answer));
    }
    for key in waiting(requests, principal(&request)?.namespace()).await? {
        match requests.store().view(&key).await {
            Ok(loaded) => answer
                .pending
                .extend(pending_messages(&key, &loaded.session)),
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

/// The sessions of a tenant that wait for a person.
async fn waiting(requests: &Requests, namespace: &Namespace) -> Result<Vec<SessionKey>, RpcError> {
    let mut waiting = Vec::new();
    let mut page_token = String::new();
    loop {
        let page = page(requests, namespace, 1000, page_token).await?;
        let found = page.sessions.iter();
        let found = found.filter(|entry| entry.status() == memory_pb::SessionStatus::Waiting);
        waiting.extend(found.map(|entry| SessionKey::new(namespace, &entry.session)));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(waiting);
        }
    }
}

async fn page(
    requests: &Requests,
    namespace: &Namespace,
    page_size: u32,
    page_token: String,
) -> Result<memory_pb::ListSessionsResponse, RpcError> {
    let request = memory_pb::ListSessionsRequest {
        page_size,
        page_token,
    };
    let request = for_namespace(namespace, request);
    let page = requests.store().journal().list_sessions(request).await?;
    Ok(page.into_inner())
}

fn summary(entry: memory_pb::SessionEntry) -> pb::SessionSummary {
    let quarantine = Quarantine::read(entry.quarantined, entry.quarantine_reason());
    let status = public_status(entry.status(), quarantine);
    pb::SessionSummary {
        id: entry.session,
        status: status.into(),
        title: entry.title,
        created_unix_ms: entry.created_unix_ms,
        updated_unix_ms: entry.updated_unix_ms,
        last_seq: entry.last_seq,
        quarantine_reason: Quarantine::to_public(quarantine),
    }
}
