//! `cairn plan`: the plan of a run.

mod apply;
mod diff;
mod edit;
mod show;

use crate::client::Client;
use crate::context::Context;
use crate::error::{AT, CliError};
use cairn_proto::orchestrator::{GetPlanRequest, GetPlanResponse};
use clap::Subcommand;
use std::process::ExitCode;

/// What can be said to `cairn plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each change of a plan makes a new revision. Its steps keep their numbers for as long as they are in
the plan, so that a plan may have the steps 1, 2, 6 and 7.

Examples:
  cairn plan show
  cairn plan edit
  cairn plan diff 1 2
  cairn plan show --json >plan.json && cairn plan edit --file plan.json")]
pub struct Args {
    /// What is to be done
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show the plan in force, with the state of each step
    Show(show::Args),
    /// Change the plan by hand
    Edit(edit::Args),
    /// Show what is different between two revisions
    Diff(diff::Args),
    /// Put a proposal into force
    Apply(apply::Args),
}

/// Shows or changes a plan.
///
/// # Errors
/// No such session, run, revision or proposal; a plan that is wrong.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    match args.action {
        Action::Show(args) => show::run(args, context).await,
        Action::Edit(args) => edit::run(args, context).await,
        Action::Diff(args) => diff::run(args, context).await,
        Action::Apply(args) => apply::run(args, context).await,
    }
}

/// The plan in force of a run.
async fn in_force(
    client: &mut Client<'_>,
    session: &str,
    run: u32,
) -> Result<GetPlanResponse, CliError> {
    as_of(client, session, run, 0).await
}

/// The same as it was after an event.
async fn as_of(
    client: &mut Client<'_>,
    session: &str,
    run: u32,
    at_seq: u64,
) -> Result<GetPlanResponse, CliError> {
    let request = GetPlanRequest {
        session: session.to_owned(),
        run,
        at_seq,
        ..GetPlanRequest::default()
    };
    client
        .persist(|mut orchestrator| {
            let request = request.clone();
            async move { orchestrator.get_plan(request).await }
        })
        .await
        .map_err(|error| error.naming(&AT))
}

/// There is nothing to show or to change.
fn no_plan(run: u32) -> CliError {
    CliError::new(format!("run {run} has no plan"))
        .hint("a run that is being planned has one soon, and a turn of a conversation has none")
}
