//! `cairn config`: the settings, and whether a settings file counts as the operator's.

mod confirm;
mod question;

pub(super) use question::{is_too_long, settled, withholds_hooks};

use super::check_config;
use crate::cli::Global;
use crate::context::Context;
use crate::error::CliError;
use crate::settings::{OfWorkspace, Source, hooks};
use crate::ui::out;
use cairn_rpc::text::escape;
use clap::Subcommand;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// The arguments of `cairn config`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A cairn.toml that is found in the current folder may have come with it, such as with a repository.
Until you confirm it, only settings count that make Cairn do less or ask more, and no prompt beside
it. A change of the file or of a prompt needs another confirmation. A file that you name with
--config or CAIRN_CONFIG needs none.

Without a terminal, run, chat, resume, serve and tools call refuse an unconfirmed file that has hooks:
they would work without them.

Examples:
  cairn config show
  cairn config trust              show what cairn.toml would do, and confirm it
  cairn config trust --yes        confirm it as it is now, without a question

Without a terminal, it wants --yes and the digest.")]
pub struct Args {
    /// The action
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show every setting with its origin
    Show,
    /// Say whether the settings can be used; exit code 2 and all faults at once if not
    Check,
    /// Confirm a settings file, so that all of it counts
    Trust(Trust),
}

#[derive(Debug, clap::Args)]
struct Trust {
    /// The file [default: cairn.toml in the current folder]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Confirm it without a question; without a terminal, give its digest too
    #[arg(long)]
    yes: bool,
    /// Confirm it only if this is its digest
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,
}

impl Args {
    /// Whether it confirms the settings file.
    fn confirms(&self) -> bool {
        matches!(self.action, Action::Trust(_))
    }
}

/// Shows, checks or confirms.
///
/// # Errors
/// Settings with faults; a file or a trust file that cannot be read or written.
pub async fn run(args: Args, context: &Context) -> Result<ExitCode, CliError> {
    match args.action {
        Action::Show => check_config::show(context),
        Action::Check => check(context),
        Action::Trust(args) => confirm::confirm(args, context).await,
    }
}

fn check(context: &Context) -> Result<ExitCode, CliError> {
    check_config::check(context.config())?;
    let file = context.file.display().to_string();
    let mut warnings = hooks::warnings(context.config());
    if !context.is_confirmed {
        // Faults of settings that have no effect yet would come up once they have.
        let source = Source::find(&Global::default(), &context.environment)?;
        let whole = source.check_whole(&context.environment)?;
        check_config::check(&whole.config)?;
        warnings = hooks::warnings(&whole.config);
    }
    let servers = OfWorkspace::read(&context.config().workspace.path, &context.environment);
    let of_prompts = context.config().prompts.problems.iter().cloned();
    let left_out: Vec<String> = servers.problems().chain(of_prompts).collect();
    if context.json {
        out::json(&json!({
            "file": file,
            "confirmed": context.is_confirmed,
            "left_out": left_out,
            "warnings": warnings,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    out::line("the settings have no faults")?;
    for line in left_out.into_iter().chain(warnings) {
        out::line(&format!("warning: {}", escape(&line)))?;
    }
    if !context.is_confirmed {
        let file = escape(&file);
        out::line(&format!(
            "{file} is not confirmed; see what it would do with: cairn config trust"
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
