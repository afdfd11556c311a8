//! `cairn config`: the settings, and whether a settings file counts as the operator's.

mod question;

pub(super) use question::settled;

use super::check_config;
use crate::context::Context;
use crate::error::CliError;
use crate::settings::trust;
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
Until you confirm it, only settings count that make Cairn do less or ask more. A change of the file
needs another confirmation. A file that you name with --config or CAIRN_CONFIG needs none.

Examples:
  cairn config show
  cairn config trust              confirm cairn.toml as it is now")]
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
    Trust {
        /// The file [default: cairn.toml in the current folder]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

impl Args {
    /// Whether it confirms the settings file.
    fn confirms(&self) -> bool {
        matches!(self.action, Action::Trust { .. })
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
        Action::Trust { file } => confirm(file, context),
    }
}

fn check(context: &Context) -> Result<ExitCode, CliError> {
    check_config::check(context)?;
    match context.json {
        true => {
            let file = context.file.display().to_string();
            out::json(&json!({"file": file, "confirmed": context.is_confirmed}))?;
        }
        false => out::line("the settings have no faults")?,
    }
    Ok(ExitCode::SUCCESS)
}

fn confirm(file: Option<PathBuf>, context: &Context) -> Result<ExitCode, CliError> {
    let path = file.unwrap_or_else(|| context.file.clone());
    let digest = trust::confirm(&path, &context.environment)?;
    let shown = path.display().to_string();
    match context.json {
        true => out::json(&json!({"file": shown, "digest": digest}))?,
        false => out::line(&format!("confirmed {}", escape(&shown)))?,
    }
    Ok(ExitCode::SUCCESS)
}
