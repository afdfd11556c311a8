//! `cairn check-config`: every setting with its origin.
//!
//! Faults need no code here, as no command begins with settings that have any; but for models without
//! their key, which only some commands need.

use crate::context::Context;
use crate::error::CliError;
use crate::settings::Settings;
use crate::ui::out;
use cairn_rpc::text::escape;
use serde_json::json;
use std::process::ExitCode;

/// What can be said to `cairn check-config`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Ends with exit code 2 and all faults at once if something is wrong.")]
pub struct Args {}

/// Shows every setting; secrets are masked.
///
/// # Errors
/// A model lacks the key that its provider asks for; standard output takes no more.
pub async fn run(_: Args, context: &Context) -> Result<ExitCode, CliError> {
    show(context)
}

/// What only some commands need.
pub(super) fn check(settings: &Settings) -> Result<(), CliError> {
    let missing = settings.missing_keys();
    if !missing.is_empty() {
        let lines: Vec<_> = missing.iter().map(|line| escape(line)).collect();
        return Err(CliError::usage(lines.join("\n")));
    }
    Ok(())
}

pub(super) fn show(context: &Context) -> Result<ExitCode, CliError> {
    check(context.config())?;
    let models = context.config().registry();
    if context.json {
        let settings = serde_json::to_value(context.config());
        let settings = settings.map_err(|error| CliError::chain(&error))?;
        let names: Vec<&str> = models.names().collect();
        let default = models.default_name();
        out::json(&json!({"settings": settings, "models": names, "default_model": default}))?;
        return Ok(ExitCode::SUCCESS);
    }
    out::line(context.settings.show().trim_end())?;
    let names: Vec<String> = models
        .names()
        .map(|name| match models.default_name() == Some(name) {
            true => format!("{name} (default)"),
            false => name.to_owned(),
        })
        .collect();
    out::line(&format!("# models: {}", names.join(", ")))?;
    for name in &context.settings.ignored_variables {
        out::line(&format!("# {name} is no setting and was passed over"))?;
    }
    Ok(ExitCode::SUCCESS)
}
