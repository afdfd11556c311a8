//! Lists of sessions.

use super::Answer;
use crate::deps::Deps;
use crate::key::SessionKey;
use crate::status::public_status;
use crate::store::for_session;
use cairn_engine::event::EventKind;
use cairn_engine::text::cut;
use cairn_proto::memory as memory_pb;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{Namespace, RpcError, identity, with_namespace};
use futures::stream::{self, StreamExt as _};
use tonic::{Request, Response};

/// Longest title in a listing, in characters.
const LISTED_TITLE: usize = 200;

/// The title of a session is among its first events.
const TITLE_EVENTS: u32 = 8;

/// Titles that are looked up at the same time.
const LOOKUPS: usize = 16;

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
    let summaries = page
        .sessions
        .into_iter()
        .map(|entry| summary(deps, &namespace, entry));
    let sessions = stream::iter(summaries).buffered(LOOKUPS).collect().await;
    Ok(Response::new(pb::ListSessionsResponse {
        sessions,
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

async fn summary(
    deps: &Deps,
    namespace: &Namespace,
    entry: memory_pb::SessionEntry,
) -> pb::SessionSummary {
    let key = SessionKey::new(namespace, &entry.session);
    let status = public_status(entry.status(), entry.quarantined);
    pb::SessionSummary {
        // A session that cannot be read is listed all the same.
        title: title(deps, &key).await.unwrap_or_default(),
        id: entry.session,
        status: status.into(),
        created_unix_ms: entry.created_unix_ms,
        updated_unix_ms: entry.updated_unix_ms,
        last_seq: entry.last_seq,
    }
}

/// The goal of a session's first run, or its title; never the whole journal.
async fn title(deps: &Deps, key: &SessionKey) -> Result<String, RpcError> {
    let request = memory_pb::ReadEventsRequest {
        session: key.id.to_string(),
        after_seq: 0,
        max_events: TITLE_EVENTS,
    };
    let request = for_session(key, request);
    let page = deps.store.journal().read_events(request).await?;
    let mut title = String::new();
    for stored in page.into_inner().events {
        let event = deps.store.decode(key, &stored.event).await?;
        match event.map(|event| event.kind) {
            Some(EventKind::RunStarted { goal, .. }) => return Ok(cut(&goal, LISTED_TITLE)),
            Some(EventKind::SessionCreated { title: given }) => title = given,
            _ => {}
        }
    }
    Ok(title)
}
