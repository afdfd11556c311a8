//! What two plans of a run have in common, by the numbers of their steps.

use super::plans::numbered;
use super::style::Style;
use crate::ui::event_line::step_name;
use cairn_proto::event::{PlanApplied, PlanStep};
use cairn_rpc::text::clip;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Longest name of a step, in bytes.
const PIECE: usize = 120;

/// What is different about a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// In both plans.
    Kept,
    /// In both plans, before or after others than it was.
    Moved,
    /// In the later plan only; it has the words of this step of the earlier one.
    Repeated(u32),
    /// In the later plan only.
    Added,
    /// In the earlier plan only.
    Removed,
}

/// A step of either plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Its number in the run.
    pub number: u32,
    /// What people call it; not escaped.
    pub name: String,
    /// What is different.
    pub change: Change,
}

/// The steps of the later plan in its order, and then those of the earlier one that are not in it.
/// A step that is repeated is told once, where it is now.
pub fn between(from: &PlanApplied, to: &PlanApplied) -> Vec<Changed> {
    let before: BTreeMap<u32, usize> = numbered(from)
        .zip(0..)
        .map(|((number, _), place)| (number, place))
        .collect();
    let after: BTreeSet<u32> = numbered(to).map(|(number, _)| number).collect();
    // Of the same words, the first is repeated by the first.
    let mut lost: Vec<_> = numbered(from)
        .filter(|(number, _)| !after.contains(number))
        .collect();
    let places = numbered(to).filter_map(|(number, _)| before.get(&number).copied());
    let unmoved = longest_rise(&places.collect::<Vec<_>>());
    let mut changed = Vec::new();
    for (number, step) in numbered(to) {
        let change = match before.get(&number) {
            Some(place) if unmoved.contains(place) => Change::Kept,
            Some(_) => Change::Moved,
            None => match lost.iter().position(|(_, old)| is_alike(old, step)) {
                Some(found) => Change::Repeated(lost.remove(found).0),
                None => Change::Added,
            },
        };
        let name = step_name(step);
        changed.push(Changed {
            number,
            name,
            change,
        });
    }
    changed.extend(lost.into_iter().map(|(number, step)| Changed {
        number,
        name: step_name(step),
        change: Change::Removed,
    }));
    changed
}

fn is_alike(one: &PlanStep, other: &PlanStep) -> bool {
    (&one.title, &one.description, &one.tool) == (&other.title, &other.description, &other.tool)
}

/// The most places that can be taken out without changing their order so that they rise.
fn longest_rise(places: &[usize]) -> BTreeSet<usize> {
    // The position of the lowest end of a rise of each length, and what comes before each.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(places.len());
    for (at, place) in places.iter().enumerate() {
        let length = ends.partition_point(|&end| places[end] < *place);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut rise = BTreeSet::new();
    let mut here = ends.last().copied();
    while let Some(at) = here {
        rise.insert(places[at]);
        here = before[at];
    }
    rise
}

/// A step for people.
pub fn changed_line(step: &Changed, style: Style) -> String {
    let (mark, note) = match step.change {
        Change::Kept => (" ".to_owned(), String::new()),
        Change::Moved => (" ".to_owned(), "moved".to_owned()),
        Change::Repeated(number) => (style.asks("↻"), format!("instead of step {number}")),
        Change::Added => (style.good("+"), "added".to_owned()),
        Change::Removed => (style.bad("-"), "removed".to_owned()),
    };
    let (number, name) = (step.number, clip(&step.name, PIECE));
    let line = format!("  {mark} {number:>3} {name}  {}", style.dim(&note));
    line.trim_end().to_owned()
}

/// A step as JSON.
pub fn changed_json(step: &Changed) -> Value {
    let (change, repeats) = match step.change {
        Change::Kept => ("kept", 0),
        Change::Moved => ("moved", 0),
        Change::Repeated(number) => ("repeated", number),
        Change::Added => ("added", 0),
        Change::Removed => ("removed", 0),
    };
    json!({"number": step.number, "label": step.name, "change": change, "repeats": repeats})
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::event::Plan;

    fn plan(steps: &[(u32, &str)]) -> PlanApplied {
        let step = |(_, title): &(u32, &str)| PlanStep {
            title: (*title).to_owned(),
            ..PlanStep::default()
        };
        PlanApplied {
            plan: Some(Plan {
                steps: steps.iter().map(step).collect(),
                ..Plan::default()
            }),
            numbers: steps.iter().map(|(number, _)| *number).collect(),
            ..PlanApplied::default()
        }
    }

    fn changes(from: &[(u32, &str)], to: &[(u32, &str)]) -> Vec<(u32, Change)> {
        let changed = between(&plan(from), &plan(to)).into_iter();
        changed.map(|step| (step.number, step.change)).collect()
    }

    #[test]
    fn steps_are_known_by_their_numbers_and_repeated_by_their_words() {
        use Change::{Added, Kept, Moved, Removed, Repeated};
        let first = [(1, "a"), (2, "b"), (3, "c"), (4, "d")];
        assert_eq!(
            changes(&first, &first),
            [1, 2, 3, 4].map(|number| (number, Kept))
        );
        assert_eq!(
            changes(&first, &[(1, "a"), (5, "x"), (6, "b"), (7, "c"), (4, "d")]),
            [
                (1, Kept),
                (5, Added),
                (6, Repeated(2)),
                (7, Repeated(3)),
                (4, Kept),
            ]
        );
        assert_eq!(
            changes(&first, &[(4, "d"), (1, "a"), (2, "b")]),
            [(4, Moved), (1, Kept), (2, Kept), (3, Removed)]
        );
        // Steps of the same words are repeated one for one.
        assert_eq!(
            changes(&[(1, "a"), (2, "a")], &[(3, "a"), (4, "a"), (5, "a")]),
            [(3, Repeated(1)), (4, Repeated(2)), (5, Added)]
        );
    }

    #[test]
    fn a_first_plan_need_not_number_its_steps() {
        let mut first = plan(&[(0, "a"), (0, "b")]);
        first.numbers.clear();
        let changed = between(&first, &plan(&[(2, "b"), (3, "c")]));
        let lines: Vec<_> = changed
            .iter()
            .map(|step| changed_line(step, Style::new(false)))
            .collect();
        assert_eq!(
            lines,
            ["      2 b", "  +   3 c  added", "  -   1 a  removed"]
        );
    }
}
