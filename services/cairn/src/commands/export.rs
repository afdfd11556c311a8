//! `cairn export`: the whole journal of a session.

use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::event_json::event_json;
use crate::ui::file::{self, Readers, Replacement};
use crate::ui::{out, text};
use cairn_proto::orchestrator::ExportSessionRequest;
use std::path::PathBuf;
use std::process::ExitCode;

/// What can be said to `cairn export`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
One event a line as a JSON object: seq, at, kind, principal (who asked, if the event says so), and the
fields of cairn.event.v1 by their names there. Enum values are in lower case without the name of their
enum. cairn import reads the archive of old sessions (store.retention.archive), and not this form.

Examples:
  cairn export > journal.jsonl
  cairn export s-7f3k --output journal.jsonl
  cairn export | jq -r 'select(.kind == \"reply_received\") | .text'")]
pub struct Args {
    /// The session: its id or a unique beginning of it [default: the latest]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Write the journal to this file, which only you may read; an existing file is replaced once all
    /// events are there [default or -: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes the journal as lines of JSON.
///
/// # Errors
/// No such session, or the file cannot be written.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let client = Client::attach(context, Access::Read).await?;
    let session = client.resolve(args.session.as_deref()).await?;
    let request = ExportSessionRequest { session };
    let mut events = client
        .orchestrator()
        .export_session(request)
        .await?
        .into_inner();
    let output = file::named(args.output.as_deref());
    let mut target = output
        .map(|path| Replacement::begin(path, Readers::User))
        .transpose()?;
    let mut number = 0_u64;
    while let Some(message) = events.message().await? {
        let line = text::json(&event_json(message.seq, &message.event.unwrap_or_default()));
        number += 1;
        match &mut target {
            Some(file) => file.line(&line)?,
            None => out::line(&line)?,
        }
    }
    if let (Some(file), Some(path)) = (target, output) {
        file.finish()?;
        file::written(context, path, &format!("{number} events"))?;
    }
    Ok(ExitCode::SUCCESS)
}
