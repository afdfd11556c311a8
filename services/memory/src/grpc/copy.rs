//! Sessions that begin as copies of others.

use super::convert;
use super::journal::check_events;
use crate::error::{about, about_cursor};
use crate::port::{Completion, CopyEvents, MemoryEntry, SessionKey, Store, StoreError};
use cairn_proto::memory as pb;
use cairn_rpc::{RpcError, check_session_id};
use std::collections::BTreeSet;
use std::sync::Arc;
use tonic::{Request, Response, Status};

pub(super) async fn events(
    store: &Arc<dyn Store>,
    request: Request<pb::CopyEventsRequest>,
) -> Result<Response<pb::CopyEventsResponse>, Status> {
    let copy = copy(request)?;
    let (source, child) = (copy.source.clone(), copy.child.clone());
    let copied = match store.copy_events(copy).await {
        Ok(copied) => copied,
        // What is not there, or not so long, is the source; what ended may be either.
        Err(error @ (StoreError::NotFound | StoreError::WentBack { .. })) => {
            return Err(about_cursor(&source)(error).into());
        }
        Err(error @ StoreError::Terminal(_)) => {
            let read = store.read(&source, u64::MAX, 1).await;
            let is_source = matches!(read, Err(StoreError::Terminal(_)));
            let ended = if is_source { &source } else { &child };
            return Err(about(ended)(error).into());
        }
        Err(error) => return Err(about(&child)(error).into()),
    };
    Ok(Response::new(pb::CopyEventsResponse {
        cut_seq: copied.cut_seq,
        copied_through: copied.copied_through,
        complete: copied.is_complete,
        store_time_unix_ms: copied.now_unix_ms,
    }))
}

fn copy(request: Request<pb::CopyEventsRequest>) -> Result<CopyEvents, RpcError> {
    let child = convert::session_key(&request, &request.get_ref().session)?;
    let request = request.into_inner();
    check_session_id("source", &request.source)?;
    if request.source == request.session {
        let error = RpcError::invalid("source", "is the session that is to be made");
        return Err(error.allowed("another session"));
    }
    let completion = request.completion.map(completion).transpose()?;
    Ok(CopyEvents {
        source: SessionKey::new(child.namespace(), request.source),
        child,
        request: convert::request_id(request.request_id, request.request_digest)?,
        at_seq: Some(request.at_seq).filter(|&at| at > 0),
        completion,
    })
}

fn completion(completion: pb::CopyCompletion) -> Result<Completion, RpcError> {
    check_events("completion.events", &completion.events)?;
    let mut memory = Vec::with_capacity(completion.memory.len());
    let mut keys = BTreeSet::new();
    for (index, set) in completion.memory.into_iter().enumerate() {
        let field = format!("completion.memory[{index}].key");
        let key = convert::memory_key(&field, set.key)?;
        if !keys.insert(key.clone()) {
            return Err(RpcError::invalid(field, "is there twice"));
        }
        let value = set.value;
        memory.push(MemoryEntry { key, value });
    }
    if completion.due_unix_ms < 0 {
        let error = RpcError::invalid("completion.due_unix_ms", "is negative");
        return Err(error.allowed("0, or a time"));
    }
    Ok(Completion {
        events: completion.events,
        memory,
        header: convert::header(completion.header)?,
        due_unix_ms: Some(completion.due_unix_ms).filter(|&due| due > 0),
    })
}
