//! Requests that hold a run up.

use super::commands::{MAX_REASON, contradiction};
use super::{Answer, key_of};
use crate::commands::{Answer as Outcome, submit};
use crate::deps::Deps;
use cairn_engine::command::Command;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{RpcError, check_request_id, check_text};
use std::sync::Arc;
use tonic::{Request, Response};

pub(super) async fn cancel_run(
    deps: &Arc<Deps>,
    request: Request<pb::CancelRunRequest>,
) -> Answer<pb::CancelRunResponse> {
    let key = key_of(&request, &request.get_ref().session)?;
    let asked = request.into_inner();
    check_request_id("request_id", &asked.request_id)?;
    check_text("reason", &asked.reason, MAX_REASON)?;
    let command = Command::CancelRun {
        run: asked.run,
        reason: asked.reason,
    };
    match submit(deps, &key, &asked.request_id, command).await? {
        Outcome::RunCancelled { run } => Ok(Response::new(pb::CancelRunResponse { run })),
        other => Err(contradiction(&other).into()),
    }
}

pub(super) async fn pause_run(
    deps: &Arc<Deps>,
    request: Request<pb::PauseRunRequest>,
) -> Answer<pb::PauseRunResponse> {
    let key = key_of(&request, &request.get_ref().session)?;
    let asked = request.into_inner();
    check_request_id("request_id", &asked.request_id)?;
    check_text("reason", &asked.reason, MAX_REASON)?;
    let command = Command::PauseRun {
        run: asked.run,
        reason: asked.reason,
    };
    match submit(deps, &key, &asked.request_id, command).await? {
        Outcome::RunPaused { run } => Ok(Response::new(pb::PauseRunResponse { run })),
        other => Err(contradiction(&other).into()),
    }
}

pub(super) async fn resume_run(
    deps: &Arc<Deps>,
    request: Request<pb::ResumeRunRequest>,
) -> Answer<pb::ResumeRunResponse> {
    let key = key_of(&request, &request.get_ref().session)?;
    let asked = request.into_inner();
    check_request_id("request_id", &asked.request_id)?;
    let command = Command::ResumeRun { run: asked.run };
    match submit(deps, &key, &asked.request_id, command).await? {
        Outcome::RunResumed { run } => Ok(Response::new(pb::ResumeRunResponse { run })),
        other => Err(contradiction(&other).into()),
    }
}

pub(super) async fn skip_step(
    deps: &Arc<Deps>,
    request: Request<pb::SkipStepRequest>,
) -> Answer<pb::SkipStepResponse> {
    let key = key_of(&request, &request.get_ref().session)?;
    let asked = request.into_inner();
    check_request_id("request_id", &asked.request_id)?;
    check_text("reason", &asked.reason, MAX_REASON)?;
    if asked.step == 0 {
        return Err(RpcError::invalid("step", "is 0")
            .allowed("a step's number, from 1")
            .into());
    }
    let command = Command::SkipStep {
        run: asked.run,
        step: asked.step,
        reason: asked.reason,
    };
    match submit(deps, &key, &asked.request_id, command).await? {
        Outcome::StepSkipped { run, step } => Ok(Response::new(pb::SkipStepResponse { run, step })),
        other => Err(contradiction(&other).into()),
    }
}
