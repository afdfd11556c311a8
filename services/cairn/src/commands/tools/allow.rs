//! `cairn tools allow`.

use super::list::{listed_for, of_workspace};
use crate::client::Client;
use crate::commands::config::is_too_long;
use crate::commands::confirm::{is_at_terminal, is_wanted};
use crate::context::Context;
use crate::error::CliError;
use crate::settings::trust::server_lines;
use crate::ui::out;
use crate::ui::tools::{Allowable, allowable, disabled_of};
use cairn_proto::orchestrator::{AllowToolRequest, ListToolsResponse};
use cairn_rpc::text::escape;
use serde_json::json;

pub(super) async fn allow(
    name: &str,
    digest: Option<String>,
    yes: bool,
    client: &mut Client<'_>,
    context: &Context,
) -> Result<(), CliError> {
    let listed = listed_for(name, client, context).await?;
    let found = found(name, &listed, client, context)?;
    let is_terminal = is_at_terminal(context);
    let may_ask = is_terminal && digest.is_none() && !yes;
    let by_digest = format!("cairn tools allow {name} --digest {} --yes", found.digest);
    if may_ask && is_too_long(&found.lines) {
        let message = format!("'{name}' is more than can be shown here");
        let hint = "read the settings of its server, then allow it with";
        return Err(CliError::usage(message).hint(format!("{hint}: {by_digest}")));
    }
    if !context.json {
        for line in &found.lines {
            out::line(line)?;
        }
    }
    if !is_terminal && (digest.is_none() || !yes) {
        let message = format!("allowing '{name}' needs a terminal, or its digest and --yes");
        return Err(
            CliError::usage(message).hint(format!("look at it, then allow it with: {by_digest}"))
        );
    }
    if may_ask && !is_wanted(context, "allow it?").await? {
        return out::line("nothing was allowed");
    }
    // What was shown, so that nothing else is allowed if it has changed since.
    let request = AllowToolRequest {
        name: name.to_owned(),
        digest: digest.unwrap_or(found.digest),
    };
    let allowed = client.persist(|mut orchestrator| {
        let request = request.clone();
        async move { orchestrator.allow_tool(request).await }
    });
    let digest = allowed.await?.digest;
    let disabled = disabled_of(&listed, name);
    if context.json {
        return out::json(&json!({"name": name, "digest": digest, "disabled": disabled}));
    }
    out::line(&format!("allowed {}", escape(name)))?;
    for tool in disabled {
        let tool = escape(tool);
        out::line(&format!(
            "{tool} stays disabled; look at it, and allow it with: cairn tools allow {tool}"
        ))?;
    }
    Ok(())
}

/// What is to be allowed, with all that this machine knows of it.
fn found(
    name: &str,
    listed: &ListToolsResponse,
    client: &Client<'_>,
    context: &Context,
) -> Result<Allowable, CliError> {
    let Some(mut found) = allowable(listed, name) else {
        let message = format!("there is no server and no tool '{name}'");
        return Err(CliError::usage(message).hint("see them all with: cairn tools"));
    };
    if found.is_own && !found.disabled.is_empty() {
        let message =
            format!("no allowance turns '{name}' on: it comes with Cairn or your settings");
        return Err(CliError::usage(message).hint(escape(&found.disabled)));
    }
    if found.is_own {
        let message = format!("'{name}' needs no allowance: it comes with Cairn or your settings");
        return Err(CliError::usage(message)
            .hint("a rule decides about its calls; see them with: cairn tools rules"));
    }
    // The place alone leaves out variables and the folder, which can name another program.
    if let Some(workspace) = of_workspace(client, context)
        && let Some(entry) = workspace.entry(name)
        && workspace.digest(name).as_ref() == Some(&found.digest)
    {
        let lines = server_lines(name, entry).into_iter();
        found.lines.extend(lines.map(|line| format!("  {line}")));
    }
    Ok(found)
}
