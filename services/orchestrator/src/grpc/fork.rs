//! Sessions that begin as copies of others.

use super::{Answer, MAX_TITLE, key_of};
use crate::requests::Requests;
use crate::requests::fork::{Asked, fork};
use cairn_proto::orchestrator as pb;
use cairn_rpc::{check_request_id, check_session_id, check_text, principal};
use std::sync::Arc;
use tonic::{Request, Response};

pub(super) async fn session(
    requests: &Arc<Requests>,
    request: Request<pb::ForkSessionRequest>,
) -> Answer<pb::ForkSessionResponse> {
    let principal = principal(&request)?.clone();
    let parent = key_of(&request, &request.get_ref().session)?;
    let asked = request.into_inner();
    check_request_id("request_id", &asked.request_id)?;
    check_text("title", &asked.title, MAX_TITLE)?;
    if !asked.new_session.is_empty() {
        check_session_id("new_session", &asked.new_session)?;
    }
    let asked = Asked {
        parent,
        principal,
        at_seq: asked.at_seq,
        request_id: asked.request_id,
        id: asked.new_session,
        title: asked.title,
        continues: asked.go_on,
        accepts_loss: asked.accept_loss,
    };
    let continues = asked.continues;
    let (child, seq) = fork(requests, asked).await?;
    if continues {
        requests.sessions.on_request(&child);
    }
    Ok(Response::new(pb::ForkSessionResponse {
        session: child.id.to_string(),
        seq,
    }))
}
