//! Sessions are created, deleted and released.

use super::{Answer, MAX_TITLE, key_of, start_run};
use crate::requests::{Admission, NewSession, Requests, create};
use crate::store::for_session;
use cairn_engine::decide::Agents;
use cairn_engine::hooks::PresentHooks;
use cairn_proto::memory as memory_pb;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{check_request_id, check_session_id, check_text, principal};
use std::sync::Arc;
use tonic::{Request, Response};

pub(super) async fn create_session(
    requests: &Arc<Requests>,
    request: Request<pb::CreateSessionRequest>,
) -> Answer<pb::CreateSessionResponse> {
    let principal = principal(&request)?.clone();
    let asked = request.into_inner();
    check_request_id("request_id", &asked.request_id)?;
    check_text("title", &asked.title, MAX_TITLE)?;
    start_run::check_time_to_live("time_to_live_ms", asked.time_to_live_ms)?;
    if !asked.session.is_empty() {
        check_session_id("session", &asked.session)?;
    }
    let new = NewSession {
        id: asked.session,
        request_id: asked.request_id,
        title: asked.title,
        time_to_live_ms: asked.time_to_live_ms,
        principal,
        command: None,
        agents: Agents::default(),
        hooks: PresentHooks::default(),
    };
    let (key, _) = create(requests, new, Admission::without_reservation()).await?;
    Ok(Response::new(pb::CreateSessionResponse {
        session: key.id.to_string(),
    }))
}

pub(super) async fn delete_session(
    requests: &Arc<Requests>,
    request: Request<pb::DeleteSessionRequest>,
) -> Answer<pb::DeleteSessionResponse> {
    let key = key_of(&request, &request.get_ref().session)?;
    let deletion = memory_pb::DeleteSessionRequest {
        session: key.id.to_string(),
    };
    let deletion = for_session(&key, deletion);
    let answer = requests
        .store()
        .journal()
        .delete_session(deletion)
        .await?
        .into_inner();
    // Its owner may be anywhere, and will find out; one that is here need not try first.
    requests.sessions.notify(&key, crate::owner::Notice::Lost);
    Ok(Response::new(pb::DeleteSessionResponse {
        deleted: answer.deleted,
    }))
}

pub(super) async fn release_quarantine(
    requests: &Arc<Requests>,
    request: Request<pb::ReleaseQuarantineRequest>,
) -> Answer<pb::ReleaseQuarantineResponse> {
    let key = key_of(&request, &request.get_ref().session)?;
    let release = memory_pb::ReleaseQuarantineRequest {
        session: key.id.to_string(),
        accept_loss: request.get_ref().accept_loss,
    };
    let mut ownership = requests.store().ownership();
    ownership
        .release_quarantine(for_session(&key, release))
        .await?;
    requests.sessions.on_request(&key);
    Ok(Response::new(pb::ReleaseQuarantineResponse {}))
}
