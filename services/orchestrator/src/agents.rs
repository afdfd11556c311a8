//! The agents that commands name, as they are now: documents of the namespace, and confirmed files of the
//! workspace.

use crate::config::Config;
use crate::deps::Deps;
use crate::store::{for_namespace, may_pass};
use crate::workspace::{FOR_COMMAND, FOR_VIEW, Reading};
use cairn_agents::agent::{self, AgentFile};
use cairn_agents::resolve::{OF_WORKSPACE, Unusable, resolve};
use cairn_agents::{Fault, Parsed, is_name};
use cairn_engine::decide::{AgentFault, Agents, ResolvedAgent};
use cairn_engine::refusal::Refusal;
use cairn_engine::rules::DEFAULT_AGENT;
use cairn_engine::session::Session;
use cairn_proto::event::AgentUse;
use cairn_proto::memory as pb;
use cairn_rpc::{Namespace, RpcError};
use prost::Message as _;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Most stored agents that an error names.
const MOST_NAMED: u32 = 20;

/// The agents of these names, for a session in a namespace. An agent that cannot be used has the reason. One
/// that only files of the workspace define is left out while these cannot be read, if the session has a
/// definition: without one it would lose its instructions and skills until they can.
///
/// # Errors
/// The store cannot be reached.
pub(crate) async fn read_all(
    deps: &Deps,
    namespace: &Namespace,
    session: &Session,
    names: &BTreeSet<String>,
) -> Result<Agents, RpcError> {
    if names.is_empty() {
        return Ok(Agents::default());
    }
    let tools = deps.dispatch.tools();
    let files = deps.workspace.read(&tools, namespace, FOR_COMMAND).await;
    let mut agents = Agents::default();
    for name in names {
        if files.is_unknown && !is_of_document(name) && is_defined(session, name) {
            continue;
        }
        let agent = read(deps, namespace, name, &files).await?;
        agents.0.insert(name.clone(), agent);
    }
    Ok(agents)
}

/// Whether the agent of an active run, which began at this time, is another one by now, or cannot be used any more.
/// False if that cannot be found out.
pub(crate) async fn has_changed(
    deps: &Deps,
    namespace: &Namespace,
    used: &AgentUse,
    began_unix_ms: i64,
) -> bool {
    let tools = deps.dispatch.tools();
    let files = deps.workspace.read(&tools, namespace, FOR_VIEW).await;
    if files.is_unknown {
        // Such as in a process that only reads the store. Stored agents are known there.
        return is_of_document(&used.name)
            && document_has_changed(deps, namespace, used, began_unix_ms).await;
    }
    match read(deps, namespace, &used.name, &files).await {
        Ok(Ok(now)) => now.is_none_or(|now| now.digest() != used.digest),
        Ok(Err(_)) => true,
        Err(_) => false,
    }
}

/// The same without the files of the workspace: the stored agent is gone, or was stored anew since then with
/// another definition. False if no agent of the name was stored then.
async fn document_has_changed(
    deps: &Deps,
    namespace: &Namespace,
    used: &AgentUse,
    began_unix_ms: i64,
) -> bool {
    let get = pb::GetDocumentRequest {
        kind: pb::DocumentKind::Agent.into(),
        id: used.name.clone(),
    };
    let mut documents = deps.store.documents();
    let Ok(got) = documents.get_document(for_namespace(namespace, get)).await else {
        return false;
    };
    let stored = got.into_inner().document;
    if stored.is_some_and(|document| document.changed_unix_ms <= began_unix_ms) {
        return false;
    }
    match read(deps, namespace, &used.name, &Reading::default()).await {
        // Without what files take away from it, it is another one unless there was none.
        Ok(Ok(now)) => now.is_none_or(|now| now.digest() != used.digest),
        Ok(Err(_)) => true,
        Err(_) => false,
    }
}

/// One agent, as the documents and these files define it.
///
/// # Errors
/// The store cannot be reached.
async fn read(
    deps: &Deps,
    namespace: &Namespace,
    name: &str,
    files: &Reading,
) -> Result<ResolvedAgent, RpcError> {
    let document = match is_of_document(name) {
        true => document(deps, namespace, name).await?,
        false => Ok(None),
    };
    let config = &deps.config;
    let has_model = |model: &str| has_model(config, model);
    let resolved = document.and_then(|document| {
        let workspace = files.workspace.as_deref();
        resolve(
            name,
            document.as_ref(),
            workspace,
            &config.limits,
            &has_model,
        )
        .map_err(|unusable| fault(name, &unusable, files))
    });
    let resolved = match resolved {
        Err(fault) if fault.refusal == Refusal::AgentNotFound => {
            Err(with_stored(deps, namespace, fault).await)
        }
        resolved => resolved,
    };
    Ok(resolved.map(|definition| (!definition.is_plain()).then(|| Arc::new(definition))))
}

/// The operator has the model.
pub(crate) fn has_model(config: &Config, model: &str) -> bool {
    config.models.iter().any(|known| known == model)
}

/// Names stored agents in a fault about one that does not exist.
async fn with_stored(deps: &Deps, namespace: &Namespace, fault: AgentFault) -> AgentFault {
    let list = pb::ListDocumentsRequest {
        kind: pb::DocumentKind::Agent.into(),
        after: None,
        page_size: MOST_NAMED,
    };
    let mut documents = deps.store.documents();
    let Ok(listed) = documents
        .list_documents(for_namespace(namespace, list))
        .await
    else {
        return fault;
    };
    let listed = listed.into_inner();
    let living = listed.documents.iter().filter(|document| !document.deleted);
    let names: Vec<&str> = living.map(|document| document.id.as_str()).collect();
    if names.is_empty() {
        return fault;
    }
    let more = if listed.is_last { "" } else { " and more" };
    AgentFault {
        message: format!(
            "{}; stored agents: {}{more}",
            fault.message,
            names.join(", ")
        ),
        ..fault
    }
}

/// The session has a definition of the agent.
fn is_defined(session: &Session, name: &str) -> bool {
    let name = match name {
        "" => DEFAULT_AGENT,
        name => name,
    };
    let mut agents = session.agents.values();
    agents.any(|agent| agent.definition.name == name)
}

/// A document may define the agent.
fn is_of_document(name: &str) -> bool {
    name != DEFAULT_AGENT && is_name(name)
}

/// The stored agent of that name, if there is one that this version can read.
///
/// # Errors
/// The store cannot be reached.
async fn document(
    deps: &Deps,
    namespace: &Namespace,
    name: &str,
) -> Result<Result<Option<AgentFile>, AgentFault>, RpcError> {
    let get = pb::GetDocumentRequest {
        kind: pb::DocumentKind::Agent.into(),
        id: name.to_owned(),
    };
    let mut documents = deps.store.documents();
    let unusable = |problem: &dyn std::fmt::Display| AgentFault {
        refusal: Refusal::AgentNotUsable,
        message: format!("agent \"{name}\" cannot be read: {problem}"),
    };
    let document = match documents.get_document(for_namespace(namespace, get)).await {
        Ok(got) => got.into_inner().document,
        Err(status) => {
            let error = RpcError::from_status(&status);
            return match may_pass(&error) {
                true => Err(error),
                // Such as one that a newer version stored.
                false => Ok(Err(unusable(&error))),
            };
        }
    };
    Ok(match document.map(|document| of_document(&document)) {
        None => Ok(None),
        Some(Ok((_, parsed))) => Ok(Some(parsed.value)),
        Some(Err(problem)) => Err(unusable(&problem)),
    })
}

/// The source of a document, and what it defines.
///
/// # Errors
/// Why this version cannot read it.
pub(crate) fn of_document(document: &pb::Document) -> Result<(String, Parsed<AgentFile>), String> {
    let stored = pb::AgentDocument::decode(document.value.clone());
    let stored = stored.map_err(|_| "it is stored in another form".to_owned())?;
    match parse(&document.id, &stored.source) {
        Ok(parsed) => Ok((stored.source, parsed)),
        Err(faults) => Err(faults.first().map(ToString::to_string).unwrap_or_default()),
    }
}

/// Reads a source. The agent has this name, whatever the source says; with an empty one, the source names it.
///
/// # Errors
/// All faults of the source.
pub(crate) fn parse(name: &str, source: &str) -> Result<Parsed<AgentFile>, Vec<Fault>> {
    let parsed = agent::parse(name, source);
    let mut parsed = parsed.map_err(|error| error.faults)?;
    if !name.is_empty() {
        name.clone_into(&mut parsed.value.name);
    }
    Ok(parsed)
}

/// Why an agent cannot be used, for the client. An agent that only files can define is not missing before they
/// are confirmed and read.
fn fault(name: &str, unusable: &Unusable, files: &Reading) -> AgentFault {
    let message = unusable.message(name);
    let not_usable = |message| AgentFault {
        refusal: Refusal::AgentNotUsable,
        message,
    };
    if !matches!(unusable, Unusable::NotFound { .. }) {
        return not_usable(message);
    }
    let file = name.strip_prefix(OF_WORKSPACE).unwrap_or(name);
    if files.unconfirmed.contains(file) {
        return not_usable(in_unconfirmed_file(name));
    }
    if files.is_unknown {
        return not_usable(format!(
            "{message}, or it is in a file of the workspace, which cannot be read now; try again later"
        ));
    }
    AgentFault {
        refusal: Refusal::AgentNotFound,
        message,
    }
}

/// Says so of the agent with that name, and what a person can do.
pub(crate) fn in_unconfirmed_file(name: &str) -> String {
    format!(
        "agent \"{name}\" is in a file of the workspace that is not confirmed; see and confirm the files with: \
         cairn agent trust"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_engine::agent::AgentDefinition;
    use cairn_engine::session::Agent;

    fn missing() -> Unusable {
        Unusable::NotFound { known: Vec::new() }
    }

    #[test]
    fn what_only_a_file_could_define_is_not_missing_before_the_files_are_known() {
        let none = Reading::default();
        let unconfirmed = Reading {
            unconfirmed: ["critic".to_owned()].into(),
            ..Reading::default()
        };
        let unknown = Reading {
            is_unknown: true,
            ..Reading::default()
        };
        for (name, files, refusal, words) in [
            ("critic", &none, Refusal::AgentNotFound, "does not exist"),
            (
                "other",
                &unconfirmed,
                Refusal::AgentNotFound,
                "does not exist",
            ),
            (
                "critic",
                &unconfirmed,
                Refusal::AgentNotUsable,
                "cairn agent trust",
            ),
            (
                "workspace:critic",
                &unconfirmed,
                Refusal::AgentNotUsable,
                "not confirmed",
            ),
            (
                "critic",
                &unknown,
                Refusal::AgentNotUsable,
                "cannot be read now",
            ),
        ] {
            let fault = fault(name, &missing(), files);
            assert_eq!(fault.refusal, refusal, "{name}");
            assert!(fault.message.contains(words), "{}", fault.message);
        }
        let disabled = fault("critic", &Unusable::Disabled, &none);
        assert_eq!(disabled.refusal, Refusal::AgentNotUsable);
    }

    #[test]
    fn a_session_knows_the_default_agent_by_its_empty_name() {
        let mut session = Session::default();
        assert!(!is_defined(&session, ""));
        for name in [DEFAULT_AGENT, "workspace:critic"] {
            let definition = Arc::new(AgentDefinition::named(name));
            let agent = Agent::new(definition, String::new());
            session.agents.insert(name.to_owned(), Arc::new(agent));
        }
        assert!(is_defined(&session, "") && is_defined(&session, "workspace:critic"));
        assert!(!is_defined(&session, "workspace:other"));
    }

    #[test]
    fn only_names_of_stored_agents_are_looked_up_in_the_store() {
        for (name, expected) in [
            ("reviewer", true),
            ("", false),
            ("default", false),
            ("workspace:reviewer", false),
        ] {
            assert_eq!(is_of_document(name), expected, "{name}");
        }
    }
}
