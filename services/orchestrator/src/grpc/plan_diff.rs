//! What another plan changes, read from the journal and in the words of the contract.

use crate::key::SessionKey;
use crate::requests::Requests;
use cairn_engine::event::{self, EventKind};
use cairn_engine::key::call_key;
use cairn_engine::plan::PlanDraft;
use cairn_engine::transitions::StepPhase;
use cairn_proto::orchestrator as pb;
use cairn_rpc::RpcError;
use cairn_views::plan_diff::{Dropped, Fate, PlanDiff, StepDiff, diff};
use std::sync::Arc;

/// How far is looked back for the begin of a plan's transition. All steps that may run at the same
/// time can be stopped in it; of one with more calls in doubt than this leaves room for, the diff
/// shows some steps as stopped already.
const MOST_BEFORE: u64 = 512;

/// What the plan of the event numbered `seq` changes of the one before it, as the run stood then.
pub(super) async fn diff_by(
    requests: &Arc<Requests>,
    key: &SessionKey,
    number: u32,
    seq: u64,
) -> Result<pb::PlanDiff, RpcError> {
    let (before, plan) = change_of(requests, key, seq).await?;
    let session = requests.store().view_at(key, before).await?;
    let run = session
        .run(number)
        .ok_or_else(|| RpcError::not_found("run", number.to_string()))?;
    let found = diff(run, &plan).map_err(RpcError::internal)?;
    Ok(message(key, found))
}

/// The plan of an event, and the last event before its transition. Steps that are stopped for a plan
/// are stopped in the transition that puts it into force.
async fn change_of(
    requests: &Arc<Requests>,
    key: &SessionKey,
    seq: u64,
) -> Result<(u64, PlanDraft), RpcError> {
    let mut at = seq.saturating_sub(MOST_BEFORE);
    let mut before = at;
    let mut plan = None;
    while plan.is_none() {
        let page = requests.store().read(key, at).await?;
        if page.events.is_empty() {
            break;
        }
        for stored in page.events {
            at = stored.seq;
            if at > seq {
                break;
            }
            match requests.store().event(key, &stored).await?.kind {
                EventKind::PlanApplied(event::PlanApplied { plan: found, .. })
                | EventKind::PlanProposed(event::PlanProposed { plan: found, .. })
                    if at == seq =>
                {
                    plan = Some(found);
                }
                kind if is_stop(&kind) => {}
                // What stood here is no part of the plan's transition.
                _ => before = at,
            }
        }
    }
    let missing = || RpcError::internal(format!("event {seq} holds no plan"));
    Ok((before, plan.ok_or_else(missing)?))
}

fn is_stop(kind: &EventKind) -> bool {
    match kind {
        EventKind::StepSkipped(event::StepSkipped { reason, .. }) => reason == "superseded",
        EventKind::CallInDoubt(_) => true,
        _ => false,
    }
}

fn message(key: &SessionKey, found: PlanDiff) -> pb::PlanDiff {
    let effects = found.effects.into_iter().map(|effect| {
        let session = effect.origin.as_deref().unwrap_or(&key.id);
        pb::EffectfulCall {
            step: effect.call.attempt.step.into(),
            tool: effect.tool,
            done: effect.is_done,
            call_key: call_key(key.namespace.as_str(), session, effect.call),
        }
    });
    pb::PlanDiff {
        base_revision: found.base_revision,
        effects: effects.collect(),
        steps: found.steps.into_iter().map(new_step).collect(),
        gone: found.dropped.into_iter().map(old_step).collect(),
        saved: Some(found.saved.usage.into()),
        saved_tool_turns: found.saved.tool_turns,
        saved_ms: found.saved.duration_ms,
    }
}

fn new_step(step: StepDiff) -> pb::NewStep {
    let (fate, repeats) = match step.fate {
        Fate::Reused => (pb::StepFate::Reused, 0),
        Fate::Continues => (pb::StepFate::Continues, 0),
        Fate::Waiting => (pb::StepFate::Waiting, 0),
        Fate::Skipped => (pb::StepFate::Skipped, 0),
        Fate::Repeated { number } => (pb::StepFate::Repeated, number.into()),
        Fate::Added => (pb::StepFate::Added, 0),
    };
    pb::NewStep {
        number: step.number.unwrap_or_default().into(),
        label: step.label,
        fate: fate.into(),
        moved: step.moved,
        repeats,
    }
}

fn old_step(step: Dropped) -> pb::OldStep {
    let status = match step.status {
        StepPhase::Pending => pb::StepStatus::Pending,
        StepPhase::Running => pb::StepStatus::Running,
        StepPhase::Completed => pb::StepStatus::Completed,
        StepPhase::Failed => pb::StepStatus::Failed,
        StepPhase::Skipped => pb::StepStatus::Skipped,
    };
    pb::OldStep {
        number: step.number.into(),
        label: step.label,
        status: status.into(),
        repeated: step.repeated_as.is_some(),
    }
}
