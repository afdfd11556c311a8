//! An orchestrator with everything around it.

use super::executor::{Attempt, Slots, executor};
use super::faults::{Faults, faulty};
use super::journal::{Journal, Kind};
use super::planner::{Asked, planner};
use super::tools::{Tools, tools};
use cairn_engine::event::Event;
use cairn_memory::port::Limits;
use cairn_memory::{Config as MemoryConfig, Deps as MemoryDeps, StoreConfig};
use cairn_orchestrator::{Config, Links, Running, build};
use cairn_proto::api::agent_service_client::AgentServiceClient;
use cairn_proto::api::hook_service_client::HookServiceClient;
use cairn_proto::api::knowledge_service_client::KnowledgeServiceClient;
use cairn_proto::api::pool_service_client::PoolServiceClient;
use cairn_proto::event as wire;
use cairn_proto::memory as memory_pb;
use cairn_proto::memory::document_service_client::DocumentServiceClient;
use cairn_proto::memory::journal_service_client::JournalServiceClient;
use cairn_proto::memory::ownership_service_client::OwnershipServiceClient;
use cairn_proto::memory::session_memory_service_client::SessionMemoryServiceClient;
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::context_service_client::ContextServiceClient;
use cairn_proto::orchestrator::orchestrator_service_client::OrchestratorServiceClient;
use cairn_rpc::{Exposure, Link, ManualClock, ServerBuilder};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc as std_mpsc};
use std::time::Duration;
use tokio::sync::{Mutex, mpsc};

pub(crate) type Client = OrchestratorServiceClient<Link>;
pub(crate) type Contexts = ContextServiceClient<Link>;
pub(crate) type Pages = KnowledgeServiceClient<Link>;

/// How far time continues at once.
const STEP: Duration = Duration::from_millis(250);

pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) contexts: Contexts,
    pub(crate) agents: AgentServiceClient<Link>,
    pub(crate) pool: PoolServiceClient<Link>,
    pub(crate) hooks: HookServiceClient<Link>,
    pub(crate) knowledge: Pages,
    pub(crate) running: Running,
    /// The way of the orchestrator to the store.
    pub(crate) faults: Faults,
    /// The way of the test.
    pub(crate) journal: Journal,
    pub(crate) ownership: OwnershipServiceClient<Link>,
    pub(crate) memory: SessionMemoryServiceClient<Link>,
    pub(crate) documents: DocumentServiceClient<Link>,
    pub(crate) slots: Slots,
    pub(crate) tools: Tools,
    links: Links,
    /// The store, without faults.
    store: Link,
    attempts: Mutex<mpsc::UnboundedReceiver<Attempt>>,
    plans: Mutex<mpsc::UnboundedReceiver<Asked>>,
    clock: Arc<ManualClock>,
    requests: AtomicU32,
    /// While it is there, time stands still: a runtime with a blocking task does not move its
    /// clock by itself.
    _still: std_mpsc::Sender<()>,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with_limits(Limits::default()).await
    }

    /// The store has these limits.
    pub(crate) async fn with_limits(limits: Limits) -> Self {
        Self::with(limits, Config::default()).await
    }

    /// The orchestrator has this configuration, and is called `o-1`.
    pub(crate) async fn with_config(config: Config) -> Self {
        Self::with(Limits::default(), config).await
    }

    /// Attempts are carried out by this executor.
    pub(crate) async fn with_executor(executor: Link) -> Self {
        Self::with_executor_on(executor, Tools::default()).await
    }

    /// The same, and the orchestrator has these tools.
    pub(crate) async fn with_executor_on(executor: Link, tools: Tools) -> Self {
        Self::build(Limits::default(), Config::default(), Some(executor), tools).await
    }

    async fn with(limits: Limits, config: Config) -> Self {
        Self::build(limits, config, None, Tools::default()).await
    }

    async fn build(limits: Limits, config: Config, real: Option<Link>, listed: Tools) -> Self {
        let (still, end) = std_mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || end.recv());
        let clock = Arc::new(ManualClock::at(1_700_000_000_000));
        let memory = memory(clock.clone(), limits).await;
        let faults = Faults::default();
        let (executor, attempts, slots) = executor().await;
        let (planner, plans) = planner().await;
        let links = Links {
            memory: faulty(memory.clone(), &faults).await,
            journals: faulty(memory.clone(), &faults).await,
            tools: tools(&listed).await,
            executor: real.unwrap_or(executor),
            planner,
        };
        let config = Config {
            owner: "o-1".to_owned(),
            ..config
        };
        let (link, running) = orchestrator(config, links.clone()).await;
        Self {
            client: Client::new(link.clone()),
            contexts: Contexts::new(link.clone()),
            agents: AgentServiceClient::new(link.clone()),
            pool: PoolServiceClient::new(link.clone()),
            hooks: HookServiceClient::new(link.clone()),
            knowledge: Pages::new(link),
            running,
            faults,
            journal: Journal(JournalServiceClient::new(memory.clone())),
            ownership: OwnershipServiceClient::new(memory.clone()),
            memory: SessionMemoryServiceClient::new(memory.clone()),
            documents: DocumentServiceClient::new(memory.clone()),
            slots,
            tools: listed,
            links,
            store: memory,
            attempts: Mutex::new(attempts),
            plans: Mutex::new(plans),
            clock,
            requests: AtomicU32::new(0),
            _still: still,
        }
    }

    /// Another orchestrator beside the first, with a name of its own.
    pub(crate) async fn another(&self, config: Config) -> (Client, Running) {
        let (link, running) = orchestrator(config, self.links.clone()).await;
        (Client::new(link), running)
    }

    /// The same, and it takes callers as the exposure says.
    pub(crate) async fn another_exposed(
        &self,
        config: Config,
        exposure: Exposure,
    ) -> (Client, Running) {
        let (link, running) = exposed(config, self.links.clone(), exposure).await;
        (Client::new(link), running)
    }

    /// The pages of another orchestrator beside the first, which takes callers as the exposure says.
    pub(crate) async fn another_knowledge(
        &self,
        config: Config,
        exposure: Exposure,
    ) -> (Pages, Running) {
        let (link, running) = exposed(config, self.links.clone(), exposure).await;
        (Pages::new(link), running)
    }

    /// An orchestrator that follows one which died: no fault is on its way to the store.
    pub(crate) async fn successor(&self, config: Config) -> (Client, Running) {
        let links = Links {
            memory: self.store.clone(),
            journals: self.store.clone(),
            ..self.links.clone()
        };
        let (link, running) = orchestrator(config, links).await;
        (Client::new(link), running)
    }

    pub(crate) fn now(&self) -> i64 {
        i64::try_from(cairn_rpc::Clock::unix_ms(&*self.clock)).unwrap()
    }

    /// Lets time pass for the orchestrator and the store, and all that is due happen.
    pub(crate) async fn pass(&self, time: Duration) {
        self.pass_with(time, |step| self.clock.advance(step)).await;
    }

    /// Lets time pass for the orchestrator alone: the store's clock is set back by that.
    pub(crate) async fn set_store_back(&self, time: Duration) {
        self.pass_with(time, |_| ()).await;
    }

    async fn pass_with(&self, time: Duration, move_store: impl Fn(Duration)) {
        let mut left = time;
        while !left.is_zero() {
            let step = left.min(STEP);
            move_store(step);
            tokio::time::advance(step).await;
            self.settle().await;
            left -= step;
        }
    }

    /// Lets time pass for the store alone.
    pub(crate) fn run_ahead(&self, time: Duration) {
        self.clock.advance(time);
    }

    /// What was asked of the store has been answered, and what followed from that as well: every
    /// task has had its turns, and the store answers writes in the order in which they came.
    pub(crate) async fn settle(&self) {
        for _ in 0..4 {
            for _ in 0..16 {
                tokio::task::yield_now().await;
            }
            let request = memory_pb::RenewLeasesRequest {
                owner: "nobody".to_owned(),
                sessions: Vec::new(),
                lease_ms: 15_000,
            };
            let renewed = self.ownership.clone().renew_leases(request).await;
            renewed.expect("nothing to renew");
        }
    }

    /// Waits, while time passes.
    pub(crate) async fn until<T>(&self, what: impl Future<Output = T>) -> T {
        tokio::pin!(what);
        for _ in 0..4 * 600 {
            tokio::select! {
                biased;
                out = &mut what => return out,
                () = self.settle() => {}
            }
            tokio::select! {
                biased;
                out = &mut what => return out,
                () = self.pass(STEP) => {}
            }
        }
        panic!("nothing came of it in ten minutes");
    }

    /// The next attempt that is begun, while time passes.
    pub(crate) async fn attempt(&self) -> Attempt {
        let begun = async { self.attempts.lock().await.recv().await };
        self.until(begun).await.expect("an attempt")
    }

    /// Attempts that were begun and that nobody has looked at.
    pub(crate) async fn other_attempts(&self) -> Vec<Attempt> {
        self.settle().await;
        let mut attempts = self.attempts.lock().await;
        std::iter::from_fn(|| attempts.try_recv().ok()).collect()
    }

    /// The next goal that is to be planned, while time passes.
    pub(crate) async fn asked(&self) -> Asked {
        let asked = async { self.plans.lock().await.recv().await };
        self.until(asked).await.expect("a goal")
    }

    /// Whether a goal is to be planned that nobody has looked at.
    pub(crate) async fn is_asked(&self) -> bool {
        self.settle().await;
        self.plans.lock().await.try_recv().is_ok()
    }

    /// An id for a request that was not made before.
    pub(crate) fn request_id(&self) -> String {
        format!("request-{}", self.requests.fetch_add(1, Ordering::Relaxed))
    }

    /// Starts a run in a session of its own.
    pub(crate) async fn start(&self, run: wire::StartRun) -> String {
        let request = pb::StartRunRequest {
            session: String::new(),
            request_id: self.request_id(),
            run: Some(run),
            ..pb::StartRunRequest::default()
        };
        let started = self.client.clone().start_run(request).await;
        started.expect("the run starts").into_inner().session
    }

    /// Waits for an event, while time passes, and gives the journal up to then.
    pub(crate) async fn seen(&self, session: &str, is_it: impl Fn(&Kind) -> bool) -> Vec<Event> {
        let look = async {
            loop {
                let events = self.journal.events(session).await;
                if events.iter().any(|event| is_it(&event.kind)) {
                    return events;
                }
            }
        };
        self.until(look).await
    }

    /// Waits until the run has ended, and gives the journal.
    pub(crate) async fn ended(&self, session: &str) -> Vec<Event> {
        let is_end = |kind: &Kind| {
            matches!(
                kind,
                Kind::RunCompleted { .. } | Kind::RunFailed { .. } | Kind::RunCancelled { .. }
            )
        };
        self.seen(session, is_end).await
    }

    /// The run as the client sees it.
    pub(crate) async fn run(&self, session: &str) -> pb::Run {
        let request = pb::GetRunRequest {
            session: session.to_owned(),
            run: 0,
        };
        let answer = self.client.clone().get_run(request).await.expect("a run");
        answer.into_inner().run.unwrap()
    }

    /// The session's status as the client sees it.
    pub(crate) async fn status(&self, session: &str) -> pb::SessionStatus {
        let request = pb::GetSessionRequest {
            session: session.to_owned(),
        };
        let answer = self.client.clone().get_session(request).await;
        let session = answer.expect("a session").into_inner().session;
        session.unwrap().status()
    }

    /// All sessions as a listing shows them, newest first.
    pub(crate) async fn listed(&self, page_size: u32) -> Vec<pb::SessionSummary> {
        let mut sessions = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = pb::ListSessionsRequest {
                page_size,
                page_token,
                ..pb::ListSessionsRequest::default()
            };
            let page = self.client.clone().list_sessions(request).await;
            let page = page.expect("a page").into_inner();
            sessions.extend(page.sessions);
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return sessions;
            }
        }
    }

    /// A wish to cancel the latest run.
    pub(crate) fn cancellation(&self, session: &str) -> pb::CancelRunRequest {
        pb::CancelRunRequest {
            session: session.to_owned(),
            run: 0,
            reason: "no more".to_owned(),
            request_id: self.request_id(),
        }
    }

    /// Claims what can be claimed, in the name of another orchestrator.
    pub(crate) async fn claim(&self, owner: &str) -> Vec<memory_pb::Claim> {
        self.claim_at_level(owner, 1).await
    }

    /// The same for one of that level.
    pub(crate) async fn claim_at_level(&self, owner: &str, level: u32) -> Vec<memory_pb::Claim> {
        let request = memory_pb::ClaimSessionsRequest {
            owner: owner.to_owned(),
            max_sessions: 10,
            lease_ms: 15_000,
            wait_ms: 0,
            only: None,
            level,
        };
        let claimed = self.ownership.clone().claim_sessions(request).await;
        claimed.expect("an answer").into_inner().claims
    }

    /// Renews what another orchestrator has claimed, which shows that it got the answer.
    pub(crate) async fn confirm(&self, owner: &str, claims: Vec<memory_pb::Claim>) {
        let owned = claims.into_iter().map(|claim| memory_pb::OwnedSession {
            session: claim.session,
            epoch: claim.epoch,
        });
        let request = memory_pb::RenewLeasesRequest {
            owner: owner.to_owned(),
            sessions: owned.collect(),
            lease_ms: 15_000,
        };
        let renewed = self.ownership.clone().renew_leases(request).await;
        assert!(renewed.expect("an answer").into_inner().lost.is_empty());
    }
}

async fn orchestrator(config: Config, links: Links) -> (Link, Running) {
    exposed(config, links, Exposure::Public(None)).await
}

async fn exposed(config: Config, links: Links, exposure: Exposure) -> (Link, Running) {
    let (services, running) = build(config, links).await.expect("an orchestrator");
    let server = services.register(ServerBuilder::new(exposure));
    let server = server.build().await.expect("a server");
    (server.link(), running)
}

async fn memory(clock: Arc<ManualClock>, limits: Limits) -> Link {
    let config = MemoryConfig {
        store: StoreConfig::Memory,
        limits,
        ..MemoryConfig::default()
    };
    let deps = MemoryDeps {
        clock,
        ..MemoryDeps::default()
    };
    let memory = cairn_memory::build(config, deps).expect("a store");
    let internal = ServerBuilder::new(Exposure::Internal);
    let server = memory.register_internal(internal).build().await;
    server.expect("a server").link()
}

/// A step that is one call of a tool without arguments.
pub(crate) fn tool_step(tool: &str) -> wire::PlanStep {
    wire::PlanStep {
        title: tool.to_owned(),
        tool: Some(wire::ToolInvocation {
            name: tool.to_owned(),
            arguments_json: "{}".to_owned(),
        }),
        ..wire::PlanStep::default()
    }
}

/// A step for the model.
pub(crate) fn model_step(title: &str) -> wire::PlanStep {
    wire::PlanStep {
        title: title.to_owned(),
        description: format!("Do {title}."),
        ..wire::PlanStep::default()
    }
}

pub(crate) fn chain(steps: Vec<wire::PlanStep>) -> wire::StartRun {
    planned(wire::Order::Chain, steps)
}

pub(crate) fn graph(steps: Vec<wire::PlanStep>) -> wire::StartRun {
    planned(wire::Order::Graph, steps)
}

fn planned(order: wire::Order, steps: Vec<wire::PlanStep>) -> wire::StartRun {
    let order = order.into();
    wire::StartRun {
        plan: Some(wire::Plan { order, steps }),
        ..wire::StartRun::default()
    }
}

/// A goal that is to be planned first.
pub(crate) fn goal(goal: &str) -> wire::StartRun {
    wire::StartRun {
        goal: goal.to_owned(),
        ..wire::StartRun::default()
    }
}
