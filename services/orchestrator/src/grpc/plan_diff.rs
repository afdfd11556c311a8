//! What another plan changes, in the words of the contract.

use crate::key::SessionKey;
use crate::requests::Requests;
use cairn_engine::event::{PlanApplied, PlanProposed};
use cairn_engine::key::call_key;
use cairn_engine::plan::PlanDraft;
use cairn_engine::transitions::StepPhase;
use cairn_proto::orchestrator as pb;
use cairn_rpc::RpcError;
use cairn_views::plan_diff::{Dropped, Fate, PlanDiff, StepDiff, diff};
use std::sync::Arc;

/// What the plan that the event numbered `seq` puts into force changes of the one before it, as the run
/// stood before steps were stopped for it.
pub(super) async fn diff_of_applied(
    requests: &Arc<Requests>,
    key: &SessionKey,
    applied: &PlanApplied,
    seq: u64,
) -> Result<pb::PlanDiff, RpcError> {
    let before = seq.saturating_sub(1 + u64::from(applied.stops));
    diff_at(requests, key, applied.run, before, &applied.plan).await
}

/// What the plan that the event numbered `seq` proposes would change of the one in force.
pub(super) async fn diff_of_proposed(
    requests: &Arc<Requests>,
    key: &SessionKey,
    proposed: &PlanProposed,
    seq: u64,
) -> Result<pb::PlanDiff, RpcError> {
    let before = seq.saturating_sub(1);
    diff_at(requests, key, proposed.run, before, &proposed.plan).await
}

async fn diff_at(
    requests: &Arc<Requests>,
    key: &SessionKey,
    number: u32,
    seq: u64,
    plan: &PlanDraft,
) -> Result<pb::PlanDiff, RpcError> {
    let session = requests.store().view_at(key, seq).await?;
    let run = session
        .run(number)
        .ok_or_else(|| RpcError::not_found("run", number.to_string()))?;
    let found = diff(run, plan).map_err(RpcError::internal)?;
    Ok(message(key, found))
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
