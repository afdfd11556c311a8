//! `cairn agent list`.

use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::live::terminal_width;
use crate::ui::out;
use crate::ui::table::{Column, Table};
use crate::ui::text::command;
use crate::ui::time::age;
use cairn_proto::api::{AgentMode, AgentSummary, ListAgentsRequest};
use cairn_proto::json;
use cairn_proto::time::unix_ms;
use cairn_rpc::{Clock as _, SystemClock};
use std::collections::BTreeMap;

/// The arguments of `cairn agent list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
With --json one object for each agent: name, version, change_time, digest, description, mode (primary,
subagent, all), hidden, disabled, unreadable (why this version cannot read the agent; else empty).")]
pub(super) struct Args {}

/// Lists the agents by name.
///
/// # Errors
/// There is no store; the service's.
pub(super) async fn run(_: Args, context: &Context) -> Result<(), CliError> {
    let mut client = Client::attach(context, Access::Read).await?;
    let agents = all(&mut client).await;
    client.finish().await;
    let agents = agents?;
    if context.json {
        let name = "cairn.api.v1.AgentSummary";
        let mut agents = agents.iter();
        return agents.try_for_each(|agent| out::json(&json::value(name, Some(agent))));
    }
    if agents.is_empty() {
        let put = command(context, "agent put FILE");
        return out::line(&format!("there is no agent; store one with: {put}"));
    }
    let now = i64::try_from(SystemClock.unix_ms()).unwrap_or(i64::MAX);
    let mut lines = table(&agents, now).lines(terminal_width()).into_iter();
    lines.try_for_each(|line| out::line(&line))
}

/// All pages by name. An agent that changes in the meantime comes twice, and its last form counts.
async fn all(client: &mut Client<'_>) -> Result<Vec<AgentSummary>, CliError> {
    let mut found = BTreeMap::new();
    let mut request = ListAgentsRequest::default();
    loop {
        let page = client.persist_agents(|mut agents| {
            let request = request.clone();
            async move { agents.list_agents(request).await }
        });
        let page = page.await?;
        let agents = page.agents.into_iter();
        found.extend(agents.map(|agent| (agent.name.clone(), agent)));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return Ok(found.into_values().collect());
        }
    }
}

fn table(agents: &[AgentSummary], now: i64) -> Table {
    let columns = ["AGENT", "MODE", "CHANGED", "DESCRIPTION"];
    let mut table = Table::new(columns.map(Column::Left));
    for agent in agents {
        let changed = agent.change_time.map(|time| age(unix_ms(time), now));
        let description = match agent.unreadable.as_str() {
            "" => agent.description.clone(),
            problem => format!("of another version: {problem}"),
        };
        table.row([
            &agent.name,
            &mode(agent),
            &changed.unwrap_or_default(),
            &description,
        ]);
    }
    table
}

/// Who can use the agent, and what else decides it.
fn mode(agent: &AgentSummary) -> String {
    let mut words = vec![mode_name(agent.mode())];
    words.extend(agent.hidden.then_some("hidden"));
    words.extend(agent.disabled.then_some("disabled"));
    words.join(", ")
}

/// As files write it.
pub(super) const fn mode_name(mode: AgentMode) -> &'static str {
    match mode {
        AgentMode::Unspecified => "?",
        AgentMode::Primary => "primary",
        AgentMode::Subagent => "subagent",
        AgentMode::All => "all",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::time::timestamp;

    const NOW: i64 = 1_800_000_000_000;

    #[test]
    fn agents_are_shown_with_mode_and_age() {
        let agent = |name: &str, mode: AgentMode, description: &str| AgentSummary {
            name: name.to_owned(),
            mode: mode.into(),
            description: description.to_owned(),
            change_time: Some(timestamp(NOW - 60_000)),
            ..AgentSummary::default()
        };
        let agents = [
            AgentSummary {
                hidden: true,
                disabled: true,
                ..agent("critic", AgentMode::Subagent, "Finds\nfaults")
            },
            AgentSummary {
                unreadable: "line 2: effort is \"immense\"".to_owned(),
                ..agent("newer", AgentMode::Unspecified, "")
            },
            agent("reviewer", AgentMode::All, ""),
        ];
        let lines = table(&agents, NOW).lines(None);
        assert_eq!(
            lines,
            [
                "AGENT     MODE                        CHANGED    DESCRIPTION",
                "critic    subagent, hidden, disabled  1 min ago  Finds\\nfaults",
                "newer     ?                           1 min ago  of another version: line 2: effort is \"immense\"",
                "reviewer  all                         1 min ago",
            ]
        );
    }
}
