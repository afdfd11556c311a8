//! `cairn tools list`, and the wait for servers that are being started.

use crate::client::Client;
use crate::context::Context;
use crate::error::{CliError, INTERRUPTED};
use crate::settings::{LeftOut, OfWorkspace};
use crate::ui::live::terminal_width;
use crate::ui::style::Style;
use crate::ui::{out, screen, tools};
use crate::workspace;
use cairn_proto::orchestrator::{ListToolsRequest, ListToolsResponse};
use cairn_proto::tools::ToolSourceState;
use cairn_rpc::text::escape;
use cairn_tools::mcp::SEPARATOR;
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a listing waits for servers to start, that of this process included.
const LISTING: Duration = Duration::from_secs(4);
/// How long a command waits for the server that it needs.
const NEEDED: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(200);

pub(super) async fn list(
    began: Instant,
    client: &mut Client<'_>,
    context: &Context,
) -> Result<(), CliError> {
    let until = began + LISTING;
    let listed = listed(until, starting, client, context).await?;
    let found = of_workspace(client, context).unwrap_or_default();
    let left_out = found.left_out.iter();
    let left_out = left_out.filter(|it| !is_of_settings(&listed, &found, it));
    let left_out: Vec<LeftOut> = left_out.cloned().collect();
    if context.json {
        let mut lines = tools::json_lines(&listed, &left_out).into_iter();
        return lines.try_for_each(|line| out::json(&line));
    }
    if let Some(folder) = of_holder(client, context) {
        let folder = folder.display().to_string();
        out::line(&format!(
            "the tools of the process that holds the store and works in {}",
            escape(&folder)
        ))?;
    }
    let style = Style::new(context.color);
    let mut lines = tools::lines(&listed, &left_out, style, terminal_width()).into_iter();
    lines.try_for_each(|line| out::line(&line))
}

/// The folder of the process that holds the store, if this command would work in another one.
fn of_holder<'a>(client: &'a Client<'_>, context: &Context) -> Option<&'a Path> {
    let attached = client.attached();
    let folder = attached.workspace.as_deref();
    folder.filter(|folder| {
        attached.is_remote() && workspace::own(context).as_deref() != Some(*folder)
    })
}

/// A server of the settings has the name, too, and counts.
fn is_of_settings(listed: &ListToolsResponse, found: &OfWorkspace, left_out: &LeftOut) -> bool {
    let Some(name) = left_out.name.as_deref() else {
        return false;
    };
    let is_other = tools::is_own(name) || found.entry(name).is_some();
    let mut sources = listed.sources.iter();
    !is_other && sources.any(|source| source.name == name)
}

/// What the `.mcp.json` names where the services work; none if they are elsewhere.
pub(super) fn of_workspace(client: &Client<'_>, context: &Context) -> Option<OfWorkspace> {
    let attached = client.attached();
    if context.config().client.server.is_some() {
        return None;
    }
    let folder = attached.workspace.as_ref();
    let folder = folder.filter(|_| attached.is_remote());
    Some(OfWorkspace::read(
        folder.unwrap_or(&context.config().workspace.path),
        &context.environment,
    ))
}

/// The tools once there is the one of this name, or its server is not being started.
pub(super) async fn listed_for(
    name: &str,
    client: &mut Client<'_>,
    context: &Context,
) -> Result<ListToolsResponse, CliError> {
    let server = name.split_once(SEPARATOR).map(|(server, _)| server);
    let needed = |listed: &ListToolsResponse| -> Vec<String> {
        let is_there = listed.tools.iter().any(|tool| tool.name == name);
        let starting = starting(listed).into_iter();
        starting
            .filter(|it| !is_there && server == Some(it))
            .collect()
    };
    listed(Instant::now() + NEEDED, needed, client, context).await
}

/// The tools once no server is waited for any more, or at that time.
async fn listed(
    until: Instant,
    waits_for: impl Fn(&ListToolsResponse) -> Vec<String>,
    client: &mut Client<'_>,
    context: &Context,
) -> Result<ListToolsResponse, CliError> {
    let listed = loop {
        let listed = client.persist(|mut orchestrator| async move {
            orchestrator.list_tools(ListToolsRequest {}).await
        });
        let listed = listed.await?;
        let names = waits_for(&listed);
        if names.is_empty() || Instant::now() >= until {
            break listed;
        }
        if context.live {
            let line = tools::starting_line(&names, terminal_width());
            screen::frame(&[], vec![line])?;
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            () = context.stop.cancelled() => {
                return Err(CliError::new("interrupted").code(INTERRUPTED));
            }
        }
    };
    if context.live {
        screen::frame(&[], Vec::new())?;
    }
    Ok(listed)
}

fn starting(listed: &ListToolsResponse) -> Vec<String> {
    let sources = listed.sources.iter();
    let starting = sources.filter(|source| source.state() == ToolSourceState::Starting);
    starting.map(|source| source.name.clone()).collect()
}

/// The servers of the settings that this process may have to start.
pub(super) fn of_settings(context: &Context) -> Vec<String> {
    let settings = context.config();
    match settings.client.server {
        Some(_) => Vec::new(),
        None => settings.mcp.servers.keys().cloned().collect(),
    }
}
