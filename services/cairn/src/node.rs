//! All five services in one process, joined by links without a socket.

use cairn_memory::sqlite::{SqliteOptions, SqliteStore};
use cairn_memory::{Config as MemoryConfig, Deps as MemoryDeps, Memory};
use cairn_model::ModelRegistry;
use cairn_orchestrator::Links;
use cairn_rpc::{BuildError, DefaultNamespace, Exposure, Link, RpcError, Server, ServerBuilder};
use cairn_tools::MemoryTime;
use std::path::Path;
use std::sync::Arc;

/// What a node is made of, checked.
#[allow(
    missing_debug_implementations,
    reason = "the environment may hold secrets"
)]
pub struct Parts {
    /// Where sessions are stored, and how large they may get.
    pub memory: MemoryConfig,
    /// The store's clock. The orchestrator's name is added to the local owners.
    pub memory_deps: MemoryDeps,
    /// Files, limits, commands.
    pub tools: cairn_tools::Config,
    /// The environment that configured commands may take from.
    pub environment: std::collections::BTreeMap<String, String>,
    /// Tools besides the file tools and the configured commands.
    pub more_tools: Vec<Arc<dyn cairn_tools::Tool>>,
    /// The models.
    pub models: Arc<ModelRegistry>,
    /// Slots and retries.
    pub executor: cairn_executor::Config,
    /// Retries.
    pub planner: cairn_planner::Config,
    /// Leases and limits.
    pub orchestrator: cairn_orchestrator::Config,
}

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The store cannot be opened.
    #[error("the store cannot be opened")]
    Store(#[from] cairn_memory::BuildError),
    /// The store cannot be read.
    #[error("the store cannot be read")]
    ReadOnly(#[from] cairn_memory::sqlite::OpenError),
    /// The tools cannot be set up.
    #[error("the tools cannot be set up")]
    Tools(#[from] cairn_tools::BuildError),
    /// The services do not fit together.
    #[error("the services cannot be put together")]
    Build(#[from] BuildError),
    /// A service does not answer another.
    #[error("a service does not answer")]
    Rpc(#[from] RpcError),
}

/// The running services.
#[derive(Debug)]
pub struct Node {
    public: Server,
    memory: Memory,
    tools: cairn_tools::Tools,
    orchestrator: cairn_orchestrator::Running,
}

impl Node {
    /// Opens the store and starts all services.
    ///
    /// # Errors
    /// See [`StartError`]; nothing runs then, and no store is made for tools that cannot be set up.
    pub async fn start(mut parts: Parts) -> Result<Self, StartError> {
        // A store that is opened is made if there is none.
        cairn_tools::check(&parts.tools, &parts.more_tools)?;
        let owner = parts.orchestrator.owner.clone();
        parts.memory_deps.local_owners.push(owner);
        let memory = cairn_memory::build(parts.memory, parts.memory_deps)?;
        let internal = ServerBuilder::new(Exposure::Internal);
        let memory_link = memory.register_internal(internal).build().await?.link();

        let mut deps = cairn_tools::Deps::new(Arc::new(MemoryTime::new(memory_link.clone())));
        deps.environment = parts.environment;
        deps.tools = parts.more_tools;
        let tools = cairn_tools::build(parts.tools, deps)?;
        let internal = ServerBuilder::new(Exposure::Internal);
        let tools_link = tools.register(internal).build().await?.link();

        let links = Links {
            executor: executor_link(&parts.models, parts.executor, &tools_link).await?,
            planner: planner_link(&parts.models, parts.planner).await?,
            tools: tools_link,
            memory: memory_link,
        };
        let (service, orchestrator) = cairn_orchestrator::build(parts.orchestrator, links).await?;
        let public = ServerBuilder::new(Exposure::Public(Arc::new(DefaultNamespace)))
            .register(service, cairn_proto::DESCRIPTORS);
        let public = memory.register_public(public).build().await?;
        Ok(Self {
            public,
            memory,
            tools,
            orchestrator,
        })
    }

    /// The services that clients talk to.
    pub fn public(&self) -> &Server {
        &self.public
    }

    /// A client's link, without a socket.
    pub fn link(&self) -> Link {
        self.public.link()
    }

    /// Lets calls with side effects end and gives all sessions back. Bound it by a deadline.
    pub async fn drain(&self) {
        self.orchestrator.drain().await;
        self.tools.drain().await;
    }

    /// Closes the store: what was asked of it is done, and its file is whole and free. Whatever
    /// still runs in this process gets nothing written from then on. Bound it by a deadline.
    pub async fn close(&self) {
        self.memory.store().close().await;
    }
}

/// The public services over a store that somebody else holds, or nobody: for reading only.
///
/// # Errors
/// See [`StartError`].
pub async fn read_only(path: &Path) -> Result<Server, StartError> {
    let store = SqliteStore::open_readonly(path, SqliteOptions::default())?;
    let memory = Memory::over(Arc::new(store));
    let internal = ServerBuilder::new(Exposure::Internal);
    let memory_link = memory.register_internal(internal).build().await?.link();
    let service = cairn_orchestrator::build_reader(&memory_link).await?;
    let public = ServerBuilder::new(Exposure::Public(Arc::new(DefaultNamespace)))
        .register(service, cairn_proto::DESCRIPTORS);
    Ok(memory.register_public(public).build().await?)
}

async fn executor_link(
    models: &Arc<ModelRegistry>,
    config: cairn_executor::Config,
    tools: &Link,
) -> Result<Link, BuildError> {
    let deps = cairn_executor::Deps {
        models: models.clone(),
        tools: tools.clone(),
    };
    let service = cairn_executor::build(config, deps);
    let server = ServerBuilder::new(Exposure::Internal).register(service, cairn_proto::DESCRIPTORS);
    Ok(server.build().await?.link())
}

async fn planner_link(
    models: &Arc<ModelRegistry>,
    config: cairn_planner::Config,
) -> Result<Link, BuildError> {
    let service = cairn_planner::build(config, cairn_planner::Deps::new(models.clone()));
    let server = ServerBuilder::new(Exposure::Internal).register(service, cairn_proto::DESCRIPTORS);
    Ok(server.build().await?.link())
}
