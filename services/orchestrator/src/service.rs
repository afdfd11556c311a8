//! From settings and links to a running service.

use crate::config::Config;
use crate::deps::Deps;
use crate::dispatch::{Catalogue, DispatchLinks, Dispatcher, refresh};
use crate::grpc::Orchestrator;
use crate::hooks::Hooks;
use crate::key::SessionKey;
use crate::knowledge::Knowledge;
use crate::requests::Requests;
use crate::sessions::{Sessions, claim, renew, wake};
use crate::store::{LastAcknowledged, Store};
use crate::workspace::WorkspaceFiles;
use cairn_engine::failure::Failure;
use cairn_proto::DESCRIPTORS;
use cairn_proto::api::agent_service_server::AgentServiceServer;
use cairn_proto::api::hook_service_server::HookServiceServer;
use cairn_proto::api::knowledge_service_server::KnowledgeServiceServer;
use cairn_proto::api::pool_service_server::PoolServiceServer;
use cairn_proto::orchestrator::context_service_server::ContextServiceServer;
use cairn_proto::orchestrator::orchestrator_service_server::OrchestratorServiceServer;
use cairn_proto::planner::planner_service_client::PlannerServiceClient;
use cairn_rpc::{
    Deadlines, ErrorKind, Link, MAX_MESSAGE_BYTES, Namespace, RpcError, ServerBuilder,
};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Most time for an answer of memory or tools. Long polls say themselves how long they take, and
/// streams last as long as they last.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// Most time for a plan: two answers of a model, each tried again for minutes.
const PLANNING_TIME: Duration = Duration::from_secs(15 * 60);

/// The services that the orchestrator calls.
#[derive(Debug, Clone)]
pub struct Links {
    /// Journals and leases.
    pub memory: Link,
    /// The memory service once more, for what is followed: a watcher that does not read must not
    /// hold up commits, so elsewhere these are other connections.
    pub journals: Link,
    /// The catalogue.
    pub tools: Link,
    /// Attempts.
    pub executor: Link,
    /// Plans.
    pub planner: Link,
}

impl Links {
    /// The same links, on which no answer is waited for without end.
    fn with_deadlines(self) -> Result<Self, RpcError> {
        let within = |time, link: Link| {
            let deadlines = Deadlines::new(time, &[DESCRIPTORS])?;
            Ok::<_, RpcError>(link.with_deadlines(deadlines))
        };
        Ok(Self {
            memory: within(ANSWER_TIME, self.memory)?,
            journals: self.journals,
            tools: within(ANSWER_TIME, self.tools)?,
            executor: self.executor,
            planner: within(PLANNING_TIME, self.planner)?,
        })
    }
}

/// The services for clients.
#[derive(Debug, Clone)]
pub struct Public {
    orchestrator: OrchestratorServiceServer<Orchestrator>,
    contexts: ContextServiceServer<Orchestrator>,
    agents: AgentServiceServer<Orchestrator>,
    pool: PoolServiceServer<Orchestrator>,
    hooks: HookServiceServer<Orchestrator>,
    knowledge: KnowledgeServiceServer<Orchestrator>,
}

impl Public {
    fn new(sessions: Arc<Sessions>) -> Self {
        let service = Orchestrator::new(Arc::new(Requests::new(sessions)));
        let contexts = ContextServiceServer::new(service.clone());
        let agents = AgentServiceServer::new(service.clone());
        let pool = PoolServiceServer::new(service.clone());
        let hooks = HookServiceServer::new(service.clone());
        let knowledge = KnowledgeServiceServer::new(service.clone());
        Self {
            orchestrator: OrchestratorServiceServer::new(service)
                .max_decoding_message_size(MAX_MESSAGE_BYTES),
            contexts: contexts.max_decoding_message_size(MAX_MESSAGE_BYTES),
            agents: agents.max_decoding_message_size(MAX_MESSAGE_BYTES),
            pool: pool.max_decoding_message_size(MAX_MESSAGE_BYTES),
            hooks: hooks.max_decoding_message_size(MAX_MESSAGE_BYTES),
            knowledge: knowledge.max_decoding_message_size(MAX_MESSAGE_BYTES),
        }
    }

    /// Adds the services to a server.
    #[must_use]
    pub fn register(self, builder: ServerBuilder) -> ServerBuilder {
        builder
            .register(self.orchestrator, DESCRIPTORS)
            .register(self.contexts, DESCRIPTORS)
            .register(self.agents, DESCRIPTORS)
            .register(self.pool, DESCRIPTORS)
            .register(self.hooks, DESCRIPTORS)
            .register(self.knowledge, DESCRIPTORS)
    }
}

/// The orchestrator at work: it claims and renews until it is stopped.
#[derive(Debug)]
pub struct Running {
    sessions: Arc<Sessions>,
    claiming: TaskTracker,
    background: TaskTracker,
    stop_claiming: CancellationToken,
    stop: CancellationToken,
}

/// Builds the public services and begins to take sessions.
///
/// # Errors
/// The memory or the tools service cannot be reached. A [`Failure`] of the configuration is the cause of the error if
/// the link of the tools leads to another service, or if [`Config::check_hooks`] finds something.
pub async fn build(config: Config, links: Links) -> Result<(Public, Running), RpcError> {
    config.check_hooks().map_err(not_configured)?;
    let links = links.with_deadlines()?;
    let catalogue = match config.waits_for_tools {
        true => Catalogue::read_first(&links.tools, config.notice).await,
        false => Catalogue::read(&links.tools).await,
    };
    let catalogue = catalogue.map_err(|error| match error.kind() {
        // There is another service at the end of the link.
        ErrorKind::Unimplemented => not_configured(Failure::missing("tool_registry")),
        _ => error,
    })?;
    let sessions = sessions(config, &links, catalogue).await?;
    let running = Running {
        sessions: sessions.clone(),
        claiming: TaskTracker::new(),
        background: TaskTracker::new(),
        stop_claiming: CancellationToken::new(),
        stop: CancellationToken::new(),
    };
    let stop = || running.stop.clone();
    let claim = claim(sessions.clone(), running.stop_claiming.clone());
    running.claiming.spawn(claim);
    running.background.spawn(renew(sessions.clone(), stop()));
    let dispatch = sessions.deps.dispatch.clone();
    // A process that only reads does not follow them: its store refuses that.
    let documents = dispatch.follow_documents(&links.journals, stop());
    running.background.spawn(documents);
    running.background.spawn(refresh(dispatch, stop()));
    if sessions.deps.config.runs_steps() {
        running.background.spawn(wake(sessions.clone(), stop()));
    }
    Ok((Public::new(sessions), running))
}

/// Builds the public services over a store that is only read: whatever would change a session is
/// refused by the store, and nothing is claimed.
///
/// # Errors
/// The memory service cannot be reached.
pub async fn build_reader(config: Config, memory: &Link) -> Result<Public, RpcError> {
    let links = Links {
        memory: memory.clone(),
        journals: memory.clone(),
        tools: memory.clone(),
        executor: memory.clone(),
        planner: memory.clone(),
    };
    let links = links.with_deadlines()?;
    let sessions = sessions(config, &links, Catalogue::default()).await?;
    Ok(Public::new(sessions))
}

async fn sessions(
    config: Config,
    links: &Links,
    catalogue: Catalogue,
) -> Result<Arc<Sessions>, RpcError> {
    let owned = Arc::default();
    let store = Store::connect(&links.memory, &links.journals, &config, Arc::clone(&owned)).await?;
    let ways = DispatchLinks {
        executor: &links.executor,
        tools: &links.tools,
    };
    let dispatch = Dispatcher::new(ways, catalogue, config.patience());
    let deps = Deps {
        hooks: Hooks::new(&config),
        knowledge: Knowledge::new(&config.knowledge),
        config,
        store,
        owned,
        dispatch: Arc::new(dispatch),
        workspace: WorkspaceFiles::default(),
        planner: PlannerServiceClient::new(links.planner.clone()),
        last_acknowledged: LastAcknowledged::default(),
    };
    Ok(Arc::new(Sessions::new(Arc::new(deps))))
}

/// The start fails, and would fail again.
fn not_configured(failure: Failure) -> RpcError {
    let error = RpcError::precondition(&failure.message).reason("CONFIG");
    error.caused_by(failure)
}

impl Running {
    /// Works on a session from now on, if this process takes up those that were asked for alone.
    pub fn take_up(&self, namespace: &Namespace, session: &str) {
        let key = SessionKey::new(namespace, session);
        self.sessions.on_request(&key);
    }

    /// Takes no new sessions, lets calls with side effects end, and gives all sessions back, so
    /// that another orchestrator continues at once. Bound it by a deadline: a call may take long.
    /// Nothing is renewed any more when it ends, nor when it is given up.
    pub async fn drain(&self) {
        let _stops = self.stop.clone().drop_guard();
        self.stop_claiming.cancel();
        self.claiming.close();
        self.claiming.wait().await;
        self.sessions.drain().await;
        self.stop.cancel();
        self.background.close();
        self.background.wait().await;
    }
}
