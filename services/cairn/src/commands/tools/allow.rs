//! `cairn tools allow`.

use super::list::listed;
use crate::client::Client;
use crate::commands::confirm::{is_at_terminal, is_wanted};
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use crate::ui::tools::{Allowable, allowable};
use cairn_proto::orchestrator::AllowToolRequest;
use cairn_rpc::text::escape;
use serde_json::json;

pub(super) async fn allow(
    name: &str,
    digest: Option<String>,
    client: &mut Client<'_>,
    context: &Context,
) -> Result<(), CliError> {
    let listed = listed(client, context).await?;
    let Some(found) = allowable(&listed, name) else {
        let message = format!("there is no server and no tool '{name}'");
        return Err(CliError::usage(message).hint("see them all with: cairn tools"));
    };
    let Allowable {
        lines,
        digest: current,
    } = found;
    if !context.json {
        for line in &lines {
            out::line(line)?;
        }
    }
    if digest.is_none() && is_at_terminal(context) && !is_wanted(context, "allow it?").await? {
        return out::line("nothing was allowed");
    }
    // What was shown, so that nothing else is allowed if it has changed since.
    let request = AllowToolRequest {
        name: name.to_owned(),
        digest: digest.unwrap_or(current),
    };
    let allowed = client.persist(|mut orchestrator| {
        let request = request.clone();
        async move { orchestrator.allow_tool(request).await }
    });
    let digest = allowed.await?.digest;
    match context.json {
        true => out::json(&json!({"name": name, "digest": digest})),
        false => out::line(&format!("allowed {}", escape(name))),
    }
}
