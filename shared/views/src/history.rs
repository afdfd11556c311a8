//! The history of a run for a model whose window is full: goals, results in brief, evaluations.
//!
//! ```text
//! [done] Explore the code
//!   → glob_files(**/*.py): 15 files
//!   Summary: The main configuration is src/config.yaml.
//! [in progress] Change the configuration
//!   → read_file(src/config.yaml): src/config.yaml lines 1-40 of 40
//! [to do] Run the tests
//! ```

use super::tree::{Node, NodeIndex, NodeKind, NodeStatus, Tree};
use cairn_engine::text::cut;
use std::fmt::Write as _;

/// Results that the rest of the history tells already.
const NOT_KEY: [&str; 2] = ["read_progress", "scratchpad"];

/// Longest result, in characters.
const BRIEF_LENGTH: usize = 200;

/// All goals of a run. Empty without a plan.
pub fn of_run(tree: &Tree, run: u32) -> String {
    let roots = tree.run(run).into_iter().flat_map(|root| &root.roots);
    let mut text = String::new();
    for &goal in roots {
        write_goal(tree, goal, &mut text);
    }
    finished(text)
}

fn write_goal(tree: &Tree, goal: NodeIndex, text: &mut String) {
    for (depth, node) in tree.walk(goal) {
        let indent = "  ".repeat(depth);
        let _ = match node.kind {
            NodeKind::Goal => {
                let (label, what) = (label(node.status), &node.description);
                writeln!(text, "{indent}[{label}] {what}")
            }
            NodeKind::Action => match result(tree, node) {
                Some(brief) => writeln!(text, "{indent}→ {}: {brief}", node.description),
                None => Ok(()),
            },
            NodeKind::Evaluation if node.description.is_empty() => Ok(()),
            NodeKind::Evaluation => {
                let summary = node.summary.as_deref().unwrap_or_default().trim();
                writeln!(text, "{indent}Summary: {}", summary.replace('\n', " "))
            }
            NodeKind::Thought | NodeKind::Result | NodeKind::Response => Ok(()),
        };
    }
}

fn label(status: NodeStatus) -> &'static str {
    match status {
        NodeStatus::Planned => "to do",
        NodeStatus::InProgress => "in progress",
        NodeStatus::Completed => "done",
        NodeStatus::Failed => "failed",
        NodeStatus::Skipped => "skipped",
    }
}

/// None for a call that is still running, or whose result is of no use later on.
fn result(tree: &Tree, action: &Node) -> Option<String> {
    let tool = action.datum("tool_name").unwrap_or_default();
    if NOT_KEY.contains(&tool) {
        return None;
    }
    let Some(result) = action.children.first().map(|&child| &tree.nodes()[child]) else {
        let is_in_doubt = action.datum("outcome").is_some();
        return is_in_doubt.then(|| "nobody knows how it ended".to_owned());
    };
    let brief = cut(&result.description, BRIEF_LENGTH);
    Some(match result.status {
        NodeStatus::Failed => format!("failed: {brief}"),
        _ => brief,
    })
}

fn finished(mut text: String) -> String {
    text.truncate(text.trim_end().len());
    text
}
