//! What the examples share: a node in this process over a temporary folder, and its clients.

#![allow(dead_code, reason = "each example uses a part of it")]
#![allow(unreachable_pub, reason = "a module of each example, not of a library")]

use anyhow::{Context as _, Result};
use cairn::node::{Authenticators, Node, Parts};
use cairn_boot::Environment;
use cairn_model::{Model, ModelRegistry, Offline, OpenAi, OpenAiConfig, Recorded};
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::memory::session_memory_service_client::SessionMemoryServiceClient;
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::orchestrator_service_client::OrchestratorServiceClient;
use cairn_rpc::Link;
use cairn_tools::Tool;
use pb::turn_event::Event;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub type Client = OrchestratorServiceClient<Link>;
pub type MemoryClient = SessionMemoryServiceClient<Link>;

/// The parts of a node: its store is `cairn.db` in the folder, its tools read `files` and write
/// to `cairn-out`, and its only model is the one given.
pub fn parts(folder: &Path, model: Arc<dyn Model>, tools: Vec<Arc<dyn Tool>>) -> Result<Parts> {
    let workspace = folder.join("files");
    std::fs::create_dir_all(&workspace)?;
    let mut models = ModelRegistry::new();
    models.insert(model.describe().name, model);
    Ok(Parts {
        memory: cairn_memory::Config {
            store: cairn_memory::StoreConfig::Sqlite {
                path: folder.join("cairn.db"),
            },
            ..cairn_memory::Config::default()
        },
        memory_deps: cairn_memory::Deps::default(),
        tools: cairn_tools::Config {
            workspace,
            output: folder.join("cairn-out"),
            ..cairn_tools::Config::default()
        },
        programs: cairn_tools::Programs::default(),
        more_hooks: Vec::new(),
        trust: None,
        more_tools: tools,
        models: Arc::new(models),
        executor: cairn_executor::Config::default(),
        planner: cairn_planner::Config::default(),
        plan_parser: Arc::new(cairn_planner::JsonPlanParser::lenient()),
        orchestrator: cairn_orchestrator::Config::default(),
        authenticators: Authenticators::default(),
    })
}

/// A running node made of [`parts`].
pub async fn node(folder: &Path, model: Arc<dyn Model>, tools: Vec<Arc<dyn Tool>>) -> Result<Node> {
    let node = Box::pin(Node::start(parts(folder, model, tools)?));
    node.await.context("the node does not start")
}

/// A model that needs no key and no network.
pub fn offline() -> Arc<dyn Model> {
    Arc::new(Offline::new(Duration::ZERO))
}

/// A real model if `OPENAI_API_KEY` is set. `OPENAI_BASE_URL` and `OPENAI_MODEL` count as well.
pub fn real_model() -> Result<Option<Arc<dyn Model>>> {
    let environment = Environment::from_process();
    let key = environment.get("OPENAI_API_KEY").unwrap_or_default();
    if key.is_empty() {
        println!("no OPENAI_API_KEY: recorded replies take the place of a model\n");
        return Ok(None);
    }
    let url = environment.get("OPENAI_BASE_URL");
    let name = environment.get("OPENAI_MODEL").unwrap_or("gpt-5-mini");
    let mut config = OpenAiConfig::new(url.unwrap_or("https://api.openai.com/v1"), name);
    config.server.api_key = Some(key.into());
    println!("OPENAI_API_KEY is set: {name} does it\n");
    Ok(Some(Arc::new(OpenAi::new(config)?)))
}

/// A model that answers with these exchanges; see `cairn_model::recorded`.
pub fn recorded(exchanges: &[serde_json::Value]) -> Result<Arc<dyn Model>> {
    let lines: Vec<String> = exchanges.iter().map(ToString::to_string).collect();
    Ok(Arc::new(Recorded::parse("recorded", &lines.join("\n"))?))
}

pub fn client(node: &Node) -> Client {
    OrchestratorServiceClient::new(node.link())
}

pub fn memory(node: &Node) -> MemoryClient {
    SessionMemoryServiceClient::new(node.link())
}

/// A request for a turn in a context, or in the active one if none is named.
pub fn turn(session: &str, context: &str, request_id: &str, text: &str) -> pb::SubmitTurnRequest {
    let turn = wire::SubmitTurn {
        context: context.to_owned(),
        message: Some(user(text)),
        ..wire::SubmitTurn::default()
    };
    pb::SubmitTurnRequest {
        session: session.to_owned(),
        request_id: request_id.to_owned(),
        turn: Some(turn),
        after_seq: 0,
    }
}

/// How a turn ended.
pub struct Turned {
    pub reply: String,
    /// The results of its calls, in order.
    pub results: Vec<String>,
}

/// Takes a turn in a context to its end. Shows what is said, the calls, and the reply.
pub async fn say(client: &mut Client, session: &str, context: &str, text: &str) -> Result<Turned> {
    println!("[{context}] {text}");
    let request_id = uuid::Uuid::now_v7().to_string();
    let request = turn(session, context, &request_id, text);
    let mut stream = client.submit_turn(request).await?.into_inner();
    let mut results = Vec::new();
    while let Some(response) = stream.message().await? {
        for event in response.events.into_iter().filter_map(|event| event.event) {
            match event {
                Event::ToolCall(called) => {
                    let call = called.call.unwrap_or_default();
                    println!("    {}({})", call.name, call.arguments_json);
                }
                Event::ToolResult(result) => {
                    let text = result.result.unwrap_or_default().text;
                    println!("    → {}", short(&text, 100));
                    results.push(text);
                }
                Event::Complete(complete) => {
                    let reply = complete.response;
                    println!("    {reply}");
                    return Ok(Turned { reply, results });
                }
                Event::Error(error) => anyhow::bail!("the turn failed: {:?}", error.failure),
                _ => {}
            }
        }
    }
    anyhow::bail!("the stream ended before the turn")
}

/// A message of a person.
pub fn user(text: &str) -> wire::Message {
    wire::Message {
        role: wire::Role::User.into(),
        parts: vec![wire::part::Part::Text(text.to_owned()).into()],
    }
}

/// A run that plans by itself.
pub fn goal(goal: &str) -> wire::StartRun {
    wire::StartRun {
        goal: goal.to_owned(),
        ..wire::StartRun::default()
    }
}

/// A run that carries out these steps, one after the other.
pub fn chain(steps: Vec<wire::PlanStep>) -> wire::StartRun {
    let order = wire::Order::Chain.into();
    wire::StartRun {
        plan: Some(wire::Plan { order, steps }),
        ..wire::StartRun::default()
    }
}

/// A step for the model.
pub fn model_step(title: &str, description: &str) -> wire::PlanStep {
    wire::PlanStep {
        title: title.to_owned(),
        description: description.to_owned(),
        ..wire::PlanStep::default()
    }
}

/// A step that is one call of a tool.
pub fn tool_step(title: &str, tool: &str, arguments: &serde_json::Value) -> wire::PlanStep {
    wire::PlanStep {
        title: title.to_owned(),
        tool: Some(wire::ToolInvocation {
            name: tool.to_owned(),
            arguments_json: arguments.to_string(),
        }),
        ..wire::PlanStep::default()
    }
}

/// Creates a session with this title. Its id is made from the `request_id`, so that a retry
/// returns the same session.
pub async fn session(client: &mut Client, title: &str) -> Result<String> {
    let request = pb::CreateSessionRequest {
        request_id: title.to_owned(),
        title: title.to_owned(),
        ..pb::CreateSessionRequest::default()
    };
    Ok(client.create_session(request).await?.into_inner().session)
}

/// Starts a run, in a session of its own if none is named.
pub async fn start(
    client: &mut Client,
    session: &str,
    request_id: &str,
    run: wire::StartRun,
) -> Result<pb::StartRunResponse> {
    let request = pb::StartRunRequest {
        session: session.to_owned(),
        request_id: request_id.to_owned(),
        run: Some(run),
        ..pb::StartRunRequest::default()
    };
    Ok(client.start_run(request).await?.into_inner())
}

/// Shows each event after a cursor until `on_event` says that it has seen enough, or a run ends.
/// The number of the last event seen.
pub async fn watch(
    client: &mut Client,
    session: &str,
    after_seq: u64,
    mut on_event: impl FnMut(u64, &Kind) -> bool,
) -> Result<u64> {
    let request = pb::WatchSessionRequest {
        session: session.to_owned(),
        after_seq,
        ..pb::WatchSessionRequest::default()
    };
    let mut events = client.watch_session(request).await?.into_inner();
    while let Some(message) = events.message().await? {
        let Some(kind) = message.event.and_then(|event| event.kind) else {
            continue;
        };
        let has_ended = matches!(
            kind,
            Kind::RunCompleted(_) | Kind::RunFailed(_) | Kind::RunCancelled(_)
        );
        if on_event(message.seq, &kind) || has_ended {
            return Ok(message.seq);
        }
    }
    anyhow::bail!("the session was deleted")
}

/// Waits for the end of a run that has to end well, and returns its answer.
pub async fn answer(client: &mut Client, started: &pb::StartRunResponse) -> Result<String> {
    watch(client, &started.session, started.seq - 1, |_, _| false).await?;
    let request = pb::GetRunRequest {
        session: started.session.clone(),
        run: started.run,
    };
    let run = client.get_run(request).await?.into_inner();
    let run = run.run.context("a run")?;
    let is_completed = run.status() == pb::RunStatus::Completed;
    anyhow::ensure!(is_completed, "the run did not complete: {:?}", run.failure);
    Ok(run.answer)
}

/// The plan of the latest run with the state of each step.
pub async fn plan(client: &mut Client, session: &str) -> Result<Vec<pb::PlannedStep>> {
    let request = pb::GetPlanRequest {
        session: session.to_owned(),
        ..pb::GetPlanRequest::default()
    };
    Ok(client.get_plan(request).await?.into_inner().steps)
}

/// The report of a run.
pub async fn report(client: &mut Client, session: &str, run: u32) -> Result<String> {
    let session = session.to_owned();
    let at_seq = 0;
    let request = pb::GetReportRequest {
        session,
        run,
        at_seq,
    };
    Ok(client.get_report(request).await?.into_inner().markdown)
}

/// Writes files for the tools to read.
pub fn write_files(folder: &Path, files: &[(&str, &str)]) -> Result<()> {
    for (name, text) in files {
        let path = folder.join("files").join(name);
        std::fs::create_dir_all(path.parent().context("a folder")?)?;
        std::fs::write(path, text)?;
    }
    Ok(())
}

/// At most `most` characters of a text, on one line.
pub fn short(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}
