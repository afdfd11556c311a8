//! `cairn pause`: stops a run for a while.

use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use crate::workspace::resume_command;
use cairn_proto::orchestrator::PauseRunRequest;
use serde_json::json;
use std::process::ExitCode;

/// What can be said to `cairn pause`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Nothing more begins in the run until cairn resume; a call with side effects that is under way may
end. Commands that follow the run say so, and end with exit code 3.

With --json one object: session, run.

Examples:
  cairn pause
  cairn pause s-7f3k --reason \"I want to look at the plan first\"")]
pub struct Args {
    /// The session: its id or a unique beginning of it [default: the latest]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Why, for the journal
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    reason: String,
}

/// Pauses the latest run.
///
/// # Errors
/// No such session, or its run has ended or is paused already.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let mut client = Client::attach(context, Access::Change).await?;
    let reported = pause(&mut client, args, context).await;
    client.finish().await;
    reported.map(|()| ExitCode::SUCCESS)
}

async fn pause(client: &mut Client<'_>, args: Args, context: &Context) -> Result<(), CliError> {
    let session = client.resolve(args.session.as_deref()).await?;
    let request = PauseRunRequest {
        session: session.clone(),
        run: 0,
        reason: args.reason,
        request_id: uuid::Uuid::now_v7().simple().to_string(),
    };
    let answer = client
        .persist(|mut orchestrator| {
            let request = request.clone();
            async move { orchestrator.pause_run(request).await }
        })
        .await?;
    if context.json {
        return out::json(&json!({"session": session, "run": answer.run}));
    }
    out::line(&format!("run {} of {session} is paused", answer.run))?;
    out::line(&format!("go on  {}", resume_command(context, &session)))
}
