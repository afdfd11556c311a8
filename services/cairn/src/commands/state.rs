//! `cairn state`: the agent state as JSON.

use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::{AT, CliError};
use crate::ui::{out, text};
use cairn_proto::orchestrator::GetStateRequest;
use serde_json::Value;
use std::process::ExitCode;

/// What can be said to `cairn state`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The state is one JSON document: phase, steps, chat history of the current step, scratchpad,
pending questions, usage. With --json it is on one line.

Examples:
  cairn state
  cairn state --at 40
  cairn state s-7f3k | jq .phase")]
pub struct Args {
    /// The session: its id or a unique beginning of it [default: the latest]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// As it was after this event; 0 for now
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    at: u64,
}

/// Writes the state.
///
/// # Errors
/// No such session or event.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let client = Client::attach(context, Access::Read).await?;
    let session = client.resolve(args.session.as_deref()).await?;
    let at_seq = args.at;
    let request = GetStateRequest { session, at_seq };
    let answer = client.orchestrator().get_state(request).await;
    let answer = answer.map_err(|status| CliError::from(status).naming(&AT))?;
    let answer = answer.into_inner();
    let state: Value =
        serde_json::from_str(&answer.json).map_err(|error| CliError::chain(&error))?;
    if context.json {
        out::line(&text::json(&state))?;
    } else {
        out::line(&text::json_escaped(&format!("{state:#}")))?;
    }
    Ok(ExitCode::SUCCESS)
}
