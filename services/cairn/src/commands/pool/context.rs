//! `cairn pool context`: what a model reads of the pool and its task.

use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use cairn_proto::api::{GetAgentContextRequest, GetAgentContextResponse};
use cairn_proto::json;
use serde_json::json;

/// The arguments of `cairn pool context`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without a session it has no task. With --step it is what an attempt at the step would begin with now.

With --json one object: context (time, pool, available_capabilities, capability_to_resources, task,
orchestrator_note, allotted_resources) and text.

Examples:
  cairn pool context
  cairn pool context s-7f3k --step 2")]
pub(super) struct Args {
    /// The session: its id or a unique beginning of it
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// The run [default: the latest]
    #[arg(long, value_name = "N", requires = "session", value_parser = clap::value_parser!(u32).range(1..))]
    run: Option<u32>,
    /// The step; without it the context has no task
    #[arg(long, value_name = "N", requires = "session", value_parser = clap::value_parser!(u32).range(1..))]
    step: Option<u32>,
}

/// Shows the context.
///
/// # Errors
/// No such session, run or step; the service's.
pub(super) async fn run(args: Args, context: &Context) -> Result<(), CliError> {
    let mut client = Client::attach_with(context, Access::Make, Servers::All).await?;
    let answer = get(args, &mut client).await;
    client.finish().await;
    let answer = answer?;
    if context.json {
        let name = "cairn.api.v1.AgentContext";
        let agent = json::value(name, answer.context.as_ref());
        return out::json(&json!({"context": agent, "text": answer.text}));
    }
    out::text(&answer.text)
}

async fn get(args: Args, client: &mut Client<'_>) -> Result<GetAgentContextResponse, CliError> {
    let session = match &args.session {
        Some(given) => client.resolve(Some(given)).await?,
        None => String::new(),
    };
    let request = GetAgentContextRequest {
        session,
        run: args.run.unwrap_or_default(),
        step: args.step.unwrap_or_default(),
    };
    let answer = client.persist_pool(|mut pool| {
        let request = request.clone();
        async move { pool.get_agent_context(request).await }
    });
    answer.await
}
