//! The step context: the first user message of an attempt, all that it sees of its run.

use crate::event::AttemptRef;
use crate::state::{PlanState, Run, Session, Step, StepStatus};
use std::collections::BTreeSet;

/// Renders the step context of an attempt, byte for byte the same whenever it is asked for: the
/// overview is as it was when the step began.
///
/// Only the steps that this one depends on, directly or not, are summarised, in the order of the
/// plan; their notes follow in the order in which the steps ended. The step's own notes are in its
/// conversation.
pub fn step_context(session: &Session, attempt: AttemptRef) -> Option<String> {
    let run = session.run(attempt.run)?;
    let plan = run.plan.as_ref()?;
    let position = attempt.step.checked_sub(1)?;
    let step = plan.steps.get(position as usize)?;
    let before = ancestors(plan, position);
    let mut text = String::new();
    section(&mut text, "Requirement", &run.goal);
    section(&mut text, "Plan overview", &overview(run, plan, position));
    let heading = format!("Current step (step {})", attempt.step);
    let (title, description) = (&step.plan.title, &step.plan.description);
    section(
        &mut text,
        &heading,
        &format!("Title: {title}\nDescription: {description}"),
    );
    section(
        &mut text,
        "Summaries of finished steps",
        &summaries(plan, &before),
    );
    section(&mut text, "Scratchpad", &notes(plan, &before));
    Some(text)
}

/// A section without content is left out.
fn section(text: &mut String, heading: &str, content: &str) {
    if content.is_empty() {
        return;
    }
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str("## ");
    text.push_str(heading);
    text.push('\n');
    text.push_str(content);
}

fn overview(run: &Run, plan: &PlanState, current: u32) -> String {
    let began = plan.steps[current as usize]
        .started
        .map_or(run.ticks, |moment| moment.tick);
    let lines = (0..).zip(&plan.steps).map(|(position, step)| {
        let mark = if position == current {
            " >> current"
        } else {
            mark(step, began)
        };
        format!("{}. {}{mark}", position + 1, step.plan.label())
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// How the step stood at a tick.
fn mark(step: &Step, tick: u64) -> &'static str {
    match (&step.status, step.ended) {
        (_, None) => "",
        (_, Some(ended)) if ended.tick > tick => "",
        (StepStatus::Failed { .. }, _) => " FAILED",
        (StepStatus::Skipped { .. }, _) => " skipped",
        _ => " done",
    }
}

fn summaries(plan: &PlanState, before: &BTreeSet<u32>) -> String {
    let lines = before
        .iter()
        .filter_map(|&position| match &plan.steps[position as usize].status {
            StepStatus::Completed { summary, .. } => {
                Some(format!("- Step {}: {summary}", position + 1))
            }
            _ => None,
        });
    lines.collect::<Vec<_>>().join("\n")
}

fn notes(plan: &PlanState, before: &BTreeSet<u32>) -> String {
    let steps = before
        .iter()
        .map(|&position| &plan.steps[position as usize]);
    let mut noted: Vec<&Step> = steps.filter(|step| !step.notes.is_empty()).collect();
    noted.sort_by_key(|step| step.ended.map(|ended| ended.tick));
    let notes = noted.iter().map(|step| step.notes.as_str());
    notes.collect::<Vec<_>>().join("\n")
}

/// The steps that this one depends on, directly or not.
fn ancestors(plan: &PlanState, position: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut stack = vec![position];
    while let Some(here) = stack.pop() {
        for &dependency in &plan.steps[here as usize].plan.depends_on {
            if found.insert(dependency) {
                stack.push(dependency);
            }
        }
    }
    found
}
