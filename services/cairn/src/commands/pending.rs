//! `cairn pending`: what waits for a person.

use crate::attach::Access;
use crate::client::{Client, with_status};
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use crate::ui::questions::{Extent, pending_json, pending_lines, unreadable_json, unreadable_line};
use crate::ui::style::Style;
use crate::ui::text::command;
use cairn_proto::orchestrator::{ListPendingRequest, ListPendingResponse, SessionStatus};
use std::process::ExitCode;

/// What can be said to `cairn pending`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
With --json one question a line: session, id, reason (in_doubt, budget, approval, question,
plan_review, context, capability, hook), run, step, tool, arguments_json, call_key, settle_after (null for at once), answered,
since, question, choices, budget (turns, tokens, cost, time, calls), plan, proposal, always_covers
(for an approval: the values of further calls that approve --always covers; null if no process runs
the tools, or if a value of the call cannot be compared), scopes (of further calls: id, covers), preview
(path, diff, added, removed, is_protected; null but for a write), command, folder, opens (null but for a
command), cause (nothing_to_compact, does_not_shrink,
no_summary; these four for a request that does not fit, else null), tokens, window_tokens, failure, missing
(of a step whose capabilities no resource has: capability, level, available, total, tools), hook, hook_reason
(of what a hook requires an approval of; else null), asked_arguments_json (those of the model, if hooks changed
them; else null), missing_hooks, changed_hooks.
A session that cannot be read is a line with session, unreadable (the reason) and message.

Examples:
  cairn pending            all sessions that wait
  cairn pending s-7f3k     one session
  cairn pending --whole    with all lines of each change")]
pub struct Args {
    /// The session: its id or a unique beginning of it [default: all sessions that wait]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Show all lines of a change, not only the first 40
    #[arg(long)]
    whole: bool,
}

/// Lists the open questions, with the commands that answer them.
///
/// # Errors
/// There is no store, or no such session.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let client = Client::attach(context, Access::Read).await?;
    let session = match &args.session {
        Some(given) => client.resolve(Some(given)).await?,
        None => String::new(),
    };
    let request = ListPendingRequest {
        session,
        ..ListPendingRequest::default()
    };
    let answer = client.orchestrator().list_pending(request).await?;
    let ListPendingResponse {
        pending,
        unreadable,
    } = answer.into_inner();
    if context.json {
        for pending in &pending {
            out::json(&pending_json(pending))?;
        }
        for session in &unreadable {
            out::json(&unreadable_json(session))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if pending.is_empty() && unreadable.is_empty() {
        out::line("nothing waits for a person")?;
        // What a process that died has left is known once somebody takes it up.
        if client.attached().is_reader() && is_interrupted(&client).await? {
            let resume = command(context, "resume");
            out::line(&format!(
                "a run was interrupted, and may ask when it continues: {resume}"
            ))?;
        }
    }
    let extent = match args.whole {
        true => Extent::Whole,
        false => Extent::First,
    };
    for (index, pending) in pending.iter().enumerate() {
        if index > 0 {
            out::line("")?;
        }
        let lines = pending_lines(context, Style::new(context.color), pending, extent);
        out::line(&lines.join("\n"))?;
    }
    if !pending.is_empty() && !unreadable.is_empty() {
        out::line("")?;
    }
    for session in &unreadable {
        out::line(&unreadable_line(session))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A run has not ended, and nobody works on it.
async fn is_interrupted(client: &Client<'_>) -> Result<bool, CliError> {
    let running = with_status(&[SessionStatus::Running]);
    Ok(!client.list(running, 1).await?.is_empty())
}
