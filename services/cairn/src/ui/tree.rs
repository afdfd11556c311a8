//! The execution tree as short lines, and its nodes as JSON.

use super::event_json::short;
use super::style::Style;
use super::time::{span, utc};
use cairn_proto::orchestrator::{NodeKind, NodeStatus, TreeNode};
use cairn_rpc::text::clip;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Longest piece of text in a line, in bytes.
const PIECE: usize = 160;

/// One line a node, indented below its parent. Parents come before their children.
pub fn lines(nodes: &[TreeNode], style: Style) -> Vec<String> {
    let mut depths: HashMap<&str, usize> = HashMap::new();
    let mut lines = Vec::with_capacity(nodes.len());
    for node in nodes {
        let parent = depths.get(node.parent_id.as_str());
        let depth = parent.map_or(0, |depth| depth + 1);
        depths.insert(&node.id, depth);
        lines.push(format!("{}{}", "  ".repeat(depth), line(node, style)));
    }
    lines
}

fn line(node: &TreeNode, style: Style) -> String {
    let kind = NodeKind::try_from(node.kind).unwrap_or_default();
    let status = NodeStatus::try_from(node.status).unwrap_or_default();
    let said = match node.description.as_str() {
        "" => &node.summary,
        description => description,
    };
    let text = clip(said, PIECE);
    let mut line = match kind {
        NodeKind::Goal => format!("{} {}", mark(status, style), style.strong(&text)),
        NodeKind::Thought => style.dim(&format!("· {text}")),
        NodeKind::Action => format!("{} {text}", mark(status, style)),
        NodeKind::Result if status == NodeStatus::Failed => style.bad(&format!("✗ {text}")),
        NodeKind::Result => style.dim(&format!("= {text}")),
        NodeKind::Evaluation | NodeKind::Response | NodeKind::Unspecified => {
            format!("{} {text}", style.good("»"))
        }
    };
    if kind == NodeKind::Goal && !node.summary.is_empty() {
        line.push_str(&style.dim(&format!(" — {}", clip(&node.summary, PIECE))));
    }
    if node.duration_ms > 0 {
        line.push_str(&style.dim(&format!("  {}", span(node.duration_ms))));
    }
    line
}

fn mark(status: NodeStatus, style: Style) -> String {
    match status {
        NodeStatus::Completed => style.good("✓"),
        NodeStatus::InProgress => style.active("→"),
        NodeStatus::Failed => style.bad("✗"),
        NodeStatus::Skipped => style.dim("-"),
        NodeStatus::Planned | NodeStatus::Unspecified => style.dim("○"),
    }
}

/// A node as JSON, by the names of the contract; `data` is the object of `data_json`.
pub fn node_json(node: &TreeNode) -> Value {
    let kind = NodeKind::try_from(node.kind).unwrap_or_default();
    let status = NodeStatus::try_from(node.status).unwrap_or_default();
    // A document that is none is shown as the text that it is.
    let data = serde_json::from_str(&node.data_json).unwrap_or_else(|_| json!(node.data_json));
    json!({
        "id": node.id,
        "parent_id": node.parent_id,
        "kind": short(kind.as_str_name(), "NODE_KIND_"),
        "status": short(status.as_str_name(), "NODE_STATUS_"),
        "sequence": node.sequence,
        "description": node.description,
        "summary": node.summary,
        "data": data,
        "duration_ms": node.duration_ms,
        "tokens": node.tokens,
        "cost_nano_usd": node.cost_nano_usd,
        "created": utc(node.created_unix_ms),
        "trace_id": node.trace_id,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str, parent_id: &str, kind: NodeKind, description: &str) -> TreeNode {
        TreeNode {
            id: id.into(),
            parent_id: parent_id.into(),
            kind: kind.into(),
            status: NodeStatus::Completed.into(),
            description: description.into(),
            data_json: r#"{"tool":"x"}"#.into(),
            ..TreeNode::default()
        }
    }

    #[test]
    fn nodes_stand_below_their_parents() {
        let mut nodes = vec![
            node("1", "", NodeKind::Goal, "Survey"),
            node("2", "1", NodeKind::Thought, "first\u{1b}"),
            node("3", "1", NodeKind::Action, "list_files {}"),
            node("4", "3", NodeKind::Result, "12 files"),
            node("5", "", NodeKind::Goal, "Write"),
        ];
        nodes[0].duration_ms = 100;
        nodes[4].status = NodeStatus::Planned.into();
        assert_eq!(
            lines(&nodes, Style::new(false)),
            [
                "✓ Survey  0.1 s",
                "  · first\\u{1b}",
                "  ✓ list_files {}",
                "    = 12 files",
                "○ Write",
            ]
        );
    }

    #[test]
    fn data_is_an_object_unless_it_is_no_json() {
        let mut node = node("1", "", NodeKind::Action, "x");
        assert_eq!(node_json(&node)["data"]["tool"], "x");
        assert_eq!(node_json(&node)["kind"], "action");
        node.data_json = "{broken".into();
        assert_eq!(node_json(&node)["data"], "{broken");
    }
}
