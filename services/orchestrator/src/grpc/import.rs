//! Sessions that come from an archive.

use super::{Answer, start_run};
use crate::key::SessionKey;
use crate::requests::Requests;
use crate::requests::import::{Asked, Batch, import};
use bytes::Bytes;
use cairn_proto::memory as memory_pb;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{Principal, RpcError, check_request_id, check_session_id, principal};
use futures::{StreamExt as _, stream};
use std::sync::Arc;
use tonic::{Request, Response, Streaming};

pub(super) async fn session(
    requests: &Arc<Requests>,
    request: Request<Streaming<pb::ImportSessionRequest>>,
) -> Answer<pb::ImportSessionResponse> {
    let principal = principal(&request)?.clone();
    let mut messages = request.into_inner();
    let first = messages.message().await?.unwrap_or_default();
    let start = first.start.ok_or_else(|| RpcError::missing("start"))?;
    let asked = asked(principal, start)?;
    let first = Ok(batch(first.blobs, first.events));
    let later = messages.map(|message| {
        let message = message?;
        match message.start {
            None => Ok(batch(message.blobs, message.events)),
            Some(_) => {
                let error = RpcError::invalid("start", "is there again");
                Err(error.allowed("once, in the first message").into())
            }
        }
    });
    let batches = stream::iter([first]).chain(later);
    let imported = import(requests, asked, batches).await?;
    Ok(Response::new(pb::ImportSessionResponse {
        session: imported.session.id.to_string(),
        duplicate: imported.is_duplicate,
    }))
}

fn asked(principal: Principal, start: pb::ImportStart) -> Result<Asked, RpcError> {
    let namespace = principal.namespace().clone();
    check_session_id("start.session", &start.session)?;
    check_request_id("start.request_id", &start.request_id)?;
    if start.last_seq == 0 {
        return Err(RpcError::missing("start.last_seq"));
    }
    start_run::check_time_to_live("start.time_to_live_ms", start.time_to_live_ms)?;
    if !start.new_session.is_empty() {
        check_session_id("start.new_session", &start.new_session)?;
        if start.new_session == start.session {
            let error = RpcError::invalid("start.new_session", "is the archived session");
            return Err(error.allowed("another id, or nothing"));
        }
    }
    let copy = Some(start.new_session).filter(|id| !id.is_empty());
    Ok(Asked {
        principal,
        source: SessionKey::new(&namespace, &start.session),
        copy: copy.map(|id| SessionKey::new(&namespace, &id)),
        request_id: start.request_id,
        last_seq: start.last_seq,
        time_to_live_ms: start.time_to_live_ms,
    })
}

fn batch(blobs: Vec<Bytes>, events: Vec<pb::ArchivedEvent>) -> Batch {
    let event = |event: pb::ArchivedEvent| memory_pb::TranscriptEvent {
        event: event.event,
        blob: event.blob,
        ends: event.ends,
    };
    let events = events.into_iter().map(event).collect();
    Batch { blobs, events }
}
