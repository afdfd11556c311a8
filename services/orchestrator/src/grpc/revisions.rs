//! Requests for another plan.

use super::commands::{command_request, contradiction, invalid, submitted, submitted_if};
use super::plan_diff::{diff_of_applied, diff_of_proposed};
use super::present::run_of;
use super::start_run::{bad_plan, check_steps, unknown_tool};
use super::{Answer, key_of};
use crate::key::SessionKey;
use crate::requests::{Admission, Requests};
use cairn_engine::command::{ApplyProposal, Command, RedoStep, RevisePlan};
use cairn_engine::event::EventKind;
use cairn_engine::limits::MAX_GOAL;
use cairn_engine::plan::{Plan, PlanDraft};
use cairn_engine::session::PlanState;
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{RpcError, check_required_text};
use std::collections::HashSet;
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
    let asked = request.get_ref();
    let admission = match &asked.change {
        Some(pb::propose_plan_request::Change::Plan(plan)) => {
            let key = key_of(&request, &asked.session)?;
            admit(requests, &key, asked.run, plan).await?
        }
        _ => Admission::without_reservation(),
    };
    let (key, answer) = submitted_if(admission, requests, request).await?;
    let EventKind::PlanProposed(proposed) = answer.event else {
        return Err(contradiction().into());
    };
    let diff = diff_of_proposed(requests, &key, &proposed, answer.seq).await?;
    Ok(Response::new(pb::ProposePlanResponse {
        run: proposed.run,
        proposal: proposed.proposal,
        diff: Some(diff),
    }))
}

pub(super) async fn apply(
    requests: &Arc<Requests>,
    request: Request<pb::ApplyPlanRequest>,
) -> Answer<pb::ApplyPlanResponse> {
    let asked = request.get_ref();
    let admission = match &asked.change {
        Some(pb::apply_plan_request::Change::Plan(plan)) => {
            let key = key_of(&request, &asked.session)?;
            admit(requests, &key, asked.run, plan).await?
        }
        _ => Admission::without_reservation(),
    };
    let (key, answer) = submitted_if(admission, requests, request).await?;
    let EventKind::PlanApplied(applied) = answer.event else {
        return Err(contradiction().into());
    };
    let diff = diff_of_applied(requests, &key, &applied, answer.seq).await?;
    Ok(Response::new(pb::ApplyPlanResponse {
        run: applied.run,
        revision: applied.revision,
        seq: answer.seq,
        diff: Some(diff),
    }))
}

pub(super) async fn send_feedback(
    requests: &Arc<Requests>,
    request: Request<pb::SendFeedbackRequest>,
) -> Answer<pb::SendFeedbackResponse> {
    let (key, answer) = submitted(requests, request).await?;
    let seq = answer.seq;
    let (run, revision, proposal, diff) = match answer.event {
        EventKind::PlanApplied(applied) => {
            let diff = diff_of_applied(requests, &key, &applied, seq).await?;
            (applied.run, applied.revision, 0, diff)
        }
        // What takes the place of a plan under review is to be approved as that was.
        EventKind::PlanProposed(proposed) => {
            let diff = diff_of_proposed(requests, &key, &proposed, seq).await?;
            (proposed.run, 0, proposed.proposal, diff)
        }
        _ => return Err(contradiction().into()),
    };
    Ok(Response::new(pb::SendFeedbackResponse {
        run,
        revision,
        seq,
        diff: Some(diff),
        proposal,
    }))
}

/// A plan may name tools that there are, and those of the plan in force: its steps may have been carried out.
async fn admit(
    requests: &Requests,
    key: &SessionKey,
    run: u32,
    plan: &wire::Plan,
) -> Result<Admission, RpcError> {
    let tools = || {
        plan.steps
            .iter()
            .map(|step| Some(step.tool.as_ref()?.name.as_str()))
    };
    if unknown_tool(requests, "plan", tools()).is_none() {
        return Ok(Admission::without_reservation());
    }
    let session = requests.store().view(key).await?.session;
    let in_force = run_of(&session, run).ok().and_then(|run| run.plan);
    let steps = in_force.into_iter().flat_map(PlanState::current);
    let kept = steps.filter_map(|(_, step)| Some(step.plan.tool.as_ref()?.name.as_str()));
    let kept: HashSet<&str> = kept.collect();
    let others = tools().map(|tool| tool.filter(|name| !kept.contains(name)));
    Ok(match unknown_tool(requests, "plan", others) {
        Some(fault) => Admission::OnlyRepeats(fault),
        None => Admission::without_reservation(),
    })
}

fn checked_plan(plan: wire::Plan) -> Result<PlanDraft, RpcError> {
    let plan = PlanDraft::try_from(plan).map_err(|error| invalid("plan", &error))?;
    Plan::accept(&plan).map_err(|fault| bad_plan("plan", &fault))?;
    check_steps("plan", &plan)?;
    Ok(plan)
}
