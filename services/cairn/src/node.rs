//! The services of a process: all five, joined by links without a socket, or some of them, with
//! links to the others.

mod folder;
mod parts;
mod store;

pub use parts::{Authenticators, Parts, StartError};
pub use store::{DURABILITY, STORE, read_only};

use cairn_engine::failure::Failure;
use cairn_memory::{Opened, StoreConfig};
use cairn_orchestrator::Links;
use cairn_proto::DESCRIPTORS;
use cairn_proto::memory::session_memory_service_server::SessionMemoryServiceServer;
use cairn_rpc::{
    Address, Exposure, FindToken, Forward, Link, Namespace, RemoteOptions, Server, ServerBuilder,
};
use cairn_tools::{Allowances, MemoryTime};
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

    /// The services that it calls.
    fn needs(self) -> &'static [Self] {
        match self {
            Self::Memory | Self::Planner => &[],
            Self::Tools => &[Self::Memory],
            Self::Executor => &[Self::Tools],
            Self::Orchestrator => &[Self::Memory, Self::Tools, Self::Executor, Self::Planner],
        }
    }

    /// There is neither this service nor an address of it.
    fn missing(self) -> Failure {
        Failure::missing(match self {
            Self::Tools => "tool_registry",
            other => other.name(),
        })
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

    /// Finds what services of this process call, and what is neither here nor elsewhere.
    fn check(&self) -> Result<(), Failure> {
        let is_known = |service: &Service| {
            let addresses = self.elsewhere.get(service);
            self.has(*service) || addresses.is_some_and(|addresses| !addresses.is_empty())
        };
        let mut needed = self.here.iter().flat_map(|service| service.needs());
        match needed.find(|&service| !is_known(service)) {
            Some(missing) => Err(missing.missing()),
            None => Ok(()),
        }
    }

    /// A link to the processes of a service that is not here.
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
    /// Each after those that it needs.
    running: Vec<Running>,
    _beside: Vec<AbortOnDropHandle<()>>,
}

/// A service of the node.
#[derive(Debug)]
enum Running {
    Memory(Opened),
    Tools(cairn_tools::Tools),
    Executor(cairn_executor::Running),
    Planner,
    Orchestrator(cairn_orchestrator::Running),
}

impl Running {
    async fn drain(&self) {
        match self {
            Self::Tools(tools) => tools.drain().await,
            Self::Executor(executor) => executor.drain().await,
            Self::Orchestrator(orchestrator) => orchestrator.drain().await,
            Self::Memory(_) | Self::Planner => {}
        }
    }
}

impl Node {
    /// Opens the store and starts all services.
    ///
    /// # Errors
    /// See [`StartError`]; nothing runs then, and no store is made for tools that cannot be set up.
    pub async fn start(parts: Parts) -> Result<Self, StartError> {
        Box::pin(Self::start_some(parts, &Placement::all())).await
    }

    /// Starts the services that are to be here. Waits for those elsewhere without which nothing can
    /// be begun; the log says for which.
    ///
    /// # Errors
    /// See [`StartError`]; nothing runs then, and no store is made for tools that cannot be set up or hooks that cannot
    /// be asked.
    pub async fn start_some(parts: Parts, placement: &Placement) -> Result<Self, StartError> {
        placement.check()?;
        if placement.has(Service::Tools) {
            // A store that is opened is made if there is none.
            cairn_tools::check(&parts.tools, &parts.more_tools)?;
        }
        let parts = parts.with_hook_executor();
        if placement.has(Service::Orchestrator) {
            parts.orchestrator.check_hooks()?;
        }
        let mut building = Building::new(parts, placement);
        for service in &placement.here {
            building = match service {
                Service::Memory => building.memory().await?,
                Service::Tools => building.tools()?,
                Service::Executor => building.executor(),
                Service::Planner => building.planner(),
                Service::Orchestrator => building.orchestrator().await?,
            };
        }
        let running = building.running;
        let (public, internal) = (
            building.public.build().await?,
            building.internal.build().await?,
        );
        let mut beside = Vec::new();
        // A store that is elsewhere is in the health of its own process.
        if let Some(opened) = opened(&running) {
            let healths = [&public, &internal].map(|server| server.health().clone());
            beside = store::look_after(opened.clone(), healths).await;
        }
        Ok(Self {
            public,
            internal,
            running,
            _beside: beside,
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
        for service in &self.running {
            if let Running::Orchestrator(orchestrator) = service {
                orchestrator.take_up(&Namespace::default(), session);
            }
        }
    }

    /// Lets attempts and calls with side effects end and gives all sessions back. Bound it by a
    /// deadline.
    pub async fn drain(&self) {
        self.internal.health().stop().await;
        for service in self.running.iter().rev() {
            service.drain().await;
        }
    }

    /// Closes the store: what was asked of it is done, and its file is whole and free. Whatever
    /// still runs in this process gets nothing written from then on. Bound it by a deadline.
    pub async fn close(&self) {
        if let Some(opened) = opened(&self.running) {
            opened.memory.store().close().await;
        }
    }
}

fn opened(running: &[Running]) -> Option<&Opened> {
    running.iter().find_map(|service| match service {
        Running::Memory(opened) => Some(opened),
        _ => None,
    })
}

/// A node that is being put together, service by service.
struct Building<'a> {
    parts: Parts,
    placement: &'a Placement,
    public: ServerBuilder,
    internal: ServerBuilder,
    running: Vec<Running>,
}

impl<'a> Building<'a> {
    fn new(mut parts: Parts, placement: &'a Placement) -> Self {
        if placement.has(Service::Orchestrator) && placement.has(Service::Tools) {
            let owner = parts.orchestrator.owner.clone();
            parts.memory_deps.local_owners.push(owner);
        }
        let Authenticators { public, internal } = parts.authenticators.clone();
        let internal = internal.map_or(Exposure::Internal, Exposure::Services);
        Self {
            parts,
            placement,
            public: ServerBuilder::new(Exposure::Public(public)),
            internal: ServerBuilder::new(internal),
            running: Vec::new(),
        }
    }

    /// A link to a service that was added, or to where it is.
    fn link(&self, service: Service, options: RemoteOptions) -> Link {
        match self.placement.has(service) {
            true => self.internal.internal_link(),
            false => self.placement.link(service, options),
        }
    }

    fn with(mut self, service: Running) -> Self {
        self.running.push(service);
        self
    }

    async fn memory(mut self) -> Result<Self, StartError> {
        let (config, deps) = (self.parts.memory.clone(), self.parts.memory_deps.clone());
        let opened = store::open(config, deps).await?;
        self.internal = opened.memory.register_internal(self.internal);
        Ok(self.with(Running::Memory(opened)))
    }

    fn tools(mut self) -> Result<Self, StartError> {
        let memory = self.link(Service::Memory, RemoteOptions::default());
        let deps = cairn_tools::Deps {
            programs: self.parts.programs.clone(),
            tools: self.parts.more_tools.clone(),
            allowances: self.allowances(&memory),
            ..cairn_tools::Deps::new(Arc::new(MemoryTime::new(memory)))
        };
        let tools = cairn_tools::build(self.parts.tools.clone(), deps)?;
        self.internal = tools.register(self.internal);
        Ok(self.with(Running::Tools(tools)))
    }

    /// Where tools keep what a person allows and confirms. A store in a file may have come with a folder of
    /// others, so a process that needs no other one keeps it in the user's trust file.
    fn allowances(&self, memory: &Link) -> Allowances {
        let needed = [Service::Memory, Service::Tools, Service::Orchestrator];
        let is_alone = needed
            .into_iter()
            .all(|service| self.placement.has(service));
        let is_shared = matches!(self.parts.memory.store, StoreConfig::Redis(_));
        let has_servers = !self.parts.tools.servers.is_empty();
        if !has_servers && !self.parts.tools.agents_enabled {
            return Allowances::in_process();
        }
        if is_shared || !is_alone {
            return Allowances::with_memory(memory.clone());
        }
        match self.parts.trust.clone() {
            Some(trust) => Allowances::in_file(trust),
            None => {
                // Most workspaces have no file that a person confirms.
                if has_servers {
                    tracing::warn!(
                        "no place for the trust file: what is allowed lasts until the process ends; set \
                         tools.trust"
                    );
                }
                Allowances::in_process()
            }
        }
    }

    fn executor(mut self) -> Self {
        let deps = cairn_executor::Deps {
            models: self.parts.models.clone(),
            tools: self.link(Service::Tools, RemoteOptions::default()),
        };
        let (service, running) = cairn_executor::build(self.parts.executor.clone(), deps);
        self.internal = self.internal.register(service, DESCRIPTORS);
        self.with(Running::Executor(running))
    }

    fn planner(mut self) -> Self {
        let deps = cairn_planner::Deps {
            parser: Arc::clone(&self.parts.plan_parser),
            ..cairn_planner::Deps::new(self.parts.models.clone())
        };
        let service = cairn_planner::build(self.parts.planner.clone(), deps);
        self.internal = self.internal.register(service, DESCRIPTORS);
        self.with(Running::Planner)
    }

    async fn orchestrator(mut self) -> Result<Self, StartError> {
        let link = |service| self.link(service, RemoteOptions::default());
        let links = Links {
            journals: self.link(Service::Memory, RemoteOptions::streams()),
            memory: link(Service::Memory),
            tools: link(Service::Tools),
            executor: link(Service::Executor),
            planner: link(Service::Planner),
        };
        links.memory.serves().await;
        links.tools.serves().await;
        let config = cairn_orchestrator::Config {
            models: self.parts.models.names().map(str::to_owned).collect(),
            ..self.parts.orchestrator.clone()
        };
        let build = || cairn_orchestrator::build(config.clone(), links.clone());
        let built = store::answering(build).await;
        let (services, running) = built.map_err(StartError::of_orchestrator)?;
        let public = match opened(&self.running) {
            Some(opened) => opened.memory.register_public(self.public),
            // What a client does not read must not hold up commits.
            None => {
                let memory: Forward<SessionMemoryServiceServer<()>> = Forward::new(links.journals);
                self.public.register(memory, DESCRIPTORS)
            }
        };
        self.public = services.register(public);
        Ok(self.with(Running::Orchestrator(running)))
    }
}
