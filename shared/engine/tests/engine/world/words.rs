//! Calls, results, replies and plans in few words.

use cairn_engine::command::{Command, Settlement, StartRun};
use cairn_engine::decide::{Input, Reply};
use cairn_engine::event::{AttemptRef, Blob, CallFinished, CallRef, ResultHandle};
use cairn_engine::hooks::{Gate, Outcome};
use cairn_engine::limits::RESULT_BYTES;
use cairn_engine::message::{FinishReason, ToolCall, Usage};
use cairn_engine::plan::{Order, PlanDraft, StepDraft, ToolInvocation};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What a tool gets that asked: its questions take "yes" and a refusal.
pub(crate) fn responses(requests: &str, settlement: &Settlement) -> Result<String, String> {
    match settlement {
        Settlement::Answer { text } if text == "yes" => Ok(format!("yes to {requests}")),
        Settlement::Deny { .. } => Ok(format!("no to {requests}")),
        other => Err(format!("{requests} does not take {}", other.verb())),
    }
}

pub(crate) fn report_reply(
    attempt: AttemptRef,
    (tool_turn, ops_through): (u32, u64),
    text: &str,
    calls: &[ToolCall],
) -> Input {
    Input::Report {
        unfinished: Vec::new(),
        attempt,
        results: Vec::new(),
        reply: Some(Reply {
            tool_turn,
            text: text.to_owned(),
            calls: calls.to_vec(),
            usage: Usage {
                input_tokens: 100,
                output_tokens: 10,
                cost_nano_usd: 2_500_000,
                model_calls: 1,
                ..Usage::default()
            },
            opaque: Vec::new(),
            finish: FinishReason::ToolCalls,
            provider: "test".to_owned(),
            ops_through,
            model: "test-model".to_owned(),
            duration_ms: 700,
            estimated_tokens: 0,
            window_tokens: 0,
        }),
        failure: None,
        full: None,
        summary: None,
        retry: None,
    }
}

/// Answers of hooks, none of which is a long result.
pub(crate) fn hooked(gate: Gate, outcomes: Vec<Outcome>) -> Input {
    Input::Hooked {
        gate,
        outcomes,
        wholes: BTreeMap::new(),
    }
}

/// An empty reason makes a result that tells of no failure.
pub(crate) fn finished(call: CallRef, output: &str, reason: &str) -> CallFinished {
    CallFinished {
        media: Vec::new(),
        call,
        output: output.to_owned(),
        is_error: !reason.is_empty(),
        reason: reason.to_owned(),
        duration_ms: 50,
        whole: None,
        file: None,
        usage: None,
        provider: String::new(),
        model: String::new(),
        held: false,
    }
}

/// A result of so many bytes as an owner has it from an executor: the text is its beginning.
pub(crate) fn long(call: CallRef, bytes: u64) -> CallFinished {
    CallFinished {
        whole: Some(Box::new(ResultHandle {
            bytes,
            lines: bytes / 10,
            blobs: vec![Blob {
                digest: format!("digest-{bytes}"),
                size: bytes as u32,
            }],
            ..ResultHandle::default()
        })),
        ..finished(call, &"123456789\n".repeat(RESULT_BYTES / 10 + 1), "")
    }
}

pub(crate) fn tool_call(name: &str, arguments: &Value) -> ToolCall {
    ToolCall {
        id: format!("id-{name}"),
        name: name.to_owned(),
        arguments: arguments.to_string(),
    }
}

pub(crate) fn step_call(arguments: &Value) -> ToolCall {
    tool_call("step", arguments)
}

pub(crate) fn complete(summary: &str) -> ToolCall {
    step_call(&json!({"complete": true, "summary": summary}))
}

pub(crate) fn look() -> ToolCall {
    tool_call("look", &json!({"path": "notes.md"}))
}

pub(crate) fn send() -> ToolCall {
    tool_call("send", &json!({"to": "somebody"}))
}

/// A run that is to be planned.
pub(crate) fn with_goal(goal: &str) -> Command {
    Command::StartRun(StartRun {
        goal: goal.to_owned(),
        ..StartRun::default()
    })
}

/// A step for the model.
pub(crate) fn model_step(title: &str) -> StepDraft {
    StepDraft {
        title: title.to_owned(),
        description: format!("Do {title}."),
        ..StepDraft::default()
    }
}

/// A step that is one call.
pub(crate) fn tool_step(title: &str, tool: &str) -> StepDraft {
    StepDraft {
        title: title.to_owned(),
        tool: Some(ToolInvocation {
            name: tool.to_owned(),
            arguments: r#"{"path":"notes.md"}"#.to_owned(),
        }),
        ..StepDraft::default()
    }
}

pub(crate) fn after(mut step: StepDraft, depends_on: &[&str]) -> StepDraft {
    step.depends_on = depends_on.iter().map(|&id| id.to_owned()).collect();
    step
}

pub(crate) fn chain(steps: Vec<StepDraft>) -> PlanDraft {
    PlanDraft {
        order: Order::Chain,
        steps,
    }
}

pub(crate) fn graph(steps: Vec<StepDraft>) -> PlanDraft {
    PlanDraft {
        order: Order::Graph,
        steps,
    }
}
