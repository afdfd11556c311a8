//! interim
use cairn::node::{Node, Parts};
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::orchestrator_service_client::OrchestratorServiceClient;
use std::sync::Arc;
use std::time::Instant;

struct Noop(cairn_tools::ToolSpec);
#[async_trait::async_trait]
impl cairn_tools::Tool for Noop {
    fn spec(&self) -> &cairn_tools::ToolSpec { &self.0 }
    async fn call(&self, _: &cairn_tools::Call) -> Result<cairn_tools::Output, cairn_tools::ToolError> {
        Ok(cairn_tools::Output::text("ok"))
    }
}

fn spec() -> cairn_tools::ToolSpec {
    let mut s = cairn_tools::ToolSpec::new("noop", "does nothing", serde_json::json!({"type":"object"}));
    s.effect = cairn_tools::Effect::Pure;
    s
}

#[tokio::main]
async fn main() {
    let dir = tempfile::tempdir().unwrap();
    let n: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(200);
    let sessions: usize = std::env::args().nth(2).and_then(|a| a.parse().ok()).unwrap_or(1);
    let parts = Parts {
        memory: cairn_memory::Config { store: cairn_memory::StoreConfig::Sqlite { path: dir.path().join("c.db") }, ..Default::default() },
        memory_deps: Default::default(),
        tools: cairn_tools::Config { workspace: dir.path().into(), output: dir.path().join("out"), ..Default::default() },
        environment: Default::default(),
        more_tools: vec![Arc::new(Noop(spec()))],
        models: Arc::new(cairn_model::ModelRegistry::default()),
        executor: Default::default(),
        planner: Default::default(),
        orchestrator: Default::default(),
    };
    let node = Node::start(parts).await.unwrap();
    let mut tasks = vec![];
    let t = Instant::now();
    for s in 0..sessions {
        let link = node.link();
        tasks.push(tokio::spawn(async move {
            let mut c = OrchestratorServiceClient::new(link);
            let step = wire::PlanStep { title: "x".into(), tool: Some(wire::ToolInvocation { name: "noop".into(), arguments_json: "{}".into() }), ..Default::default() };
            let plan = wire::Plan { order: wire::Order::Chain.into(), steps: vec![step; n] };
            let r = c.start_run(pb::StartRunRequest { request_id: format!("r{s}"), run: Some(wire::StartRun { plan: Some(plan), ..Default::default() }), ..Default::default() }).await.unwrap().into_inner();
            let mut w = c.watch_session(pb::WatchSessionRequest { session: r.session.clone(), after_seq: r.seq - 1 }).await.unwrap().into_inner();
            while let Some(m) = w.message().await.unwrap() {
                use wire::event::Kind;
                match m.event.and_then(|e| e.kind) {
                    Some(Kind::RunCompleted(_)) => break,
                    Some(Kind::RunFailed(f)) => panic!("{f:?}"),
                    _ => {}
                }
            }
        }));
    }
    for task in tasks { task.await.unwrap(); }
    let el = t.elapsed();
    println!("{} steps in {:?}: {:?} a step, {:.0}/s", n * sessions, el, el / (n * sessions) as u32, (n * sessions) as f64 / el.as_secs_f64());
    node.drain().await;
}
