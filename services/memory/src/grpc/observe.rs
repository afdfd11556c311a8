//! Transitions as they are traced, counted and timed.

use crate::port::{Committed, SessionKey, StoreError, StoreResult};
use cairn_proto::memory as pb;
use cairn_rpc::TraceParent;
use cairn_rpc::metrics::{self, counter, histogram};
use cairn_rpc::trace::{TARGET, is_recording};
use std::time::Duration;
use tonic::Request;
use tracing::Span;

/// One transition, under the run that it belongs to. One that belongs to no run is in no trace.
pub(super) fn commit(request: &Request<pb::CommitRequest>) -> Span {
    let caller = is_recording().then(|| TraceParent::of(request)).flatten();
    let Some(caller) = caller else {
        return Span::none();
    };
    let asked = request.get_ref();
    let span = tracing::info_span!(
        target: TARGET,
        "commit",
        otel.kind = "server",
        gen_ai.conversation.id = asked.session,
        cairn.version = asked.version,
        cairn.events = asked.events.len(),
    );
    caller.adopt(&span);
    span
}

/// What came of a transition, after so long.
pub(super) fn committed(key: &SessionKey, committed: &StoreResult<Committed>, took: Duration) {
    if matches!(committed, Err(StoreError::Fenced)) {
        let session = format!("{}/{}", key.namespace(), key.session());
        tracing::info!(session, "a transition of a former owner is refused");
    }
    if !metrics::is_recorded() {
        return;
    }
    histogram!(metrics::COMMIT_SECONDS).record(took);
    counter!(metrics::COMMITS, "result" => result(committed)).increment(1);
}

fn result(committed: &StoreResult<Committed>) -> &'static str {
    match committed {
        Ok(committed) if committed.duplicate => "duplicate",
        Ok(_) => "ok",
        Err(StoreError::Fenced) => "fenced",
        Err(StoreError::Conflict) => "conflict",
        Err(StoreError::WentBack { .. }) => "went_back",
        Err(StoreError::WritesLost) => "writes_lost",
        Err(StoreError::Newer { .. }) => "newer_version",
        Err(StoreError::Terminal(_)) => "terminal",
        Err(StoreError::NotFound) => "not_found",
        Err(StoreError::RequestMismatch) => "request_mismatch",
        Err(StoreError::BlobMissing { .. }) => "blob_missing",
        Err(StoreError::DocumentVersion { .. }) => "document_version",
        Err(StoreError::Relist) => "relist",
        Err(StoreError::Limit { .. }) => "limit",
        Err(StoreError::Unavailable { .. }) => "unavailable",
        Err(StoreError::Damaged(_)) => "damaged",
        Err(StoreError::Unknown { .. }) => "unknown",
    }
}
