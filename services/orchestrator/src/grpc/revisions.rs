//! Requests for another plan.

use super::commands::{check_steps, contradiction, invalid};
use super::plan_diff::diff_by;
use super::{Answer, key_of};
use crate::commands::{Answer as Outcome, submit};
use crate::deps::Deps;
use crate::key::SessionKey;
use cairn_engine::command::{Command, RevisePlan};
use cairn_engine::limits::MAX_GOAL;
use cairn_engine::plan::{Plan, PlanDraft};
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{RpcError, check_request_id, check_required_text};
use std::sync::Arc;
use tonic::{Request, Response};

/// A plan that is in force since an event.
struct InForce {
    run: u32,
    revision: u32,
    seq: u64,
    diff: pb::PlanDiff,
}

pub(super) async fn propose(
    deps: &Arc<Deps>,
    request: Request<pb::ProposePlanRequest>,
) -> Answer<pb::ProposePlanResponse> {
    use pb::propose_plan_request::Wish;
    let key = key_of(&request, &request.get_ref().session)?;
    let asked = request.into_inner();
    check_request_id("request_id", &asked.request_id)?;
    let (feedback, plan) = match asked.wish {
        None => {
            return Err(RpcError::missing("wish")
                .allowed("feedback or a plan")
                .into());
        }
        Some(Wish::Feedback(feedback)) => {
            check_required_text("feedback", &feedback, MAX_GOAL)?;
            (feedback, None)
        }
        Some(Wish::Plan(plan)) => (String::new(), Some(checked_plan(plan)?)),
    };
    let run = asked.run;
    let command = Command::RevisePlan(RevisePlan {
        run,
        feedback,
        plan,
        expected_revision: asked.expected_revision,
        apply: false,
    });
    match submit(deps, &key, &asked.request_id, command).await? {
        Outcome::PlanProposed { run, proposal, seq } => {
            Ok(Response::new(pb::ProposePlanResponse {
                run,
                proposal,
                diff: Some(diff_by(deps, &key, run, seq).await?),
            }))
        }
        other => Err(contradiction(&other).into()),
    }
}

pub(super) async fn apply(
    deps: &Arc<Deps>,
    request: Request<pb::ApplyPlanRequest>,
) -> Answer<pb::ApplyPlanResponse> {
    use pb::apply_plan_request::Change;
    let key = key_of(&request, &request.get_ref().session)?;
    let asked = request.into_inner();
    check_request_id("request_id", &asked.request_id)?;
    let change = asked.change.ok_or_else(|| {
        RpcError::missing("change").allowed("a proposal, a plan or a step to be done again")
    })?;
    let plan = match &change {
        Change::Plan(plan) => Some(checked_plan(plan.clone())?),
        Change::Proposal(_) | Change::RedoStep(_) => None,
    };
    let run = asked.run;
    let command = match change {
        Change::Proposal(proposal) => Command::ApplyProposal { run, proposal },
        Change::RedoStep(step) => Command::RedoStep { run, step },
        Change::Plan(_) => Command::RevisePlan(RevisePlan {
            run,
            feedback: String::new(),
            plan,
            expected_revision: asked.expected_revision,
            apply: true,
        }),
    };
    let applied = put_into_force(deps, &key, &asked.request_id, command).await?;
    Ok(Response::new(pb::ApplyPlanResponse {
        run: applied.run,
        revision: applied.revision,
        seq: applied.seq,
        diff: Some(applied.diff),
    }))
}

pub(super) async fn send_feedback(
    deps: &Arc<Deps>,
    request: Request<pb::SendFeedbackRequest>,
) -> Answer<pb::SendFeedbackResponse> {
    let key = key_of(&request, &request.get_ref().session)?;
    let asked = request.into_inner();
    check_request_id("request_id", &asked.request_id)?;
    check_required_text("feedback", &asked.feedback, MAX_GOAL)?;
    let run = asked.run;
    let command = Command::RevisePlan(RevisePlan {
        run,
        feedback: asked.feedback,
        apply: true,
        ..RevisePlan::default()
    });
    let outcome = submit(deps, &key, &asked.request_id, command).await?;
    let (run, revision, proposal, seq) = match outcome {
        Outcome::PlanApplied { run, revision, seq } => (run, revision, 0, seq),
        // What takes the place of a plan under review is to be agreed to as that was.
        Outcome::PlanProposed { run, proposal, seq } => (run, 0, proposal, seq),
        other => return Err(contradiction(&other).into()),
    };
    Ok(Response::new(pb::SendFeedbackResponse {
        run,
        revision,
        seq,
        diff: Some(diff_by(deps, &key, run, seq).await?),
        proposal,
    }))
}

async fn put_into_force(
    deps: &Arc<Deps>,
    key: &SessionKey,
    request_id: &str,
    command: Command,
) -> Result<InForce, RpcError> {
    match submit(deps, key, request_id, command).await? {
        Outcome::PlanApplied { run, revision, seq } => Ok(InForce {
            run,
            revision,
            seq,
            diff: diff_by(deps, key, run, seq).await?,
        }),
        other => Err(contradiction(&other)),
    }
}

fn checked_plan(plan: wire::Plan) -> Result<PlanDraft, RpcError> {
    let plan = PlanDraft::try_from(plan).map_err(|error| invalid("plan", &error))?;
    let checked = Plan::accept(&plan);
    checked.map_err(|e| RpcError::invalid("plan", e.to_string()).reason("BAD_PLAN"))?;
    check_steps("plan", &plan)?;
    Ok(plan)
}
