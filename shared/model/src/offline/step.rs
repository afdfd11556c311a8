//! What the offline model does in a step, by the first word of its description.

use super::ask::Ask;
use super::context::StepContext;
use super::desk::{Desk, Found, Reply};
use super::look::{self, brief};
use super::words::has;
use cairn_views::file_results::Written;
use serde_json::json;

const BEGIN: &str = "> Written by Cairn's offline model, which follows fixed rules. For a \
                          language model, set OPENAI_API_KEY or --model.";

/// How the step ends, or the reply that brings the end nearer.
pub(super) fn carry_out(desk: &Desk<'_>, context: &StepContext) -> Result<Found, Reply> {
    let mut ask = Ask::parse(&context.description);
    let first = context.description.split_whitespace().next();
    let first = first.unwrap_or_default().to_lowercase();
    if ask.output.is_some() || has("write report save summarize summarise compare", &first) {
        return report(desk, context, ask);
    }
    if has("list survey count", &first) {
        return Ok(look::list(desk, &ask)?.0);
    }
    if ask.terms.is_empty() && has("search find look", &first) {
        ask.terms = Ask::parse(&context.goal).terms;
    }
    look::look(desk, &ask)
}

/// Writes what earlier steps found. If there is nothing of it, looks for it first.
fn report(desk: &Desk<'_>, context: &StepContext, mut ask: Ask) -> Result<Found, Reply> {
    let of_goal = || Ask::parse(&context.goal).report();
    let path = ask.output.take().unwrap_or_else(of_goal);
    let (mut summary, mut notes) = (answer(&context.summaries), context.notes.clone());
    if notes.is_empty() {
        ask.add(Ask::parse(&context.goal));
        (summary, notes) = look::look(desk, &ask).map(|found| (found.summary, found.notes))?;
    }
    let goal = brief(&context.goal);
    let content = format!("{BEGIN}\n\n# Report\n\nGoal: {goal}\n\n{summary}\n\n{notes}\n");
    let call = ("write_file", json!({"path": path, "content": content}));
    summary += &match desk.ask_one(&format!("writing {path}"), call)? {
        Ok(text) => format!(
            " Report: {}",
            text.parse().map_or(path, |it: Written| it.path)
        ),
        Err(error) => format!(" The report was not written: {}", brief(&error)),
    };
    let notes = String::new();
    Ok(Found { summary, notes })
}

/// The summaries without the numbers of their steps. Lists of files come last: they answer least.
fn answer(summaries: &str) -> String {
    let plain = |line: &str| match line.strip_prefix("- Step ") {
        Some(rest) => rest
            .split_once(": ")
            .map_or("", |(_, text)| text)
            .to_owned(),
        None => line.trim().to_owned(),
    };
    let mut lines: Vec<String> = summaries.lines().map(plain).collect();
    lines.dedup();
    lines.sort_by_key(|line| line.starts_with("Files "));
    lines.join(" ")
}
