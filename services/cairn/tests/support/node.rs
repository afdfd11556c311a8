//! A node in the test's own process, with a recorded model and tools that do nothing.

#![allow(
    dead_code,
    unreachable_pub,
    missing_debug_implementations,
    clippy::expect_used,
    reason = "each test uses a part of it"
)]

use cairn::node::{Authenticators, Node, Parts};
use cairn_model::ModelRegistry;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::orchestrator_service_client::OrchestratorServiceClient;
use cairn_rpc::{Link, RemoteOptions, Token};
use cairn_testkit::{TOKEN, TestStore};
use cairn_tools::{Call, Effect, Output, Tool, ToolError, ToolSpec};
use std::path::Path;
use std::sync::Arc;
#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU64, Ordering};

pub type Client = OrchestratorServiceClient<Link>;

/// A tool that does nothing and takes no time.
pub struct Nothing(ToolSpec);

impl Nothing {
    pub fn named(name: &str, effect: Effect) -> Arc<dyn Tool> {
        let schema = serde_json::json!({"type": "object"});
        let mut spec = ToolSpec::new(name, "does nothing", schema);
        spec.effect = effect;
        Arc::new(Self(spec))
    }
}

#[async_trait::async_trait]
impl Tool for Nothing {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, _: &Call) -> Result<Output, ToolError> {
        Ok(Output::text("nothing"))
    }
}

/// The parts of a node over a store in `folder`, with the tools `pure`, `idempotent` and
/// `effectful`.
pub fn parts(folder: &Path, models: ModelRegistry) -> Parts {
    Parts {
        memory: cairn_memory::Config {
            store: cairn_memory::StoreConfig::Sqlite {
                path: folder.join("cairn.db"),
            },
            ..cairn_memory::Config::default()
        },
        memory_deps: cairn_memory::Deps::default(),
        tools: cairn_tools::Config {
            workspace: folder.to_owned(),
            output: folder.join("out"),
            ..cairn_tools::Config::default()
        },
        programs: cairn_tools::Programs::default(),
        more_hooks: Vec::new(),
        trust: None,
        more_tools: vec![
            Nothing::named("pure", Effect::Pure),
            Nothing::named("idempotent", Effect::Idempotent),
            Nothing::named("effectful", Effect::Effectful),
        ],
        models: Arc::new(models),
        executor: cairn_executor::Config::default(),
        planner: cairn_planner::Config::default(),
        plan_parser: Arc::new(cairn_planner::JsonPlanParser::lenient()),
        orchestrator: cairn_orchestrator::Config::default(),
        authenticators: Authenticators::default(),
    }
}

/// The same over this store, unless that is a file: then it is in `folder`.
pub fn parts_over(store: &TestStore, folder: &Path, models: ModelRegistry) -> Parts {
    let mut parts = parts(folder, models);
    if !store.is_file() {
        let config = serde_json::from_value(store.config());
        parts.memory.store = config.expect("a store");
    }
    parts
}

/// Counts the store's commits of a node that is made of `parts`.
#[cfg(debug_assertions)]
pub fn count_commits(parts: &mut Parts) -> Arc<AtomicU64> {
    use cairn_memory::fail_point::When;
    let commits = Arc::new(AtomicU64::new(0));
    let counter = commits.clone();
    parts.memory_deps.commit_hook = Some(Arc::new(move |_, when| {
        if when == When::After {
            counter.fetch_add(1, Ordering::SeqCst);
        }
    }));
    commits
}

pub async fn node(parts: Parts) -> Node {
    Box::pin(Node::start(parts)).await.expect("the node starts")
}

pub fn client(node: &Node) -> Client {
    OrchestratorServiceClient::new(node.link())
}

/// A link to the server of a site at this address, with the token that all sites have.
pub fn link(address: &str) -> Link {
    let token: Token = TOKEN.parse().expect("a token");
    let options = RemoteOptions::default().with_tokens(Arc::new(token));
    Link::remote_with(&address.parse().expect("an address"), &options)
}

/// A client of the server at this address.
pub fn connect(address: &str) -> Client {
    Client::new(link(address))
}

/// A step that is one call of a tool without arguments.
pub fn tool_step(tool: &str) -> wire::PlanStep {
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
pub fn model_step(title: &str) -> wire::PlanStep {
    wire::PlanStep {
        title: title.to_owned(),
        description: format!("Do {title}."),
        ..wire::PlanStep::default()
    }
}

pub fn chain(steps: Vec<wire::PlanStep>) -> wire::StartRun {
    wire::StartRun {
        plan: Some(wire::Plan {
            order: wire::Order::Chain.into(),
            steps,
        }),
        ..wire::StartRun::default()
    }
}

/// Starts a run in a session of its own.
pub async fn start(client: &mut Client, request_id: &str, run: wire::StartRun) -> String {
    let request = pb::StartRunRequest {
        session: String::new(),
        request_id: request_id.to_owned(),
        run: Some(run),
        ..pb::StartRunRequest::default()
    };
    client
        .start_run(request)
        .await
        .expect("the run starts")
        .into_inner()
        .session
}

/// Watches a session until its run has ended; the events after `after_seq`.
pub async fn watch_to_end(
    client: &mut Client,
    session: &str,
    after_seq: u64,
) -> Vec<(u64, wire::Event)> {
    let request = pb::WatchSessionRequest {
        session: session.to_owned(),
        after_seq,
        ..pb::WatchSessionRequest::default()
    };
    let mut stream = client
        .watch_session(request)
        .await
        .expect("a watch")
        .into_inner();
    let mut events = Vec::new();
    while let Some(message) = stream.message().await.expect("an event") {
        let Some(event) = message.event else {
            continue;
        };
        let is_end = matches!(
            event.kind,
            Some(Kind::RunCompleted(_) | Kind::RunFailed(_) | Kind::RunCancelled(_))
        );
        events.push((message.seq, event));
        if is_end {
            break;
        }
    }
    events
}

/// Panics unless the last event says that the run completed.
pub fn check_completed(events: &[(u64, wire::Event)]) {
    let last = events.last().and_then(|(_, event)| event.kind.as_ref());
    assert!(matches!(last, Some(Kind::RunCompleted(_))), "{last:?}");
}
