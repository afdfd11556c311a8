//! Plans and what becomes of them, as JSON.

use super::{failure, short, usage};
use cairn_proto::event as wire;
use serde_json::{Value, json};

/// A step as it was planned.
pub fn plan_step(step: &wire::PlanStep) -> Value {
    let tool = step.tool.as_ref().map_or(
        Value::Null,
        |tool| json!({"name": tool.name, "arguments_json": tool.arguments_json}),
    );
    json!({
        "id": step.id,
        "title": step.title,
        "description": step.description,
        "tool": tool,
        "depends_on": step.depends_on,
        "capabilities": step.capabilities,
        "redo": step.redo,
    })
}

/// How steps depend on each other: `chain`, `graph`.
pub fn order(number: i32) -> String {
    let order = wire::Order::try_from(number).unwrap_or_default();
    short(order.as_str_name(), "ORDER_")
}

/// A plan as JSON, by the names of the contract; `null` if there is none.
pub fn plan(plan: Option<&wire::Plan>) -> Value {
    plan.map_or(Value::Null, |plan| {
        let steps: Vec<_> = plan.steps.iter().map(plan_step).collect();
        json!({"order": order(plan.order), "steps": steps})
    })
}

pub(super) fn plan_applied(e: &wire::PlanApplied) -> Value {
    json!({
        "run": e.run,
        "revision": e.revision,
        "plan": plan(e.plan.as_ref()),
        "usage": usage(e.usage.as_ref()),
        "duration_ms": e.duration_ms,
        "numbers": e.numbers,
        "command_seq": e.command_seq,
    })
}

pub(super) fn revision_requested(e: &wire::RevisionRequested) -> Value {
    json!({
        "run": e.run,
        "feedback": e.feedback,
        "apply": e.apply,
        "command_seq": e.command_seq,
        "denied": e.denied,
    })
}

pub(super) fn plan_proposed(e: &wire::PlanProposed) -> Value {
    json!({
        "run": e.run,
        "proposal": e.proposal,
        "base_revision": e.base_revision,
        "plan": plan(e.plan.as_ref()),
        "request_seq": e.request_seq,
        "usage": usage(e.usage.as_ref()),
        "duration_ms": e.duration_ms,
    })
}

pub(super) fn revision_failed(e: &wire::RevisionFailed) -> Value {
    json!({
        "run": e.run,
        "request_seq": e.request_seq,
        "failure": failure(e.failure.as_ref()),
        "usage": usage(e.usage.as_ref()),
        "duration_ms": e.duration_ms,
    })
}
