//! `cairn tools`: the tools, whether calls of them are made, and a way to try one.

mod allow;
mod approvals;
mod call;
mod list;

use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::live::terminal_width;
use crate::ui::screen;
use clap::Subcommand;
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::time::Instant;

/// The arguments of `cairn tools`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
With --json, tools list prints one object a line: kind (source or tool), name, and the rest.
tools call ends with exit code 1 if the result is an error, and with 3 if the call needs approval.

Examples:
  cairn tools
  cairn tools call search_files '{\"pattern\": \"lease\"}'
  cairn tools allow github                  start a server of the workspace's .mcp.json
  cairn tools approvals s-7f3k
  cairn tools revoke s-7f3k 1")]
pub struct Args {
    /// The action [default: list]
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the tools and their sources
    List,
    /// Call a tool once, outside of sessions; nothing is recorded
    Call(Call),
    /// Allow a server that waits for you, or a tool that changed, for all sessions
    Allow {
        /// The server or the tool, as cairn tools lists it
        name: String,
        /// Allow it only if this is its digest
        #[arg(long, value_name = "DIGEST")]
        digest: Option<String>,
        /// Allow it without a question; without a terminal, give its digest too
        #[arg(long)]
        yes: bool,
    },
    /// List the approvals of further calls that are in force in a session
    Approvals {
        /// The session: its id or a unique beginning of it [default: the latest]
        #[arg(value_name = "SESSION")]
        session: Option<String>,
    },
    /// End an approval of further calls
    Revoke {
        /// The session: its id or a unique beginning of it
        #[arg(value_name = "SESSION")]
        session: String,
        /// The approval, as cairn tools approvals numbers it
        #[arg(value_name = "NUMBER")]
        number: u32,
    },
    /// List the rules about calls; of those that match a call, the strictest holds
    Rules,
}

#[derive(Debug, clap::Args)]
struct Call {
    /// The tool
    name: String,
    /// The arguments, a JSON object
    #[arg(value_name = "ARGUMENTS", default_value = "{}")]
    arguments: String,
    /// Approve the call if it needs approval
    #[arg(long)]
    yes: bool,
    /// Write images and other media of the result into this folder
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
}

impl Args {
    /// Whether it calls a tool.
    pub(super) fn calls(&self) -> bool {
        matches!(self.action, Some(Action::Call(_)))
    }
}

/// Lists, calls, allows or revokes.
///
/// # Errors
/// The services', or no such session.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    let action = args.action.unwrap_or(Action::List);
    let access = match action {
        Action::Approvals { .. } => Access::Read,
        Action::Revoke { .. } => Access::Change,
        _ => Access::Make,
    };
    let servers = match &action {
        Action::List => Servers::Present,
        Action::Call(call) => Servers::of(&call.name),
        Action::Allow { name, .. } => Servers::of(name),
        Action::Approvals { .. } | Action::Revoke { .. } | Action::Rules => Servers::None,
    };
    let began = Instant::now();
    // The start of the services waits for servers, too.
    let waits_for = match servers {
        Servers::Present => list::of_settings(context),
        _ => Vec::new(),
    };
    if context.live && !waits_for.is_empty() {
        let line = crate::ui::tools::starting_line(&waits_for, terminal_width());
        screen::frame(&[], vec![line])?;
    }
    let client = Client::attach_with(context, access, servers).await;
    if context.live {
        screen::frame(&[], Vec::new())?;
    }
    let mut client = client?;
    let done = act(action, began, &mut client, context).await;
    client.finish().await;
    done
}

async fn act(
    action: Action,
    began: Instant,
    client: &mut Client<'_>,
    context: &Context,
) -> Result<ExitCode, CliError> {
    match action {
        Action::List => list::list(began, client, context).await?,
        Action::Call(call) => return call::call(call, client, context).await,
        Action::Allow { name, digest, yes } => {
            allow::allow(&name, digest, yes, client, context).await?;
        }
        Action::Approvals { session } => approvals::list(session, client, context).await?,
        Action::Revoke { session, number } => {
            approvals::revoke(&session, number, client, context).await?;
        }
        Action::Rules => approvals::rules(client, context).await?,
    }
    Ok(ExitCode::SUCCESS)
}
