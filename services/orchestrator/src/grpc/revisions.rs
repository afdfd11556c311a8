//! Requests for another plan.

use super::Answer;
use super::commands::{command_request, contradiction, invalid, submitted};
use super::plan_diff::diff_by;
use super::start_run::{bad_plan, check_steps, check_tools};
use crate::requests::Requests;
use cairn_engine::command::{ApplyProposal, Command, RedoStep, RevisePlan};
use cairn_engine::event::EventKind;
use cairn_engine::limits::MAX_GOAL;
use cairn_engine::plan::{Plan, PlanDraft};
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{RpcError, check_required_text};
use std::sync::Arc;
use tonic::{Request, Response};

command_request!(ProposePlanRequest(asked) proposal(asked)?);
command_request!(ApplyPlanRequest(asked) change(asked)?);
command_request!(SendFeedbackRequest(asked) RevisePlan {
    run: asked.run,
    feedback: feedback(asked.feedback)?,
    apply: true,
    ..RevisePlan::default()
});

fn feedback(feedback: String) -> Result<String, RpcError> {
    check_required_text("feedback", &feedback, MAX_GOAL)?;
    Ok(feedback)
}

fn proposal(asked: pb::ProposePlanRequest) -> Result<RevisePlan, RpcError> {
    use pb::propose_plan_request::Change;
    let (feedback, plan) = match asked.change {
        None => return Err(RpcError::missing("change").allowed("feedback or a plan")),
        Some(Change::Feedback(text)) => (feedback(text)?, None),
        Some(Change::Plan(plan)) => (String::new(), Some(checked_plan(plan)?)),
    };
    Ok(RevisePlan {
        run: asked.run,
        feedback,
        plan,
        expected_revision: asked.expected_revision,
        apply: false,
    })
}

fn change(asked: pb::ApplyPlanRequest) -> Result<Command, RpcError> {
    use pb::apply_plan_request::Change;
    let run = asked.run;
    Ok(match asked.change {
        None => {
            let allowed = "a proposal, a plan or a step to be done again";
            return Err(RpcError::missing("change").allowed(allowed));
        }
        Some(Change::Proposal(proposal)) => ApplyProposal { run, proposal }.into(),
        Some(Change::RedoStep(step)) => {
            let step = step.into();
            RedoStep { run, step }.into()
        }
        Some(Change::Plan(plan)) => RevisePlan {
            run,
            feedback: String::new(),
            plan: Some(checked_plan(plan)?),
            expected_revision: asked.expected_revision,
            apply: true,
        }
        .into(),
    })
}

pub(super) async fn propose(
    requests: &Arc<Requests>,
    request: Request<pb::ProposePlanRequest>,
) -> Answer<pb::ProposePlanResponse> {
    if let Some(pb::propose_plan_request::Change::Plan(plan)) = &request.get_ref().change {
        check_tools(requests, "plan", tools_of(plan))?;
    }
    let (key, answer) = submitted(requests, request).await?;
    let EventKind::PlanProposed(proposed) = answer.event else {
        return Err(contradiction().into());
    };
    Ok(Response::new(pb::ProposePlanResponse {
        run: proposed.run,
        proposal: proposed.proposal,
        diff: Some(diff_by(requests, &key, proposed.run, answer.seq).await?),
    }))
}

pub(super) async fn apply(
    requests: &Arc<Requests>,
    request: Request<pb::ApplyPlanRequest>,
) -> Answer<pb::ApplyPlanResponse> {
    if let Some(pb::apply_plan_request::Change::Plan(plan)) = &request.get_ref().change {
        check_tools(requests, "plan", tools_of(plan))?;
    }
    let (key, answer) = submitted(requests, request).await?;
    let EventKind::PlanApplied(applied) = answer.event else {
        return Err(contradiction().into());
    };
    Ok(Response::new(pb::ApplyPlanResponse {
        run: applied.run,
        revision: applied.revision,
        seq: answer.seq,
        diff: Some(diff_by(requests, &key, applied.run, answer.seq).await?),
    }))
}

pub(super) async fn send_feedback(
    requests: &Arc<Requests>,
    request: Request<pb::SendFeedbackRequest>,
) -> Answer<pb::SendFeedbackResponse> {
    let (key, answer) = submitted(requests, request).await?;
    let (run, revision, proposal) = match answer.event {
        EventKind::PlanApplied(applied) => (applied.run, applied.revision, 0),
        // What takes the place of a plan under review is to be approved as that was.
        EventKind::PlanProposed(proposed) => (proposed.run, 0, proposed.proposal),
        _ => return Err(contradiction().into()),
    };
    let seq = answer.seq;
    Ok(Response::new(pb::SendFeedbackResponse {
        run,
        revision,
        seq,
        diff: Some(diff_by(requests, &key, run, seq).await?),
        proposal,
    }))
}

fn tools_of(plan: &wire::Plan) -> impl Iterator<Item = Option<&str>> {
    let tools = plan.steps.iter().map(|step| step.tool.as_ref());
    tools.map(|tool| tool.map(|tool| tool.name.as_str()))
}

fn checked_plan(plan: wire::Plan) -> Result<PlanDraft, RpcError> {
    let plan = PlanDraft::try_from(plan).map_err(|error| invalid("plan", &error))?;
    Plan::accept(&plan).map_err(|fault| bad_plan("plan", &fault))?;
    check_steps("plan", &plan)?;
    Ok(plan)
}
