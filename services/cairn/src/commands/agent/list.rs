//! `cairn agent list`.

use super::trust::tell_problems;
use super::workspace::{self, trust_command};
use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::live::terminal_width;
use crate::ui::style::Style;
use crate::ui::table::{Column, Table};
use crate::ui::text::command;
use crate::ui::time::age;
use crate::ui::{out, screen};
use cairn_proto::api::{
    AgentMode, AgentSummary, ListAgentsRequest, ListWorkspaceFilesResponse, WorkspaceFile,
    WorkspaceFileKind,
};
use cairn_proto::json;
use cairn_proto::time::unix_ms;
use cairn_rpc::text::escape;
use cairn_rpc::{Clock as _, SystemClock};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The arguments of `cairn agent list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Agents whose names begin with workspace: are those of agent files in the workspace. They count once you have
confirmed them with cairn agent trust.

With --json one object for each agent: name, version, change_time, digest, description, mode (primary,
subagent, all), hidden, disabled, unreadable (why this version cannot read the agent; else empty). An agent
of the workspace has name, path, description and confirmed.")]
pub(super) struct Args {}

/// Lists the agents by name, and then those of the workspace.
///
/// # Errors
/// The store cannot be opened; the service's.
pub(super) async fn run(_: Args, context: &Context) -> Result<(), CliError> {
    // Only tools read the files of the workspace, so the store is not only read.
    let mut client = Client::attach_with(context, Access::Make, Servers::None).await?;
    let agents = all(&mut client).await;
    let files = workspace::listed(&mut client).await;
    client.finish().await;
    let agents = agents?;
    let files = files.unwrap_or_else(|error| {
        let why = escape(&error.message).into_owned();
        screen::tell(&format!(
            "the files of the workspace cannot be listed: {why}"
        ));
        ListWorkspaceFilesResponse::default()
    });
    if context.json {
        let name = "cairn.api.v1.AgentSummary";
        let stored = agents.iter().map(|agent| json::value(name, Some(agent)));
        let of_files = of_workspace(&files).map(|file| to_json(file, files.confirmed));
        return stored.chain(of_files).try_for_each(|line| out::json(&line));
    }
    if agents.is_empty() && of_workspace(&files).next().is_none() {
        let put = command(context, "agent put FILE");
        return out::line(&format!("there is no agent; store one with: {put}"));
    }
    let now = i64::try_from(SystemClock.unix_ms()).unwrap_or(i64::MAX);
    let mut lines = table(&agents, &files, now).lines(terminal_width());
    if !files.confirmed && of_workspace(&files).next().is_some() {
        let trust = trust_command(context);
        lines.push(format!(
            "see and confirm the files of the workspace with: {trust}"
        ));
    }
    lines.into_iter().try_for_each(|line| out::line(&line))?;
    tell_problems(files.problems.iter(), Style::new(context.color))
}

/// The agent files of the workspace.
fn of_workspace(files: &ListWorkspaceFilesResponse) -> impl Iterator<Item = &WorkspaceFile> {
    let files = files.files.iter();
    files.filter(|file| file.kind() == WorkspaceFileKind::Agent)
}

fn to_json(file: &WorkspaceFile, is_confirmed: bool) -> Value {
    json!({
        "name": format!("{}{}", workspace::PREFIX, file.name),
        "path": file.path,
        "description": file.description,
        "confirmed": is_confirmed,
    })
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

fn table(agents: &[AgentSummary], files: &ListWorkspaceFilesResponse, now: i64) -> Table {
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
    for file in of_workspace(files) {
        let name = format!("{}{}", workspace::PREFIX, file.name);
        match files.confirmed {
            true => table.row([&name, "file", "", &file.description]),
            // What the file says of itself is not read before.
            false => table.row([&name, "not confirmed", "", &file.path]),
        }
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
        let lines = table(&agents, &ListWorkspaceFilesResponse::default(), NOW).lines(None);
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
    #[test]
    fn agents_of_the_workspace_say_whether_they_count() {
        let file = WorkspaceFile {
            path: ".claude/agents/reviewer.md".to_owned(),
            kind: WorkspaceFileKind::Agent.into(),
            name: "reviewer".to_owned(),
            description: "Reviews".to_owned(),
            ..WorkspaceFile::default()
        };
        let instructions = WorkspaceFile {
            path: "AGENTS.md".to_owned(),
            kind: WorkspaceFileKind::Instructions.into(),
            ..WorkspaceFile::default()
        };
        let row = |confirmed| {
            let files = ListWorkspaceFilesResponse {
                confirmed,
                files: vec![file.clone(), instructions.clone()],
                ..ListWorkspaceFilesResponse::default()
            };
            table(&[], &files, NOW).lines(None)[1..].join("\n")
        };
        let name = "workspace:reviewer";
        assert_eq!(row(true), format!("{name}  file           Reviews"));
        let expected = format!("{name}  not confirmed           .claude/agents/reviewer.md");
        assert_eq!(row(false), expected);
    }
}
