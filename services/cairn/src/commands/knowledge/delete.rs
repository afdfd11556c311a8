//! `cairn knowledge delete`.

use super::super::confirm::{agree, is_at_terminal};
use super::{not_found, request_id};
use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use cairn_proto::api::DeletePageRequest;
use cairn_rpc::text::{clip, escape};
use serde_json::json;

/// Most bytes of an id in a question.
const SHOWN: usize = 128;

/// The arguments of `cairn knowledge delete`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
At a terminal you are asked first. What models have read of the page stays in their conversations.

With --json one object: id, deleted.")]
pub(super) struct Args {
    /// The page
    #[arg(value_name = "ID")]
    id: String,
    /// Delete it without asking
    #[arg(long, short)]
    yes: bool,
}

/// Deletes the page, once the person agrees.
///
/// # Errors
/// No such page; the person does not agree; the service's.
pub(super) async fn run(args: Args, context: &Context) -> Result<(), CliError> {
    if !args.yes && is_at_terminal(context) {
        let id = clip(&args.id, SHOWN);
        agree(context, &format!("Delete the page {id}?")).await?;
    }
    let mut client = Client::attach(context, Access::Change).await?;
    let request = DeletePageRequest {
        request_id: request_id(),
        id: args.id.clone(),
        expected_version: None,
    };
    let deleted = client.persist_knowledge(|mut knowledge| {
        let request = request.clone();
        async move { knowledge.delete_page(request).await }
    });
    let deleted = deleted.await;
    client.finish().await;
    deleted.map_err(|error| not_found(context, error))?;
    if context.json {
        return out::json(&json!({"id": args.id, "deleted": true}));
    }
    out::line(&format!("page {} is deleted", escape(&args.id)))
}
