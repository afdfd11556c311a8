//! Lines about runs and their plans.

use super::agents::of_run;
use super::words::{after_colon, failure_text, nearly_full, step_name, used_up, waits_for};
use super::{EventLine, Mark, line};
use crate::ui::plans::{numbered, order_name, size_text};
use crate::ui::time::span;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_views::figures::dollars;

/// Most steps of a plan that are named.
const NAMED: usize = 12;

pub(super) fn run_line(kind: &Kind) -> EventLine {
    match kind {
        Kind::RunStarted(e) => started_line(e),
        Kind::PlanApplied(e) => plan_line(e),
        Kind::RunWaiting(e) => {
            let why = waits_for(e.reason);
            line(Mark::Asks, format!("run {} waits: {why}", e.run))
        }
        Kind::RunTakenOver(e) => line(Mark::Plain, format!("run {} is taken over", e.run)),
        Kind::RunResumed(e) => line(Mark::Began, format!("run {} continues", e.run)),
        Kind::RunCompleted(e) => {
            let mut text = format!("run {} completed{}", e.run, after_colon(&e.answer));
            if let Some(full) = nearly_full(e.journal_permille) {
                text.push_str(&format!("; {full}"));
            }
            line(Mark::Good, text)
        }
        Kind::RunFailed(e) => {
            let why = failure_text(e.failure.as_ref());
            line(Mark::Bad, format!("run {} failed: {why}", e.run))
        }
        Kind::RunCancelled(e) => {
            let text = format!("run {} cancelled{}", e.run, after_colon(&e.reason));
            line(Mark::Bad, text)
        }
        Kind::BudgetRefused(e) => line(
            Mark::Bad,
            format!("run {} may use no more, and ends", e.run),
        ),
        Kind::BudgetRaised(e) => line(Mark::Plain, format!("run {} may use {}", e.run, more(e))),
        Kind::BudgetExhausted(e) => {
            let text = format!("run {}: {}", e.run, used_up(e.budget));
            line(Mark::Asks, text)
        }
        Kind::RunPaused(e) => {
            let text = format!("run {} paused{}", e.run, after_colon(&e.reason));
            line(Mark::Asks, text)
        }
        Kind::QueuedTurnDropped(e) => dropped_line(e),
        Kind::RevisionRequested(e) => requested_line(e),
        Kind::PlanProposed(e) => {
            let steps = e.plan.iter().flat_map(|plan| &plan.steps);
            let gist = gist(e.plan.as_ref(), steps.take(NAMED).map(step_name));
            let instead = match e.base_revision {
                0 => String::new(),
                base => format!(", another plan than {base}"),
            };
            let text = format!("run {} proposal {}{instead}: {gist}", e.run, e.proposal);
            line(Mark::Plain, text)
        }
        Kind::RevisionFailed(e) => {
            let why = failure_text(e.failure.as_ref());
            line(Mark::Bad, format!("run {} has no other plan: {why}", e.run))
        }
        _ => line(Mark::Plain, ""),
    }
}

fn started_line(event: &wire::RunStarted) -> EventLine {
    let agent = of_run(event.agent.as_ref());
    let goal = after_colon(&event.goal);
    line(
        Mark::Began,
        format!("run {} started{agent}{goal}", event.run),
    )
}

fn dropped_line(event: &wire::QueuedTurnDropped) -> EventLine {
    let why = match &event.failure {
        Some(failure) => format!("failed: {}", failure_text(Some(failure))),
        None => format!("cancelled{}", after_colon(&event.reason)),
    };
    line(Mark::Bad, format!("queued turn {} {why}", event.number))
}

/// What a run was allowed on top.
fn more(raised: &wire::BudgetRaised) -> String {
    let more = raised.more;
    match raised.budget() {
        _ if more == 0 => "no more than before".to_owned(),
        wire::Budget::Unspecified => format!("{more} more"),
        wire::Budget::Turns | wire::Budget::ToolTurns => format!("{more} more tool turns"),
        wire::Budget::Tokens => format!("{more} more tokens"),
        wire::Budget::Cost => format!("${} more", dollars(more)),
        wire::Budget::Time => format!("{} more time", span(more)),
        wire::Budget::Calls => format!("{more} more tool calls"),
    }
}

fn plan_line(event: &wire::PlanApplied) -> EventLine {
    let steps = numbered(event).take(NAMED);
    let names = steps.map(|(number, step)| match event.revision {
        ..=1 => step_name(step),
        _ => format!("{number} {}", step_name(step)),
    });
    let gist = gist(event.plan.as_ref(), names);
    let text = format!("run {} plan {}: {gist}", event.run, event.revision);
    line(Mark::Plain, text)
}

fn requested_line(event: &wire::RevisionRequested) -> EventLine {
    let what = match (event.request, event.apply) {
        (0, _) => "asks for another plan",
        (_, true) => "is to have another plan",
        (_, false) => "might have another plan",
    };
    let text = format!("run {} {what}{}", event.run, after_colon(&event.feedback));
    line(Mark::Began, text)
}

/// A plan in a few words: how long it is, and its first steps.
fn gist(plan: Option<&wire::Plan>, names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<_> = names.collect();
    if plan.is_some_and(|plan| plan.steps.len() > names.len()) {
        names.push("…".to_owned());
    }
    let size = plan.map_or_else(String::new, |plan| {
        size_text(plan.steps.len(), order_name(plan))
    });
    format!("{size}{}", after_colon(&names.join(" · ")))
}
