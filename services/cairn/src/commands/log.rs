//! `cairn log`: every model text, every tool call and every decision of a person in a session.

mod whole;

use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::event_json::{principal, result_handle};
use crate::ui::out;
use crate::ui::style::Style;
use crate::ui::text::{block, command, quoted};
use crate::ui::time::{clock, span, utc};
use cairn_proto::orchestrator::{GetExecutionLogRequest, LogEntry};
use cairn_rpc::text::escape;
use cairn_views::figures::rest_of_result;
use clap::builder::NonEmptyStringValueParser;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

/// Lines of a text that are shown without `--full`.
const BRIEF: usize = 12;

/// What can be said to `cairn log`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A line with ! is a decision of a person, with who decided. A line with < is what a person says in a
conversation, or the arguments of a call.

Of a result that was too long for the model only its beginning is shown, also with --full and --json.
--full names the command that shows all of it. --result prints the text as the tool gave it; on a terminal,
control characters are shown as escapes. Results that a hook withheld from the model are refused.

With --json one entry a line: seq, at, run, step, tool (empty for texts), input, output, is_error,
duration_ms, decision (empty for texts and calls), principal, whole (null, or the handle and the size of
a long result). With --json and --result one object: session, whole, text.

Examples:
  cairn log
  cairn log --full
  cairn log --after 40
  cairn log s-7f3k --result result-3-9f86 > result.txt
  cairn log --json | jq 'select(.is_error)'")]
pub struct Args {
    /// The session: its id or a unique beginning of it [default: the latest]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Only what came after this event
    #[arg(
        long,
        value_name = "SEQ",
        default_value_t = 0,
        conflicts_with = "result"
    )]
    after: u64,
    /// Show long texts whole, and of long results all that is in the log: their beginning
    #[arg(long, conflicts_with = "result")]
    full: bool,
    /// Print the whole text of this long result in place of the log
    #[arg(long, value_name = "HANDLE", value_parser = NonEmptyStringValueParser::new())]
    result: Option<String>,
    /// Write the result to this file, which only you may read; an existing file is replaced once all of
    /// the text is there [default or -: standard output]
    #[arg(long, short, value_name = "FILE", requires = "result")]
    output: Option<PathBuf>,
}

/// Writes the execution log, or a long result.
///
/// # Errors
/// No such session or result, or the file cannot be written.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let client = Client::attach(context, Access::Read).await?;
    let session = client.resolve(args.session.as_deref()).await?;
    if let Some(handle) = args.result {
        whole::show(&client, session, handle, args.output.as_deref()).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let style = Style::new(context.color);
    let command_for = |handle: &str| {
        let handle = quoted(handle);
        command(context, &format!("log {session} --result {handle}"))
    };
    let mut after_seq = args.after;
    loop {
        let request = GetExecutionLogRequest {
            session: session.clone(),
            after_seq,
            max_entries: 0,
        };
        let answer = client.orchestrator().get_execution_log(request).await?;
        let page = answer.into_inner();
        for entry in &page.entries {
            if context.json {
                out::json(&entry_json(entry))?;
            } else {
                out::line(&entry_text(entry, args.full, style, &command_for))?;
            }
        }
        after_seq = page.next_after_seq;
        if after_seq == 0 {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

fn entry_json(entry: &LogEntry) -> Value {
    json!({
        "seq": entry.seq,
        "at": utc(entry.at_unix_ms),
        "run": entry.run,
        "step": entry.step,
        "tool": entry.tool,
        "input": entry.input,
        "output": entry.output,
        "is_error": entry.is_error,
        "duration_ms": entry.duration_ms,
        "decision": entry.decision,
        "principal": principal(entry.principal.as_ref()),
        "whole": result_handle(entry.whole.as_ref()),
    })
}

/// An entry as text. `command_for` gives the command that shows all of a long result.
fn entry_text(
    entry: &LogEntry,
    full: bool,
    style: Style,
    command_for: &dyn Fn(&str) -> String,
) -> String {
    let place = format!("{} {:>5}", clock(entry.at_unix_ms), entry.seq);
    let who = match (entry.principal.as_ref(), entry.tool.as_str()) {
        (Some(by), _) => style.strong(&escape(&by.subject)),
        (None, "") if !entry.input.is_empty() => style.strong("person"),
        (None, "") => style.strong("model"),
        (None, tool) => style.strong(&escape(tool)),
    };
    let step = match (entry.run, entry.step) {
        (0, _) => "session".to_owned(),
        (run, 0) => format!("run {run}"),
        (run, step) => format!("run {run} step {step}"),
    };
    let mut text = format!("{} {step} · {who}", style.dim(&place));
    if entry.duration_ms > 0 {
        text.push_str(&style.dim(&format!(" ({})", span(entry.duration_ms))));
    }
    if !entry.input.is_empty() {
        push_lines(&mut text, "<", &entry.input, full);
    }
    if !entry.decision.is_empty() {
        push_lines(&mut text, "!", &entry.decision, full);
        return text;
    }
    let output = if entry.is_error { "✗" } else { ">" };
    push_lines(&mut text, output, &entry.output, full);
    if let Some(whole) = &entry.whole {
        let rest = rest_of_result(whole.bytes, &escape(&whole.handle));
        let more = match full {
            true => format!("show all of it with: {}", command_for(&whole.handle)),
            false => "only its beginning is shown".to_owned(),
        };
        text.push_str(&format!("\n    {output} {rest}; {more}"));
    }
    text
}

/// Adds the lines of a text, each after a sign; without `full` only the first ones.
fn push_lines(out: &mut String, sign: &str, text: &str, full: bool) {
    let text = block(text);
    let most = if full { usize::MAX } else { BRIEF };
    for line in text.lines().take(most) {
        out.push_str(&format!("\n    {sign} {line}"));
    }
    let rest = text.lines().count().saturating_sub(most);
    if rest > 0 {
        out.push_str(&format!("\n    {sign} … {rest} more lines (--full)"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> LogEntry {
        LogEntry {
            seq: 17,
            at_unix_ms: 1000,
            run: 1,
            step: 2,
            tool: "search".into(),
            input: r#"{"a":1}"#.into(),
            output: (1..=14).map(|n| format!("{n}\u{1b}\n")).collect(),
            is_error: false,
            duration_ms: 5,
            ..LogEntry::default()
        }
    }

    fn command_for(handle: &str) -> String {
        format!("cairn log s --result {handle}")
    }

    #[test]
    fn long_outputs_are_cut_unless_asked_for() {
        let texts = [("brief", false), ("full", true)].map(|(name, full)| {
            let text = entry_text(&entry(), full, Style::new(false), &command_for);
            format!("--- {name}\n{text}\n")
        });
        insta::assert_snapshot!("log_entry", texts.concat());
    }

    #[test]
    fn a_long_result_names_its_size_and_its_handle() {
        let whole = cairn_proto::event::ResultHandle {
            handle: "result-3".into(),
            bytes: 5 << 20,
            ..Default::default()
        };
        let entry = LogEntry {
            whole: Some(whole),
            ..entry()
        };
        let beginning = "only its beginning is shown";
        let command = "show all of it with: cairn log s --result result-3";
        for (full, more) in [(false, beginning), (true, command)] {
            let text = entry_text(&entry, full, Style::new(false), &command_for);
            let end = format!("> … of 5.0 MiB, handle result-3; {more}");
            assert!(text.ends_with(&end), "{text}");
        }
        assert_eq!(entry_json(&entry)["whole"]["handle"], "result-3");
    }
}
