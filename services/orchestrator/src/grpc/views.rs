//! Views of a journal.

use super::{Answer, key_of};
use crate::deps::Deps;
use crate::reading::{events_of_run, ms};
use cairn_engine::views::agent_state;
use cairn_proto::orchestrator as pb;
use cairn_rpc::RpcError;
use tonic::{Request, Response};

pub(super) async fn state(
    deps: &Deps,
    request: Request<pb::GetStateRequest>,
) -> Answer<pb::GetStateResponse> {
    let key = key_of(&request, &request.get_ref().session)?;
    let at_seq = Some(request.get_ref().at_seq).filter(|&seq| seq > 0);
    let session = deps.store.load(&key, at_seq).await?.session;
    if at_seq.is_some_and(|seq| seq > session.seq) {
        let problem = "is after the last event";
        let allowed = format!("1 to {}, or 0 for now", session.seq);
        return Err(RpcError::invalid("at_seq", problem).allowed(allowed).into());
    }
    Ok(Response::new(pb::GetStateResponse {
        json: agent_state::of_session(&session).to_string(),
        seq: session.seq,
    }))
}

pub(super) async fn tree(
    deps: &Deps,
    request: Request<pb::GetTreeRequest>,
) -> Answer<pb::GetTreeResponse> {
    let key = key_of(&request, &request.get_ref().session)?;
    let (_run, _events) = events_of_run(deps, &key, request.get_ref().run).await?;
    Err(RpcError::precondition("interim").into())
}

pub(super) async fn report(
    deps: &Deps,
    request: Request<pb::GetReportRequest>,
) -> Answer<pb::GetReportResponse> {
    let key = key_of(&request, &request.get_ref().session)?;
    let (_run, _events) = events_of_run(deps, &key, request.get_ref().run).await?;
    Err(RpcError::precondition("interim").into())
}

pub(super) async fn execution_log(
    deps: &Deps,
    request: Request<pb::GetExecutionLogRequest>,
) -> Answer<pb::GetExecutionLogResponse> {
    let key = key_of(&request, &request.get_ref().session)?;
    let _ = (deps.store.events(&key).await?, ms(0));
    Err(RpcError::precondition("interim").into())
}
