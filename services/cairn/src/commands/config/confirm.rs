//! `cairn config trust`.

use super::Trust;
use super::question::{is_too_long, listed};
use crate::commands::confirm::{is_at_terminal, is_wanted};
use crate::context::Context;
use crate::error::CliError;
use crate::settings::trust::{Candidate, candidate, keep};
use crate::ui::out;
use cairn_rpc::text::escape;
use serde_json::json;
use std::process::ExitCode;

/// Shows what the file does, and confirms it if a person wants that.
pub(super) async fn confirm(args: Trust, context: &Context) -> Result<ExitCode, CliError> {
    let path = args.file.clone().unwrap_or_else(|| context.file.clone());
    let found = candidate(&path)?;
    let shown = escape(&path.display().to_string()).into_owned();
    let checked = found.source.check_whole(&context.environment);
    checked.map_err(|error| error.hint(format!("mend {shown}, then confirm it")))?;
    if let Some(digest) = args.digest.as_ref().filter(|it| **it != found.digest) {
        let message = format!(
            "{shown} has the digest {}, not {}",
            found.digest,
            escape(digest)
        );
        return Err(CliError::usage(message).hint("read it again before you confirm it"));
    }
    let is_decided = match is_at_terminal(context) {
        true => args.yes || args.digest.is_some(),
        false => args.yes && args.digest.is_some(),
    };
    if !context.json {
        show(&shown, &found, is_decided)?;
    }
    if !is_decided && !is_wanted_by_person(&shown, &found, context).await? {
        out::line("nothing was confirmed")?;
        return Ok(ExitCode::SUCCESS);
    }
    keep(&path, &found.digest, true, &context.environment)?;
    match context.json {
        true => {
            let file = path.display().to_string();
            out::json(&json!({"file": file, "digest": found.digest, "effects": found.effects}))?;
        }
        false => out::line(&format!("confirmed {shown}"))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn show(shown: &str, found: &Candidate, is_decided: bool) -> Result<(), CliError> {
    if found.effects.is_empty() {
        return out::line(&format!("{shown} has no settings that need confirmation"));
    }
    if !is_decided && is_too_long(&found.effects) {
        return Ok(());
    }
    out::line(&format!("{shown} with the digest {} would:", found.digest))?;
    listed(&found.effects).try_for_each(|line| out::line(&line))
}

async fn is_wanted_by_person(
    shown: &str,
    found: &Candidate,
    context: &Context,
) -> Result<bool, CliError> {
    let by_digest = format!("cairn config trust {shown} --digest {} --yes", found.digest);
    if !is_at_terminal(context) {
        let message = "confirming a settings file needs a terminal, or its digest and --yes";
        return Err(CliError::usage(message)
            .hint(format!("read {shown}, then confirm it with: {by_digest}")));
    }
    if is_too_long(&found.effects) {
        let message = format!("{shown} does more than can be shown here");
        return Err(
            CliError::usage(message).hint(format!("read it, then confirm it with: {by_digest}"))
        );
    }
    is_wanted(context, "Confirm it only if its content is yours. Confirm?").await
}
