//! `cairn hook`: the hooks that runs ask are listed, shown and tried, and services stored as hooks.

mod delete;
mod list;
mod points;
mod put;
mod show;
mod tried;

use crate::context::Context;
use crate::error::CliError;
use crate::ui::text::command;
use clap::Subcommand;
use std::process::ExitCode;

/// The arguments of `cairn hook`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A hook is a program or a service that runs ask at points, such as PreToolCall: before a tool is called. It can
let the run continue, change what comes next, skip it, block it, or have a person asked. Programs come from
[[hooks]] of the settings alone. Services can also be stored with put, at addresses that serve.hook_addresses
matches.

A run asks the hooks that there were when it began. If one of them is missing or changed later, the run waits:
see cairn pending.

Examples:
  cairn hook list
  cairn hook points
  cairn hook try guard --point PreToolCall --tool shell_exec --arguments '{\"command\": \"git push --force\"}'
  cairn hook put hooks.toml
  cairn hook delete audit")]
pub struct Args {
    /// The action
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the hooks in the order in which runs ask them
    List,
    /// Show one hook
    Show(show::Args),
    /// Store the services of a file as hooks, or replace them
    Put(put::Args),
    /// Delete a stored hook
    Delete(delete::Args),
    /// List the points, and what a hook can answer at each
    Points,
    /// Ask one hook about an example, and show its answer
    Try(tried::Args),
}

impl Args {
    /// Whether it needs no settings.
    pub(super) fn only_explains(&self) -> bool {
        matches!(self.action, Action::Points)
    }
}

/// Lists, shows, stores, deletes, explains or tries.
///
/// # Errors
/// No such hook; faults of a file; the services'.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    match args.action {
        Action::List => list::run(context).await?,
        Action::Show(args) => show::run(args, context).await?,
        Action::Put(args) => put::run(args, context).await?,
        Action::Delete(args) => delete::run(args, context).await?,
        Action::Points => points::run(context)?,
        Action::Try(args) => return tried::run(args, context).await,
    }
    Ok(ExitCode::SUCCESS)
}

/// Reason of the services: there is no hook of this name.
const HOOK_NOT_FOUND: &str = "HOOK_NOT_FOUND";

/// An error about a hook that is not there, with the way to those that are.
fn not_found(context: &Context, error: CliError) -> CliError {
    if error.reason != HOOK_NOT_FOUND {
        return error;
    }
    let list = command(context, "hook list");
    error.hint(format!("see the hooks with: {list}"))
}

/// Retries of one command are one request.
fn request_id() -> String {
    format!("hook-{}", uuid::Uuid::now_v7().simple())
}
