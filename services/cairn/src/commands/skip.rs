//! `cairn skip`: continues without a step.

use super::confirm::agreed_session;
use super::hint;
use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use cairn_proto::orchestrator::SkipStepRequest;
use serde_json::json;
use std::process::ExitCode;

/// What can be said to `cairn skip`.
#[derive(Debug, clap::Args)]
#[command(allow_missing_positional = true)]
#[command(after_help = "\
A skipped step hands its dependencies on: the steps after it wait for the steps that it waited for, and
see their results. A running step is stopped; a step that has ended cannot be skipped. cairn plan show
lists the numbers of the steps.

With --json one object: session, run, step.

Examples:
  cairn skip s-7f3k 3
  cairn skip s-7f3k 3 --reason \"the mail was sent by hand\"")]
pub struct Args {
    /// The session: its id or a unique beginning of it [default: the latest, if you agree]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Number of the step
    #[arg(value_name = "STEP", required = true)]
    step: u32,
    /// Why, for the journal
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    reason: String,
}

/// Skips the step of the latest run.
///
/// # Errors
/// No such session or step, or the step or the run has ended.
pub async fn run(mut args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let what = format!("Skip step {} of", args.step);
    args.session = Some(agreed_session(context, args.session, &what).await?);
    let mut client = Client::attach(context, Access::Change).await?;
    let reported = skip(&mut client, args, context).await;
    client.finish().await;
    reported.map(|()| ExitCode::SUCCESS)
}

async fn skip(client: &mut Client<'_>, args: Args, context: &Context) -> Result<(), CliError> {
    let session = client.resolve(args.session.as_deref()).await?;
    let request = SkipStepRequest {
        session: session.clone(),
        run: 0,
        step: args.step,
        reason: args.reason,
        request_id: uuid::Uuid::now_v7().simple().to_string(),
    };
    let answer = client
        .persist(|mut orchestrator| {
            let request = request.clone();
            async move { orchestrator.skip_step(request).await }
        })
        .await
        .map_err(|error| hint::with_plan(context, &session, error))?;
    if context.json {
        return out::json(&json!({"session": session, "run": answer.run, "step": answer.step}));
    }
    let (step, run) = (answer.step, answer.run);
    out::line(&format!(
        "run {run} of {session} continues without step {step}"
    ))?;
    out::line(&hint::go_on(client, &session).await)
}
