//! Events as JSON, for `--json` and `cairn export`.
//!
//! One object an event: `seq`, `at` (UTC), `kind`, `principal` if the event has one, and then the
//! fields as the contract names them.
//! Every field is there even if it is empty, messages that are not set are `null`, and enum values
//! are written in lower case without the name of their enum: `"effect": "effectful"`. One-of
//! fields are objects with a single key, which says which one it is. These names are stable.

mod commands;
mod plans;

pub use plans::{order, plan, plan_step};

use super::time::utc;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use commands::{command_received, run_started, settlement};
use plans::{plan_applied, plan_proposed, revision_failed, revision_requested};
use serde_json::{Map, Value, json};

/// An event with its number as a JSON object.
pub fn event_json(seq: u64, event: &wire::Event) -> Value {
    let kind = event.kind.as_ref();
    let mut object = Map::new();
    object.insert("seq".into(), seq.into());
    object.insert("at".into(), utc(event.at_unix_ms).into());
    object.insert("kind".into(), kind.map_or("unknown", kind_name).into());
    if let Some(by) = &event.principal {
        object.insert("principal".into(), principal(by));
    }
    if let Some(Value::Object(fields)) = kind.map(fields) {
        object.extend(fields);
    }
    Value::Object(object)
}

/// The name of a kind of event, as the contract has it: `step_completed`.
pub fn kind_name(kind: &Kind) -> &'static str {
    match kind {
        Kind::SessionCreated(_) => "session_created",
        Kind::CommandReceived(_) => "command_received",
        Kind::CommandRefused(_) => "command_refused",
        Kind::MemorySet(_) => "memory_set",
        Kind::MemoryRemoved(_) => "memory_removed",
        Kind::MemoryCleared(_) => "memory_cleared",
        Kind::RunStarted(_) => "run_started",
        Kind::PlanApplied(_) => "plan_applied",
        Kind::RunWaiting(_) => "run_waiting",
        Kind::RunResumed(_) => "run_resumed",
        Kind::RunTakenOver(_) => "run_taken_over",
        Kind::RunCompleted(_) => "run_completed",
        Kind::RunFailed(_) => "run_failed",
        Kind::RunCancelled(_) => "run_cancelled",
        Kind::StepStarted(_) => "step_started",
        Kind::AttemptContinued(_) => "attempt_continued",
        Kind::StepCompleted(_) => "step_completed",
        Kind::StepFailed(_) => "step_failed",
        Kind::StepSkipped(_) => "step_skipped",
        Kind::ReplyReceived(_) => "reply_received",
        Kind::CallIntended(_) => "call_intended",
        Kind::CallHeld(_) => "call_held",
        Kind::CallFinished(_) => "call_finished",
        Kind::CallInDoubt(_) => "call_in_doubt",
        Kind::CallSettled(_) => "call_settled",
        Kind::SubGoalAdded(_) => "sub_goal_added",
        Kind::SubGoalFocused(_) => "sub_goal_focused",
        Kind::SubGoalCompleted(_) => "sub_goal_completed",
        Kind::SubGoalDropped(_) => "sub_goal_dropped",
        Kind::ScratchpadWritten(_) => "scratchpad_written",
        Kind::Decided(_) => "decided",
        Kind::BudgetRaised(_) => "budget_raised",
        Kind::BudgetRefused(_) => "budget_refused",
        Kind::StoredApart(_) => "stored_apart",
        Kind::RevisionRequested(_) => "revision_requested",
        Kind::PlanProposed(_) => "plan_proposed",
        Kind::RevisionFailed(_) => "revision_failed",
        Kind::RunPaused(_) => "run_paused",
        Kind::ApprovalRequested(_) => "approval_requested",
        Kind::QuestionAsked(_) => "question_asked",
        Kind::BudgetExhausted(_) => "budget_exhausted",
        Kind::ForkedFrom(_) => "forked_from",
    }
}

fn fields(kind: &Kind) -> Value {
    match kind {
        Kind::SessionCreated(e) => {
            json!({"title": e.title, "time_to_live_ms": e.time_to_live_ms})
        }
        Kind::CommandReceived(e) => command_received(e),
        Kind::CommandRefused(e) => command_refused(e),
        Kind::MemorySet(e) => json!({"key": e.key, "value": e.value}),
        Kind::MemoryRemoved(e) => json!({"key": e.key}),
        Kind::MemoryCleared(wire::MemoryCleared {}) => json!({}),
        Kind::RunStarted(e) => run_started(e),
        Kind::PlanApplied(e) => plan_applied(e),
        Kind::RunWaiting(e) => json!({"run": e.run, "reason": wait_reason(e.reason)}),
        Kind::RunResumed(e) => json!({"run": e.run, "command_seq": e.command_seq}),
        Kind::RunTakenOver(e) => json!({"run": e.run}),
        Kind::RunCompleted(e) => json!({"run": e.run, "answer": e.answer}),
        Kind::RunFailed(e) => run_failed(e),
        Kind::RunCancelled(e) => run_cancelled(e),
        Kind::StepStarted(e) => step_started(e),
        Kind::AttemptContinued(e) => json!({"attempt": attempt(e.attempt.as_ref())}),
        Kind::StepCompleted(e) => step_completed(e),
        Kind::StepFailed(e) => step_failed(e),
        Kind::StepSkipped(e) => step_skipped(e),
        Kind::ReplyReceived(e) => reply_received(e),
        Kind::CallIntended(e) => call_intended(e),
        Kind::CallHeld(e) => json!({"call": call(e.call.as_ref())}),
        Kind::CallFinished(e) => call_finished(e),
        Kind::CallInDoubt(e) => call_in_doubt(e),
        Kind::CallSettled(e) => call_settled(e),
        Kind::SubGoalAdded(e) => sub_goal_added(e),
        Kind::SubGoalFocused(e) => sub_goal_focused(e),
        Kind::SubGoalCompleted(e) => sub_goal_completed(e),
        Kind::SubGoalDropped(e) => {
            json!({"attempt": attempt(e.attempt.as_ref()), "index": e.index})
        }
        Kind::ScratchpadWritten(e) => scratchpad_written(e),
        Kind::Decided(e) => decided(e),
        Kind::BudgetRaised(e) => budget_raised(e),
        Kind::BudgetRefused(e) => json!({
            "run": e.run,
            "command_seq": e.command_seq,
            "failure": failure(e.failure.as_ref()),
        }),
        Kind::StoredApart(e) => json!({"digest": e.digest, "size": e.size}),
        Kind::RevisionRequested(e) => revision_requested(e),
        Kind::PlanProposed(e) => plan_proposed(e),
        Kind::RevisionFailed(e) => revision_failed(e),
        Kind::RunPaused(e) => run_paused(e),
        Kind::ApprovalRequested(e) => approval_requested(e),
        Kind::QuestionAsked(e) => question_asked(e),
        Kind::BudgetExhausted(e) => json!({"run": e.run, "budget": budget(e.budget)}),
        Kind::ForkedFrom(e) => forked_from(e),
    }
}

fn principal(by: &wire::Principal) -> Value {
    let authentication = wire::Authentication::try_from(by.authentication).unwrap_or_default();
    json!({
        "subject": by.subject,
        "namespace": by.namespace,
        "authentication": short(authentication.as_str_name(), "AUTHENTICATION_"),
    })
}

/// A failure as JSON; `null` if there is none.
pub fn failure(failure: Option<&wire::Failure>) -> Value {
    failure.map_or(Value::Null, |failure| {
        let kind = wire::FailureKind::try_from(failure.kind).unwrap_or_default();
        json!({
            "kind": short(kind.as_str_name(), "FAILURE_KIND_"),
            "reason": failure.reason,
            "message": failure.message,
            "recoverable": failure.recoverable,
        })
    })
}

/// Usage as JSON; zeros if there is none.
pub fn usage(usage: Option<&wire::Usage>) -> Value {
    let usage = usage.copied().unwrap_or_default();
    json!({
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_nano_usd": usage.cost_nano_usd,
        "model_calls": usage.model_calls,
    })
}

/// What a run uses up: `turns`, `tokens`, `cost`, `time`, `calls`.
pub fn budget(number: i32) -> String {
    let budget = wire::Budget::try_from(number).unwrap_or_default();
    short(budget.as_str_name(), "BUDGET_")
}

/// What a run waits for: `in_doubt`, `budget`, `approval`, `question`, `plan_review`.
pub fn wait_reason(number: i32) -> String {
    let reason = wire::WaitReason::try_from(number).unwrap_or_default();
    short(reason.as_str_name(), "WAIT_REASON_")
}

/// An enum value's name as programs read it here: in lower case, without the enum's name.
pub fn short(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix)
        .unwrap_or(name)
        .to_ascii_lowercase()
}

fn effect(number: i32) -> String {
    let effect = wire::Effect::try_from(number).unwrap_or_default();
    short(effect.as_str_name(), "EFFECT_")
}

fn attempt(attempt: Option<&wire::AttemptRef>) -> Value {
    attempt.map_or(
        Value::Null,
        |attempt| json!({"run": attempt.run, "step": attempt.step, "attempt": attempt.attempt}),
    )
}

fn call(call: Option<&wire::CallRef>) -> Value {
    call.map_or(Value::Null, |call| {
        json!({
            "attempt": attempt(call.attempt.as_ref()),
            "tool_turn": call.tool_turn,
            "index": call.index,
        })
    })
}

fn command_refused(e: &wire::CommandRefused) -> Value {
    json!({"command_seq": e.command_seq, "reason": e.reason, "message": e.message})
}

fn run_failed(e: &wire::RunFailed) -> Value {
    json!({
        "run": e.run,
        "failure": failure(e.failure.as_ref()),
        "usage": e.usage.as_ref().map(|of_planning| usage(Some(of_planning))),
        "duration_ms": e.duration_ms,
    })
}

fn run_cancelled(e: &wire::RunCancelled) -> Value {
    json!({"run": e.run, "reason": e.reason, "command_seq": e.command_seq})
}

fn run_paused(e: &wire::RunPaused) -> Value {
    json!({"run": e.run, "reason": e.reason, "command_seq": e.command_seq})
}

fn forked_from(e: &wire::ForkedFrom) -> Value {
    json!({"session": e.session, "at_seq": e.at_seq, "request_id": e.request_id, "title": e.title})
}

fn step_skipped(e: &wire::StepSkipped) -> Value {
    json!({
        "run": e.run,
        "step": e.step,
        "reason": e.reason,
        "is_wish": e.is_wish,
        "command_seq": e.command_seq,
    })
}

fn step_started(e: &wire::StepStarted) -> Value {
    json!({"attempt": attempt(e.attempt.as_ref()), "tool_effect": effect(e.tool_effect)})
}

fn step_completed(e: &wire::StepCompleted) -> Value {
    json!({
        "attempt": attempt(e.attempt.as_ref()),
        "response": e.response,
        "summary": e.summary,
    })
}

fn step_failed(e: &wire::StepFailed) -> Value {
    json!({"attempt": attempt(e.attempt.as_ref()), "failure": failure(e.failure.as_ref())})
}

fn reply_received(event: &wire::ReplyReceived) -> Value {
    let requested = |requested: &wire::RequestedCall| {
        let call = requested.call.as_ref().map_or(
            Value::Null,
            |call| json!({"id": call.id, "name": call.name, "arguments_json": call.arguments_json}),
        );
        json!({"call": call, "effect": effect(requested.effect)})
    };
    let calls: Vec<_> = event.calls.iter().map(requested).collect();
    json!({
        "attempt": attempt(event.attempt.as_ref()),
        "tool_turn": event.tool_turn,
        "text": event.text,
        "calls": calls,
        "usage": usage(event.usage.as_ref()),
        "model": event.model,
        "duration_ms": event.duration_ms,
    })
}

fn call_intended(e: &wire::CallIntended) -> Value {
    json!({
        "call": call(e.call.as_ref()),
        "not_after_unix_ms": e.not_after_unix_ms,
        "time_limit_ms": e.time_limit_ms,
        "in_process": e.in_process,
    })
}

fn call_finished(e: &wire::CallFinished) -> Value {
    json!({
        "call": call(e.call.as_ref()),
        "output": e.output,
        "is_error": e.is_error,
        "reason": e.reason,
        "duration_ms": e.duration_ms,
    })
}

fn call_in_doubt(e: &wire::CallInDoubt) -> Value {
    json!({"call": call(e.call.as_ref()), "settle_after_unix_ms": e.settle_after_unix_ms})
}

fn call_settled(e: &wire::CallSettled) -> Value {
    json!({"call": call(e.call.as_ref()), "settlement": settlement(e.settlement.as_ref())})
}

fn sub_goal_added(e: &wire::SubGoalAdded) -> Value {
    json!({"attempt": attempt(e.attempt.as_ref()), "index": e.index, "text": e.text})
}

fn sub_goal_focused(e: &wire::SubGoalFocused) -> Value {
    json!({"attempt": attempt(e.attempt.as_ref()), "index": e.index})
}

fn sub_goal_completed(e: &wire::SubGoalCompleted) -> Value {
    json!({"attempt": attempt(e.attempt.as_ref()), "index": e.index, "summary": e.summary})
}

fn scratchpad_written(e: &wire::ScratchpadWritten) -> Value {
    json!({"attempt": attempt(e.attempt.as_ref()), "text": e.text, "replaces": e.replaces})
}

fn decided(e: &wire::Decided) -> Value {
    json!({
        "command_seq": e.command_seq,
        "call": call(e.call.as_ref()),
        "settlement": settlement(e.settlement.as_ref()),
        "settle_after_unix_ms": e.settle_after_unix_ms,
    })
}

fn budget_raised(e: &wire::BudgetRaised) -> Value {
    json!({
        "run": e.run,
        "turns": e.turns,
        "command_seq": e.command_seq,
        "tokens": e.tokens,
        "cost_nano_usd": e.cost_nano_usd,
        "active_ms": e.active_ms,
        "calls": e.calls,
    })
}

fn approval_requested(e: &wire::ApprovalRequested) -> Value {
    json!({"call": call(e.call.as_ref()), "digest": e.digest})
}

fn question_asked(e: &wire::QuestionAsked) -> Value {
    json!({"call": call(e.call.as_ref()), "question": e.question, "choices": e.choices})
}

#[cfg(test)]
mod tests;
