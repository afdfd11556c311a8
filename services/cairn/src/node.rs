//! The services of a process: all five, joined by links without a socket, or some of them, with
//! links to the others.

mod git_ignore;
mod parts;
mod store;

pub use parts::{Authenticators, Parts, StartError};
pub use store::{DURABILITY, STORE, read_only};

use cairn_memory::{Config as MemoryConfig, Deps as MemoryDeps, Memory, Opened};
use cairn_model::ModelRegistry;
use cairn_orchestrator::Links;
use cairn_proto::DESCRIPTORS;
use cairn_proto::memory::session_memory_service_server::SessionMemoryServiceServer;
use cairn_rpc::{
    Address, Exposure, FindToken, Forward, Link, Namespace, RemoteOptions, Server, ServerBuilder,
};
use cairn_tools::MemoryTime;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio_util::task::AbortOnDropHandle;

/// One of the five services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Service {
    /// All durable state.
    Memory,
    /// Tools and the gate before their effects.
    Tools,
    /// Attempts at steps.
    Executor,
    /// Plans.
    Planner,
    /// Sessions and clients.
    Orchestrator,
}

impl Service {
    /// All of them, each after those that it needs.
    pub const ALL: [Self; 5] = [
        Self::Memory,
        Self::Tools,
        Self::Executor,
        Self::Planner,
        Self::Orchestrator,
    ];

    /// Its name in settings and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Tools => "tools",
            Self::Executor => "executor",
            Self::Planner => "planner",
            Self::Orchestrator => "orchestrator",
        }
    }
}

/// Which services are here, and where the others are.
#[derive(Debug, Clone)]
pub struct Placement {
    /// Those of this process.
    pub here: BTreeSet<Service>,
    /// The addresses of the others; only those that are needed count.
    pub elsewhere: BTreeMap<Service, Vec<Address>>,
    /// The tokens of their listeners.
    pub tokens: Option<Arc<dyn FindToken>>,
}

impl Placement {
    /// All five in this process.
    pub fn all() -> Self {
        Self {
            here: Service::ALL.into(),
            elsewhere: BTreeMap::new(),
            tokens: None,
        }
    }

    fn has(&self, service: Service) -> bool {
        self.here.contains(&service)
    }

    /// A link to the processes of a service.
    fn link(&self, service: Service, mut options: RemoteOptions) -> Link {
        let addresses = self.elsewhere.get(&service);
        let addresses = addresses.map(Vec::as_slice).unwrap_or_default();
        options.tokens = self.tokens.clone();
        Link::to_service(service.name(), addresses, options)
    }
}

/// The running services.
#[derive(Debug)]
pub struct Node {
    public: Server,
    internal: Server,
    memory: Option<Memory>,
    tools: Option<cairn_tools::Tools>,
    executor: Option<cairn_executor::Running>,
    orchestrator: Option<cairn_orchestrator::Running>,
    _beside: Vec<AbortOnDropHandle<()>>,
}

impl Node {
    /// Opens the store and starts all services.
    ///
    /// # Errors
    /// See [`StartError`]; nothing runs then, and no store is made for tools that cannot be set up.
    pub async fn start(parts: Parts) -> Result<Self, StartError> {
        Self::start_some(parts, &Placement::all()).await
    }

    /// Starts the services that are to be here. Waits for those elsewhere without which nothing can
    /// be begun; the log says for which.
    ///
    /// # Errors
    /// See [`StartError`]; nothing runs then, and no store is made for tools that cannot be set up.
    pub async fn start_some(parts: Parts, placement: &Placement) -> Result<Self, StartError> {
        if placement.has(Service::Tools) {
            // A store that is opened is made if there is none.
            cairn_tools::check(&parts.tools, &parts.more_tools)?;
        }
        let mut built = Built::new(placement, parts.models, parts.authenticators);
        let mut memory_deps = parts.memory_deps;
        if placement.has(Service::Orchestrator) && placement.has(Service::Tools) {
            memory_deps
                .local_owners
                .push(parts.orchestrator.owner.clone());
        }
        built.memory(parts.memory, memory_deps).await?;
        let (programs, more_tools) = (parts.programs, parts.more_tools);
        built.tools(parts.tools, programs, more_tools).await?;
        built.executor(parts.executor).await?;
        built.planner(parts.planner).await?;
        built.orchestrator(parts.orchestrator).await?;
        let (public, internal) = (built.public.build().await?, built.internal.build().await?);
        let servers = [&public, &internal];
        // Nobody is told of a store that is elsewhere.
        if let Some(known) = &mut built.known {
            let healths = servers.map(|server| server.health().clone());
            known.note(&healths).await;
        }
        Ok(Self {
            _beside: store::look_after(built.memory.as_ref(), built.known, servers),
            public,
            internal,
            memory: built.memory,
            tools: built.tools,
            executor: built.executor,
            orchestrator: built.orchestrator,
        })
    }

    /// The services that clients talk to: none without the orchestrator.
    pub fn public(&self) -> &Server {
        &self.public
    }

    /// The services that other processes of Cairn talk to.
    pub fn internal(&self) -> &Server {
        &self.internal
    }

    /// A client's link, without a socket.
    pub fn link(&self) -> Link {
        self.public.link()
    }

    /// Has the orchestrator, if it is here, work on a session.
    pub fn take_up(&self, session: &str) {
        if let Some(orchestrator) = &self.orchestrator {
            orchestrator.take_up(&Namespace::default(), session);
        }
    }

    /// Lets attempts and calls with side effects end and gives all sessions back. Bound it by a
    /// deadline.
    pub async fn drain(&self) {
        self.internal.health().stop().await;
        if let Some(orchestrator) = &self.orchestrator {
            orchestrator.drain().await;
        }
        if let Some(executor) = &self.executor {
            executor.drain().await;
        }
        if let Some(tools) = &self.tools {
            tools.drain().await;
        }
    }

    /// Closes the store: what was asked of it is done, and its file is whole and free. Whatever
    /// still runs in this process gets nothing written from then on. Bound it by a deadline.
    pub async fn close(&self) {
        if let Some(memory) = &self.memory {
            memory.store().close().await;
        }
    }
}

/// A node that is being put together, service by service, each after those that it needs.
struct Built<'a> {
    placement: &'a Placement,
    models: Arc<ModelRegistry>,
    links: BTreeMap<Service, Link>,
    public: ServerBuilder,
    internal: ServerBuilder,
    memory: Option<Memory>,
    known: Option<store::Known>,
    tools: Option<cairn_tools::Tools>,
    executor: Option<cairn_executor::Running>,
    orchestrator: Option<cairn_orchestrator::Running>,
}

impl<'a> Built<'a> {
    fn new(
        placement: &'a Placement,
        models: Arc<ModelRegistry>,
        authenticators: Authenticators,
    ) -> Self {
        Self {
            placement,
            models,
            links: BTreeMap::new(),
            public: ServerBuilder::new(Exposure::Public(authenticators.public)),
            internal: ServerBuilder::new(
                authenticators
                    .internal
                    .map_or(Exposure::Internal, Exposure::Services),
            ),
            memory: None,
            known: None,
            tools: None,
            executor: None,
            orchestrator: None,
        }
    }

    /// Puts a service on the internal server, and makes the link to it.
    async fn add(
        &mut self,
        service: Service,
        register: impl Fn(ServerBuilder) -> ServerBuilder,
    ) -> Result<(), StartError> {
        let internal = ServerBuilder::new(Exposure::Internal);
        self.internal = register(std::mem::replace(&mut self.internal, internal));
        let alone = register(ServerBuilder::new(Exposure::Internal));
        self.links.insert(service, alone.build().await?.link());
        Ok(())
    }

    /// The link to a service that was added, or to where it is.
    fn link(&self, service: Service) -> Link {
        let here = self.links.get(&service).cloned();
        here.unwrap_or_else(|| self.placement.link(service, RemoteOptions::default()))
    }

    async fn memory(&mut self, config: MemoryConfig, deps: MemoryDeps) -> Result<(), StartError> {
        if !self.placement.has(Service::Memory) {
            return Ok(());
        }
        let Opened {
            memory,
            durability,
            losses,
            outages,
        } = store::open(config, deps).await?;
        self.known = Some(store::Known {
            durability,
            losses,
            outages,
        });
        self.add(Service::Memory, |server| memory.register_internal(server))
            .await?;
        self.memory = Some(memory);
        Ok(())
    }

    async fn tools(
        &mut self,
        config: cairn_tools::Config,
        programs: cairn_tools::Programs,
        more_tools: Vec<Arc<dyn cairn_tools::Tool>>,
    ) -> Result<(), StartError> {
        if !self.placement.has(Service::Tools) {
            return Ok(());
        }
        let store_time = Arc::new(MemoryTime::new(self.link(Service::Memory)));
        let deps = cairn_tools::Deps {
            programs,
            tools: more_tools,
            ..cairn_tools::Deps::new(store_time)
        };
        let tools = cairn_tools::build(config, deps)?;
        self.add(Service::Tools, |server| tools.register(server))
            .await?;
        self.tools = Some(tools);
        Ok(())
    }

    async fn executor(&mut self, config: cairn_executor::Config) -> Result<(), StartError> {
        if !self.placement.has(Service::Executor) {
            return Ok(());
        }
        let deps = cairn_executor::Deps {
            models: self.models.clone(),
            tools: self.link(Service::Tools),
        };
        let (service, running) = cairn_executor::build(config, deps);
        self.add(Service::Executor, |server| {
            server.register(service.clone(), DESCRIPTORS)
        })
        .await?;
        self.executor = Some(running);
        Ok(())
    }

    async fn planner(&mut self, config: cairn_planner::Config) -> Result<(), StartError> {
        if !self.placement.has(Service::Planner) {
            return Ok(());
        }
        let deps = cairn_planner::Deps::new(self.models.clone());
        let service = cairn_planner::build(config, deps);
        self.add(Service::Planner, |server| {
            server.register(service.clone(), DESCRIPTORS)
        })
        .await
    }

    async fn orchestrator(&mut self, config: cairn_orchestrator::Config) -> Result<(), StartError> {
        if !self.placement.has(Service::Orchestrator) {
            return Ok(());
        }
        let journals = self.links.get(&Service::Memory).cloned();
        let far = || {
            self.placement
                .link(Service::Memory, RemoteOptions::streams())
        };
        let links = Links {
            journals: journals.unwrap_or_else(far),
            memory: self.link(Service::Memory),
            tools: self.link(Service::Tools),
            executor: self.link(Service::Executor),
            planner: self.link(Service::Planner),
        };
        links.memory.serves().await;
        links.tools.serves().await;
        // What a client does not read must not hold up commits.
        let memory = links.journals.clone();
        let build = || cairn_orchestrator::build(config.clone(), links.clone());
        let (service, running) = store::answering(build).await?;
        let public = ServerBuilder::new(Exposure::Internal);
        let public = std::mem::replace(&mut self.public, public);
        let public = match &self.memory {
            Some(memory) => memory.register_public(public),
            None => public.register(session_memory(memory), DESCRIPTORS),
        };
        self.public = public.register(service, DESCRIPTORS);
        self.orchestrator = Some(running);
        Ok(())
    }
}

/// Session memory of another process, for the clients of this one.
fn session_memory(memory: Link) -> Forward<SessionMemoryServiceServer<()>> {
    Forward::new(memory)
}
