//! `cairn pool`: the resources that carry out steps are shown and registered, and tools granted and revoked.

mod context;
mod lines;
mod put;
mod remove;
mod show;
mod tools;
mod watch;

use crate::context::Context;
use crate::error::CliError;
use clap::Subcommand;
use std::process::ExitCode;

/// The arguments of `cairn pool`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The pool has the executors and the MCP servers, which join it by themselves, and the resources that you
register. A resource has capabilities, such as file_ops. A step that names capabilities waits until the pool
has them free; cairn show says which step waited how long and for what.

With --json one object: summary, resources, capabilities, agent_grants, with the fields of cairn.api.v1.Pool.

Examples:
  cairn pool
  cairn pool watch
  cairn pool context s-7f3k --step 2
  cairn pool put gpu-1 --kind gpu --capability gpu --slots 2 --label rack=7
  cairn pool remove gpu-1
  cairn pool grant web_search --agent reviewer
  cairn pool revoke shell_exec --executor executor-general")]
pub struct Args {
    /// The action [default: show]
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show the resources and the capabilities
    Show,
    /// Show the pool, and every change of it
    Watch,
    /// Show what a model reads of the pool and its task
    Context(context::Args),
    /// Register a resource, or replace what was registered of it
    Put(put::Args),
    /// Remove what was registered of a resource
    Remove(remove::Args),
    /// Grant a tool to an agent or an executor; takes back a revocation
    Grant(tools::Args),
    /// Take a tool from an agent or an executor, whatever gave it
    Revoke(tools::Args),
}

/// Shows, registers, removes, grants or revokes.
///
/// # Errors
/// No such resource; the services'.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    match args.action.unwrap_or(Action::Show) {
        Action::Show => show::run(context).await?,
        Action::Watch => return watch::run(context).await,
        Action::Context(args) => context::run(args, context).await?,
        Action::Put(args) => put::run(args, context).await?,
        Action::Remove(args) => remove::run(args, context).await?,
        Action::Grant(args) => tools::grant(args, context).await?,
        Action::Revoke(args) => tools::revoke(args, context).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The pool as JSON, by the names of the contract.
fn to_json(pool: &cairn_proto::api::Pool) -> serde_json::Value {
    cairn_proto::json::value("cairn.api.v1.Pool", Some(pool))
}

/// Retries of one command are one request.
fn request_id() -> String {
    format!("pool-{}", uuid::Uuid::now_v7().simple())
}
