//! The pool as tests change it: its API, executors as processes, a model that the test plays, and what must hold of
//! the waits of every session.

mod desk;
mod waits;

pub(crate) use desk::{Desk, Question, allotted, offered, system};
pub(crate) use waits::{Waits, is_short, waits_for_capability};

use super::served::{PATIENCE, Watch};
use super::{Client, link, model_step};
use cairn_proto::api::grant_tool_request::To;
use cairn_proto::api::pool_service_client::PoolServiceClient;
use cairn_proto::api::revoke_tool_request::Of;
use cairn_proto::api::{
    GetAgentContextRequest, GetAgentContextResponse, GetPoolRequest, GrantToolRequest, Pool,
    PutResourceRequest, RemoveResourceRequest, ResourceCapability, RevokeToolRequest,
};
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::memory::ownership_service_client::OwnershipServiceClient;
use cairn_proto::memory::{ListWaitingRequest, WaitingSession};
use cairn_proto::orchestrator as pb;
use cairn_rpc::Link;
use cairn_testkit::cluster::Member;
use cairn_testkit::{Cluster, Site, eventually};
use serde_json::Value;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// Times of the pool for tests: a busy capability is reported after 100 ms, one that no resource has after 400 ms,
/// and an attempt that lost its capability stops after 500 ms.
pub(crate) const TIMES: (&str, &str) = ("CAIRN_POOL_TIMES", "100,400,500");
/// Sessions that wait continue so soon after a resource came.
pub(crate) const SOON: Duration = Duration::from_secs(1);
/// Before a client tries again that a server did not answer.
const PAUSE: Duration = Duration::from_millis(20);

/// A tool that does nothing, as settings.
pub(crate) fn tool(name: &str) -> String {
    format!(
        "\n[[tools.commands]]\nname = \"{name}\"\ndescription = \"Does nothing.\"\n\
         argv = [\"true\"]\nconfine = \"none\"\neffect = \"pure\"\nparameters = {{ type = \"object\" }}\n"
    )
}

/// A run of one step for the model, with that title, which needs these capabilities.
pub(crate) fn needing(title: &str, capabilities: &[&str]) -> wire::StartRun {
    super::chain(vec![step_needing(title, capabilities)])
}

/// Such a step.
pub(crate) fn step_needing(title: &str, capabilities: &[&str]) -> wire::PlanStep {
    wire::PlanStep {
        capabilities: capabilities.iter().map(|&it| it.to_owned()).collect(),
        ..model_step(title)
    }
}

/// A name that no request had before.
fn request_id(what: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{what}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// An orchestrator's API for a test that waits for each answer.
pub(crate) struct Api {
    runtime: Runtime,
    link: Link,
}

impl Api {
    /// Of the server at this address.
    pub(crate) fn at(address: &str) -> Self {
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let link = runtime.block_on(async { link(address) });
        Self { runtime, link }
    }

    fn client(&self) -> Client {
        Client::new(self.link.clone())
    }

    fn pool_service(&self) -> PoolServiceClient<Link> {
        PoolServiceClient::new(self.link.clone())
    }

    /// Starts a run in a new session of that name.
    pub(crate) fn start(&self, session: &str, run: wire::StartRun) {
        let create = pb::CreateSessionRequest {
            session: session.to_owned(),
            request_id: format!("create-{session}"),
            ..pb::CreateSessionRequest::default()
        };
        let start = pb::StartRunRequest {
            session: session.to_owned(),
            request_id: format!("start-{session}"),
            run: Some(run),
            ..pb::StartRunRequest::default()
        };
        let mut client = self.client();
        self.runtime.block_on(async {
            client.create_session(create).await.expect("a session");
            client.start_run(start).await.expect("a run");
        });
    }

    /// Cancels the run of a session.
    pub(crate) fn cancel(&self, session: &str) {
        let request = pb::CancelRunRequest {
            session: session.to_owned(),
            request_id: format!("cancel-{session}"),
            ..pb::CancelRunRequest::default()
        };
        let mut client = self.client();
        let cancelled = self.runtime.block_on(client.cancel_run(request));
        cancelled.expect("the run is cancelled");
    }

    /// The latest run of a session.
    pub(crate) fn run(&self, session: &str) -> pb::Run {
        let request = pb::GetRunRequest {
            session: session.to_owned(),
            run: 0,
        };
        let mut client = self.client();
        let found = self.runtime.block_on(client.get_run(request));
        found.expect("a run").into_inner().run.expect("a run")
    }

    /// What a session waits for.
    pub(crate) fn pending(&self, session: &str) -> Vec<pb::Pending> {
        let request = pb::ListPendingRequest {
            session: session.to_owned(),
            ..pb::ListPendingRequest::default()
        };
        let mut client = self.client();
        let listed = self.runtime.block_on(client.list_pending(request));
        listed.expect("a list").into_inner().pending
    }

    /// The events of a session after one, up to one that is wanted. Servers may be killed meanwhile.
    pub(crate) fn until(
        &self,
        session: &str,
        after: u64,
        is_wanted: impl Fn(&Kind) -> bool,
    ) -> Vec<(u64, wire::Event)> {
        let watched = until(self.client(), session, after, is_wanted);
        self.runtime.block_on(watched)
    }

    /// All events of a session whose run ends.
    pub(crate) fn until_end(&self, session: &str) -> Vec<(u64, wire::Event)> {
        self.until(session, 0, is_end)
    }

    /// Registers a resource, or capabilities in addition to those that an executor has.
    pub(crate) fn put(&self, id: &str, kind: &str, capabilities: &[&str], slots: u32) {
        let capability = |name: &&str| ResourceCapability {
            name: (*name).to_owned(),
            level: 0,
        };
        let request = PutResourceRequest {
            request_id: request_id("put"),
            id: id.to_owned(),
            kind: kind.to_owned(),
            capabilities: capabilities.iter().map(capability).collect(),
            slots,
            ..PutResourceRequest::default()
        };
        let mut pool = self.pool_service();
        let put = self.runtime.block_on(pool.put_resource(request));
        put.expect("a resource");
    }

    /// Removes what was registered of a resource.
    pub(crate) fn remove(&self, id: &str) {
        let request = RemoveResourceRequest {
            request_id: request_id("remove"),
            id: id.to_owned(),
            ..RemoveResourceRequest::default()
        };
        let mut pool = self.pool_service();
        let removed = self.runtime.block_on(pool.remove_resource(request));
        removed.expect("it was there");
    }

    /// Grants a tool to an agent or an executor.
    pub(crate) fn grant(&self, tool: &str, to: To) {
        let request = GrantToolRequest {
            request_id: request_id("grant"),
            tool: tool.to_owned(),
            to: Some(to),
        };
        let mut pool = self.pool_service();
        let granted = self.runtime.block_on(pool.grant_tool(request));
        granted.expect("a grant");
    }

    /// Takes a tool from an agent or an executor.
    pub(crate) fn revoke(&self, tool: &str, of: Of) {
        let request = RevokeToolRequest {
            request_id: request_id("revoke"),
            tool: tool.to_owned(),
            of: Some(of),
        };
        let mut pool = self.pool_service();
        let revoked = self.runtime.block_on(pool.revoke_tool(request));
        revoked.expect("a revocation");
    }

    /// The pool as this orchestrator sees it.
    pub(crate) fn pool(&self) -> Pool {
        self.try_pool().expect("the pool")
    }

    fn try_pool(&self) -> Option<Pool> {
        let mut pool = self.pool_service();
        let asked = self.runtime.block_on(pool.get_pool(GetPoolRequest {}));
        asked.ok()?.into_inner().pool
    }

    /// Waits until the pool is as wanted. The server may have been killed before.
    pub(crate) fn pool_until(&self, what: &str, is_wanted: impl Fn(&Pool) -> bool) {
        eventually(what, || self.try_pool().filter(&is_wanted).map(drop));
    }

    /// The agent context of a step, or without a task for step 0.
    pub(crate) fn context(&self, session: &str, step: u32) -> GetAgentContextResponse {
        let request = GetAgentContextRequest {
            session: session.to_owned(),
            run: 0,
            step,
        };
        let mut pool = self.pool_service();
        let context = self.runtime.block_on(pool.get_agent_context(request));
        context.expect("a context").into_inner()
    }

    /// Runs a future that uses a link of this API.
    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// The link to the server.
    pub(crate) fn link(&self) -> Link {
        self.link.clone()
    }
}

async fn until(
    mut client: Client,
    session: &str,
    after: u64,
    is_wanted: impl Fn(&Kind) -> bool,
) -> Vec<(u64, wire::Event)> {
    let (mut events, mut seq, began) = (Vec::new(), after, Instant::now());
    loop {
        if let Ok(mut watch) = Watch::after(&mut client, session, seq).await {
            while let Ok((at, event)) = watch.next().await {
                seq = at;
                let is_last = event.kind.as_ref().is_some_and(&is_wanted);
                events.push((at, event));
                if is_last {
                    return events;
                }
            }
        }
        assert!(began.elapsed() < PATIENCE, "{session} ends at {events:?}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// The run ends.
pub(crate) fn is_end(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::RunCompleted(_) | Kind::RunFailed(_) | Kind::RunCancelled(_)
    )
}

/// Sessions that nobody owns and that wait for a capability, the longest waiting first, as the memory service at
/// this address lists them.
pub(crate) fn parked(api: &Api, memory: &str) -> Vec<WaitingSession> {
    let request = ListWaitingRequest { max_sessions: 1024 };
    let listed = api.wait(async {
        let mut memory = OwnershipServiceClient::new(link(memory));
        memory.list_waiting(request).await
    });
    listed.expect("a list").into_inner().sessions
}

/// The lines of a log with this message and this capability, as JSON.
pub(crate) fn logged(site: &Site, log: &str, message: &str, capability: &str) -> Vec<Value> {
    let text = site.read(log).unwrap_or_default();
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let is_meant = |line: &Value| line["message"] == message && line["capability"] == capability;
    lines.filter(is_meant).collect()
}

/// A process of a service, by its number.
pub(crate) fn member(service: &'static str, number: usize) -> Member {
    Member { service, number }
}

/// Starts the services over the cluster's store with these executors, each with its name and the tools that it may
/// use. Returns when all serve.
pub(crate) fn fleet<'a>(
    site: &'a Site,
    variables: &[(&str, &str)],
    executors: &[(&str, &str)],
    orchestrators: usize,
) -> Cluster<'a> {
    let places = [1, 1, executors.len(), 1, orchestrators];
    let mut cluster = Cluster::with_places(site, variables, [1, 1, 0, 1, 0], places);
    for (number, (name, tools)) in executors.iter().enumerate() {
        begin_executor(&mut cluster, number, name, tools);
    }
    let others = (0..orchestrators).map(|number| member("orchestrator", number));
    let all = (0..executors.len()).map(|number| member("executor", number));
    let others: Vec<Member> = others.collect();
    all.for_each(|executor| cluster.wait(executor));
    others.iter().for_each(|other| cluster.begin(*other));
    others.iter().for_each(|other| cluster.wait(*other));
    cluster
}

/// Starts an executor in its place with a name and the tools that it may use.
pub(crate) fn begin_executor(cluster: &mut Cluster<'_>, number: usize, name: &str, tools: &str) {
    cluster.set_variable("CAIRN_EXECUTOR__NAME", name);
    cluster.set_variable("CAIRN_EXECUTOR__TOOLS", tools);
    cluster.begin(member("executor", number));
}
