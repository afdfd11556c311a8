//! `cairn cancel`: ends a run.

use super::confirm::agreed_session;
use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use cairn_proto::orchestrator::CancelRunRequest;
use serde_json::json;
use std::process::ExitCode;

/// What can be said to `cairn cancel`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
No call begins any more once this command ends; what was done stays done.

Examples:
  cairn cancel s-7f3k
  cairn cancel s-7f3k --reason \"no longer needed\"")]
pub struct Args {
    /// The session: its id or a unique beginning of it [default: the latest, if you agree]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Number of the run; 0 for the latest
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    run: u32,
    /// Why, for the journal
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    reason: String,
}

/// Ends the run.
///
/// # Errors
/// No such session or run, or the run has ended already.
pub async fn run(mut args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let what = "Cancel the run of";
    args.session = Some(agreed_session(context, args.session, what).await?);
    let mut client = Client::attach(context, Access::Change).await?;
    let reported = cancel(&mut client, args, context).await;
    client.finish().await;
    reported.map(|()| ExitCode::SUCCESS)
}

async fn cancel(client: &mut Client<'_>, args: Args, context: &Context) -> Result<(), CliError> {
    let session = client.resolve(args.session.as_deref()).await?;
    let request = CancelRunRequest {
        session: session.clone(),
        run: args.run,
        reason: args.reason,
        request_id: uuid::Uuid::now_v7().simple().to_string(),
    };
    let answer = client
        .persist(|mut orchestrator| {
            let request = request.clone();
            async move { orchestrator.cancel_run(request).await }
        })
        .await?;
    if context.json {
        return out::json(&json!({"session": session, "run": answer.run}));
    }
    out::line(&format!("run {} of {session} is cancelled", answer.run))
}
