//! Which nodes a reply makes.

use super::NodeKind;
use cairn_engine::message::ToolCall;
use serde_json::Value;

/// The kinds of the nodes that a reply makes, in order. `is_final`: no further reply will come.
///
/// Text beside tool calls is a thought of its own. A call of `step` makes a goal for each item of
/// its plan and an evaluation if it completes one; to turn to a goal makes no node. Every other
/// call makes an action. A reply without calls is the response if it is final, else a thought.
pub fn infer(text: &str, calls: &[ToolCall], is_final: bool) -> Vec<NodeKind> {
    if calls.is_empty() {
        return vec![if is_final {
            NodeKind::Response
        } else {
            NodeKind::Thought
        }];
    }
    let mut kinds = Vec::new();
    if !text.trim().is_empty() {
        kinds.push(NodeKind::Thought);
    }
    kinds.extend(calls.iter().flat_map(of_call));
    kinds
}

fn of_call(call: &ToolCall) -> Vec<NodeKind> {
    if !is_step_tool(call) {
        return vec![NodeKind::Action];
    }
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    let goals = arguments["plan"].as_array().map_or(0, Vec::len);
    let mut kinds = vec![NodeKind::Goal; goals];
    if arguments["complete"] == Value::Bool(true) {
        kinds.push(NodeKind::Evaluation);
    }
    kinds
}

/// The tool that manages goals: tested for before all others.
pub(super) fn is_step_tool(call: &ToolCall) -> bool {
    call.name == "step"
}
