//! `cairn redo`: does a step again.

use super::confirm::agreed_session;
use super::{hint, revise};
use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use cairn_proto::orchestrator::ApplyPlanRequest;
use cairn_proto::orchestrator::apply_plan_request::Change;
use std::process::ExitCode;

/// What can be said to `cairn redo`.
#[derive(Debug, clap::Args)]
#[command(allow_missing_positional = true)]
#[command(after_help = "\
The step must have ended; whatever depends on it is done again too, and everything else is kept. What
you skipped after it is left out of the plan. The steps that are done again get new numbers. A run
that has ended continues.

With --json one object: session, run, revision, seq, diff.

Example:
  cairn redo s-7f3k 3")]
pub struct Args {
    /// The session: its id or a unique beginning of it [default: the latest, if you agree]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Number of the step, as cairn plan show has it
    #[arg(value_name = "STEP", required = true)]
    step: u32,
}

/// Puts a plan into force in which the step is to be done again.
///
/// # Errors
/// No such session or step, or the step has not ended.
pub async fn run(mut args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let what = format!("Do step {} again in", args.step);
    args.session = Some(agreed_session(context, args.session, &what).await?);
    let mut client = Client::attach(context, Access::Change).await?;
    let reported = redo(&mut client, args, context).await;
    client.finish().await;
    reported.map(|()| ExitCode::SUCCESS)
}

async fn redo(client: &mut Client<'_>, args: Args, context: &Context) -> Result<(), CliError> {
    let session = client.resolve(args.session.as_deref()).await?;
    let request = ApplyPlanRequest {
        session: session.clone(),
        change: Some(Change::RedoStep(args.step)),
        ..ApplyPlanRequest::default()
    };
    let applied = revise::apply(client, request)
        .await
        .map_err(|error| hint::with_plan(context, &session, error))?;
    revise::tell_applied(client, &session, &applied).await
}
