//! Allowances as documents of memory.
//!
//! | document | what it says |
//! |---|---|
//! | `server:DIGEST` | a server of a file may start; the digest is of the file and the name |
//! | `listed:SERVER` | the tools that the server listed first are pinned |
//! | `tool:DIGEST` | a tool is pinned; the digest is of the server and the tool |
//! | `protocol:DIGEST` | the protocol that the server with this digest spoke last |
//! | `workspace:DIGEST` | the files of a workspace are confirmed; the digest is of its path |
//!
//! Each is read from a [`Cache`] that follows memory, so a process without memory keeps what it knows.

use super::cache::Cache;
use super::{Keep, Parts, PinnedServer};
use crate::source::AllowError;
use async_trait::async_trait;
use bytes::Bytes;
use cairn_boot::{Pins, file_key};
use cairn_engine::key::{digest, hex};
use cairn_proto::memory::document_service_client::DocumentServiceClient;
use cairn_proto::memory::{
    DocumentKind, DocumentPosition, GetDocumentRequest, PutDocumentRequest, WatchDocumentsRequest,
    WatchDocumentsResponse,
};
use cairn_rpc::{Link, Namespace, Principal, RpcError, with_principal};
use futures::StreamExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use tonic::Request;

/// Reason of memory: changes may be missing, and all documents are to be read again.
const RELIST: &str = "RELIST";
/// Reason of memory: the document does not have the version that was expected.
const DOCUMENT_VERSION: &str = "DOCUMENT_VERSION";
/// Before documents are watched again. A change is to hold everywhere within a second.
const PAUSE: Duration = Duration::from_millis(250);
/// How long memory may take to store or to read a document.
const TIME: Duration = Duration::from_secs(10);
/// Documents that are written at one time.
const AT_ONCE: usize = 16;

/// The documents of the installation, watched.
pub(super) struct WithMemory {
    shared: Arc<Shared>,
    _follow: AbortOnDropHandle<()>,
}

struct Shared {
    memory: DocumentServiceClient<Link>,
    cache: Mutex<Cache>,
    /// Counts the changes of what is known.
    changes: watch::Sender<u64>,
    /// Why documents cannot be watched; empty while they can.
    trouble: Mutex<String>,
}

#[derive(Deserialize)]
struct AllowedServer {
    digest: String,
}

#[derive(Deserialize)]
struct PinnedTool {
    parts: Parts,
}

#[derive(Deserialize)]
struct ConfirmedWorkspace {
    digest: String,
}

#[derive(Deserialize)]
struct SpokenProtocol {
    protocol: String,
}

impl WithMemory {
    /// Follows the documents from now on.
    pub(super) fn follow(memory: Link) -> Self {
        let shared = Arc::new(Shared {
            memory: DocumentServiceClient::new(memory.clone()),
            cache: Mutex::default(),
            changes: watch::Sender::new(0),
            trouble: Mutex::default(),
        });
        let follow = tokio::spawn(follow(memory, shared.clone()));
        Self {
            shared,
            _follow: AbortOnDropHandle::new(follow),
        }
    }

    /// A document, unless there is none that can be read. One that is damaged allows nothing.
    fn read<T: for<'a> Deserialize<'a>>(&self, id: &str) -> Option<T> {
        let cache = self.shared.cache();
        serde_json::from_slice(cache.get(id)?).ok()
    }
}

async fn follow(memory: Link, shared: Arc<Shared>) {
    memory.serves().await;
    let mut position = None;
    loop {
        let error = shared.watch(&mut position).await;
        match error.reason_name() {
            RELIST => position = None,
            _ => shared.report(&error),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

impl Shared {
    /// Takes changes after the position, and moves it, until that is no longer possible. Returns why.
    async fn watch(&self, position: &mut Option<DocumentPosition>) -> RpcError {
        let watch = WatchDocumentsRequest {
            kind: DocumentKind::Allowance.into(),
            after: position.clone(),
        };
        let watch = self.memory.clone().watch_documents(request(watch)).await;
        let mut messages = match watch {
            Ok(messages) => messages.into_inner(),
            Err(status) => return status.into(),
        };
        if position.is_none() {
            self.cache().begin();
        }
        loop {
            match messages.message().await {
                Ok(Some(message)) => {
                    position.clone_from(&message.position);
                    self.take(message);
                }
                Ok(None) => return RpcError::unavailable("memory ended the watch of documents"),
                Err(status) => return status.into(),
            }
        }
    }

    fn take(&self, message: WatchDocumentsResponse) {
        self.trouble().clear();
        self.change(|cache| match message.documents.is_empty() {
            true => cache.complete(),
            false => message.documents.into_iter().fold(false, |differs, it| {
                let value = (!it.deleted).then_some(it.value);
                cache.take(it.id, it.version, value) || differs
            }),
        });
    }

    /// Changes what is known, and reports it if it is another one then.
    fn change(&self, change: impl FnOnce(&mut Cache) -> bool) {
        let differs = change(&mut self.cache());
        if differs {
            self.changes.send_modify(|count| *count += 1);
        }
    }

    /// Logs each reason once.
    fn report(&self, error: &RpcError) {
        let text = error.to_string();
        let is_news = *self.trouble() != text;
        if is_news {
            tracing::warn!(%error, "allowances unavailable");
            *self.trouble() = text;
        }
    }

    /// Returns once memory has stored the document, or one that is there with another version than expected.
    async fn put(&self, id: String, value: Bytes, expected: Option<u64>) -> Result<(), RpcError> {
        let put = PutDocumentRequest {
            kind: DocumentKind::Allowance.into(),
            id: id.clone(),
            value: value.clone(),
            expected_version: expected,
            operation_id: uuid::Uuid::now_v7().simple().to_string(),
        };
        let mut put = request(put);
        put.set_timeout(TIME);
        let stored = self.memory.clone().put_document(put).await;
        match stored.map_err(RpcError::from) {
            Ok(stored) => {
                let version = stored.into_inner().version;
                self.change(|cache| cache.take(id, version, Some(value)));
                Ok(())
            }
            Err(error) if error.reason_name() == DOCUMENT_VERSION => self.get(id).await,
            Err(error) => Err(error),
        }
    }

    /// Reads a document that the watch may not have brought yet.
    async fn get(&self, id: String) -> Result<(), RpcError> {
        let kind = DocumentKind::Allowance.into();
        let mut get = request(GetDocumentRequest { kind, id });
        get.set_timeout(TIME);
        let found = self.memory.clone().get_document(get).await?;
        if let Some(document) = found.into_inner().document {
            self.change(|cache| cache.take(document.id, document.version, Some(document.value)));
        }
        Ok(())
    }

    /// A poisoned lock is taken over: each change leaves the cache whole.
    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trouble(&self) -> MutexGuard<'_, String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Keep for WithMemory {
    fn unknown(&self) -> Option<String> {
        if self.shared.cache().is_known() {
            return None;
        }
        let why = "what was allowed is not known, because memory has not listed it";
        let trouble = self.shared.trouble();
        Some(match trouble.is_empty() {
            true => why.to_owned(),
            false => format!("{why}: {trouble}"),
        })
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.shared.changes.subscribe())
    }

    fn is_server_allowed(&self, origin: &Path, name: &str, digest: &str) -> Result<bool, String> {
        let allowed: Option<AllowedServer> = self.read(&server_id(&file_key(origin), name));
        Ok(allowed.is_some_and(|allowed| allowed.digest == digest))
    }

    async fn allow_server(
        &self,
        origin: &Path,
        name: &str,
        digest: &str,
    ) -> Result<(), AllowError> {
        let origin = origin.to_owned();
        // The disk of the file may stall.
        let file = tokio::task::spawn_blocking(move || file_key(&origin)).await;
        let file = file.map_err(|_| AllowError::NotKept("it was given up".to_owned()))?;
        let value = json!({"file": file, "server": name, "digest": digest});
        let id = server_id(&file, name);
        Ok(self.shared.put(id, bytes(&value), None).await?)
    }

    fn pins(&self, server: &PinnedServer, current: &Pins) -> Result<Pins, String> {
        // A server that lists nothing yet is not known yet.
        if current.is_empty() {
            return Ok(Pins::new());
        }
        if let Some(why) = self.unknown() {
            return Err(why);
        }
        if !self.is_pinned(server) {
            return Err("memory has not stored the tools that its server listed first".to_owned());
        }
        let pin = |tool: &String| {
            let pinned: PinnedTool = self.read(&tool_id(server, tool))?;
            Some((tool.clone(), pinned.parts))
        };
        Ok(current.keys().filter_map(pin).collect())
    }

    fn is_pinned(&self, server: &PinnedServer) -> bool {
        self.shared.cache().get(&listed_id(server)).is_some()
    }

    async fn pin_first(&self, server: &PinnedServer, first: Pins) -> Result<(), AllowError> {
        if first.is_empty() {
            return Ok(());
        }
        let tools = first.into_iter();
        let puts = tools.map(|(tool, parts)| {
            let (id, value) = pinned_tool(server, &tool, &parts);
            let shared = self.shared.clone();
            // Another process may have pinned it already: then that counts.
            async move { shared.put(id, value, Some(0)).await }
        });
        let puts: Vec<_> = puts.collect();
        let mut puts = futures::stream::iter(puts).buffer_unordered(AT_ONCE);
        while let Some(put) = puts.next().await {
            put?;
        }
        let value = json!({"server": server.name});
        // Last, so that no tool of a list that is stored in part counts as new.
        Ok(self
            .shared
            .put(listed_id(server), bytes(&value), None)
            .await?)
    }

    async fn pin(&self, server: &PinnedServer, tool: &str, parts: Parts) -> Result<(), AllowError> {
        let (id, value) = pinned_tool(server, tool, &parts);
        Ok(self.shared.put(id, value, None).await?)
    }

    fn protocol(&self, server: &str) -> Option<String> {
        let spoken: SpokenProtocol = self.read(&protocol_id(server))?;
        Some(spoken.protocol)
    }

    async fn remember_protocol(
        &self,
        server: &str,
        protocol: &'static str,
    ) -> Result<(), AllowError> {
        if self.protocol(server).as_deref() == Some(protocol) {
            return Ok(());
        }
        let value = json!({"protocol": protocol});
        Ok(self
            .shared
            .put(protocol_id(server), bytes(&value), None)
            .await?)
    }

    fn is_workspace_confirmed(&self, folder: &Path, digest: &str) -> Result<bool, String> {
        if let Some(why) = self.unknown() {
            return Err(why);
        }
        let confirmed: Option<ConfirmedWorkspace> = self.read(&workspace_id(folder));
        Ok(confirmed.is_some_and(|confirmed| confirmed.digest == digest))
    }

    async fn confirm_workspace(&self, folder: &Path, digest: &str) -> Result<(), AllowError> {
        let value = json!({"folder": folder.display().to_string(), "digest": digest});
        Ok(self
            .shared
            .put(workspace_id(folder), bytes(&value), None)
            .await?)
    }
}

/// For the installation: the servers of the settings and what is allowed of them are the same in all namespaces.
fn request<T>(message: T) -> Request<T> {
    let tools = Principal::service("tools", Namespace::default());
    with_principal(Request::new(message), &tools)
}

fn bytes(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

fn pinned_tool(server: &PinnedServer, tool: &str, parts: &Parts) -> (String, Bytes) {
    let value = json!({"server": server.name, "tool": tool, "parts": parts});
    (tool_id(server, tool), bytes(&value))
}

fn server_id(file: &str, name: &str) -> String {
    let of = [file.as_bytes(), name.as_bytes()];
    format!("server:{}", hex(&digest(&of)))
}

fn listed_id(server: &PinnedServer) -> String {
    format!("listed:{}", server.name)
}

fn tool_id(server: &PinnedServer, tool: &str) -> String {
    let of = [server.name.as_bytes(), tool.as_bytes()];
    format!("tool:{}", hex(&digest(&of)))
}

fn protocol_id(server: &str) -> String {
    format!("protocol:{server}")
}

/// `folder` is absolute and without links, so that it is the same in all processes that share it.
fn workspace_id(folder: &Path) -> String {
    let of = [folder.as_os_str().as_bytes()];
    format!("workspace:{}", hex(&digest(&of)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_rpc::check_request_id;

    #[test]
    fn the_ids_of_the_longest_names_can_be_stored() {
        let name = format!("{}:{}", "s".repeat(32), "f".repeat(64));
        let server = PinnedServer {
            before: name.clone(),
            name,
        };
        let digest = "f".repeat(64);
        for id in [
            server_id("/a folder/é/.mcp.json", &"s".repeat(32)),
            listed_id(&server),
            tool_id(&server, &"t".repeat(64)),
            protocol_id(&digest),
            workspace_id(Path::new("/a folder/é")),
        ] {
            check_request_id("id", &id).unwrap();
        }
    }

    #[test]
    fn each_tool_of_each_server_has_a_document_of_its_own() {
        let server = |name: &str| PinnedServer {
            name: name.to_owned(),
            before: String::new(),
        };
        let (one, other) = (server("a:1"), server("a:2"));
        let ids = [
            tool_id(&one, "a__x"),
            tool_id(&one, "a__y"),
            tool_id(&other, "a__x"),
            listed_id(&one),
            listed_id(&other),
        ];
        let different: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(different.len(), ids.len());
    }
}
