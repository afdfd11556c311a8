//! Registrations and grants, as memory keeps them for all orchestrators.
//!
//! | kind | document | value |
//! |---|---|---|
//! | `RESOURCE` | the id of the resource | `cairn.api.v1.Resource`: kind, capabilities, labels and slots |
//! | `GRANT` | `agent:NAME` or `executor:ID` | `cairn.memory.v1.GrantDocument`, read as `cairn.api.v1.AgentGrant` |
//!
//! They belong to the operator, and are in the namespace `default`. While they are listed anew from the beginning, the
//! known ones stay in force.

use super::{Document, Pool, Registered, add};
use crate::dispatch::executors::Shared;
use crate::dispatch::queue::Members;
use crate::store::for_namespace;
use cairn_engine::pool::{Capabilities, Grant};
use cairn_proto::api::{AgentGrant, Resource};
use cairn_proto::memory::document_service_client::DocumentServiceClient;
use cairn_proto::memory::{
    Document as Stored, DocumentKind, DocumentPosition, WatchDocumentsRequest,
};
use cairn_rpc::{Link, Namespace, RpcError};
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Reason of memory: changes may be missing, and all documents are to be read again.
const RELIST: &str = "RELIST";
/// Before documents are watched again. A change is to hold everywhere within a second.
const PAUSE: Duration = Duration::from_millis(250);
/// Stands before the name of an agent in the id of its grants.
pub(crate) const OF_AGENT: &str = "agent:";
/// Stands before the id of an executor in the id of its grants.
pub(crate) const OF_EXECUTOR: &str = "executor:";

/// Follows the documents of a kind, as long as the pool is in use.
pub(in crate::dispatch) async fn follow(executors: Weak<Shared>, memory: Link, kind: DocumentKind) {
    memory.serves().await;
    let mut watch = Watch {
        memory: DocumentServiceClient::new(memory),
        kind,
        executors,
        position: None,
        listed: None,
        failures: 0,
    };
    while let Some(error) = watch.take_changes().await {
        match error.reason_name() {
            RELIST => watch.position = None,
            _ => {
                watch.failures = watch.failures.saturating_add(1);
                // One failure may be a memory service that another one replaces.
                if watch.failures == 2 {
                    tracing::warn!(kind = kind.as_str_name(), %error, "pool documents unavailable");
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
        if watch.executors.strong_count() == 0 {
            return;
        }
    }
}

struct Watch {
    memory: DocumentServiceClient<Link>,
    kind: DocumentKind,
    executors: Weak<Shared>,
    position: Option<DocumentPosition>,
    /// The documents that a listing from the beginning has brought so far; none while there is no such listing.
    listed: Option<BTreeSet<String>>,
    /// In a row.
    failures: u32,
}

impl Watch {
    /// Takes changes after the position, and moves it, until that is no longer possible. Returns why; nothing once
    /// the pool is gone.
    async fn take_changes(&mut self) -> Option<RpcError> {
        let request = WatchDocumentsRequest {
            kind: self.kind.into(),
            after: self.position.clone(),
        };
        let request = for_namespace(&Namespace::default(), request);
        let mut messages = match self.memory.watch_documents(request).await {
            Ok(messages) => messages.into_inner(),
            Err(status) => return Some(status.into()),
        };
        if self.position.is_none() {
            self.listed = Some(BTreeSet::new());
        }
        loop {
            match messages.message().await {
                Ok(Some(message)) => {
                    let executors = self.executors.upgrade()?;
                    self.position.clone_from(&message.position);
                    self.failures = 0;
                    self.take(&executors, &message.documents);
                }
                Ok(None) => {
                    return Some(RpcError::unavailable("memory ended the watch of documents"));
                }
                Err(status) => return Some(status.into()),
            }
        }
    }

    /// An empty message marks that the stream has caught up.
    fn take(&mut self, executors: &Arc<Shared>, documents: &[Stored]) {
        if let Some(listed) = &mut self.listed {
            listed.extend(documents.iter().map(|it| it.id.clone()));
        }
        let listed = match documents.is_empty() {
            true => self.listed.take(),
            false => None,
        };
        let kind = self.kind;
        executors.change_pool(|pool, members| {
            let mut taken = false;
            for document in documents {
                taken |= pool.take_document(kind, document, members);
            }
            let completed = listed.is_some_and(|listed| pool.complete(kind, &listed, members));
            taken || completed
        });
    }
}

impl Pool {
    /// Returns whether it says another thing than before.
    fn take_document(
        &mut self,
        kind: DocumentKind,
        stored: &Stored,
        members: &mut Members,
    ) -> bool {
        match kind {
            DocumentKind::Resource => {
                let document = Some(stored)
                    .filter(|it| !it.deleted)
                    .and_then(read_resource);
                self.register(&Arc::from(stored.id.as_str()), document, members)
            }
            _ => {
                let grant = Some(stored).filter(|it| !it.deleted).and_then(read_grant);
                self.grant(&stored.id, grant, members)
            }
        }
    }

    fn grant(&mut self, id: &str, grant: Option<Grant>, members: &mut Members) -> bool {
        match (id.strip_prefix(OF_AGENT), id.strip_prefix(OF_EXECUTOR)) {
            (Some(agent), _) => self.grant_agent(agent, grant),
            (None, Some(executor)) => self.grant_executor(executor, grant, members),
            (None, None) => false,
        }
    }

    /// All documents were listed: forgets what is not among them. Returns whether the pool differs.
    fn complete(
        &mut self,
        kind: DocumentKind,
        listed: &BTreeSet<String>,
        members: &mut Members,
    ) -> bool {
        let mut differs = false;
        match kind {
            DocumentKind::Resource => {
                differs |= !std::mem::replace(&mut self.has_resources, true);
                let gone = self.documents.keys().filter(|id| !listed.contains(&***id));
                for id in gone.cloned().collect::<Vec<_>>() {
                    differs |= self.register(&id, None, members);
                }
            }
            _ => {
                differs |= !std::mem::replace(&mut self.has_grants, true);
                let agents = self.agents.0.keys().map(|it| format!("{OF_AGENT}{it}"));
                let executors = self.granted.keys().map(|it| format!("{OF_EXECUTOR}{it}"));
                let gone = agents.chain(executors).filter(|id| !listed.contains(id));
                for id in gone.collect::<Vec<_>>() {
                    differs |= self.grant(&id, None, members);
                }
            }
        }
        differs
    }
}

/// None for a value that no version of this program has written.
fn read_resource(stored: &Stored) -> Option<Document> {
    let resource = decoded::<Resource>(stored)?;
    let mut capabilities = Capabilities::new();
    for capability in &resource.capabilities {
        add(&mut capabilities, &capability.name, capability.level);
    }
    Some(Document {
        kind: resource.kind,
        capabilities: Arc::new(capabilities),
        labels: resource.labels,
        slots: resource.slots,
        registered: Registered {
            version: stored.version,
            changed_unix_ms: stored.changed_unix_ms,
        },
    })
}

fn read_grant(stored: &Stored) -> Option<Grant> {
    let grant = decoded::<AgentGrant>(stored)?;
    Some(Grant {
        granted: grant.granted.into_iter().collect(),
        revoked: grant.revoked.into_iter().collect(),
    })
}

fn decoded<T: prost::Message + Default>(stored: &Stored) -> Option<T> {
    let read = T::decode(stored.value.as_ref());
    read.inspect_err(|error| {
        tracing::warn!(document = stored.id, %error, "a document of the pool cannot be read");
    })
    .ok()
}

#[cfg(test)]
mod tests;
