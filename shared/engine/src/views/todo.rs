//! The to-do list: goals with their state, nothing else.

use crate::state::{Attempt, PlanState, Run, Step, StepStatus, SubGoal};

/// The plan's steps and, indented, the sub-goals of running steps. Empty without a plan.
pub fn of_run(run: &Run) -> String {
    let mut lines = Vec::new();
    for (_, step) in run.plan.iter().flat_map(PlanState::current) {
        lines.push(format!("[{}] {}", mark(step), step.plan.label()));
        if let Some(attempt) = step.running() {
            lines.extend(attempt.sub_goals.iter().zip(0..).map(|(goal, index)| {
                format!("  [{}] {}", sub_goal_mark(attempt, goal, index), goal.text)
            }));
        }
    }
    lines.join("\n")
}

fn mark(step: &Step) -> &'static str {
    match step.status {
        StepStatus::Pending => " ",
        StepStatus::Running(_) => "→",
        StepStatus::Completed { .. } => "✓",
        StepStatus::Failed { .. } => "✗",
        StepStatus::Skipped { .. } => "-",
    }
}

fn sub_goal_mark(attempt: &Attempt, goal: &SubGoal, index: u32) -> &'static str {
    match &goal.summary {
        Some(_) => "✓",
        None if goal.is_dropped => "-",
        None if attempt.focus == Some(index) => "→",
        None => " ",
    }
}
