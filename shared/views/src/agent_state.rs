//! The agent state: where a run stands, whole, as one JSON value.
//!
//! ```json
//! {
//!   "session": {"title": "…", "seq": 42, "memory": {"key": "value"}},
//!   "run": 1, "agent": "reviewer", "requirement": "…", "revision": 1,
//!   "phase": {"Executing": {"step": 2, "running": [2, 3]}},
//!   "steps": [{"step": 1, "id": "survey", "title": "…", "description": "…", "status": "Completed",
//!              "summary": "…", "error": null, "reason": null, "attempts": 1, "depends_on": []}],
//!   "current_step_chat_history": [{"step": 2, "attempt": 1, "role": "assistant", "text": "…",
//!              "tool_calls": [{"id": "…", "name": "…", "arguments": "…", "sent": "…"}]}],
//!   "scratchpad": "…",
//!   "pending": ["call-1.2.1.0.0"],
//!   "usage": {"input_tokens": 1, "output_tokens": 2, "cost_nano_usd": 3, "model_calls": 4,
//!             "tool_turns": 4, "tool_turns_allowed": 50},
//!   "answer": null
//! }
//! ```
//!
//! `title` is the one that the session was given, else the goal of its first run, else the first step of
//! that run. `agent` is the name of the run's agent, and null for the default agent without skills and
//! instructions.
//!
//! `phase` is `"Idle"` (no run yet), `"Planning"`, `{"Executing": {"step", "running"}}`,
//! `{"Waiting": {"reason", "step", "running"}}` with the reason `InDoubt`, `Budget`, `Approval`, `Question`,
//! `PlanReview`, `Context`, `Capability` or `Hook`,
//! `{"Paused": {"step", "running"}}`, `"Completed"`,
//! `{"Failed": {"kind", "reason", "message"}}` or `{"Cancelled": {"reason"}}`. Steps are those of
//! the plan in force, in its order and by their numbers in the run, so `step` need not count up
//! from 1 once the plan was revised. `step` of a phase is the first running step. Between two steps
//! it is the step that starts next. It is null if none starts any more. A paused run may have running
//! steps: they continue when it is resumed.
//!
//! `status` of a step is `Pending`, `Running`, `Completed`, `Failed` or `Skipped`. The chat history
//! holds the attempts under way, so it is empty between two steps. Messages that gave way in a compaction are not in
//! it; the message in their place is. `sent` is there only for a call of the last reply whose arguments hooks changed:
//! `arguments` are those that the model wrote. The scratchpad holds the notes of all steps of the plan in force, in the
//! order of the journal. Of a turn, and of a session without a run, it has the notes of the conversation.

use crate::title;
use cairn_engine::event::Budget;
use cairn_engine::message::Message;
use cairn_engine::pending::pending;
use cairn_engine::session::{
    Call, PlanState, Run, RunStatus, Session, Slot, Step, StepNo, StepStatus, in_journal_order,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// The state of the newest run, or of a session without one.
pub fn of_session(session: &Session) -> Value {
    match session.runs.last() {
        Some(run) => of_run(session, run),
        None => json!({
            "session": header(session),
            "run": null, "agent": null, "requirement": "", "revision": null,
            "phase": "Idle",
            "steps": [],
            "current_step_chat_history": [],
            "scratchpad": notes_of(session, ""),
            "pending": [],
            "usage": null,
            "answer": null,
        }),
    }
}

/// The state of one run of `session`.
pub fn of_run(session: &Session, run: &Run) -> Value {
    let steps = || run.plan.iter().flat_map(PlanState::current);
    let open = if run.status.is_terminal() {
        Vec::new()
    } else {
        pending(session)
    };
    let pending: Vec<String> = open.iter().map(|open| open.id().to_string()).collect();
    let notes = in_journal_order(steps().map(|(_, step)| step)).join("\n");
    // A turn begins with the notes of its context, and leaves its own to it if its messages stay.
    let notes = match &run.turn {
        Some(turn) if run.status.is_terminal() => notes_of(session, &turn.context),
        _ => notes,
    };
    let spent = &run.spent;
    let usage = spent.usage;
    json!({
        "session": header(session),
        "run": run.number,
        "agent": run.agent.as_ref().map(|used| &used.name),
        "requirement": run.goal,
        "revision": run.plan.as_ref().map(|plan| plan.revision),
        "phase": phase(run),
        "steps": steps().map(|(number, step)| step_value(run, number, step)).collect::<Vec<_>>(),
        "current_step_chat_history": chat_history(session, run),
        "scratchpad": notes,
        "pending": pending,
        "usage": {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost_nano_usd": usage.cost_nano_usd,
            "model_calls": usage.model_calls,
            "tool_turns": spent.tool_turns,
            "tool_turns_allowed": spent.allowed[Budget::Turns],
            "tool_calls": run.figures(Budget::Calls, session.updated_at).0,
            "allowed": allowed(run),
        },
        "answer": (run.status == RunStatus::Completed).then_some(&run.end.answer),
    })
}

/// What the model of a context has noted; an empty name is the active context.
fn notes_of(session: &Session, context: &str) -> String {
    let context = session.context(context);
    context.map(|it| it.notes.clone()).unwrap_or_default()
}

/// Null for any number.
fn allowed(run: &Run) -> Value {
    let allowed = &run.spent.allowed;
    json!({
        "turns": allowed[Budget::Turns],
        "tokens": allowed[Budget::Tokens],
        "cost_nano_usd": allowed[Budget::Cost],
        "active_ms": allowed[Budget::Time],
        "calls": allowed[Budget::Calls],
    })
}

fn header(session: &Session) -> Value {
    let title = title::of_session(session);
    json!({"title": title, "seq": session.seq, "memory": *session.memory})
}

fn phase(run: &Run) -> Value {
    let running: Vec<StepNo> = run.running_attempts().map(|(name, ..)| name.step).collect();
    let step = running.first().copied().or_else(|| run.next_step());
    match run.status {
        RunStatus::Planning => json!("Planning"),
        RunStatus::Running => json!({"Executing": {"step": step, "running": running}}),
        RunStatus::Waiting(reason) => {
            let reason = format!("{reason:?}");
            json!({"Waiting": {"reason": reason, "step": step, "running": running}})
        }
        RunStatus::Paused => json!({"Paused": {"step": step, "running": running}}),
        RunStatus::Completed => json!("Completed"),
        RunStatus::Failed => json!({"Failed": run.end.failure}),
        RunStatus::Cancelled => json!({"Cancelled": {"reason": run.end.cancel_reason}}),
    }
}

fn step_value(run: &Run, number: StepNo, step: &Step) -> Value {
    let (mut summary, mut error, mut reason) = (Value::Null, Value::Null, Value::Null);
    match &step.status {
        StepStatus::Completed { summary: text, .. } => summary = json!(text),
        StepStatus::Failed { failure } => error = json!(failure),
        StepStatus::Skipped { reason: text, .. } => reason = json!(text),
        StepStatus::Pending | StepStatus::Running(_) => {}
    }
    let plan = run.plan.as_ref();
    let id_of = |slot: &Slot| Some(&plan?.steps.get(slot.index())?.plan.id);
    let depends_on: Vec<&String> = step.plan.depends_on.iter().filter_map(id_of).collect();
    json!({
        "step": number,
        "id": step.plan.id,
        "title": step.plan.title,
        "description": step.plan.description,
        "status": format!("{:?}", step.status.phase()),
        "summary": summary,
        "error": error,
        "reason": reason,
        "attempts": step.attempts,
        "depends_on": depends_on,
    })
}

/// A message says which step it belongs to, because several may be running.
fn chat_history(session: &Session, run: &Run) -> Vec<Value> {
    let mut history = Vec::new();
    for (name, step, attempt) in run.running_attempts() {
        // No reply asks for the call of a tool step.
        let asked = step.plan.tool.as_ref().map(|_| {
            let calls = attempt.calls.iter().map(|call| call.call.clone());
            Arc::new(Message::assistant("", calls.collect()))
        });
        let mut last_calls = None;
        for message in asked.into_iter().chain(session.said(name)) {
            let mut value = json!({
                "step": name.step,
                "attempt": name.attempt,
                "role": message.role,
                "text": message.text(),
            });
            let calls: Vec<_> = message.calls().collect();
            if !calls.is_empty() {
                value["tool_calls"] = json!(calls);
                last_calls = Some(history.len());
            }
            if let Some(result) = message.results().next() {
                value["tool_call_id"] = json!(result.call_id);
                value["is_error"] = json!(result.is_error);
            }
            history.push(value);
        }
        if let Some(message) = last_calls.and_then(|last: usize| history.get_mut(last)) {
            note_sent(&mut message["tool_calls"], &attempt.calls);
        }
    }
    history
}

/// Adds to the calls of the last reply the arguments that hooks put in place of the model's.
fn note_sent(shown: &mut Value, calls: &[Call]) {
    for (shown, call) in shown.as_array_mut().into_iter().flatten().zip(calls) {
        if let Some(sent) = &call.sent {
            shown["sent"] = json!(sent.arguments);
        }
    }
}
