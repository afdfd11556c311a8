//! `cairn knowledge delete`.

use super::super::deletion::{agree_to_delete, report};
use super::{not_found, request_id};
use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use cairn_proto::api::DeletePageRequest;

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
    if !args.yes {
        agree_to_delete(context, "page", &args.id).await?;
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
    report(context, "page", "id", &args.id)
}
