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
//!
//! The lines are those of [`cairn_engine::prompt::history`], which is made from messages.

use super::tree::{Node, NodeIndex, NodeKind, NodeStatus, Tree};
use cairn_engine::prompt::history::{GoalState, Lines, Outcome, is_key};
use cairn_engine::text::cut;

/// Longest result, in characters.
const BRIEF_LENGTH: usize = 200;

/// All goals of a run. Empty without a plan.
pub fn of_run(tree: &Tree, run: u32) -> String {
    let roots = tree.run(run).into_iter().flat_map(|root| &root.roots);
    let mut lines = Lines::default();
    for &goal in roots {
        write_goal(tree, goal, &mut lines);
    }
    lines.finish()
}

fn write_goal(tree: &Tree, goal: NodeIndex, lines: &mut Lines) {
    for (depth, node) in tree.walk(goal) {
        match node.kind {
            NodeKind::Goal => lines.goal(depth, state(node.status), &node.description),
            NodeKind::Action => write_action(tree, node, depth, lines),
            NodeKind::Evaluation if node.description.is_empty() => {}
            NodeKind::Evaluation => {
                let summary = node.summary.as_deref().unwrap_or_default().trim();
                let summary: Vec<&str> = summary.lines().collect();
                lines.summary(depth, &summary.join(" "));
            }
            NodeKind::Thought | NodeKind::Result | NodeKind::Response => {}
        }
    }
}

fn state(status: NodeStatus) -> GoalState {
    match status {
        NodeStatus::Planned => GoalState::ToDo,
        NodeStatus::InProgress => GoalState::InProgress,
        NodeStatus::Completed => GoalState::Done,
        NodeStatus::Failed => GoalState::Failed,
        NodeStatus::Skipped => GoalState::Skipped,
    }
}

/// Nothing is shown of a call that is still running, or whose result is of no use later on.
fn write_action(tree: &Tree, action: &Node, depth: usize, lines: &mut Lines) {
    if !is_key(action.datum("tool_name").unwrap_or_default()) {
        return;
    }
    let Some(result) = action.children.first().map(|&child| &tree.nodes()[child]) else {
        if action.datum("outcome").is_some() {
            lines.call(depth, &action.description, Outcome::Unknown);
        }
        return;
    };
    let brief = cut(&result.description, BRIEF_LENGTH);
    let outcome = match result.status {
        NodeStatus::Failed => Outcome::Failed(&brief),
        _ => Outcome::Known(&brief),
    };
    lines.call(depth, &action.description, outcome);
}
