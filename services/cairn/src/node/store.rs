//! The store of a node: opened, waited for, and what is told of it.

use super::StartError;
use super::folder;
use cairn_memory::redis::{Durability, OpenError};
use cairn_memory::sqlite::{SqliteOptions, SqliteStore};
use cairn_memory::{BuildError as StoreError, Config, Deps, Memory, Opened};
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

/// Reports in health whether the store keeps the writes that it acknowledged, and has kept them since
/// the process began. The store logs the reasons and names the sessions.
async fn note(store: &mut Opened, healths: &[Health; 2]) {
    let durability = store.durability.borrow_and_update().clone();
    let lost = store.losses.as_mut();
    let lost = lost.is_some_and(|losses| *losses.borrow_and_update() > 0);
    let is_durable = durability == Durability::Durable && !lost;
    let outages = store.outages.as_mut();
    let takes_writes = outages.is_none_or(|outages| outages.borrow_and_update().is_empty());
    gauge!(metrics::STORE_WRITABLE).set(f64::from(u8::from(takes_writes)));
    for health in healths {
        health.note(DURABILITY, is_durable).await;
        health.note(STORE, takes_writes).await;
    }
}

/// Reports every change, for as long as the store is open.
async fn keep_noting(mut store: Opened, healths: [Health; 2]) {
    loop {
        let is_there = tokio::select! {
            changed = store.durability.changed() => changed.is_ok(),
            is_there = changed(store.losses.as_mut()) => is_there,
            is_there = changed(store.outages.as_mut()) => is_there,
        };
        if !is_there {
            return;
        }
        note(&mut store, &healths).await;
    }
}

/// Waits until there is another value, and says whether there may be more; never, if there can be none.
async fn changed<T>(values: Option<&mut watch::Receiver<T>>) -> bool {
    match values {
        Some(values) => values.changed().await.is_ok(),
        None => std::future::pending().await,
    }
}

/// Work beside the services for as long as the node is there: it counts the queue, ends sessions whose
/// time has come, and reports the state of the store in health.
pub(super) async fn look_after(
    mut store: Opened,
    healths: [Health; 2],
) -> Vec<AbortOnDropHandle<()>> {
    note(&mut store, &healths).await;
    let (queue, janitor) = (store.memory.clone(), store.memory.clone());
    let tasks = [
        tokio::spawn(async move { queue.watch_queue().await }),
        tokio::spawn(async move { janitor.end_sessions().await }),
        tokio::spawn(keep_noting(store, healths)),
    ];
    tasks.map(AbortOnDropHandle::new).into()
}

/// Opens the store. Servers that do not answer are waited for: they may be starting, too.
pub(super) async fn open(config: Config, deps: Deps) -> Result<Opened, StartError> {
    let mut reported = String::new();
    folder::make(&config.store);
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
            opened => return Ok(opened?),
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
    config: cairn_orchestrator::Config,
    authenticator: Option<Arc<dyn Authenticate>>,
) -> Result<Server, StartError> {
    let store = SqliteStore::open_readonly(path, SqliteOptions::default())?;
    let memory = Memory::over(Arc::new(store));
    let internal = memory.register_internal(ServerBuilder::new(Exposure::Internal));
    let services = cairn_orchestrator::build_reader(config, &internal.internal_link()).await?;
    let public = services.register(ServerBuilder::new(Exposure::Public(authenticator)));
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
