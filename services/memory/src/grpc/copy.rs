//! Sessions that begin as copies of others.

use super::convert;
use super::journal::check_events;
use crate::apart::{blob_of, digest_of};
use crate::error::{about, about_cursor};
use crate::port::{
    Completion, CopyEvents, MemoryEntry, SessionKey, Source, Store, StoreError, Transcript,
    TranscriptEvent, TranscriptPage,
};
use cairn_proto::memory as pb;
use cairn_proto::memory::memory_write::Set;
use cairn_rpc::{RpcError, check_session_id};
use std::collections::BTreeSet;
use std::sync::Arc;
use tonic::{Request, Response, Status};

pub(super) async fn events(
    store: &Arc<dyn Store>,
    request: Request<pb::CopyEventsRequest>,
) -> Result<Response<pb::CopyEventsResponse>, Status> {
    let copy = copy(request)?;
    let source = match &copy.source {
        Source::Session(key) => Some(key.clone()),
        Source::Transcript(_) => None,
    };
    let child = copy.child.clone();
    let copied = match (store.copy_events(copy).await, source) {
        (Ok(copied), _) => copied,
        // What is not there, or not so long, is the source; what ended may be either.
        (Err(error @ (StoreError::NotFound | StoreError::WentBack { .. })), Some(source)) => {
            return Err(about_cursor(&source)(error).into());
        }
        (Err(error @ StoreError::Terminal(_)), Some(source)) => {
            let read = store.read(&source, u64::MAX, 1).await;
            let is_source = matches!(read, Err(StoreError::Terminal(_)));
            let ended = if is_source { &source } else { &child };
            return Err(about(ended)(error).into());
        }
        (Err(error), _) => return Err(about(&child)(error).into()),
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
    let source = match request.transcript {
        Some(page) => Source::Transcript(transcript(&request.source, page)?),
        None => Source::Session(source(&child, request.source)?),
    };
    let completion = request.completion.map(completion).transpose()?;
    Ok(CopyEvents {
        source,
        child,
        request: convert::request_id(request.request_id, request.request_digest)?,
        at_seq: Some(request.at_seq).filter(|&at| at > 0),
        completion,
    })
}

fn source(child: &SessionKey, id: String) -> Result<SessionKey, RpcError> {
    check_session_id("source", &id)?;
    if id == child.session() {
        let error = RpcError::invalid("source", "is the session that is to be made");
        return Err(error.allowed("another session"));
    }
    Ok(SessionKey::new(child.namespace(), id))
}

fn transcript(source: &str, page: pb::TranscriptPage) -> Result<TranscriptPage, RpcError> {
    if !source.is_empty() {
        let error = RpcError::invalid("source", "is there beside a transcript");
        return Err(error.allowed("empty, or no transcript"));
    }
    if page.last_seq == 0 {
        return Err(RpcError::missing("transcript.last_seq"));
    }
    let count = u64::try_from(page.events.len()).unwrap_or(u64::MAX);
    let after = page.after_seq.saturating_add(count);
    convert::at_most(
        "transcript.events",
        after,
        page.last_seq,
        "transcript.last_seq",
    )?;
    let last = page.events.last();
    if after == page.last_seq && last.is_some_and(|last| !last.ends) {
        let field = format!("transcript.events[{}].ends", count - 1);
        let error = RpcError::invalid(field, "is false for the last event");
        return Err(error.allowed("true: a journal ends with a transition"));
    }
    let events = page.events.into_iter().enumerate();
    let events = events.map(|(index, event)| transcript_event(index, event));
    Ok(TranscriptPage {
        transcript: Transcript {
            last_seq: page.last_seq,
            time_to_live_ms: convert::time_to_live(page.time_to_live_ms)?,
            events: events.collect::<Result<_, _>>()?,
        },
        after_seq: page.after_seq,
        continues: page.continues,
        blobs: page.blobs,
    })
}

fn transcript_event(index: usize, event: pb::TranscriptEvent) -> Result<TranscriptEvent, RpcError> {
    let field = |name| format!("transcript.events[{index}].{name}");
    if event.event.is_empty() {
        return Err(RpcError::invalid(field("event"), "is empty"));
    }
    let blob = Some(event.blob).filter(|blob| !blob.is_empty());
    let digest = blob.as_ref().map(|blob| digest_of(blob));
    if digest != blob_of(&event.event) {
        let error = RpcError::invalid(field("blob"), "is not the blob that the event is stored in");
        return Err(
            error.allowed("the data of that digest, or nothing if the event is stored whole")
        );
    }
    Ok(TranscriptEvent {
        event: event.event,
        blob,
        ends: event.ends,
    })
}

fn completion(completion: pb::CopyCompletion) -> Result<Completion, RpcError> {
    check_events("completion.events", &completion.events)?;
    let mut memory = Vec::with_capacity(completion.memory.len());
    let mut keys = BTreeSet::new();
    for (index, set) in completion.memory.into_iter().enumerate() {
        let entry = entry(index, set)?;
        if !keys.insert(entry.key.clone()) {
            let field = format!("completion.memory[{index}].key");
            return Err(RpcError::invalid(field, "is there twice"));
        }
        memory.push(entry);
    }
    Ok(Completion {
        events: completion.events,
        memory,
        header: convert::header(completion.header)?,
        due_unix_ms: convert::time("completion.due_unix_ms", completion.due_unix_ms)?,
    })
}

fn entry(index: usize, set: Set) -> Result<MemoryEntry, RpcError> {
    let field = |name: &str| format!("completion.memory[{index}].{name}");
    Ok(MemoryEntry {
        key: convert::memory_key(&field("key"), set.key)?,
        value: set.value,
        metadata: convert::metadata(&field("metadata"), set.metadata)?,
        created_unix_ms: convert::time(&field("created_unix_ms"), set.created_unix_ms)?,
        updated_unix_ms: convert::time(&field("updated_unix_ms"), set.updated_unix_ms)?,
    })
}
