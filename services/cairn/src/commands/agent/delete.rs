//! `cairn agent delete`.

use super::super::deletion::{agree_to_delete, report};
use super::{not_found, request_id};
use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use cairn_proto::api::DeleteAgentRequest;

/// The arguments of `cairn agent delete`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
At a terminal you are asked first.

With --json one object: name, deleted.")]
pub(super) struct Args {
    /// The agent
    #[arg(value_name = "NAME")]
    name: String,
    /// Delete it without asking
    #[arg(long, short)]
    yes: bool,
}

/// Deletes the agent, once the person agrees.
///
/// # Errors
/// No such agent; the person does not agree; the service's.
pub(super) async fn run(args: Args, context: &Context) -> Result<(), CliError> {
    if !args.yes {
        agree_to_delete(context, "agent", &args.name).await?;
    }
    let mut client = Client::attach(context, Access::Change).await?;
    let request = DeleteAgentRequest {
        request_id: request_id(),
        name: args.name.clone(),
        expected_version: None,
    };
    let deleted = client.persist_agents(|mut agents| {
        let request = request.clone();
        async move { agents.delete_agent(request).await }
    });
    let deleted = deleted.await;
    client.finish().await;
    deleted.map_err(|error| not_found(context, error))?;
    report(context, "agent", "name", &args.name)
}
