//! `cairn hook delete`.

use super::super::deletion::{agree_to_delete, report};
use super::{not_found, request_id};
use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use cairn_proto::api::DeleteHookRequest;

/// The arguments of `cairn hook delete`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Runs that ask the hook wait at their next question to it, and a person decides how they continue. A hook of
the settings is deleted there. At a terminal you are asked first.

With --json one object: name, deleted.")]
pub(super) struct Args {
    /// The hook
    #[arg(value_name = "NAME")]
    name: String,
    /// Delete it without asking
    #[arg(long, short)]
    yes: bool,
}

/// Deletes a stored hook, once the person agrees.
///
/// # Errors
/// No such hook; it is one of the settings; the person does not agree; the service's.
pub(super) async fn run(args: Args, context: &Context) -> Result<(), CliError> {
    if !args.yes {
        agree_to_delete(context, "hook", &args.name).await?;
    }
    let mut client = Client::attach(context, Access::Change).await?;
    let request = DeleteHookRequest {
        request_id: request_id(),
        name: args.name.clone(),
        expected_version: None,
    };
    let deleted = client.persist_hooks(|mut hooks| {
        let request = request.clone();
        async move { hooks.delete_hook(request).await }
    });
    let deleted = deleted.await;
    client.finish().await;
    deleted.map_err(|error| not_found(context, error))?;
    report(context, "hook", "name", &args.name)
}
