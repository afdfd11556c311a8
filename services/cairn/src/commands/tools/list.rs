//! `cairn tools list`.

use crate::client::Client;
use crate::context::Context;
use crate::error::{CliError, INTERRUPTED};
use crate::ui::live::terminal_width;
use crate::ui::style::Style;
use crate::ui::{out, screen, tools};
use cairn_proto::orchestrator::{ListToolsRequest, ListToolsResponse};
use cairn_proto::tools::ToolSourceState;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long servers may take to start.
const PATIENCE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(200);

pub(super) async fn list(client: &mut Client<'_>, context: &Context) -> Result<(), CliError> {
    let listed = listed(client, context).await?;
    if context.json {
        let mut lines = tools::json_lines(&listed).into_iter();
        return lines.try_for_each(|line| out::json(&line));
    }
    let style = Style::new(context.color);
    let mut lines = tools::lines(&listed, style, terminal_width()).into_iter();
    lines.try_for_each(|line| out::line(&line))
}

/// The tools once no server is being started any more, or the patience is over.
pub(super) async fn listed(
    client: &mut Client<'_>,
    context: &Context,
) -> Result<ListToolsResponse, CliError> {
    let until = Instant::now() + PATIENCE;
    let listed = loop {
        let listed = client.persist(|mut orchestrator| async move {
            orchestrator.list_tools(ListToolsRequest {}).await
        });
        let listed = listed.await?;
        let starting = starting(&listed);
        if starting.is_empty() || Instant::now() >= until {
            break listed;
        }
        if context.live {
            let line = tools::starting_line(&starting, terminal_width());
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

fn starting(listed: &ListToolsResponse) -> Vec<&str> {
    let sources = listed.sources.iter();
    let starting = sources.filter(|source| source.state() == ToolSourceState::Starting);
    starting.map(|source| source.name.as_str()).collect()
}
