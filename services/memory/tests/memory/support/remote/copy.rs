//! Copies over the generated client.

use super::super::wire::{about, header, refused, session};
use cairn_memory::port::{
    Completion, Copied, CopyEvents, Source, StoreResult, TranscriptEvent, TranscriptPage,
};
use cairn_proto::memory as pb;
use cairn_proto::memory::journal_service_client::JournalServiceClient;
use cairn_rpc::Link;

pub(super) async fn copy(
    mut journal: JournalServiceClient<Link>,
    copy: CopyEvents,
) -> StoreResult<Copied> {
    let (source, transcript) = match copy.source {
        Source::Session(key) => (session(&key), None),
        Source::Transcript(page) => (String::new(), Some(transcript(page))),
    };
    let message = pb::CopyEventsRequest {
        session: session(&copy.child),
        source,
        request_id: copy.request.id,
        request_digest: copy.request.digest,
        at_seq: copy.at_seq.unwrap_or(0),
        completion: copy.completion.map(completion),
        transcript,
    };
    let answer = journal.copy_events(about(&copy.child, message)).await;
    let answer = answer.map_err(refused)?.into_inner();
    Ok(Copied {
        cut_seq: answer.cut_seq,
        copied_through: answer.copied_through,
        is_complete: answer.complete,
        now_unix_ms: answer.store_time_unix_ms,
    })
}

fn transcript(page: TranscriptPage) -> pb::TranscriptPage {
    let event = |event: TranscriptEvent| pb::TranscriptEvent {
        event: event.event,
        blob: event.blob.unwrap_or_default(),
        ends: event.ends,
    };
    pb::TranscriptPage {
        last_seq: page.transcript.last_seq,
        time_to_live_ms: page.transcript.time_to_live_ms.unwrap_or(0),
        after_seq: page.after_seq,
        continues: page.continues,
        events: page.transcript.events.into_iter().map(event).collect(),
        blobs: page.blobs,
    }
}

fn completion(completion: Completion) -> pb::CopyCompletion {
    let entries = completion.memory.into_iter();
    let entries = entries.map(|entry| pb::memory_write::Set {
        key: entry.key,
        value: entry.value,
        metadata: entry.metadata,
        updated_unix_ms: entry.updated_unix_ms.unwrap_or(0),
        created_unix_ms: entry.created_unix_ms.unwrap_or(0),
    });
    pb::CopyCompletion {
        events: completion.events,
        memory: entries.collect(),
        header: header(completion.header),
        due_unix_ms: completion.due_unix_ms.unwrap_or(0),
    }
}
