//! What somebody asks for, and with which limits, as JSON.

use super::plans::plan;
use super::short;
use cairn_proto::event as wire;
use serde_json::{Value, json};

pub(super) fn command_received(event: &wire::CommandReceived) -> Value {
    let kind = event
        .command
        .as_ref()
        .and_then(|command| command.kind.as_ref());
    let command = kind.map_or(Value::Null, command);
    json!({"request_id": event.request_id, "command": command})
}

fn command(kind: &wire::command::Kind) -> Value {
    use wire::command::Kind;
    match kind {
        Kind::StartRun(start) => json!({"start_run": start_run(start)}),
        Kind::CancelRun(cancel) => {
            json!({"cancel_run": {"run": cancel.run, "reason": cancel.reason}})
        }
        Kind::Decide(decide) => json!({"decide": {
            "pending_id": decide.pending_id,
            "settlement": settlement(decide.settlement.as_ref()),
        }}),
        Kind::RevisePlan(revise) => json!({"revise_plan": {
            "run": revise.run,
            "feedback": revise.feedback,
            "plan": plan(revise.plan.as_ref()),
            "expected_revision": revise.expected_revision,
            "apply": revise.apply,
        }}),
        Kind::ApplyProposal(apply) => {
            json!({"apply_proposal": {"run": apply.run, "proposal": apply.proposal}})
        }
        Kind::RedoStep(redo) => json!({"redo_step": {"run": redo.run, "step": redo.step}}),
        Kind::SkipStep(skip) => {
            json!({"skip_step": {"run": skip.run, "step": skip.step, "reason": skip.reason}})
        }
        Kind::PauseRun(pause) => {
            json!({"pause_run": {"run": pause.run, "reason": pause.reason}})
        }
        Kind::ResumeRun(resume) => json!({"resume_run": {"run": resume.run}}),
    }
}

fn start_run(start: &wire::StartRun) -> Value {
    let limits = start.limits.as_ref().map_or(Value::Null, |limits| {
        json!({
            "max_tool_turns": limits.max_tool_turns,
            "max_turns": limits.max_turns,
            "max_parallel_steps": limits.max_parallel_steps,
            "max_own_revisions": limits.max_own_revisions,
            "on_failure": on_failure(limits.on_failure),
            "review_plan": limits.review_plan,
            "max_tokens": limits.max_tokens,
            "max_cost_nano_usd": limits.max_cost_nano_usd,
            "max_active_ms": limits.max_active_ms,
            "max_calls": limits.max_calls,
        })
    });
    json!({
        "goal": start.goal,
        "plan": plan(start.plan.as_ref()),
        "limits": limits,
        "model": start.model,
        "trace_parent": start.trace_parent,
    })
}

pub(super) fn run_started(event: &wire::RunStarted) -> Value {
    let limits = event.limits.as_ref().map_or(Value::Null, |limits| {
        json!({
            "max_tool_turns": limits.max_tool_turns,
            "max_turns": limits.max_turns,
            "max_parallel_steps": limits.max_parallel_steps,
            "max_own_revisions": limits.max_own_revisions,
            "on_failure": on_failure(limits.on_failure),
            "review_plan": limits.review_plan,
            "max_tokens": limits.max_tokens,
            "max_cost_nano_usd": limits.max_cost_nano_usd,
            "max_active_ms": limits.max_active_ms,
            "max_calls": limits.max_calls,
        })
    });
    json!({
        "run": event.run,
        "goal": event.goal,
        "limits": limits,
        "model": event.model,
        "command_seq": event.command_seq,
        "trace_parent": event.trace_parent,
    })
}

pub(super) fn settlement(settlement: Option<&wire::Settlement>) -> Value {
    use wire::settlement::{Answer, Approve, Deny, Done, Fail, Outcome, Retry, Skip};
    let outcome = settlement.and_then(|settlement| settlement.outcome.as_ref());
    outcome.map_or(Value::Null, |outcome| match outcome {
        Outcome::Done(Done { output }) => json!({"done": {"output": output}}),
        Outcome::Retry(Retry {}) => json!({"retry": {}}),
        Outcome::Skip(Skip { reason }) => json!({"skip": {"reason": reason}}),
        Outcome::Fail(Fail { reason }) => json!({"fail": {"reason": reason}}),
        Outcome::Approve(Approve {}) => json!({"approve": {}}),
        Outcome::Deny(Deny { reason }) => json!({"deny": {"reason": reason}}),
        Outcome::Answer(Answer { text }) => json!({"answer": {"text": text}}),
    })
}

/// What a run does when a step fails: `stop`, `go_on`, `revise`.
fn on_failure(number: i32) -> String {
    let what = wire::OnFailure::try_from(number).unwrap_or_default();
    short(what.as_str_name(), "ON_FAILURE_")
}
