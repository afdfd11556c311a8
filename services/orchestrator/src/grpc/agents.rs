//! `cairn.api.v1.AgentService`: agents are documents of the caller's namespace. A document has the source, and
//! the definition is read from it anew each time. Files of the workspace define agents too.

mod definition;
mod errors;
mod prompts;
mod source;
mod workspace;

use super::{Answer, Orchestrator, pages};
use crate::agents::{has_changed, of_document};
use crate::key::SessionKey;
use crate::requests::Requests;
use crate::store::for_namespace;
use cairn_agents::Parsed;
use cairn_agents::agent::AgentFile;
use cairn_agents::resolve::OF_WORKSPACE;
use cairn_engine::key::{digest, hex};
use cairn_proto::api as pb;
use cairn_proto::api::agent_service_server::AgentService;
use cairn_proto::memory as memory_pb;
use cairn_proto::orchestrator as orchestrator_pb;
use cairn_proto::time::timestamp;
use cairn_rpc::{Namespace, RpcError, check_request_id, principal};
use prost::Message as _;
use tonic::{Request, Response};

#[tonic::async_trait]
impl AgentService for Orchestrator {
    async fn put_agent(
        &self,
        request: Request<pb::PutAgentRequest>,
    ) -> Answer<pb::PutAgentResponse> {
        put(&self.requests, request).await
    }

    async fn get_agent(
        &self,
        request: Request<pb::GetAgentRequest>,
    ) -> Answer<pb::GetAgentResponse> {
        get(&self.requests, request).await
    }

    async fn list_agents(
        &self,
        request: Request<pb::ListAgentsRequest>,
    ) -> Answer<pb::ListAgentsResponse> {
        list(&self.requests, request).await
    }

    async fn delete_agent(
        &self,
        request: Request<pb::DeleteAgentRequest>,
    ) -> Answer<pb::DeleteAgentResponse> {
        delete(&self.requests, request).await
    }

    async fn list_prompts(
        &self,
        request: Request<pb::ListPromptsRequest>,
    ) -> Answer<pb::ListPromptsResponse> {
        prompts::list(&self.requests, request).await
    }

    async fn render_prompt(
        &self,
        request: Request<pb::RenderPromptRequest>,
    ) -> Answer<pb::RenderPromptResponse> {
        prompts::render(&self.requests, request).await
    }

    async fn list_workspace_files(
        &self,
        request: Request<pb::ListWorkspaceFilesRequest>,
    ) -> Answer<pb::ListWorkspaceFilesResponse> {
        workspace::list(&self.requests, request).await
    }

    async fn confirm_workspace_files(
        &self,
        request: Request<pb::ConfirmWorkspaceFilesRequest>,
    ) -> Answer<pb::ConfirmWorkspaceFilesResponse> {
        workspace::confirm(&self.requests, request).await
    }
}

/// Marks an active run whose agent has changed since the run began. The plain default agent has no definition
/// that could change, so that nothing is asked for it.
pub(super) async fn mark_change(
    requests: &Requests,
    key: &SessionKey,
    run: &mut orchestrator_pb::Run,
) {
    use orchestrator_pb::RunStatus::{Cancelled, Completed, Failed};
    let is_active = !matches!(run.status(), Completed | Failed | Cancelled);
    if let Some(used) = run.agent.as_ref().filter(|_| is_active) {
        let began = run.started_unix_ms;
        let changed = has_changed(requests.deps(), &key.namespace, used, began);
        run.agent_changed = Box::pin(changed).await;
    }
}

async fn put(
    requests: &Requests,
    request: Request<pb::PutAgentRequest>,
) -> Answer<pb::PutAgentResponse> {
    let namespace = principal(&request)?.namespace().clone();
    let asked = request.into_inner();
    check_request_id("request_id", &asked.request_id)?;
    let parsed = source::check(asked.name.as_deref(), &asked.source)?;
    let document = memory_pb::AgentDocument {
        source: asked.source,
    };
    let put = memory_pb::PutDocumentRequest {
        kind: memory_pb::DocumentKind::Agent.into(),
        id: parsed.value.name.clone(),
        value: document.encode_to_vec().into(),
        expected_version: asked.expected_version,
        operation_id: operation_id(&asked.request_id),
    };
    let mut documents = requests.store().documents();
    let put = documents.put_document(for_namespace(&namespace, put)).await;
    let put = put.map_err(|status| errors::of_change(&status, &parsed.value.name))?;
    let agent = pb::Agent {
        version: put.into_inner().version,
        ..agent(requests, parsed, document.source)
    };
    Ok(Response::new(pb::PutAgentResponse { agent: Some(agent) }))
}

async fn get(
    requests: &Requests,
    request: Request<pb::GetAgentRequest>,
) -> Answer<pb::GetAgentResponse> {
    let namespace = principal(&request)?.namespace().clone();
    let name = request.into_inner().name;
    if let Some(file) = name.strip_prefix(OF_WORKSPACE) {
        source::check_name(file)?;
        let agent = workspace::get(requests, &namespace, &name, file).await?;
        return Ok(Response::new(pb::GetAgentResponse { agent: Some(agent) }));
    }
    source::check_name(&name)?;
    let document = stored(requests, &namespace, &name).await?;
    let document = document.ok_or_else(|| errors::missing(&name))?;
    let read = of_document(&document);
    let (source, parsed) = read.map_err(|problem| errors::unreadable(&name, &problem))?;
    let narrowed = Box::pin(workspace::narrowed(requests, &namespace, &parsed.value)).await;
    let mut agent = pb::Agent {
        version: document.version,
        change_time: Some(timestamp(document.changed_unix_ms)),
        ..agent(requests, parsed, source)
    };
    match narrowed {
        Some(Ok(counts)) => agent.narrowed = Some(counts),
        Some(Err(problem)) => agent.warnings.push(pb::AgentWarning {
            problem,
            ..pb::AgentWarning::default()
        }),
        None => {}
    }
    Ok(Response::new(pb::GetAgentResponse { agent: Some(agent) }))
}

async fn list(
    requests: &Requests,
    request: Request<pb::ListAgentsRequest>,
) -> Answer<pb::ListAgentsResponse> {
    let namespace = principal(&request)?.namespace().clone();
    let asked = request.into_inner();
    pages::check_size(asked.page_size)?;
    let after = pages::position(&asked.page_token)?;
    let page = page(requests, &namespace, after, asked.page_size).await?;
    Ok(Response::new(pb::ListAgentsResponse {
        agents: page.living().map(summary).collect(),
        next_page_token: page.next_token(),
    }))
}

/// A page of the stored agents.
struct Page(memory_pb::ListDocumentsResponse);

impl Page {
    fn living(&self) -> impl Iterator<Item = &memory_pb::Document> {
        let documents = self.0.documents.iter();
        documents.filter(|document| !document.deleted)
    }

    /// The token of the page after it; empty after the last one.
    fn next_token(&self) -> String {
        let next = self.0.position.as_ref().filter(|_| !self.0.is_last);
        next.map(pages::token).unwrap_or_default()
    }
}

async fn page(
    requests: &Requests,
    namespace: &Namespace,
    after: Option<memory_pb::DocumentPosition>,
    page_size: u32,
) -> Result<Page, RpcError> {
    let list = memory_pb::ListDocumentsRequest {
        kind: memory_pb::DocumentKind::Agent.into(),
        after,
        page_size,
    };
    let mut documents = requests.store().documents();
    let listed = documents
        .list_documents(for_namespace(namespace, list))
        .await;
    let listed = listed.map_err(|status| errors::of_list(&status))?;
    Ok(Page(listed.into_inner()))
}

/// The document of an agent; none if no agent has the name.
async fn stored(
    requests: &Requests,
    namespace: &Namespace,
    name: &str,
) -> Result<Option<memory_pb::Document>, RpcError> {
    let get = memory_pb::GetDocumentRequest {
        kind: memory_pb::DocumentKind::Agent.into(),
        id: name.to_owned(),
    };
    let mut documents = requests.store().documents();
    let found = documents.get_document(for_namespace(namespace, get)).await;
    Ok(found?.into_inner().document)
}

async fn delete(
    requests: &Requests,
    request: Request<pb::DeleteAgentRequest>,
) -> Answer<pb::DeleteAgentResponse> {
    let namespace = principal(&request)?.namespace().clone();
    let asked = request.into_inner();
    check_request_id("request_id", &asked.request_id)?;
    source::check_name(&asked.name)?;
    let delete = memory_pb::DeleteDocumentRequest {
        kind: memory_pb::DocumentKind::Agent.into(),
        id: asked.name.clone(),
        expected_version: asked.expected_version,
        operation_id: operation_id(&asked.request_id),
    };
    let mut documents = requests.store().documents();
    let deleted = documents
        .delete_document(for_namespace(&namespace, delete))
        .await;
    let deleted = deleted.map_err(|status| errors::of_deletion(&status, &asked.name))?;
    match deleted.into_inner().version {
        0 => Err(errors::missing(&asked.name).into()),
        _ => Ok(Response::new(pb::DeleteAgentResponse {})),
    }
}

/// The store takes shorter ids than clients may choose.
fn operation_id(request_id: &str) -> String {
    hex(&digest(&[b"cairn.agents", request_id.as_bytes()]))
}

/// An agent without version and time.
fn agent(requests: &Requests, parsed: Parsed<AgentFile>, source: String) -> pb::Agent {
    let Parsed { value, warnings } = parsed;
    let unknown = unknown_models(&requests.deps().config.models, &value);
    let warning = |fault: cairn_agents::Fault| pb::AgentWarning {
        line: fault.line,
        field: fault.field,
        problem: fault.problem,
    };
    pb::Agent {
        name: value.name.clone(),
        digest: value.digest(),
        source,
        warnings: warnings.into_iter().map(warning).chain(unknown).collect(),
        definition: Some(definition::message(value)),
        ..pb::Agent::default()
    }
}

/// Says that this process has none of the models of an agent. It may know none at all.
fn unknown_models(known: &[String], file: &AgentFile) -> Option<pb::AgentWarning> {
    let has_one = file.model.iter().any(|model| known.contains(model));
    if known.is_empty() || file.model.is_empty() || has_one {
        return None;
    }
    let problem = format!(
        "names no model of the settings, so the default one is used; there are: {}",
        known.join(", ")
    );
    Some(pb::AgentWarning {
        line: 0,
        field: "model".to_owned(),
        problem,
    })
}

fn summary(document: &memory_pb::Document) -> pb::AgentSummary {
    let listed = pb::AgentSummary {
        name: document.id.clone(),
        version: document.version,
        change_time: Some(timestamp(document.changed_unix_ms)),
        ..pb::AgentSummary::default()
    };
    match of_document(document) {
        Ok((_, Parsed { value, .. })) => pb::AgentSummary {
            digest: value.digest(),
            description: value.description,
            mode: definition::mode(value.mode).into(),
            hidden: value.is_hidden,
            disabled: value.is_disabled,
            ..listed
        },
        Err(unreadable) => pb::AgentSummary {
            unreadable,
            ..listed
        },
    }
}
