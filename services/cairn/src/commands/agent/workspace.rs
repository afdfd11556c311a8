//! The agent files, skills and instructions of the folder that the services work in. Only a digest stands for
//! their content until a person confirms them.

use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::screen;
use crate::ui::table::{Column, Table};
use crate::ui::text::{command, command_in};
use cairn_boot::Origin;
use cairn_engine::text::size;
use cairn_proto::api::{
    Agent, GetAgentRequest, ListWorkspaceFilesRequest, ListWorkspaceFilesResponse, WorkspaceFile,
    WorkspaceFileKind,
};
use cairn_rpc::text::escape;
use std::time::Duration;
use tokio::time::timeout;

/// Begins the name of an agent of the workspace.
pub(in crate::commands) const PREFIX: &str = "workspace:";

/// How long a command waits for the list of files that it does not need.
const PATIENCE: Duration = Duration::from_secs(2);

/// The files of the workspace that count, or would count if they were confirmed.
///
/// # Errors
/// The service's; the workspace cannot be read.
pub(super) async fn listed(
    client: &mut Client<'_>,
) -> Result<ListWorkspaceFilesResponse, CliError> {
    let listed = client.persist_agents(|mut agents| async move {
        let request = ListWorkspaceFilesRequest::default();
        agents.list_workspace_files(request).await
    });
    listed.await
}

/// Says in one line which files do not count because no person confirmed them. The command works without
/// the line, so it is left out if the services cannot list the files.
pub(in crate::commands) async fn report_unconfirmed(client: &Client<'_>) {
    let context = client.context();
    if context.json {
        return;
    }
    let mut agents = client.agents();
    let listed = agents.list_workspace_files(ListWorkspaceFilesRequest::default());
    let Ok(Ok(listed)) = timeout(PATIENCE, listed).await else {
        return;
    };
    if let Some(line) = unconfirmed(&listed.into_inner(), &trust_command(context)) {
        screen::tell(&escape(&line));
    }
}

/// Says in one line that the services have none of the models of an agent, so that the default one is used. Left out
/// if they cannot say it.
pub(in crate::commands) async fn report_model(client: &Client<'_>, name: &str) {
    if client.context().json {
        return;
    }
    let of_file = format!("{PREFIX}{name}");
    for name in [name, of_file.as_str()] {
        let request = GetAgentRequest {
            name: name.to_owned(),
        };
        let mut agents = client.agents();
        let Ok(Ok(got)) = timeout(PATIENCE, agents.get_agent(request)).await else {
            continue;
        };
        let agent = got.into_inner().agent.unwrap_or_default();
        if let Some(line) = without_model(&agent) {
            screen::tell(&escape(&line));
        }
        return;
    }
}

/// The line about models that the services do not have; none if they have one.
fn without_model(agent: &Agent) -> Option<String> {
    let mut warnings = agent.warnings.iter();
    // Those of a line are about the text of the file.
    let warning = warnings.find(|it| it.line == 0 && it.field == "model")?;
    Some(format!("agent {} {}", agent.name, warning.problem))
}

/// The line about files that are not confirmed; none if there are none.
fn unconfirmed(listed: &ListWorkspaceFilesResponse, trust: &str) -> Option<String> {
    if listed.confirmed {
        return None;
    }
    // Instructions reach every model, so they come first.
    let mut files: Vec<&WorkspaceFile> = listed.files.iter().collect();
    files.sort_by_key(|file| match file.kind() {
        WorkspaceFileKind::Instructions => 0,
        WorkspaceFileKind::Agent => 1,
        WorkspaceFileKind::Skill | WorkspaceFileKind::Unspecified => 2,
    });
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let names = match paths.as_slice() {
        [] => return None,
        [one] => {
            return Some(format!(
                "{one} is not confirmed and does not count; see and confirm it with: {trust}"
            ));
        }
        [one, other] => format!("{one} and {other}"),
        [one, other, more @ ..] => format!("{one}, {other} and {} more", more.len()),
    };
    Some(format!(
        "{names} are not confirmed and do not count; see and confirm them with: {trust}"
    ))
}

/// The command that confirms the files that this command would use.
pub(super) fn trust_command(context: &Context) -> String {
    match context.settings.origin("workspace.path") {
        Origin::Flag(_) => {
            let folder = context.config().workspace.path.to_string_lossy();
            command_in(context, "agent trust", &folder)
        }
        _ => command(context, "agent trust"),
    }
}

/// The files for people, with those that only a skill has: they are confirmed, too.
pub(super) fn table(files: &[WorkspaceFile]) -> Table {
    let mut table = Table::new([
        Column::Left("KIND"),
        Column::Left("FILE"),
        Column::Right("SIZE"),
        Column::Left("NAME"),
    ]);
    for file in files {
        table.row([
            kind_name(file.kind()),
            &file.path,
            &size(file.size),
            &file.name,
        ]);
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for other in &file.others {
            table.row(["", &format!("{folder}/{other}"), "", ""]);
        }
    }
    table
}

/// A kind of file in one word.
pub(super) const fn kind_name(kind: WorkspaceFileKind) -> &'static str {
    match kind {
        WorkspaceFileKind::Unspecified => "?",
        WorkspaceFileKind::Agent => "agent",
        WorkspaceFileKind::Skill => "skill",
        WorkspaceFileKind::Instructions => "instructions",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::api::AgentWarning;

    fn listed(paths: &[&str]) -> ListWorkspaceFilesResponse {
        let file = |path: &&str| WorkspaceFile {
            path: (*path).to_owned(),
            ..WorkspaceFile::default()
        };
        ListWorkspaceFilesResponse {
            digest: "d".to_owned(),
            files: paths.iter().map(file).collect(),
            ..ListWorkspaceFilesResponse::default()
        }
    }

    #[test]
    fn one_line_names_two_files_and_counts_the_others() {
        let trust = "cairn agent trust";
        let line = |paths: &[&str]| unconfirmed(&listed(paths), trust);
        assert_eq!(line(&[]), None);
        let one =
            "a is not confirmed and does not count; see and confirm it with: cairn agent trust";
        assert_eq!(line(&["a"]).as_deref(), Some(one));
        for (paths, names) in [
            (&["a", "b"][..], "a and b"),
            (&["a", "b", "c", "d"], "a, b and 2 more"),
        ] {
            let want = format!(
                "{names} are not confirmed and do not count; see and confirm them with: {trust}"
            );
            assert_eq!(line(paths), Some(want));
        }
    }

    #[test]
    fn instructions_are_named_first() {
        let mut listed = listed(&[".claude/agents/a.md", "AGENTS.md"]);
        for (file, kind) in listed
            .files
            .iter_mut()
            .zip([WorkspaceFileKind::Agent, WorkspaceFileKind::Instructions])
        {
            file.kind = kind.into();
        }
        let line = unconfirmed(&listed, "t").unwrap();
        assert!(
            line.starts_with("AGENTS.md and .claude/agents/a.md are"),
            "{line}"
        );
    }

    #[test]
    fn every_file_of_a_skill_is_shown() {
        let skill = WorkspaceFile {
            kind: WorkspaceFileKind::Skill.into(),
            others: vec!["scripts/steal.sh".to_owned()],
            ..listed(&[".agents/skills/thief/SKILL.md"]).files.remove(0)
        };
        let lines = table(&[skill]).lines(None);
        let other = ".agents/skills/thief/scripts/steal.sh";
        assert!(lines.iter().any(|line| line.contains(other)), "{lines:?}");
    }

    #[test]
    fn only_a_warning_of_the_services_is_about_their_models() {
        let agent = |line| Agent {
            name: "a".to_owned(),
            warnings: vec![AgentWarning {
                line,
                field: "model".to_owned(),
                problem: "names no model".to_owned(),
            }],
            ..Agent::default()
        };
        assert_eq!(
            without_model(&agent(0)).as_deref(),
            Some("agent a names no model")
        );
        assert_eq!(without_model(&agent(2)), None);
        assert_eq!(without_model(&Agent::default()), None);
    }

    #[test]
    fn confirmed_files_are_not_named() {
        let listed = ListWorkspaceFilesResponse {
            confirmed: true,
            ..listed(&["a"])
        };
        assert_eq!(unconfirmed(&listed, "t"), None);
    }
}
