//! `cairn watch`.

use crate::context::Context;
use crate::error::CliError;
use std::process::ExitCode;

/// What can be said to `cairn watch`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Does it.
///
/// # Errors
/// Always, for now.
pub async fn run(_: Args, _: &Context) -> Result<ExitCode, CliError> {
    Err(CliError::new("this command is being written"))
}
