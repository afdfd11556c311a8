//! `cairn plan apply`: puts a proposal into force.

use super::super::revise;
use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use cairn_proto::orchestrator::ApplyPlanRequest;
use cairn_proto::orchestrator::apply_plan_request::Change;
use std::process::ExitCode;

/// What can be said to `cairn plan apply`.
#[derive(Debug, clap::Args)]
#[command(allow_missing_positional = true)]
#[command(after_help = "\
A proposal can be applied as long as the plan that it changes is in force.

With --json one object: session, run, revision, seq, diff.

Examples:
  cairn plan apply 1
  cairn plan apply s-7f3k 1")]
pub(super) struct Args {
    /// The session: its id or a unique beginning of it [default: the latest]
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Number of the proposal, as cairn feedback and cairn plan edit told it
    #[arg(value_name = "PROPOSAL", required = true)]
    proposal: u32,
}

pub(super) async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let mut client = Client::attach(context, Access::Change).await?;
    let reported = apply(&mut client, &args).await;
    client.finish().await;
    reported.map(|()| ExitCode::SUCCESS)
}

async fn apply(client: &mut Client<'_>, args: &Args) -> Result<(), CliError> {
    let session = client.resolve(args.session.as_deref()).await?;
    let request = ApplyPlanRequest {
        session: session.clone(),
        change: Some(Change::Proposal(args.proposal)),
        ..ApplyPlanRequest::default()
    };
    let applied = revise::apply(client, request).await?;
    revise::tell_applied(client, &session, &applied).await
}
