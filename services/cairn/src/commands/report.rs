//! `cairn report`: what a run did, for people.

use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::{AT, CliError};
use crate::ui::{file, out, text};
use cairn_proto::orchestrator::GetReportRequest;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// What can be said to `cairn report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
With --json one object: session, run (0 for the latest), markdown.

Examples:
  cairn report
  cairn report s-7f3k --run 2
  cairn report --at 40
  cairn report --output report.md")]
pub struct Args {
    /// The session: its id or a unique beginning of it [default: the latest]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Number of the run; 0 for the latest
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    run: u32,
    /// As it was after this event; 0 for now
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    at: u64,
    /// Where to write it [default or -: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes the report as Markdown.
///
/// # Errors
/// No such session or run, or the file cannot be written.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let client = Client::attach(context, Access::Read).await?;
    let session = client.resolve(args.session.as_deref()).await?;
    let (asked, run) = (session.clone(), args.run);
    let request = GetReportRequest {
        session: asked,
        run,
        at_seq: args.at,
    };
    let answer = client.orchestrator().get_report(request).await;
    let answer = answer.map_err(|status| CliError::from(status).naming(&AT))?;
    let markdown = answer.into_inner().markdown;
    if let Some(path) = file::named(args.output.as_deref()) {
        file::write(context, path, &markdown)?;
    } else if context.json {
        out::json(&json!({"session": session, "run": run, "markdown": markdown}))?;
    } else {
        out::line(&text::block(&markdown))?;
    }
    Ok(ExitCode::SUCCESS)
}
