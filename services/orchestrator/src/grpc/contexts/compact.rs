//! Requests for a compaction of a context. A model writes the summary in a run.

use super::super::commands::{command_request, contradiction, submitted_if};
use super::super::start_run::{MAX_MODEL_NAME, named_trace};
use super::super::views::session_at;
use super::super::{Answer, key_of};
use super::check_name;
use crate::key::derived_trace;
use crate::requests::{Requests, admit};
use cairn_engine::command::CompactContext;
use cairn_engine::event::EventKind;
use cairn_engine::limits::MAX_COMPACTION_TEXT;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{RpcError, TraceParent, check_required_text, check_text, principal};
use std::sync::Arc;
use tonic::{Request, Response};

command_request!(CompactContextRequest(asked) {
    let compact = asked.compact.ok_or_else(|| RpcError::missing("compact"))?;
    let compact = CompactContext::from(compact);
    check(&compact)?;
    compact
});

/// Starts the run that compacts a context, unless all its messages are to stay.
pub(super) async fn compact(
    requests: &Arc<Requests>,
    mut request: Request<pb::CompactContextRequest>,
) -> Answer<pb::CompactContextResponse> {
    let key = key_of(&request, &request.get_ref().session)?;
    name_trace(&mut request)?;
    let admission = admit(requests, Some(&key)).await;
    let (key, answer) = submitted_if(admission, requests, request).await?;
    let (run, version) = match answer.event {
        EventKind::ContextChanged(unchanged) => (0, unchanged.version),
        EventKind::RunStarted(started) => {
            let turn = started.turn.ok_or_else(contradiction)?;
            let session = session_at(requests, &key, answer.seq).await?;
            let context = session.context(&turn.context);
            (started.run, context.map_or(0, |context| context.version))
        }
        _ => return Err(contradiction().into()),
    };
    Ok(Response::new(pb::CompactContextResponse {
        seq: answer.seq,
        run,
        version,
    }))
}

/// Fills in the trace of the run: the one that the request names, that of the call, or one of its own.
fn name_trace(request: &mut Request<pb::CompactContextRequest>) -> Result<(), RpcError> {
    let namespace = principal(request)?.namespace().clone();
    let callers_trace = TraceParent::of(request);
    let asked = request.get_mut();
    let Some(compact) = &mut asked.compact else {
        return Ok(());
    };
    let named = named_trace("compact.trace_parent", &compact.trace_parent)?;
    let own = || derived_trace(&namespace, &asked.session, &asked.request_id);
    let trace = named.or(callers_trace).unwrap_or_else(own);
    compact.trace_parent = trace.to_string();
    Ok(())
}

fn check(compact: &CompactContext) -> Result<(), RpcError> {
    check_name("compact.context", &compact.context)?;
    check_text("compact.model", &compact.model, MAX_MODEL_NAME)?;
    if let Some(prompt) = &compact.prompt {
        check_required_text("compact.prompt", prompt, MAX_COMPACTION_TEXT)?;
    }
    let keep_in_mind = &compact.keep_in_mind;
    check_text("compact.keep_in_mind", keep_in_mind, MAX_COMPACTION_TEXT)
}
