//! The question as a program reads it: one JSON object.
//!
//! The names are those that Claude Code gives the hooks of its own, where it has the same event, so that scripts for
//! both are possible. `point` has Cairn's name. Messages and usage have the fields of the contract, as in
//! [`cairn_proto::json`].

use super::plan::PlanJson;
use crate::Asked;
use cairn_engine::conversation::Entry;
use cairn_engine::event::Effect;
use cairn_engine::failure::Failure;
use cairn_engine::hooks::{AskedCall, EndStatus, NextRequest, Payload, Point};
use cairn_engine::key::call_key;
use cairn_engine::message::{Message, Part, ToolCall, Usage};
use cairn_proto::event as wire;
use cairn_proto::json;
use cairn_rpc::text::clip;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Most bytes of a text in the line for a person.
const MOST_OF_LINE: usize = 200;

/// The object, encoded.
pub(super) fn input(asked: &Asked, workspace: &Path) -> Vec<u8> {
    let question = &asked.question;
    let point = question.gate.point;
    let common = json!({
        "hook_event_name": event_name(point),
        "point": point.name(),
        "hook": asked.hook,
        "key": asked.key,
        "session_id": asked.session,
        "namespace": asked.namespace,
        "cwd": workspace.to_string_lossy(),
        "run": question.gate.attempt.run,
        "agent": question.agent,
        "context": question.context,
        "turn_index": question.turn_index,
        "plan_step_index": question.step_index,
        "message": line(asked),
    });
    let mut fields = object(common);
    fields.extend(object(payload(asked)));
    Value::Object(fields).to_string().into_bytes()
}

/// Claude Code's name of the event, or Cairn's own where it has none.
fn event_name(point: Point) -> &'static str {
    match point {
        Point::OnRunStart => "SessionStart",
        Point::OnRunEnd => "SessionEnd",
        Point::OnTurnStart => "UserPromptSubmit",
        Point::OnTurnEnd => "Stop",
        Point::PreToolCall => "PreToolUse",
        Point::PostToolCall => "PostToolUse",
        Point::OnCompaction => "PreCompact",
        Point::OnPlanProposed
        | Point::OnStepStart
        | Point::PreRequest
        | Point::OnRetry
        | Point::PostRequest
        | Point::OnError
        | Point::OnPlanStepComplete => point.name(),
    }
}

/// The fields of the point.
fn payload(asked: &Asked) -> Value {
    match &asked.question.payload {
        Payload::RunStart { goal, is_turn } => {
            json!({"goal": goal, "is_turn": is_turn, "source": "startup"})
        }
        Payload::RunEnd {
            status,
            failure,
            usage,
        } => json!({
            "status": run_status(*status),
            "reason": failure.as_ref().map_or(run_status(*status), |it| it.reason.as_str()),
            "failure": failure.as_ref().map(of_failure),
            "usage": of_usage(usage),
        }),
        Payload::PlanProposed { plan, feedback } => {
            json!({"plan": PlanJson::from(plan.clone()), "feedback": feedback})
        }
        Payload::StepStart {
            title,
            description,
            tool,
        } => json!({"title": title, "description": description, "tool": tool}),
        Payload::TurnStart { message } => json!({"prompt": message.as_ref().map(said)}),
        Payload::Request(next) => of_request(next),
        Payload::Retry {
            tool_turn,
            attempt,
            failure,
        } => json!({"tool_turn": tool_turn, "attempt": attempt, "error": of_failure(failure)}),
        Payload::Compaction {
            is_requested,
            prompt,
        } => json!({
            "trigger": if *is_requested { "manual" } else { "auto" },
            "custom_instructions": prompt,
        }),
        Payload::Call(call) => of_call(asked, call),
        Payload::Error(failure) => {
            json!({"attempt": asked.question.gate.attempt.attempt, "error": of_failure(failure)})
        }
        after => of_outcome(asked, after),
    }
}

/// The fields of points that come after something.
fn of_outcome(asked: &Asked, payload: &Payload) -> Value {
    match payload {
        Payload::Reply {
            tool_turn,
            text,
            calls,
            usage,
        } => json!({
            "tool_turn": tool_turn,
            "text": text,
            "calls": calls.iter().map(of_requested).collect::<Vec<_>>(),
            "usage": of_usage(usage),
        }),
        Payload::Result {
            call,
            output,
            is_error,
            reason,
            duration_ms,
        } => {
            let result = json!({
                "tool_response": output,
                "is_error": is_error,
                "reason": reason,
                "duration_ms": duration_ms,
            });
            let call = object(of_call(asked, call));
            call.into_iter().chain(object(result)).collect()
        }
        Payload::TurnEnd {
            response,
            summary,
            usage,
        } => json!({
            "response": response,
            "summary": summary,
            "usage": of_usage(usage),
            "stop_hook_active": false,
        }),
        Payload::StepEnd {
            title,
            description,
            status,
            summary,
            failure,
        } => json!({
            "title": title,
            "description": description,
            "status": step_status(*status),
            "summary": summary,
            "error": failure.as_ref().map(of_failure),
        }),
        // These have fields of their own.
        _ => json!({}),
    }
}

fn of_request(next: &NextRequest) -> Value {
    let message = |entry: Entry| {
        let message = wire::NumberedMessage::from(entry);
        json::fields("cairn.event.v1.NumberedMessage", &message)
    };
    let messages: Vec<_> = next.new_messages().cloned().map(message).collect();
    json!({
        "tool_turn": next.tool_turn,
        "new_messages": messages,
        "messages": next.messages(),
        "bytes": next.bytes(),
    })
}

fn of_call(asked: &Asked, call: &AskedCall) -> Value {
    json!({
        "tool_name": call.tool,
        "tool_input": of_arguments(&call.arguments),
        "tool_use_id": call_key(&asked.namespace, &asked.session, call.call),
        "effect": match call.effect {
            Effect::Pure => "pure",
            Effect::Idempotent => "idempotent",
            Effect::Effectful => "effectful",
            Effect::State => "state",
        },
    })
}

fn of_requested(call: &ToolCall) -> Value {
    json!({"id": call.id, "tool_name": call.name, "tool_input": of_arguments(&call.arguments)})
}

/// A model can write something that is no JSON. Then it is a text here.
fn of_arguments(arguments: &str) -> Value {
    serde_json::from_str(arguments).unwrap_or_else(|_| arguments.into())
}

fn of_failure(failure: &Failure) -> Map<String, Value> {
    json::fields(
        "cairn.event.v1.Failure",
        &wire::Failure::from(failure.clone()),
    )
}

fn of_usage(usage: &Usage) -> Map<String, Value> {
    json::fields("cairn.event.v1.Usage", &wire::Usage::from(*usage))
}

/// The texts of a message, without what Cairn added.
fn said(message: &Message) -> String {
    let texts = message.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn run_status(status: EndStatus) -> &'static str {
    match status {
        EndStatus::Completed => "completed",
        EndStatus::Failed => "failed",
        EndStatus::Skipped => "cancelled",
    }
}

fn step_status(status: EndStatus) -> &'static str {
    match status {
        EndStatus::Completed => "completed",
        EndStatus::Failed => "failed",
        EndStatus::Skipped => "skipped",
    }
}

/// One line for a person, so that a program can show it as it is.
fn line(asked: &Asked) -> String {
    let question = &asked.question;
    let run = question.gate.attempt.run;
    let step = question.step_index.map(|index| index + 1);
    let what = step.map_or_else(|| "turn".to_owned(), |step| format!("step {step}"));
    match &question.payload {
        Payload::RunStart { goal, .. } => format!("run {run} starts: {}", brief(goal)),
        Payload::RunEnd {
            status, failure, ..
        } => format!(
            "run {run} {}{}",
            run_status(*status),
            because(failure.as_ref())
        ),
        Payload::PlanProposed { plan, .. } => {
            format!("run {run} has a plan of {} steps", plan.steps.len())
        }
        Payload::StepStart {
            title, description, ..
        } => format!("{what} starts: {}", brief(label(title, description))),
        Payload::TurnStart { .. } => format!("{what} starts"),
        Payload::Request(_) => format!("{what} asks the model"),
        Payload::Retry { failure, .. } => {
            format!("{what} asks the model again{}", because(Some(failure)))
        }
        Payload::Reply { .. } => format!("{what} has a reply of the model"),
        Payload::Call(call) => format!("{what} calls {}", brief(&call.tool)),
        Payload::Result { call, is_error, .. } => {
            let how = if *is_error { "an error" } else { "a result" };
            format!("{what} has {how} of {}", brief(&call.tool))
        }
        Payload::Compaction { .. } => format!("{what} compacts older messages"),
        Payload::Error(failure) => format!("{what} failed{}", because(Some(failure))),
        Payload::TurnEnd { response, .. } => format!("{what} completed: {}", brief(response)),
        Payload::StepEnd {
            title,
            description,
            status,
            failure,
            ..
        } => {
            let label = brief(label(title, description));
            let (status, why) = (step_status(*status), because(failure.as_ref()));
            format!("{what} {status}: {label}{why}")
        }
    }
}

fn label<'a>(title: &'a str, description: &'a str) -> &'a str {
    if title.is_empty() { description } else { title }
}

fn because(failure: Option<&Failure>) -> String {
    failure.map_or_else(String::new, |it| format!(": {}", brief(&it.message)))
}

/// The first line of a text that is not empty, safe for a terminal.
fn brief(text: &str) -> String {
    let first = text.lines().find(|line| !line.trim().is_empty());
    clip(first.unwrap_or_default().trim(), MOST_OF_LINE)
}

/// The fields of what is an object.
fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{asked, asked_about, name_of_call};
    use cairn_engine::failure::FailureKind;

    fn read(asked: &Asked) -> Value {
        serde_json::from_slice(&input(asked, Path::new("/work"))).unwrap()
    }

    #[test]
    fn a_question_has_the_names_that_scripts_know() {
        let asked = asked(r#"{"command":"ls","n":0.10}"#);
        let json = read(&asked);
        let key = call_key("team", "s-1", name_of_call());
        let wanted = json!({
            "hook_event_name": "PreToolUse",
            "point": "PreToolCall",
            "hook": "guard",
            "key": "k-1",
            "session_id": "s-1",
            "namespace": "team",
            "cwd": "/work",
            "run": 2,
            "agent": "default",
            "context": "",
            "turn_index": 4,
            "plan_step_index": 0,
            "message": "step 1 calls shell_exec",
            "tool_name": "shell_exec",
            "tool_input": {"command": "ls", "n": json["tool_input"]["n"]},
            "tool_use_id": key,
            "effect": "effectful",
        });
        assert_eq!(json, wanted);
        assert_eq!(json["tool_input"]["n"].to_string(), "0.10");
    }

    #[test]
    fn a_model_that_wrote_no_json_is_quoted() {
        assert_eq!(read(&asked("{ls"))["tool_input"], "{ls");
    }

    #[test]
    fn each_point_has_its_fields() {
        let failure = Failure::new(FailureKind::Llm, "RateLimit", "too many\nrequests");
        let error = json!({
            "kind": "llm", "reason": "RateLimit", "message": "too many\nrequests", "recoverable": true,
        });
        let of = |point, payload| read(&asked_about(point, payload));
        let start = Payload::RunStart {
            goal: "\n tidy up \nmore".to_owned(),
            is_turn: false,
        };
        let json = of(Point::OnRunStart, start);
        assert_eq!(json["hook_event_name"], "SessionStart");
        assert_eq!(json["source"], "startup");
        assert_eq!(json["message"], "run 2 starts: tidy up");
        let end = Payload::RunEnd {
            status: EndStatus::Skipped,
            failure: None,
            usage: Usage::default(),
        };
        let json = of(Point::OnRunEnd, end);
        assert_eq!(json["status"], "cancelled");
        assert_eq!(json["reason"], "cancelled");
        assert_eq!(json["usage"]["input_tokens"], 0);
        let retry = Payload::Retry {
            tool_turn: 1,
            attempt: 2,
            failure: failure.clone(),
        };
        let json = of(Point::OnRetry, retry);
        assert_eq!(json["attempt"], 2);
        assert_eq!(json["error"], error);
        assert_eq!(json["message"], "step 1 asks the model again: too many");
        let json = of(Point::OnError, Payload::Error(failure));
        assert_eq!(json["attempt"], 3);
        assert_eq!(json["error"], error);
        let turn = Payload::TurnEnd {
            response: "done".to_owned(),
            summary: String::new(),
            usage: Usage::default(),
        };
        let json = of(Point::OnTurnEnd, turn);
        assert_eq!(json["stop_hook_active"], false);
        assert_eq!(json["message"], "step 1 completed: done");
        let compaction = Payload::Compaction {
            is_requested: false,
            prompt: String::new(),
        };
        assert_eq!(of(Point::OnCompaction, compaction)["trigger"], "auto");
    }
}
