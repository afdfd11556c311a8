//! The files of the workspace: listed, confirmed, and read as agents.

use super::super::Answer;
use super::{agent, definition, errors};
use crate::agents::has_model;
use crate::requests::Requests;
use crate::store::for_namespace;
use crate::workspace::{FOR_VIEW, name_of_path, problems, read_files};
use cairn_agents::agent::AgentFile;
use cairn_agents::resolve::resolve;
use cairn_agents::{agent as agent_file, document, skill};
use cairn_proto::api as pb;
use cairn_proto::tools::{
    ConfirmWorkspaceFilesRequest, ReadWorkspaceFilesResponse, WorkspaceFile, WorkspaceFileKind,
};
use cairn_rpc::{Namespace, RpcError, check_request_id, check_required_text, principal};
use std::time::Duration;
use tonic::{Request, Response};

/// How long a client waits for the files: each of them may be read anew.
const READING: Duration = Duration::from_secs(10);
/// Most bytes of a digest.
const MAX_DIGEST: usize = 128;

pub(super) async fn list(
    requests: &Requests,
    request: Request<pb::ListWorkspaceFilesRequest>,
) -> Answer<pb::ListWorkspaceFilesResponse> {
    let files = files(requests, principal(&request)?.namespace()).await?;
    let of_texts = problems(&files);
    let ReadWorkspaceFilesResponse {
        digest,
        confirmed,
        files,
        mut problems,
        ..
    } = files;
    problems.extend(of_texts);
    let mut files: Vec<_> = files.iter().map(|file| listed(file, confirmed)).collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Response::new(pb::ListWorkspaceFilesResponse {
        digest,
        confirmed,
        files,
        problems,
    }))
}

pub(super) async fn confirm(
    requests: &Requests,
    request: Request<pb::ConfirmWorkspaceFilesRequest>,
) -> Answer<pb::ConfirmWorkspaceFilesResponse> {
    let namespace = principal(&request)?.namespace().clone();
    let pb::ConfirmWorkspaceFilesRequest { request_id, digest } = request.into_inner();
    check_request_id("request_id", &request_id)?;
    check_required_text("digest", &digest, MAX_DIGEST)?;
    let confirm = for_namespace(&namespace, ConfirmWorkspaceFilesRequest { digest });
    let mut tools = requests.deps().dispatch.tools();
    tools.confirm_workspace_files(confirm).await?;
    Ok(Response::new(pb::ConfirmWorkspaceFilesResponse {}))
}

/// The agent of a confirmed file. `full` is its name with the prefix.
///
/// # Errors
/// NotFound; FailedPrecondition if the file does not count, or its faults keep it from being an agent.
pub(super) async fn get(
    requests: &Requests,
    namespace: &Namespace,
    full: &str,
    name: &str,
) -> Result<pb::Agent, RpcError> {
    let files = files(requests, namespace).await?;
    let mut agents = files.files.iter().filter(|file| is_agent(file));
    if !files.confirmed {
        let is_there = agents.any(|file| name_of_path(&file.path).as_deref() == Some(name));
        return Err(match is_there {
            true => errors::unconfirmed(full),
            false => errors::missing(full),
        });
    }
    for file in agents {
        let Ok(source) = document::decode(&file.path, &file.content) else {
            continue;
        };
        match agent_file::parse(&file.path, source) {
            Ok(parsed) if parsed.value.name == name => {
                let of_file = agent(requests, parsed, source.to_owned());
                let name = full.to_owned();
                return Ok(pb::Agent { name, ..of_file });
            }
            Err(error) if name_of_path(&file.path).as_deref() == Some(name) => {
                return Err(errors::faulty(full, &error));
            }
            Ok(_) | Err(_) => {}
        }
    }
    Err(errors::missing(full))
}

/// What counts of a stored agent beside a confirmed file of its name, or why the agent cannot be used. None without
/// such a file, or while no file can be read.
pub(super) async fn narrowed(
    requests: &Requests,
    namespace: &Namespace,
    stored: &AgentFile,
) -> Option<Result<pb::AgentDefinition, String>> {
    let deps = requests.deps();
    let tools = deps.dispatch.tools();
    let files = deps.workspace.read(&tools, namespace, FOR_VIEW).await;
    let workspace = files.workspace?;
    let name = stored.name.as_str();
    if !workspace.agents.contains_key(name) && !workspace.faulty.contains_key(name) {
        return None;
    }
    let config = &deps.config;
    let has_model = |model: &str| has_model(config, model);
    let resolved = resolve(
        name,
        Some(stored),
        Some(&workspace),
        &config.limits,
        &has_model,
    );
    Some(match resolved {
        Ok(counts) => Ok(definition::narrowed(stored.clone(), counts)),
        Err(unusable) => Err(unusable.to_string()),
    })
}

fn is_agent(file: &WorkspaceFile) -> bool {
    file.kind() == WorkspaceFileKind::Agent
}

async fn files(
    requests: &Requests,
    namespace: &Namespace,
) -> Result<ReadWorkspaceFilesResponse, RpcError> {
    let tools = requests.deps().dispatch.tools();
    read_files(&tools, namespace, String::new(), READING).await
}

/// A file for clients. Its content says more only once a person has confirmed it.
fn listed(file: &WorkspaceFile, confirmed: bool) -> pb::WorkspaceFile {
    let (kind, of_path) = match file.kind() {
        WorkspaceFileKind::Agent => (pb::WorkspaceFileKind::Agent, name_of_path(&file.path)),
        WorkspaceFileKind::Skill => {
            let folder = file.path.rsplit('/').nth(1);
            (pb::WorkspaceFileKind::Skill, folder.map(str::to_owned))
        }
        WorkspaceFileKind::Instructions => (pb::WorkspaceFileKind::Instructions, None),
        WorkspaceFileKind::Unspecified => (pb::WorkspaceFileKind::Unspecified, None),
    };
    let said = confirmed.then(|| said(file)).flatten();
    let (name, description) = said.unwrap_or((of_path.unwrap_or_default(), String::new()));
    pb::WorkspaceFile {
        path: file.path.clone(),
        kind: kind.into(),
        size: file.size,
        name,
        description,
        others: file.others.clone(),
    }
}

/// Name and description, as the file says them.
fn said(file: &WorkspaceFile) -> Option<(String, String)> {
    let text = document::decode(&file.path, &file.content).ok()?;
    match file.kind() {
        WorkspaceFileKind::Agent => {
            let agent = agent_file::parse(&file.path, text).ok()?.value;
            Some((agent.name, agent.description))
        }
        WorkspaceFileKind::Skill => {
            let skill = skill::parse(&file.path, text).ok()?.value;
            Some((skill.name, skill.description))
        }
        WorkspaceFileKind::Instructions | WorkspaceFileKind::Unspecified => None,
    }
}
