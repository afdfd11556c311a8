//! `cairn agent`: agent files are checked, agents stored, listed, shown and deleted, and the files of a workspace
//! confirmed.

mod check;
mod delete;
mod files;
mod findings;
mod list;
mod put;
mod show;
mod trust;
pub(super) mod workspace;

use crate::context::Context;
use crate::error::CliError;
use crate::ui::text::command;
use clap::Subcommand;
use std::process::ExitCode;

/// The arguments of `cairn agent`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
An agent is a role for a model: a prompt, models, tools and limits. It comes from a Markdown file with
front matter, as Claude Code, opencode, VS Code and Copilot have them. cairn run and cairn chat take an agent
with --agent. An agent file of the workspace counts once you have confirmed it, as workspace:NAME.

Examples:
  cairn agent check .claude/agents
  cairn agent put .claude/agents/reviewer.md
  cairn agent list
  cairn agent show reviewer
  cairn agent delete reviewer
  cairn agent trust")]
pub struct Args {
    /// The action
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Check agent files, without a store or a server
    Check(check::Args),
    /// Store the agent of a file, or replace it
    Put(put::Args),
    /// List the agents that are stored, and those of the workspace
    List(list::Args),
    /// Show one agent
    Show(show::Args),
    /// Delete an agent
    Delete(delete::Args),
    /// Confirm the agent files, skills and instructions of the workspace, so that they count
    Trust(trust::Args),
}

impl Args {
    /// Whether it reads files alone, so that it needs no settings.
    pub(super) fn only_checks(&self) -> bool {
        matches!(self.action, Action::Check(_))
    }
}

/// Checks, stores, lists, shows, deletes or confirms.
///
/// # Errors
/// Faults of an agent file; no such agent; the services'.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    match args.action {
        Action::Check(args) => check::run(args, context).await?,
        Action::Put(args) => put::run(args, context).await?,
        Action::List(args) => list::run(args, context).await?,
        Action::Show(args) => show::run(args, context).await?,
        Action::Delete(args) => delete::run(args, context).await?,
        Action::Trust(args) => trust::run(args, context).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Reason of the services: there is no agent of this name.
pub(super) const AGENT_NOT_FOUND: &str = "AGENT_NOT_FOUND";

/// An error about an agent that is not there, with the way to those that are.
pub(super) fn not_found(context: &Context, error: CliError) -> CliError {
    if error.reason != AGENT_NOT_FOUND {
        return error;
    }
    let list = command(context, "agent list");
    error.hint(format!("see the agents with: {list}"))
}

/// Retries of one command are one request.
fn request_id() -> String {
    format!("agent-{}", uuid::Uuid::now_v7().simple())
}
