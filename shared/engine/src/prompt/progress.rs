//! The to-do list: goals with their state, nothing else.

use crate::session::{PlanState, Run, Step, StepStatus, SubGoal};

/// The list of the run's plan. Empty without a plan.
pub fn of_run(run: &Run) -> String {
    run.plan.as_ref().map(of_plan).unwrap_or_default()
}

/// The plan's steps and, indented, their sub-goals, whatever the steps are doing.
pub fn of_plan(plan: &PlanState) -> String {
    let mut lines = Vec::new();
    for (_, step) in plan.current() {
        lines.push(format!("[{}] {}", mark(step), step.plan.label()));
        let sub_goals = step.sub_goals().iter().zip(0..);
        lines.extend(sub_goals.map(|(goal, index)| {
            format!("  [{}] {}", sub_goal_mark(step, goal, index), goal.text)
        }));
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

/// What is open when its step ends ends with it, as in the tree.
fn sub_goal_mark(step: &Step, goal: &SubGoal, index: u32) -> &'static str {
    match (&goal.summary, step.running()) {
        (Some(_), _) => "✓",
        (None, None) => "-",
        (None, Some(_)) if goal.is_dropped => "-",
        (None, Some(attempt)) if attempt.focus == Some(index) => "→",
        (None, Some(_)) => " ",
    }
}
