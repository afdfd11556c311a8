//! The store of a node: opened, waited for, and what is told of it.

use super::StartError;
use cairn_memory::redis::{Durability, OpenError};
use cairn_memory::sqlite::{SqliteOptions, SqliteStore};
use cairn_memory::{BuildError as StoreError, Config, Deps, Memory, Opened};
use cairn_proto::DESCRIPTORS;
use cairn_rpc::{DefaultNamespace, ErrorKind, Exposure, Health, RpcError, Server, ServerBuilder};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// Between two looks for a store whose servers do not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// The name under which health tells whether the store keeps what it answered.
pub const DURABILITY: &str = "cairn.memory.durability";

/// Says whether the store keeps what it answered: in the log, and to whoever asks for health. Nobody
/// is told of a store that is elsewhere.
pub(super) async fn tell(durability: Option<Durability>, servers: [&Server; 2]) {
    let Some(durability) = durability else {
        return;
    };
    let (name, is_durable) = (durability.name(), durability == Durability::Durable);
    if let Durability::Degraded { reasons } = durability {
        for reason in reasons {
            tracing::warn!(durability = name, reason, "what was answered may be lost");
        }
    }
    for server in servers {
        server.health().note(DURABILITY, is_durable).await;
    }
}

/// What goes on beside the services for as long as the node is there: the queue is counted, sessions
/// whose time has come are ended, and what the store lost is told.
pub(super) fn look_after(
    memory: Option<&Memory>,
    losses: Option<watch::Receiver<u64>>,
    servers: [&Server; 2],
) -> Vec<AbortOnDropHandle<()>> {
    let mut tasks = Vec::new();
    if let Some(memory) = memory {
        let (queue, janitor) = (memory.clone(), memory.clone());
        tasks.push(tokio::spawn(async move { queue.watch_queue().await }));
        tasks.push(tokio::spawn(async move { janitor.end_sessions().await }));
    }
    if let Some(losses) = losses {
        let healths = servers.map(|server| server.health().clone());
        tasks.push(tokio::spawn(tell_of_losses(losses, healths)));
    }
    tasks.into_iter().map(AbortOnDropHandle::new).collect()
}

/// Says in health when acknowledged writes were found to be lost, until the process ends. The log
/// names the sessions.
async fn tell_of_losses(mut losses: watch::Receiver<u64>, healths: [Health; 2]) {
    while losses.changed().await.is_ok() {
        for health in &healths {
            health.note(DURABILITY, false).await;
        }
    }
}

/// Opens the store. Servers that do not answer are waited for: they may be starting, too.
pub(super) async fn open(config: Config, deps: Deps) -> Result<Opened, StartError> {
    let mut told = String::new();
    loop {
        let (config, deps) = (config.clone(), deps.clone());
        let opened = tokio::task::spawn_blocking(move || cairn_memory::open(config, deps)).await;
        let opened = opened.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        match opened {
            Err(StoreError::Redis(OpenError::Unavailable(error))) => {
                if is_news(&mut told, &error) {
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
    let mut told = String::new();
    loop {
        match ask().await {
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                if is_news(&mut told, &error) {
                    tracing::warn!(%error, "waiting for memory and tools to answer");
                }
                tokio::time::sleep(PAUSE).await;
            }
            answer => return answer,
        }
    }
}

/// Whether that is another reason to wait than was told last.
fn is_news(told: &mut String, error: &impl ToString) -> bool {
    let error = error.to_string();
    let is_news = error != *told;
    *told = error;
    is_news
}

/// The public services over a store that somebody else holds, or nobody: for reading only.
///
/// # Errors
/// See [`StartError`].
pub async fn read_only(path: &Path) -> Result<Server, StartError> {
    let store = SqliteStore::open_readonly(path, SqliteOptions::default())?;
    let memory = Memory::over(Arc::new(store));
    let internal = memory.register_internal(ServerBuilder::new(Exposure::Internal));
    let memory_link = internal.build().await?.link();
    let service = cairn_orchestrator::build_reader(&memory_link).await?;
    let public = ServerBuilder::new(Exposure::Public(Arc::new(DefaultNamespace)))
        .register(service, DESCRIPTORS);
    Ok(memory.register_public(public).build().await?)
}

#[cfg(test)]
mod tests {
    use super::is_news;

    #[test]
    fn a_reason_to_wait_is_told_when_it_becomes_another() {
        let mut told = String::new();
        let reasons = ["refused", "refused", "NOAUTH", "NOAUTH", "refused"];
        let news = reasons.map(|reason| is_news(&mut told, &reason));
        assert_eq!(news, [true, false, true, false, true]);
    }
}
