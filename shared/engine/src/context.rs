//! The step context: the first user message of an attempt, all that it sees of its run.

use crate::dependencies::seen_by;
use crate::escape::{entry, line, lines};
use crate::session::{Place, PlanState, Run, Step, StepNo, StepStatus, in_journal_order};
use std::collections::BTreeMap;

/// Renders the step context of a step that is about to begin.
///
/// It has the summaries of the completed steps that this one depends on, directly or not, in the order
/// of the plan, and their notes in the order of the journal. A skipped step on the way adds neither,
/// and what lies before it is there all the same. The step's own notes are in its conversation.
///
/// Texts of people, plans and models are escaped as [`crate::escape`] says, so that none of them can
/// make a section or an entry.
pub fn of_step(run: &Run, step: StepNo) -> Option<String> {
    let plan = run.plan.as_ref()?;
    let step = plan.step(step)?;
    let place = step.place?;
    let before = seen_by(plan, step);
    let mut text = String::new();
    section(&mut text, "Requirement", &lines(&run.goal));
    section(&mut text, "Plan overview", &overview(plan, step));
    let heading = format!("Current step (step {place})");
    let (title, description) = (line(&step.plan.title), lines(&step.plan.description));
    section(
        &mut text,
        &heading,
        &format!("Title: {title}\nDescription: {description}"),
    );
    section(
        &mut text,
        "Summaries of finished steps",
        &summaries(&before),
    );
    section(&mut text, "Scratchpad", &notes(&before));
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

fn overview(plan: &PlanState, current: &Step) -> String {
    let lines = Place::all().zip(plan.current()).map(|(place, (_, step))| {
        let mark = if Some(place) == current.place {
            " >> current"
        } else {
            mark(&step.status)
        };
        format!("{place}. {}{mark}", step.plan.label())
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// How the step stands.
fn mark(status: &StepStatus) -> &'static str {
    match status {
        StepStatus::Pending | StepStatus::Running(_) => "",
        StepStatus::Failed { .. } => " FAILED",
        StepStatus::Skipped { .. } => " skipped",
        StepStatus::Completed { .. } => " done",
    }
}

fn summaries(before: &BTreeMap<Place, &Step>) -> String {
    let lines = before
        .iter()
        .filter_map(|(place, step)| match &step.status {
            StepStatus::Completed { summary, .. } => {
                Some(format!("- Step {place}: {}", entry(summary)))
            }
            _ => None,
        });
    lines.collect::<Vec<_>>().join("\n")
}

fn notes(before: &BTreeMap<Place, &Step>) -> String {
    let notes = in_journal_order(before.values().copied());
    let notes = notes.into_iter().map(lines);
    notes.collect::<Vec<_>>().join("\n")
}

/// What came of the steps of a plan so far, for the planner that makes another one: a line a step that
/// begins with its id. It has the summaries of finished steps only; later lines of a summary are
/// indented.
pub fn results(plan: &PlanState) -> String {
    let lines = plan.current().map(|(_, step)| {
        let outcome = match &step.status {
            StepStatus::Pending => "not begun".to_owned(),
            StepStatus::Running(_) => "in progress".to_owned(),
            StepStatus::Completed { summary, .. } => format!("done: {}", entry(summary)),
            StepStatus::Failed { failure } => format!("failed: {}", entry(&failure.message)),
            StepStatus::Skipped { reason, .. } if reason.is_empty() => "skipped".to_owned(),
            StepStatus::Skipped { reason, .. } => format!("skipped: {}", entry(reason)),
        };
        format!("- {}: {outcome}", line(&step.plan.id))
    });
    lines.collect::<Vec<_>>().join("\n")
}
