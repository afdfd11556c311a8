//! What another plan changes, for people and as JSON.

use super::describe::{step_status, usage_text};
use super::event_json::{short, usage};
use super::style::Style;
use super::time::span;
use cairn_proto::orchestrator as pb;
use cairn_rpc::text::clip;
use pb::StepFate;
use serde_json::{Value, json};

/// Longest label of a step, in bytes.
const PIECE: usize = 120;

/// Whether the plan is the one that is in force, in the same order.
pub fn is_empty(diff: &pb::PlanDiff) -> bool {
    use StepFate::{Continues, Reused, Skipped, Waiting};
    let stays = |step: &pb::NewStep| {
        !step.moved && [Continues, Reused, Skipped, Waiting].contains(&step.fate())
    };
    diff.gone.is_empty() && diff.steps.iter().all(stays)
}

/// The change as JSON, by the names of the contract.
pub fn diff_json(diff: &pb::PlanDiff) -> Value {
    let steps = diff.steps.iter().map(|step| {
        json!({
            "number": step.number,
            "label": step.label,
            "fate": short(step.fate().as_str_name(), "STEP_FATE_"),
            "moved": step.moved,
            "repeats": step.repeats,
        })
    });
    let gone = diff.gone.iter().map(|step| {
        json!({
            "number": step.number,
            "label": step.label,
            "status": step_status(step.status),
            "repeated": step.repeated,
        })
    });
    let effects = diff.effects.iter().map(|call| {
        json!({
            "step": call.step,
            "tool": call.tool,
            "done": call.done,
            "call_key": call.call_key,
        })
    });
    json!({
        "base_revision": diff.base_revision,
        "steps": steps.collect::<Vec<_>>(),
        "gone": gone.collect::<Vec<_>>(),
        "effects": effects.collect::<Vec<_>>(),
        "saved": usage(diff.saved.as_ref()),
        "saved_tool_turns": diff.saved_tool_turns,
        "saved_ms": diff.saved_ms,
    })
}

/// The change for people: the new plan step by step, what is not in it any more, what has to be
/// judged, and what is saved.
pub fn diff_lines(diff: &pb::PlanDiff, style: Style) -> Vec<String> {
    let mut lines: Vec<_> = diff.steps.iter().map(|s| new_line(s, style)).collect();
    let left_out = diff.gone.iter().filter(|step| !step.repeated);
    lines.extend(left_out.map(|step| old_line(step, style)));
    let running = i32::from(pb::StepStatus::Running);
    for step in diff.gone.iter().filter(|step| step.status == running) {
        let label = clip(&step.label, PIECE);
        let text = format!("! step {} {label} is running and is stopped", step.number);
        lines.push(style.asks(&text));
    }
    if !diff.effects.is_empty() {
        lines.push(style.asks("! calls with side effects whose steps do not count any more:"));
    }
    for call in &diff.effects {
        let what = match call.done {
            true => "was made",
            false => "was made, or may have been",
        };
        let (tool, key) = (clip(&call.tool, 64), clip(&call.call_key, 80));
        lines.push(format!("    step {}: {tool} {what} (key {key})", call.step));
    }
    lines.extend(saved_line(diff));
    lines
}

fn new_line(step: &pb::NewStep, style: Style) -> String {
    let (mark, note) = match step.fate() {
        StepFate::Reused => (style.good("✓"), "done, and kept".to_owned()),
        StepFate::Continues => (style.active("→"), "continues".to_owned()),
        StepFate::Waiting | StepFate::Unspecified => (" ".to_owned(), String::new()),
        StepFate::Skipped => (style.dim("-"), "skipped, and stays so".to_owned()),
        StepFate::Repeated => (
            style.asks("↻"),
            format!("again, in place of step {}", step.repeats),
        ),
        StepFate::Added => (style.good("+"), "new".to_owned()),
    };
    let number = match step.number {
        0 => String::new(),
        number => number.to_string(),
    };
    let mut notes = vec![note];
    if step.moved {
        notes.push("moved".to_owned());
    }
    notes.retain(|note| !note.is_empty());
    let name = clip(&step.label, PIECE);
    let notes = style.dim(&notes.join(", "));
    let line = format!("  {mark} {number:>3} {name}  {notes}");
    line.trim_end().to_owned()
}

fn old_line(step: &pb::OldStep, style: Style) -> String {
    let was = match pb::StepStatus::try_from(step.status).unwrap_or_default() {
        pb::StepStatus::Completed => "removed; it was done",
        pb::StepStatus::Failed => "removed; it had failed",
        pb::StepStatus::Running => "removed; it is running",
        pb::StepStatus::Skipped => "removed; it was skipped",
        pb::StepStatus::Pending | pb::StepStatus::Unspecified => "removed",
    };
    let name = clip(&step.label, PIECE);
    let (mark, was) = (style.bad("-"), style.dim(was));
    format!("  {mark} {:>3} {name}  {was}", step.number)
}

/// What need not be done and paid again; none if nothing is kept.
fn saved_line(diff: &pb::PlanDiff) -> Option<String> {
    let reused = diff.steps.iter().filter(|s| s.fate() == StepFate::Reused);
    let steps = match reused.count() {
        0 => return None,
        1 => "1 step".to_owned(),
        steps => format!("{steps} steps"),
    };
    let turns = match diff.saved_tool_turns {
        1 => "1 tool turn".to_owned(),
        turns => format!("{turns} tool turns"),
    };
    let (usage, time) = (usage_text(diff.saved.as_ref()), span(diff.saved_ms));
    Some(format!("saved    {steps}, {turns}, {usage}, {time}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(number: u32, label: &str, fate: StepFate) -> pb::NewStep {
        pb::NewStep {
            number,
            label: label.to_owned(),
            fate: fate.into(),
            ..pb::NewStep::default()
        }
    }

    fn old(number: u32, label: &str, status: pb::StepStatus, repeated: bool) -> pb::OldStep {
        pb::OldStep {
            number,
            label: label.to_owned(),
            status: status.into(),
            repeated,
        }
    }

    fn diff() -> pb::PlanDiff {
        let again = pb::NewStep {
            repeats: 4,
            ..new(0, "Count", StepFate::Repeated)
        };
        let moved = pb::NewStep {
            moved: true,
            ..new(3, "Look", StepFate::Waiting)
        };
        pb::PlanDiff {
            base_revision: 1,
            steps: vec![
                new(1, "Survey\u{1b}", StepFate::Reused),
                new(2, "Read", StepFate::Continues),
                moved,
                again,
                new(0, "Write", StepFate::Added),
            ],
            gone: vec![
                old(4, "Count", pb::StepStatus::Running, true),
                old(5, "Send", pb::StepStatus::Completed, false),
            ],
            effects: vec![pb::EffectfulCall {
                step: 5,
                tool: "mail".to_owned(),
                done: true,
                call_key: "k".to_owned(),
            }],
            saved_tool_turns: 2,
            saved_ms: 1500,
            ..pb::PlanDiff::default()
        }
    }

    #[test]
    fn people_see_what_becomes_of_each_step() {
        let lines = diff_lines(&diff(), Style::new(false));
        insta::assert_snapshot!("plan_diff", lines.join("\n"));
    }

    #[test]
    fn json_has_the_names_of_the_contract() {
        let json = diff_json(&diff());
        assert_eq!(json["steps"][3]["fate"], "repeated");
        assert_eq!(json["steps"][3]["repeats"], 4);
        assert_eq!(json["steps"][1]["fate"], "continues");
        assert_eq!(json["gone"][1]["status"], "completed");
        assert_eq!(json["effects"][0]["call_key"], "k");
    }

    #[test]
    fn a_plan_whose_steps_all_stay_changes_nothing() {
        let mut same = diff();
        assert!(!is_empty(&same));
        same.gone.clear();
        same.steps.truncate(2);
        assert!(is_empty(&same));
        same.steps[0].moved = true;
        assert!(!is_empty(&same));
    }
}
