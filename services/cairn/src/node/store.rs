//! The store of a node: opened, waited for, and what is told of it.

use super::StartError;
use super::git_ignore::Folder;
use cairn_memory::redis::{Durability, OpenError};
use cairn_memory::sqlite::{SqliteOptions, SqliteStore};
use cairn_memory::{BuildError as StoreError, Config, Deps, Memory, Opened};
use cairn_proto::DESCRIPTORS;
use cairn_rpc::metrics::{self, gauge};
use cairn_rpc::{Authenticate, ErrorKind, Exposure, Health, RpcError, Server, ServerBuilder};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// Between two looks for a store whose servers do not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// The name under which health tells whether the store keeps what it answered.
pub const DURABILITY: &str = "cairn.memory.durability";

/// The name under which health tells whether the store does its work now: whether it takes writes,
/// and sessions can be claimed.
pub const STORE: &str = "cairn.memory.store";

/// What is known of a store, and may change.
pub(super) struct Known {
    pub(super) durability: watch::Receiver<Durability>,
    /// Losses of acknowledged writes, if the store can have any.
    pub(super) losses: Option<watch::Receiver<u64>>,
    /// What keeps it from its work for now, if it can be away.
    pub(super) outages: Option<watch::Receiver<Vec<String>>>,
}

impl Known {
    /// Says in health whether the store keeps what it answered, and has, until the process ends. The
    /// log has the reasons from the store itself, and names the sessions.
    pub(super) async fn note(&mut self, healths: &[Health; 2]) {
        let durability = self.durability.borrow_and_update().clone();
        let lost = self.losses.as_mut();
        let lost = lost.is_some_and(|losses| *losses.borrow_and_update() > 0);
        let is_durable = durability == Durability::Durable && !lost;
        let outages = self.outages.as_mut();
        let takes_writes = outages.is_none_or(|outages| outages.borrow_and_update().is_empty());
        gauge!(metrics::STORE_WRITABLE).set(f64::from(u8::from(takes_writes)));
        for health in healths {
            health.note(DURABILITY, is_durable).await;
            health.note(STORE, takes_writes).await;
        }
    }

    /// The same whenever it changes, for as long as the store is open.
    async fn keep_noting(mut self, healths: [Health; 2]) {
        loop {
            let is_there = tokio::select! {
                changed = self.durability.changed() => changed.is_ok(),
                is_there = changed(self.losses.as_mut()) => is_there,
                is_there = changed(self.outages.as_mut()) => is_there,
            };
            if !is_there {
                return;
            }
            self.note(&healths).await;
        }
    }
}

/// Waits until there is another value, and says whether there may be more; never, if there can be none.
async fn changed<T>(values: Option<&mut watch::Receiver<T>>) -> bool {
    match values {
        Some(values) => values.changed().await.is_ok(),
        None => std::future::pending().await,
    }
}

/// What continues beside the services for as long as the node is there: the queue is counted, sessions
/// whose time has come are ended, and what the store lost is told.
pub(super) fn look_after(
    memory: Option<&Memory>,
    known: Option<Known>,
    servers: [&Server; 2],
) -> Vec<AbortOnDropHandle<()>> {
    let mut tasks = Vec::new();
    if let Some(memory) = memory {
        let (queue, janitor) = (memory.clone(), memory.clone());
        tasks.push(tokio::spawn(async move { queue.watch_queue().await }));
        tasks.push(tokio::spawn(async move { janitor.end_sessions().await }));
    }
    if let Some(known) = known {
        let healths = servers.map(|server| server.health().clone());
        tasks.push(tokio::spawn(known.keep_noting(healths)));
    }
    tasks.into_iter().map(AbortOnDropHandle::new).collect()
}

/// Opens the store. Servers that do not answer are waited for: they may be starting, too.
pub(super) async fn open(config: Config, deps: Deps) -> Result<Opened, StartError> {
    let mut reported = String::new();
    let folder = Folder::of(&config.store);
    loop {
        let (config, deps) = (config.clone(), deps.clone());
        let opened = tokio::task::spawn_blocking(move || cairn_memory::open(config, deps)).await;
        let opened = opened.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        match opened {
            Err(StoreError::Redis(OpenError::Unavailable(error))) => {
                if is_news(&mut reported, &error) {
                    tracing::warn!(%error, "waiting for the servers of the store");
                }
                tokio::time::sleep(PAUSE).await;
            }
            opened => {
                let opened = opened?;
                folder.iter().for_each(Folder::ignore);
                return Ok(opened);
            }
        }
    }
}

/// What comes of `ask` once memory and tools answer: memory may serve while the servers of the store
/// are away, and either may go just when it is asked.
pub(super) async fn answering<T, F>(ask: impl Fn() -> F) -> Result<T, RpcError>
where
    F: Future<Output = Result<T, RpcError>>,
{
    let mut reported = String::new();
    loop {
        match ask().await {
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                if is_news(&mut reported, &error) {
                    tracing::warn!(%error, "waiting for memory and tools to answer");
                }
                tokio::time::sleep(PAUSE).await;
            }
            answer => return answer,
        }
    }
}

/// Whether that is another reason to wait than was told last.
fn is_news(reported: &mut String, error: &impl ToString) -> bool {
    let error = error.to_string();
    let is_news = error != *reported;
    *reported = error;
    is_news
}

/// The public services over a store that another process holds, or none: for reading only.
///
/// # Errors
/// See [`StartError`].
pub async fn read_only(
    path: &Path,
    authenticator: Option<Arc<dyn Authenticate>>,
) -> Result<Server, StartError> {
    let store = SqliteStore::open_readonly(path, SqliteOptions::default())?;
    let memory = Memory::over(Arc::new(store));
    let internal = memory.register_internal(ServerBuilder::new(Exposure::Internal));
    let memory_link = internal.build().await?.link();
    let service = cairn_orchestrator::build_reader(&memory_link).await?;
    let public = ServerBuilder::new(Exposure::Public(authenticator)).register(service, DESCRIPTORS);
    Ok(memory.register_public(public).build().await?)
}

#[cfg(test)]
mod tests {
    use super::is_news;

    #[test]
    fn a_reason_to_wait_is_reported_when_it_becomes_another() {
        let mut reported = String::new();
        let reasons = ["refused", "refused", "NOAUTH", "NOAUTH", "refused"];
        let news = reasons.map(|reason| is_news(&mut reported, &reason));
        assert_eq!(news, [true, false, true, false, true]);
    }
}
