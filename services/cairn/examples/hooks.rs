//! Hooks of three kinds: a part of this process that guards a tool, a service over gRPC that redacts results, and a
//! program that notes the end of each turn. A model calls a tool twice. The guard blocks one call, and the model never
//! sees the secret of the other result.
//!
//! `cargo run -q -p cairn --example hooks`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod common;

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use cairn::node::Node;
use cairn_engine::hooks::{Payload, Point, Verdict};
use cairn_hooks::{Asked, Definition, Hook, HookError, Means, Policy, ProgramConfig};
use cairn_proto::event::event::Kind;
use cairn_proto::event::hook_mutation::Change;
use cairn_proto::event::{HookMutation, HookPoint};
use cairn_proto::hook::ask_request::Payload as Asking;
use cairn_proto::hook::ask_response::Answer;
use cairn_proto::hook::hook_host_service_server::{HookHostService, HookHostServiceServer};
use cairn_proto::hook::{AskRequest, AskResponse, Proceed};
use cairn_tools::{Call, Effect, Output, Tool, ToolError, ToolSpec};
use common::{answer, chain, client, model_step, parts, recorded, short, start, watch};
use serde_json::json;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

/// Reads the accounts, each with its secret.
struct Accounts(ToolSpec);

#[async_trait]
impl Tool for Accounts {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, call: &Call) -> Result<Output, ToolError> {
        let name = call.arguments["name"].as_str().unwrap_or_default();
        Ok(Output::text(format!("{name}: balance 12, secret canary-7")))
    }
}

/// A hook of this process: no model reads the account of the owner.
#[derive(Debug)]
struct Guard;

#[async_trait]
impl Hook for Guard {
    async fn ask(&self, asked: &Asked) -> Result<Verdict, HookError> {
        // The key is the same whenever this question comes again, such as after a crash.
        println!("  guard is asked, key {}", short(&asked.key, 12));
        match &asked.question.payload {
            Payload::Call(call) if call.arguments.contains("owner") => {
                Ok(Verdict::Block("this account is private".to_owned()))
            }
            _ => Ok(Verdict::Proceed),
        }
    }
}

/// A service: results have no secrets. It can be in any language, and serve several hooks.
struct Redactor;

#[async_trait]
impl HookHostService for Redactor {
    async fn ask(&self, request: Request<AskRequest>) -> Result<Response<AskResponse>, Status> {
        let request = request.into_inner();
        println!(
            "  {} is asked at {}",
            request.hook,
            request.point().as_str_name()
        );
        let output = match (request.point(), request.payload) {
            (HookPoint::PostToolCall, Some(Asking::Result(result))) => result.output,
            _ => return Err(Status::invalid_argument("it only redacts results")),
        };
        let answer = match output.split_once(", secret") {
            None => Answer::Proceed(Proceed {}),
            Some((before, _)) => Answer::Mutate(HookMutation {
                change: Some(Change::Output(format!("{before}, secret redacted"))),
            }),
        };
        let answer = Some(answer);
        Ok(Response::new(AskResponse { answer }))
    }
}

/// Serves the redactor on a free port, for as long as the program runs; its address.
async fn serve() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let server = Server::builder().add_service(HookHostServiceServer::new(Redactor));
    let incoming = TcpListenerStream::new(listener);
    tokio::spawn(async move { server.serve_with_incoming(incoming).await });
    Ok(url)
}

/// As `[[hooks]]` in the settings.
fn hook(name: &str, point: Point, means: Means) -> Definition {
    Definition {
        name: name.to_owned(),
        points: [point].into_iter().collect(),
        agents: None,
        tools: Vec::new(),
        means,
        policy: Policy::default(),
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let call =
        |name: &str| json!({"tool_calls": [{"name": "read_account", "arguments": {"name": name}}]});
    let end = json!({"tool_calls": [{"name": "step", "arguments": {"complete": true, "summary": "Read."}}]});
    let model = recorded(&[json!({"match": {"step": "Read"}, "replies": [
        call("owner"), call("ada"), end]})])?;
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let mut spec = ToolSpec::new("read_account", "Reads an account.", schema);
    spec.effect = Effect::Pure;
    let mut parts = parts(folder.path(), model, vec![Arc::new(Accounts(spec))])?;

    // The program gets the question as JSON on its standard input, and prints nothing: the run continues.
    let note = r#"sed 's/.*"message": *"\([^"]*\)".*/\1/' >>turns.txt"#;
    let program = ProgramConfig {
        argv: ["sh", "-c", note].map(str::to_owned).to_vec(),
        env: Vec::new(),
    };
    parts.orchestrator.hooks = vec![
        hook("guard", Point::PreToolCall, Means::InProcess),
        hook("redactor", Point::PostToolCall, Means::Host(serve().await?)),
        hook("notes", Point::OnTurnEnd, Means::Program(program)),
    ];
    let guard: Arc<dyn Hook> = Arc::new(Guard);
    parts.more_hooks = vec![("guard".to_owned(), guard)];
    let node = Box::pin(Node::start(parts)).await?;
    let mut client = client(&node);

    println!("── a step whose calls hooks are asked about ──");
    let run = chain(vec![model_step("Read", "Read the accounts.")]);
    let started = start(&mut client, "", "accounts", run).await?;
    let mut outcomes = Vec::new();
    watch(&mut client, &started.session, 0, |_, event| {
        if let Kind::HooksAnswered(answered) = event {
            outcomes.extend(answered.outcomes.clone());
        }
        false
    })
    .await?;
    println!("answer: {}", answer(&mut client, &started).await?);
    for outcome in &outcomes {
        let (hook, text) = (&outcome.answers[0].hook, short(&outcome.text, 40));
        println!("  {hook:<9}{} {text}", outcome.verdict().as_str_name());
    }

    let request = cairn_proto::orchestrator::GetExecutionLogRequest {
        session: started.session,
        ..Default::default()
    };
    let log = client.get_execution_log(request).await?.into_inner();
    let outputs = log.entries.iter().filter(|it| it.tool == "read_account");
    let outputs: Vec<&str> = outputs.map(|entry| entry.output.as_str()).collect();
    // People see what the tool said, and then what the hook made of it. The model gets the second alone.
    println!("the log has: {outputs:#?}");
    ensure!(outputs[0].contains("hook 'guard' blocked PreToolCall"));
    ensure!(outputs.last() == Some(&"ada: balance 12, secret redacted"));
    let notes = std::fs::read_to_string(folder.path().join("files/turns.txt"));
    let notes = notes.context("the program has noted the turn")?;
    println!("the program noted: {}", notes.trim());
    node.drain().await;
    Ok(())
}
