//! `cairn pool grant` and `cairn pool revoke`.

use super::request_id;
use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use cairn_proto::api::grant_tool_request::To;
use cairn_proto::api::revoke_tool_request::Of;
use cairn_proto::api::{GrantToolRequest, RevokeToolRequest};
use cairn_rpc::text::escape;
use clap::builder::NonEmptyStringValueParser;
use serde_json::json;

/// The arguments of both.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
It counts from the next request of each model that is at work. A grant overrides neither what the definition
of an agent denies nor any rule. A revocation counts whatever gave the tool.

With --json one object: tool, agent, executor, granted.

Examples:
  cairn pool grant web_search --agent reviewer
  cairn pool revoke shell_exec --executor executor-general")]
pub(super) struct Args {
    /// The tool
    #[arg(value_name = "TOOL")]
    tool: String,
    #[command(flatten)]
    subject: Subject,
}

/// The agent or the executor: exactly one.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Subject {
    /// The agent, such as default or reviewer
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    agent: Option<String>,
    /// The executor, by its id in cairn pool
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    executor: Option<String>,
}

impl Subject {
    fn words(&self) -> String {
        match (&self.agent, &self.executor) {
            (Some(agent), _) => format!("agent {}", escape(agent)),
            (None, executor) => {
                let id = executor.as_deref().unwrap_or_default();
                format!("executor {}", escape(id))
            }
        }
    }
}

/// Grants the tool.
///
/// # Errors
/// A field that is refused; the service's.
pub(super) async fn grant(args: Args, context: &Context) -> Result<(), CliError> {
    let Subject { agent, executor } = &args.subject;
    let to = agent.clone().map(To::Agent);
    let request = GrantToolRequest {
        request_id: request_id(),
        tool: args.tool.clone(),
        to: to.or_else(|| executor.clone().map(To::Executor)),
    };
    let mut client = Client::attach_with(context, Access::Make, Servers::None).await?;
    let granted = client.persist_pool(|mut pool| {
        let request = request.clone();
        async move { pool.grant_tool(request).await }
    });
    let granted = granted.await;
    client.finish().await;
    granted.map_err(|error| error.naming(&FLAGS))?;
    report(&args, context, true)
}

/// Revokes the tool.
///
/// # Errors
/// A tool that no model can do without; the service's.
pub(super) async fn revoke(args: Args, context: &Context) -> Result<(), CliError> {
    let Subject { agent, executor } = &args.subject;
    let of = agent.clone().map(Of::Agent);
    let request = RevokeToolRequest {
        request_id: request_id(),
        tool: args.tool.clone(),
        of: of.or_else(|| executor.clone().map(Of::Executor)),
    };
    let mut client = Client::attach_with(context, Access::Make, Servers::None).await?;
    let revoked = client.persist_pool(|mut pool| {
        let request = request.clone();
        async move { pool.revoke_tool(request).await }
    });
    let revoked = revoked.await;
    client.finish().await;
    revoked.map_err(|error| error.naming(&FLAGS))?;
    report(&args, context, false)
}

/// The flags for the fields of both requests.
const FLAGS: [(&str, &str); 2] = [("agent", "--agent"), ("executor", "--executor")];

fn report(args: &Args, context: &Context, is_granted: bool) -> Result<(), CliError> {
    let Subject { agent, executor } = &args.subject;
    if context.json {
        return out::json(&json!({
            "tool": args.tool,
            "agent": agent,
            "executor": executor,
            "granted": is_granted,
        }));
    }
    let (subject, tool) = (args.subject.words(), escape(&args.tool));
    out::line(&match is_granted {
        true => format!("{subject} can use {tool}"),
        false => format!("{subject} can no longer use {tool}"),
    })
}
