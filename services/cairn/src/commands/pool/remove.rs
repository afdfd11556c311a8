//! `cairn pool remove`.

use super::super::confirm::{agree, is_at_terminal};
use super::request_id;
use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use crate::ui::text::command;
use cairn_proto::api::RemoveResourceRequest;
use cairn_rpc::text::{clip, escape};
use serde_json::json;

/// Most bytes of an id in a question.
const SHOWN: usize = 64;
/// Reason of the services: nothing is registered under the id.
const NOT_FOUND: &str = "RESOURCE_NOT_FOUND";

/// The arguments of `cairn pool remove`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Steps that have a slot of the resource keep it. Executors and MCP servers stay in the pool, without what was
registered of them. At a terminal you are asked first.

With --json one object: id, removed.")]
pub(super) struct Args {
    /// The resource
    #[arg(value_name = "ID")]
    id: String,
    /// Remove it without asking
    #[arg(long, short)]
    yes: bool,
}

/// Removes what was registered, once the person agrees.
///
/// # Errors
/// Nothing is registered under the id; the person does not agree; the service's.
pub(super) async fn run(args: Args, context: &Context) -> Result<(), CliError> {
    if !args.yes && is_at_terminal(context) {
        let id = clip(&args.id, SHOWN);
        agree(context, &format!("Remove the resource {id}?")).await?;
    }
    let mut client = Client::attach(context, Access::Change).await?;
    let request = RemoveResourceRequest {
        request_id: request_id(),
        id: args.id.clone(),
        expected_version: None,
    };
    let removed = client.persist_pool(|mut pool| {
        let request = request.clone();
        async move { pool.remove_resource(request).await }
    });
    let removed = removed.await;
    client.finish().await;
    removed.map_err(|error| match &*error.reason {
        NOT_FOUND => error.hint(format!("see the pool with: {}", command(context, "pool"))),
        _ => error,
    })?;
    if context.json {
        return out::json(&json!({"id": args.id, "removed": true}));
    }
    out::line(&format!("resource {} is removed", escape(&args.id)))
}
