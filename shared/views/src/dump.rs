//! The whole tree of a run for debugging, as text and as JSON.

use super::figures::{clock, date_time, dollars, known_cost, rfc3339, run_status};
use super::safe::one_line;
use super::tree::{Node, NodeIndex, NodeKind, RunRoot, Tree};
use cairn_engine::text::cut;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// Longest value in the text; the JSON has it whole.
const MOST: usize = 200;

/// The tree of a run as text. `generated_at` is in milliseconds since 1970. None for a run that
/// there is not.
///
/// Every value is on one line, and nothing in it can steer a terminal.
pub fn text(tree: &Tree, run: u32, generated_at: u64) -> Option<String> {
    let root = tree.run(run)?;
    let mut out = header(root, generated_at);
    // Depth first, with what stands before each line. Each prefix is 4 characters a level.
    let mut stack: Vec<(NodeIndex, String, bool)> = Vec::new();
    push_all(&mut stack, &root.roots, "");
    while let Some((index, prefix, is_last)) = stack.pop() {
        let node = &tree.nodes()[index];
        let (branch, below) = if is_last {
            ("└── ", "    ")
        } else {
            ("├── ", "│   ")
        };
        let (mark, kind) = (node.status.mark(), node.kind.name());
        let description = one_line(&node.description);
        let _ = writeln!(out, "{prefix}{branch}[{mark}] {kind}: {description}");
        let prefix = prefix + below;
        for line in details(node) {
            let _ = writeln!(out, "{prefix}{line}");
        }
        let _ = writeln!(out, "{}", prefix.trim_end());
        push_all(&mut stack, &node.children, &prefix);
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    Some(out)
}

fn push_all(stack: &mut Vec<(NodeIndex, String, bool)>, nodes: &[NodeIndex], prefix: &str) {
    let last = nodes.len().wrapping_sub(1);
    let entries = nodes.iter().enumerate().rev();
    stack.extend(entries.map(|(at, &node)| (node, prefix.to_owned(), at == last)));
}

fn header(root: &RunRoot, generated_at: u64) -> String {
    let rule = "=".repeat(60);
    let mut out = format!("{rule}\nStep Tree Debug\n");
    let _ = write!(out, "Generated: {}\n{rule}\n\n", date_time(generated_at));
    out.push_str("## Trace\n");
    let tokens = total_tokens(root);
    let fields = [
        ("trace_id", root.trace_id.clone()),
        ("task", cut(&one_line(&root.task), MOST)),
        ("agent", one_line(&root.agent)),
        ("status", run_status(root.status).to_owned()),
        ("total_steps", root.nodes.to_string()),
        ("total_tokens", tokens.to_string()),
        ("total_cost", total_cost(root)),
    ];
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(out, "{name}: {value}");
    }
    out.push_str("\n## Steps\n");
    out
}

fn total_cost(root: &RunRoot) -> String {
    known_cost(&root.usage).map_or_else(|| "not known".to_owned(), dollars)
}

fn total_tokens(root: &RunRoot) -> u64 {
    let usage = &root.usage;
    usage.input_tokens.saturating_add(usage.output_tokens)
}

/// What is not set is left out.
fn details(node: &Node) -> Vec<String> {
    let short_id: String = node.id.chars().take(8).collect();
    let mut lines = vec![format!("id: {short_id}...")];
    lines.extend(node.duration_ms.map(|ms| format!("duration: {ms}ms")));
    lines.extend(node.tokens.map(|tokens| format!("tokens: {tokens}")));
    lines.extend(
        node.cost_nano_usd
            .map(|cost| format!("cost: ${}", dollars(cost))),
    );
    let summary = node.summary.as_deref().map(one_line);
    lines.extend(summary.map(|summary| format!("summary: {}", cut(&summary, MOST))));
    if !node.data.is_empty() {
        lines.push("data:".to_owned());
        let values = node.data.iter();
        lines
            .extend(values.map(|(key, value)| format!("  {key}: {}", cut(&one_line(value), MOST))));
    }
    lines.push(format!("time: {}", clock(node.created_at)));
    lines
}

/// The tree of a run as JSON: `generated`, `trace` and `steps`, each with its `children`. None for
/// a run that there is not.
pub fn json(tree: &Tree, run: u32, generated_at: u64) -> Option<Value> {
    let root = tree.run(run)?;
    let nodes = root.roots.iter();
    Some(json!({
        "generated": rfc3339(generated_at),
        "trace": {
            "trace_id": root.trace_id,
            "run": root.number,
            "task": root.task,
            "agent": Some(&root.agent).filter(|agent| !agent.is_empty()),
            "status": run_status(root.status),
            "total_steps": root.nodes,
            "total_tokens": total_tokens(root),
            "total_cost": known_cost(&root.usage).map(usd),
            "started_at": rfc3339(root.started_at),
            "ended_at": root.ended_at.map(rfc3339),
        },
        "steps": nodes.map(|&node| node_value(tree, root, node)).collect::<Vec<_>>(),
    }))
}

/// The tree is at most four levels deep.
fn node_value(tree: &Tree, root: &RunRoot, index: NodeIndex) -> Value {
    let node = &tree.nodes()[index];
    let children = node.children.iter();
    let data: Map<String, Value> = node.data.iter().map(datum).collect();
    let mut value = json!({
        "step_id": node.id,
        "trace_id": root.trace_id,
        "step_type": node.kind.name(),
        "status": node.status.name(),
        "sequence": node.sequence,
        "seq": node.seq,
        "parent_id": node.parent.map(|parent| &tree.nodes()[parent].id),
        "description": node.description,
        "data": data,
        "duration_ms": node.duration_ms,
        "tokens": node.tokens,
        "cost": node.cost_nano_usd.map(usd),
        "created_at": rfc3339(node.created_at),
        "children": children.map(|&child| node_value(tree, root, child)).collect::<Vec<_>>(),
    });
    if node.kind == NodeKind::Evaluation {
        value["summary"] = json!(node.summary);
    }
    value
}

/// Arguments are JSON already, unless the model wrote something else.
fn datum((key, text): &(&'static str, String)) -> (String, Value) {
    let parsed = (*key == "arguments").then(|| serde_json::from_str(text).ok());
    let value = parsed.flatten().unwrap_or_else(|| json!(text));
    ((*key).to_owned(), value)
}

fn usd(nano: u64) -> f64 {
    nano as f64 / 1e9
}
