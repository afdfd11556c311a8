//! Lists of sessions.

use super::Answer;
use crate::aside::Aside;
use crate::deps::Deps;
use crate::key::SessionKey;
use crate::status::public_status;
use cairn_proto::memory as memory_pb;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{Namespace, RpcError, identity, with_namespace};
use tonic::{Request, Response};

pub(super) async fn sessions(
    deps: &Deps,
    request: Request<pb::ListSessionsRequest>,
) -> Answer<pb::ListSessionsResponse> {
    let namespace = identity(&request)?.namespace().clone();
    let asked = request.into_inner();
    if asked.page_size > 1000 {
        let error = RpcError::invalid("page_size", format!("is {}", asked.page_size));
        return Err(error.allowed("0 to 1000").into());
    }
    let page = page(deps, &namespace, asked.page_size, asked.page_token).await?;
    Ok(Response::new(pb::ListSessionsResponse {
        sessions: page.sessions.into_iter().map(summary).collect(),
        next_page_token: page.next_page_token,
    }))
}

/// The sessions of a tenant that wait for a person.
pub(super) async fn waiting(
    deps: &Deps,
    namespace: &Namespace,
) -> Result<Vec<SessionKey>, RpcError> {
    let mut waiting = Vec::new();
    let mut page_token = String::new();
    loop {
        let page = page(deps, namespace, 1000, page_token).await?;
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
    deps: &Deps,
    namespace: &Namespace,
    page_size: u32,
    page_token: String,
) -> Result<memory_pb::ListSessionsResponse, RpcError> {
    let request = memory_pb::ListSessionsRequest {
        page_size,
        page_token,
    };
    let request = with_namespace(Request::new(request), namespace);
    let page = deps.store.journal().list_sessions(request).await?;
    Ok(page.into_inner())
}

fn summary(entry: memory_pb::SessionEntry) -> pb::SessionSummary {
    let aside = Aside::of(entry.quarantined, entry.quarantine_reason());
    let status = public_status(entry.status(), aside);
    pb::SessionSummary {
        id: entry.session,
        status: status.into(),
        title: entry.title,
        created_unix_ms: entry.created_unix_ms,
        updated_unix_ms: entry.updated_unix_ms,
        last_seq: entry.last_seq,
        quarantine_reason: Aside::public(aside),
    }
}
