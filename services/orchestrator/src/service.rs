//! From settings and links to a running service.

use crate::config::Config;
use crate::deps::Deps;
use crate::grpc::Orchestrator;
use crate::key::SessionKey;
use crate::{admission, catalogue, owners, store};
use cairn_proto::executor::executor_service_client::ExecutorServiceClient;
use cairn_proto::orchestrator::orchestrator_service_server::OrchestratorServiceServer;
use cairn_proto::planner::planner_service_client::PlannerServiceClient;
use cairn_rpc::{Deadlines, Link, MAX_MESSAGE_BYTES, Namespace, RpcError};
use std::sync::{Arc, RwLock};
use std::time::Duration;
use tokio::sync::broadcast;
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
            let deadlines = Deadlines::new(time, &[cairn_proto::DESCRIPTORS])?;
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

/// The orchestrator at work: it claims and renews until it is stopped.
#[derive(Debug)]
pub struct Running {
    deps: Arc<Deps>,
    claiming: TaskTracker,
    background: TaskTracker,
    stop_claiming: CancellationToken,
    stop: CancellationToken,
}

/// Builds the public service and begins to take sessions.
///
/// # Errors
/// The memory or the tools service cannot be reached.
pub async fn build(
    config: Config,
    links: Links,
) -> Result<(OrchestratorServiceServer<Orchestrator>, Running), RpcError> {
    let links = links.with_deadlines()?;
    let catalogue = catalogue::Catalogue::read(&links.tools).await?;
    let deps = deps(config, &links, catalogue).await?;
    let running = Running {
        deps: deps.clone(),
        claiming: TaskTracker::new(),
        background: TaskTracker::new(),
        stop_claiming: CancellationToken::new(),
        stop: CancellationToken::new(),
    };
    let stop = || running.stop.clone();
    let claim = owners::claim(deps.clone(), running.stop_claiming.clone());
    running.claiming.spawn(claim);
    running
        .background
        .spawn(owners::renew(deps.clone(), stop()));
    let refresh = owners::refresh_catalogue(deps.clone(), links.tools, stop());
    running.background.spawn(refresh);
    Ok((service(deps), running))
}

/// Builds the public service over a store that is only read: whatever would change a session is
/// refused by the store, and nothing is claimed.
///
/// # Errors
/// The memory service cannot be reached.
pub async fn build_reader(
    memory: &Link,
) -> Result<OrchestratorServiceServer<Orchestrator>, RpcError> {
    let links = Links {
        memory: memory.clone(),
        journals: memory.clone(),
        tools: memory.clone(),
        executor: memory.clone(),
        planner: memory.clone(),
    };
    let links = links.with_deadlines()?;
    let catalogue = catalogue::Catalogue::default();
    Ok(service(deps(Config::default(), &links, catalogue).await?))
}

fn service(deps: Arc<Deps>) -> OrchestratorServiceServer<Orchestrator> {
    OrchestratorServiceServer::new(Orchestrator::new(deps))
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
}

async fn deps(
    config: Config,
    links: &Links,
    catalogue: catalogue::Catalogue,
) -> Result<Arc<Deps>, RpcError> {
    Ok(Arc::new(Deps {
        config,
        store: store::Store::connect(&links.memory, &links.journals).await?,
        planner: PlannerServiceClient::new(links.planner.clone()),
        executor: ExecutorServiceClient::new(links.executor.clone()),
        owners: owners::Owners::default(),
        backlog: admission::Backlog::default(),
        stalled: broadcast::channel(64).0,
        catalogue: RwLock::new(Arc::new(catalogue)),
    }))
}

impl Running {
    /// Works on a session from now on, if this process takes up those that were asked for alone.
    pub fn take_up(&self, namespace: &Namespace, session: &str) {
        let key = SessionKey::new(namespace, session);
        self.deps.owners.requested(&self.deps, &key);
    }

    /// Takes no new sessions, lets calls with side effects end, and gives all sessions back, so
    /// that another orchestrator goes on at once. Bound it by a deadline: a call may take long.
    /// Nothing is renewed any more when it ends, nor when it is given up.
    pub async fn drain(&self) {
        let _stops = self.stop.clone().drop_guard();
        self.stop_claiming.cancel();
        self.claiming.close();
        self.claiming.wait().await;
        self.deps.owners.drain().await;
        self.stop.cancel();
        self.background.close();
        self.background.wait().await;
    }
}
