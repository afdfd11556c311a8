//! `cairn completions`: what a shell needs to complete commands.

use crate::cli::Cli;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use clap::CommandFactory as _;
use clap_complete::{Shell, generate};
use std::process::ExitCode;

/// What can be said to `cairn completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cairn completions bash > ~/.local/share/bash-completion/completions/cairn
  cairn completions zsh > \"${fpath[1]}/_cairn\"
  cairn completions fish > ~/.config/fish/completions/cairn.fish")]
pub struct Args {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Writes the completions to standard output.
///
/// # Errors
/// Standard output takes no more.
pub async fn run(args: Args, _: &Context) -> Result<ExitCode, CliError> {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "cairn", &mut script);
    out::line(String::from_utf8_lossy(&script).trim_end())?;
    Ok(ExitCode::SUCCESS)
}
