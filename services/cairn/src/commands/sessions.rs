//! `cairn sessions`: all sessions, newest first.

use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::describe::{quarantine_reason, seen, session_status};
use crate::ui::out;
use crate::ui::table::{Column, Table};
use crate::ui::text::command;
use crate::ui::time::{age, utc};
use cairn_proto::orchestrator::SessionSummary;
use cairn_rpc::{Clock as _, SystemClock};
use serde_json::json;
use std::process::ExitCode;

/// What can be said to `cairn sessions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
With --json one session a line: id, status (idle, running, interrupted, waiting, quarantined), title,
created, updated, last_seq, quarantine_reason (claims, writes_lost; else null). What nobody works on,
such as after kill -9, is interrupted.

Examples:
  cairn sessions
  cairn sessions --limit 5
  cairn sessions --json | jq -r 'select(.status == \"waiting\") | .id'")]
pub struct Args {
    /// Most sessions to show; 0 for all
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    limit: usize,
}

/// Lists the sessions.
///
/// # Errors
/// There is no store, or it cannot be read.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let client = Client::attach(context, Access::Read).await?;
    let sessions = client.sessions().await?;
    let is_held = !client.attached().is_reader();
    let limit = if args.limit == 0 {
        usize::MAX
    } else {
        args.limit
    };
    if context.json {
        for session in sessions.iter().take(limit) {
            out::json(&json!({
                "id": session.id,
                "status": seen(session_status(session.status), is_held),
                "title": session.title,
                "created": utc(session.created_unix_ms),
                "updated": utc(session.updated_unix_ms),
                "last_seq": session.last_seq,
                "quarantine_reason": quarantine_reason(session.quarantine_reason),
            }))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if sessions.is_empty() {
        out::line("there is no session yet; begin with: cairn run \"<goal>\"")?;
        return Ok(ExitCode::SUCCESS);
    }
    let now = i64::try_from(SystemClock.unix_ms()).unwrap_or(i64::MAX);
    for line in table(sessions.iter().take(limit), is_held, now).lines(None) {
        out::line(&line)?;
    }
    if let Some(more) = sessions.len().checked_sub(limit).filter(|more| *more > 0) {
        out::line(&format!(
            "… {more} more: {}",
            command(context, "sessions --limit 0")
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table<'s>(sessions: impl Iterator<Item = &'s SessionSummary>, is_held: bool, now: i64) -> Table {
    let mut table = Table::new([
        Column::Left("SESSION"),
        Column::Left("STATUS"),
        Column::Right("EVENTS"),
        Column::Left("CHANGED"),
        Column::Left("TITLE"),
    ]);
    for session in sessions {
        table.row([
            &session.id,
            &seen(session_status(session.status), is_held),
            &session.last_seq.to_string(),
            &age(session.updated_unix_ms, now),
            &session.title,
        ]);
    }
    table
}
