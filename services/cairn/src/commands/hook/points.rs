//! `cairn hook points`.

use crate::context::Context;
use crate::error::CliError;
use crate::ui::live::terminal_width;
use crate::ui::out;
use crate::ui::table::{Column, Table};
use cairn_engine::hooks::{Changes, Point, VerdictKind};
use serde_json::json;

/// Lists the points in the order of the contract.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn run(context: &Context) -> Result<(), CliError> {
    if context.json {
        let mut points = Point::ALL.iter();
        return points.try_for_each(|point| {
            out::json(&json!({
                "point": point.name(),
                "when": when(*point),
                "answers": answers(*point),
                "changes": changes(*point),
                "on_error": on_error(*point),
            }))
        });
    }
    let mut lines = table().lines(terminal_width()).into_iter();
    lines.try_for_each(|line| out::line(&line))
}

fn table() -> Table {
    let columns = ["POINT", "BESIDE PROCEED", "WHEN"];
    let mut table = Table::new(columns.map(Column::Left));
    for point in Point::ALL {
        let answers = answers(*point);
        let answers = answers.iter().skip(1).map(|answer| match *answer {
            "mutate" => format!("mutate ({})", changes(*point).unwrap_or_default()),
            answer => answer.to_owned(),
        });
        let answers: Vec<_> = answers.collect();
        let answers = match answers.is_empty() {
            true => "nothing".to_owned(),
            false => answers.join(", "),
        };
        table.row([point.name(), &answers, when(*point)]);
    }
    table
}

/// The kinds of answers that a point takes, as programs write them.
fn answers(point: Point) -> Vec<&'static str> {
    let taken = VerdictKind::ALL.into_iter();
    let taken = taken.filter(|kind| point.takes(*kind));
    taken.map(VerdictKind::name).collect()
}

/// The field of an answer that has what a hook changed; none at points that take no change.
fn changes(point: Point) -> Option<&'static str> {
    match point.changes() {
        Changes::None => None,
        Changes::Arguments => Some("arguments"),
        Changes::Output => Some("output"),
        Changes::Text => Some("text"),
        Changes::Ops => Some("ops"),
        Changes::Plan => Some("plan"),
        Changes::Prompt => Some("prompt"),
    }
}

/// What counts if a hook fails that says nothing of it.
fn on_error(point: Point) -> &'static str {
    match point.blocks_on_error() {
        true => "block",
        false => "proceed",
    }
}

const fn when(point: Point) -> &'static str {
    match point {
        Point::OnRunStart => "a run began, and does nothing yet",
        Point::OnRunEnd => "a run has ended",
        Point::OnPlanProposed => "a plan comes into force next",
        Point::OnStepStart => "a step of a plan begins next",
        Point::OnTurnStart => "a turn, or an attempt at a step, begins next",
        Point::PreRequest => "a model is asked next",
        Point::OnRetry => "a model is asked again after an error",
        Point::PostRequest => "a model replied",
        Point::PreToolCall => "a tool is called next",
        Point::PostToolCall => "a tool gave its result",
        Point::OnCompaction => "older messages give way next",
        Point::OnError => "a turn, or an attempt at a step, failed",
        Point::OnTurnEnd => "a turn, or an attempt at a step, completed",
        Point::OnPlanStepComplete => "a step of a plan ended",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_point_says_what_it_takes() {
        let lines = table().lines(None);
        assert_eq!(lines.len(), 1 + Point::ALL.len());
        let line = |name: &str| {
            let line = lines.iter().find(|line| line.starts_with(name)).unwrap();
            line[name.len()..].trim().to_owned()
        };
        assert!(line("OnRunEnd").starts_with("nothing "), "{lines:?}");
        let expected = "mutate (arguments), skip, require_approval, block ";
        assert!(line("PreToolCall").starts_with(expected), "{lines:?}");
    }
}
