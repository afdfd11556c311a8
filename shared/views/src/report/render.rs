//! The facts of a report as Markdown.

use super::gather::{CallFacts, Doubt, Facts, ResultFacts, StepFacts, Waits};
use crate::figures::{
    clock, cost, date_time, duration, input_tokens, output_tokens, rest_of_result, run_status,
};
use crate::safe::{code, inline, paragraph};
use cairn_engine::command::Settlement;
use cairn_engine::event::Budget;
use cairn_engine::message::Usage;
use cairn_engine::session::{RunStatus, StepNo};
use cairn_engine::text::{cut, first_line};
use cairn_engine::transitions::StepPhase;
use std::fmt::Write as _;

/// Longest input of a call that is shown, in characters.
const MOST_OF_INPUT: usize = 200;
/// Longest line of an output that is shown, in characters.
const MOST_OF_OUTPUT: usize = 200;

pub(super) fn render(facts: &Facts<'_>) -> String {
    let goal = section("Goal", &text_or(facts.goal, "(none)"));
    let mut blocks = vec!["# Report".to_owned(), overview(facts), goal];
    blocks.extend(outcome(facts));
    if !facts.plan.is_empty() {
        blocks.push(section("Plan", &plan(facts)));
    }
    for (step, number) in facts.steps.iter().zip(StepNo::all()) {
        if step.phase != StepPhase::Pending {
            blocks.push(step_section(step, number));
        }
    }
    blocks.extend(failures(facts));
    blocks.extend(doubts(facts));
    blocks.push(section("Usage", &usage_table(facts)));
    blocks.join("\n\n") + "\n"
}

fn section(heading: &str, content: &str) -> String {
    format!("## {heading}\n\n{content}")
}

fn text_or(text: &str, absent: &str) -> String {
    if text.trim().is_empty() {
        absent.to_owned()
    } else {
        paragraph(text)
    }
}

fn overview(facts: &Facts<'_>) -> String {
    let total = total(facts);
    let calls: usize = facts.steps.iter().map(|step| step.calls.len()).sum();
    let tool_turns: u32 = facts.steps.iter().map(|step| step.tool_turns).sum();
    let planned = facts
        .plan
        .iter()
        .filter_map(|at| facts.steps.get(at.index()));
    let done = planned
        .filter(|step| step.phase == StepPhase::Completed)
        .count();
    let (from, to) = (date_time(facts.started_at), date_time(facts.last_at));
    let took = duration(facts.last_at.saturating_sub(facts.started_at));
    let mut lines = vec![
        format!("- Run: {}", facts.run),
        format!("- Status: {}", run_status(facts.status)),
        format!("- Steps: {done} of {} completed", facts.plan.len()),
        format!("- Tool turns: {tool_turns}, tool calls: {calls}"),
        format!(
            "- Tokens: {} in, {} out; cost: {}",
            total.input_tokens,
            total.output_tokens,
            cost(&total)
        ),
        format!("- Time: {from} to {to} UTC, {took}"),
    ];
    if !facts.agent.is_empty() {
        lines.insert(1, format!("- Agent: {}", inline(facts.agent)));
    }
    lines.extend(used_up(facts));
    lines.join("\n")
}

/// A line for each budget that was used up.
fn used_up(facts: &Facts<'_>) -> Vec<String> {
    let mut budgets = facts.used_up.clone();
    budgets.sort_unstable();
    budgets.dedup();
    let line = |budget: Budget| {
        let times = facts.used_up.iter().filter(|it| **it == budget).count();
        let name = match budget {
            Budget::Turns => {
                let more = facts.more_turns;
                return format!("- Tool turns used up: {times} time(s); {more} more were allowed");
            }
            Budget::Tokens => "Tokens",
            Budget::Cost => "Money",
            Budget::Time => "Time",
            Budget::Calls => "Tool calls",
            Budget::ToolTurns => "Tool turns of an attempt",
        };
        format!("- {name} used up: {times} time(s)")
    };
    budgets.into_iter().map(line).collect()
}

fn outcome(facts: &Facts<'_>) -> Option<String> {
    let heading = match facts.status {
        RunStatus::Completed => "Answer",
        RunStatus::Failed => "Failure",
        RunStatus::Cancelled => "Cancelled",
        _ => return None,
    };
    let absent = match facts.status {
        RunStatus::Completed => "The last step gave no summary.",
        _ => "No reason was given.",
    };
    Some(section(heading, &text_or(facts.outcome, absent)))
}

fn plan(facts: &Facts<'_>) -> String {
    let planned = facts.plan.iter();
    let planned = planned.filter_map(|at| Some((facts.steps.get(at.index())?, at.number())));
    let lines = planned.map(|(step, number)| {
        let (mark, label) = (mark(step.phase), inline(&step.label));
        format!("{number}. {mark} {label} ({})", status(step))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn mark(phase: StepPhase) -> &'static str {
    match phase {
        StepPhase::Pending => "·",
        StepPhase::Running => "→",
        StepPhase::Completed => "✓",
        StepPhase::Failed => "✗",
        StepPhase::Skipped => "–",
    }
}

fn status(step: &StepFacts<'_>) -> &'static str {
    match step.phase {
        StepPhase::Pending => "to do",
        StepPhase::Running => step.waits().map_or("in progress", awaited),
        StepPhase::Completed => "done",
        StepPhase::Failed => "failed",
        StepPhase::Skipped => "skipped",
    }
}

fn awaited(waits: Waits) -> &'static str {
    match waits {
        Waits::Doubt => "waits for a decision on a call in doubt",
        Waits::Approval => "waits for an approval",
        Waits::Question => "waits for an answer",
        Waits::Full => "waits for a decision on a request that does not fit",
        Waits::Capability => "waits for a capability that no resource has",
    }
}

fn step_section(step: &StepFacts<'_>, number: StepNo) -> String {
    let mut text = format!("## Step {number}: {}\n\n", inline(&step.label));
    let _ = write!(text, "Status: {}", status(step));
    if step.is_dropped {
        text.push_str(", not in the plan any more");
    }
    if let (Some(began), Some(ended)) = (step.began, step.ended) {
        let _ = write!(text, ", in {}", duration(ended.saturating_sub(began)));
    }
    if step.attempts > 1 {
        let _ = write!(text, ", {} attempts", step.attempts);
    }
    if step.continued > 0 {
        let _ = write!(text, ", continued {} time(s) after a loss", step.continued);
    }
    if step.compactions > 0 {
        let _ = write!(text, ", compacted {} time(s)", step.compactions);
    }
    text.push('.');
    if step.tool_turns > 0 {
        let _ = write!(text, " {}.", used(&step.usage, step.tool_turns));
    }
    if !step.outcome.trim().is_empty() {
        let name = match step.phase {
            StepPhase::Failed => "Failure",
            StepPhase::Skipped => "Reason",
            _ => "Summary",
        };
        let _ = write!(text, "\n\n**{name}**\n\n{}", paragraph(step.outcome));
    }
    if !step.calls.is_empty() {
        text.push_str("\n\n**Tool calls**\n");
        for (call, number) in step.calls.iter().zip(1..) {
            let _ = write!(text, "\n{number}. {}", call_line(call));
        }
    }
    text
}

fn used(usage: &Usage, tool_turns: u32) -> String {
    let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
    let cost = cost(usage);
    format!("Tool turns: {tool_turns}, tokens: {tokens}, cost: {cost}")
}

fn call_line(call: &CallFacts<'_>) -> String {
    let (tool, input) = (code(call.tool), input(call));
    let Some(result) = &call.result else {
        let how = match (call.waits, call.doubts.last()) {
            (Some(waits @ (Waits::Approval | Waits::Question)), _) => awaited(waits),
            (_, Some(_)) => "**nobody knows how it ended**",
            (_, None) => "no result yet",
        };
        return format!("{tool} {input}: {how}");
    };
    let time = result.duration_ms.map_or(String::new(), |ms| {
        if ms == 0 {
            String::new()
        } else {
            format!(" ({})", duration(ms))
        }
    });
    let output = code(&brief_result(result));
    let word = match call.decision {
        Some(Settlement::Approve) => ", allowed by a person",
        Some(Settlement::Answer { .. }) => ", answered by a person",
        _ => "",
    };
    if !result.is_error {
        return format!("{tool} {input} → {output}{time}{word}");
    }
    let reason = if result.reason.is_empty() {
        String::new()
    } else {
        format!(" ({})", inline(result.reason))
    };
    format!("{tool} {input} → **failed**{reason}: {output}{time}{word}")
}

/// The arguments with which a call is made.
fn input(call: &CallFacts<'_>) -> String {
    let input = code(&cut(call.input, MOST_OF_INPUT));
    match call.is_changed {
        true => format!("{input} (changed by a hook)"),
        false => input,
    }
}

fn brief_result(result: &ResultFacts<'_>) -> String {
    let Some(whole) = result.whole else {
        return brief(&result.output);
    };
    let first = cut(
        first_line(&result.output).unwrap_or("(empty)"),
        MOST_OF_OUTPUT,
    );
    format!("{first} {}", rest_of_result(whole.bytes, &whole.handle))
}

fn brief(output: &str) -> String {
    let lines = output
        .lines()
        .filter(|line| !line.trim().is_empty())
        .count();
    let first = cut(first_line(output).unwrap_or("(empty)"), MOST_OF_OUTPUT);
    match lines {
        0 | 1 => first,
        2 => format!("{first} (+1 line)"),
        more => format!("{first} (+{} lines)", more - 1),
    }
}

/// Steps and calls that failed, in one place.
fn failures(facts: &Facts<'_>) -> Option<String> {
    let mut lines = Vec::new();
    for (step, number) in facts.steps.iter().zip(StepNo::all()) {
        for call in &step.calls {
            if let Some(result) = call.result.as_ref().filter(|result| result.is_error) {
                let (tool, output) = (code(call.tool), code(&brief_result(result)));
                lines.push(format!("- Step {number}, {tool}: {output}"));
            }
        }
        if step.phase == StepPhase::Failed {
            lines.push(format!("- Step {number} failed: {}", inline(step.outcome)));
        }
    }
    (!lines.is_empty()).then(|| section("Failures", &lines.join("\n")))
}

/// Calls of unknown outcome, and how they were settled.
fn doubts(facts: &Facts<'_>) -> Option<String> {
    let mut lines = Vec::new();
    for (step, number) in facts.steps.iter().zip(StepNo::all()) {
        for call in &step.calls {
            let (tool, input) = (code(call.tool), input(call));
            for doubt in &call.doubts {
                let since = clock(doubt.since);
                let how = settled(doubt);
                lines.push(format!(
                    "- Step {number}, {tool} {input}: in doubt since {since}; {how}"
                ));
            }
        }
    }
    (!lines.is_empty()).then(|| section("Calls of unknown outcome", &lines.join("\n")))
}

fn settled(doubt: &Doubt<'_>) -> String {
    let Some(answer) = doubt.answer else {
        return "not settled".to_owned();
    };
    let (word, why) = match answer {
        Settlement::Done { output } => ("it was done", brief(output)),
        Settlement::Retry => ("to be sent again", String::new()),
        Settlement::Skip { reason } => ("to go on without it", reason.clone()),
        Settlement::Fail { reason } => ("it failed", reason.clone()),
        // Answers to other questions.
        other => (other.verb(), String::new()),
    };
    let why = if why.trim().is_empty() {
        String::new()
    } else {
        format!(", {}", code(&why))
    };
    let effect = match doubt.settled_at {
        Some(at) => format!("took effect at {}", clock(at)),
        None => "has not taken effect".to_owned(),
    };
    format!("a person said: {word}{why}; {effect}")
}

fn total(facts: &Facts<'_>) -> Usage {
    let mut total = facts.planning;
    for step in &facts.steps {
        total.add(&step.usage);
    }
    total
}

/// Only numbers and fixed words: nothing in it needs escaping.
fn usage_table(facts: &Facts<'_>) -> String {
    let mut table = String::from(
        "| | model calls | tokens in | tokens out | cost |\n|---|---:|---:|---:|---:|\n",
    );
    let mut row = |name: &str, usage: &Usage| {
        let _ = writeln!(
            table,
            "| {name} | {} | {} | {} | {} |",
            usage.model_calls,
            input_tokens(usage),
            output_tokens(usage),
            cost(usage)
        );
    };
    if facts.planning != Usage::default() {
        let name = format!("Planning ({})", duration(facts.planning_ms));
        row(&name, &facts.planning);
    }
    for (step, number) in facts.steps.iter().zip(StepNo::all()) {
        if step.usage != Usage::default() {
            row(&format!("Step {number}"), &step.usage);
        }
    }
    row("Total", &total(facts));
    table.trim_end().to_owned()
}
