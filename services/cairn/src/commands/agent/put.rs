//! `cairn agent put`: the agent of a file is stored.

use super::{files, findings, request_id};
use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use crate::ui::style::Style;
use cairn_agents::{Fault, is_name};
use cairn_proto::api::{Agent, AgentWarning, PutAgentRequest};
use cairn_proto::json;
use cairn_rpc::text::escape;
use std::path::PathBuf;

/// The arguments of `cairn agent put`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The store keeps the text of the file. An agent of the same name is replaced. A file with faults is
refused, and nothing is stored.

With --json one object: the agent as cairn agent show prints it, without change_time.")]
pub(super) struct Args {
    /// The agent file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The agent's name [default: that in the file, or else the file's own]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,
}

fn name(text: &str) -> Result<String, String> {
    let allowed = "1 to 64 letters, digits, ., _ and -, of which the first is a letter or a digit";
    match is_name(text) {
        true => Ok(text.to_owned()),
        false => Err(allowed.to_owned()),
    }
}

/// Reads the file and stores its agent.
///
/// # Errors
/// All faults of the file; the service's.
pub(super) async fn run(args: Args, context: &Context) -> Result<(), CliError> {
    let path = args.file.display().to_string();
    let read = move || files::read(&args.file, args.name.as_deref());
    let read = tokio::task::spawn_blocking(read).await;
    let read = read.map_err(|error| CliError::chain(&error))?;
    let usable = read.map_err(|error| CliError::usage(error.to_string()))?;
    let request = PutAgentRequest {
        request_id: request_id(),
        name: Some(usable.parsed.value.name),
        source: usable.source,
        expected_version: None,
    };
    // An agent belongs to no session, and no tool is called.
    let mut client = Client::attach_with(context, Access::Make, Servers::None).await?;
    let put = client.persist_agents(|mut agents| {
        let request = request.clone();
        async move { agents.put_agent(request).await }
    });
    let put = put.await;
    client.finish().await;
    report(context, &path, &put?.agent.unwrap_or_default())
}

fn report(context: &Context, path: &str, agent: &Agent) -> Result<(), CliError> {
    if context.json {
        return out::json(&json::value("cairn.api.v1.Agent", Some(agent)));
    }
    let style = Style::new(context.color);
    for warning in &agent.warnings {
        out::line(&findings::warning(path, &fault(warning), style))?;
    }
    let (name, version) = (escape(&agent.name), agent.version);
    out::line(&format!("agent {name} is stored, version {version}"))
}

/// A warning of the service as one of a file.
pub(super) fn fault(warning: &AgentWarning) -> Fault {
    Fault {
        line: warning.line,
        field: warning.field.clone(),
        problem: warning.problem.clone(),
        allowed: String::new(),
    }
}
