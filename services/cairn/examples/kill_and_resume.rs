//! A bakery is killed while something is in the oven (a real `kill -9` of a child process), and
//! another process continues over the same store. What was finished is kept. What was begun is begun
//! again under the same key if the tool is idempotent; if it is effectful, a person is asked.
//!
//! `cargo run -q -p cairn --example kill_and_resume`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod common;

use anyhow::{Context as _, Result};
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::event::settlement::{Done, Outcome};
use cairn_proto::orchestrator as pb;
use cairn_tools::{Call, Output, Tool, ToolError, ToolSpec};
use common::{Client, chain, client, node, offline, plan, short, start, tool_step, watch};
use serde_json::json;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

/// Bakes, and writes every call into a ledger that no crash can touch. In a slow oven, the pie is
/// never done.
struct Oven(ToolSpec, PathBuf, bool);

impl Oven {
    fn tool(folder: &Path, effect: &str, is_slow: bool) -> Result<Arc<dyn Tool>> {
        let schema = json!({"type": "object", "required": ["what"],
            "properties": {"what": {"type": "string"}}});
        let mut spec = ToolSpec::new("bake", "Bakes something.", schema);
        spec.effect = serde_json::from_value(json!(effect))?;
        let ledger = folder.join("ledger.txt");
        Ok(Arc::new(Self(spec, ledger, is_slow)))
    }
}

#[async_trait::async_trait]
impl Tool for Oven {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, call: &Call) -> Result<Output, ToolError> {
        let Self(_, ledger, is_slow) = self;
        let what = call.arguments["what"].as_str().unwrap_or_default();
        let mut options = std::fs::File::options();
        let file = options.create(true).append(true).open(ledger);
        let written = file.and_then(|mut file| writeln!(file, "{what} {}", call.key));
        written.map_err(|error| ToolError::ExecutionFailed(error.to_string()))?;
        if *is_slow && what == "pie" {
            println!("the pie is in the oven");
            std::future::pending::<()>().await;
        }
        Ok(Output::text(format!("one {what}")))
    }
}

/// The same request from every process: the run starts once.
async fn order(client: &mut Client) -> Result<pb::StartRunResponse> {
    let step = |what: &str| tool_step(&format!("Bake the {what}"), "bake", &json!({"what": what}));
    let run = chain(vec![step("bread"), step("pie"), step("cake")]);
    start(client, "", "order-1", run).await
}

/// The child: works until it is killed.
async fn bakery(folder: &Path, effect: &str) -> Result<()> {
    let tools = vec![Oven::tool(folder, effect, true)?];
    let node = node(folder, offline(), tools).await?;
    order(&mut client(&node)).await?;
    std::future::pending().await
}

async fn bake_and_kill(folder: &Path, effect: &str) -> Result<()> {
    let mut child = Command::new(std::env::current_exe()?)
        .args([folder.as_os_str(), effect.as_ref()])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let output = child.stdout.take().context("the child's output")?;
    let line = BufReader::new(output).lines().next_line().await?;
    let line = line.context("the child ended by itself")?;
    println!("  bakery: {line}");
    child.kill().await?;
    println!("  bakery killed: {}", child.wait().await?);
    Ok(())
}

fn show(kind: &Kind) {
    let step = |attempt: Option<&wire::AttemptRef>| attempt.map_or(0, |attempt| attempt.step);
    match kind {
        Kind::StepStarted(e) => println!("    → step {} begins", step(e.attempt.as_ref())),
        Kind::StepCompleted(e) => println!("    ✓ {}", e.summary),
        Kind::AttemptContinued(e) => println!("    … step {} continues", step(e.attempt.as_ref())),
        Kind::CallInDoubt(_) => println!("    ? a call had begun, and its outcome is not known"),
        _ => {}
    }
}

/// A person has looked into the oven and says that the pie is done.
async fn look_into_the_oven(client: &mut Client, session: &str) -> Result<()> {
    let session = session.to_owned();
    let pending = client.list_pending(pb::ListPendingRequest {
        session: session.clone(),
        ..pb::ListPendingRequest::default()
    });
    let pending = pending.await?.into_inner().pending;
    let [question] = pending.as_slice() else {
        anyhow::bail!("one question was expected: {pending:?}");
    };
    let (what, key) = (&question.arguments_json, short(&question.call_key, 16));
    println!("  asked: did {} {what} happen? key {key}", question.tool);
    let output = "one pie, rescued".to_owned();
    let outcome = Some(Outcome::Done(Done { output }));
    let request = pb::DecideRequest {
        session,
        pending_id: question.id.clone(),
        settlement: Some(wire::Settlement { outcome }),
        request_id: "person-1".to_owned(),
    };
    client.decide(request).await?;
    println!("  answered: yes, it is done");
    Ok(())
}

async fn scene(effect: &str) -> Result<()> {
    println!("── an oven that is {effect} ──");
    let folder = tempfile::tempdir()?;
    bake_and_kill(folder.path(), effect).await?;

    let tools = vec![Oven::tool(folder.path(), effect, false)?];
    let node = node(folder.path(), offline(), tools).await?;
    let mut client = client(&node);
    let started = order(&mut client).await?;
    println!("  another process has the store; the run by its journal:");
    let (mut has_completed, mut finished) = (false, Vec::new());
    let mut on_event = |_, kind: &Kind| {
        show(kind);
        if let Kind::StepCompleted(step) = kind {
            finished.push(step.attempt.map_or(0, |attempt| attempt.step));
        }
        has_completed |= matches!(kind, Kind::RunCompleted(_));
        matches!(kind, Kind::RunWaiting(_))
    };
    let seq = watch(&mut client, &started.session, 0, &mut on_event).await?;
    if effect == "effectful" {
        look_into_the_oven(&mut client, &started.session).await?;
        watch(&mut client, &started.session, seq, &mut on_event).await?;
    }
    assert!(has_completed, "the run waits or has failed");
    assert_eq!(finished, [1, 2, 3], "every step ended once");
    for step in plan(&mut client, &started.session).await? {
        assert_eq!(step.attempts, 1, "an attempt is continued, not repeated");
    }

    check_ledger(folder.path(), effect)?;
    println!();
    node.drain().await;
    Ok(())
}

/// Checks what has really happened: the ledger has every call.
fn check_ledger(folder: &Path, effect: &str) -> Result<()> {
    let ledger = std::fs::read_to_string(folder.join("ledger.txt"))?;
    println!("  the ledger:");
    for line in ledger.lines() {
        println!("    {}", short(line, 24));
    }
    let lines = ledger.lines().filter_map(|line| line.split_once(' '));
    let (baked, keys): (Vec<&str>, Vec<&str>) = lines.unzip();
    if effect == "effectful" {
        assert_eq!(baked, ["bread", "pie", "cake"], "nothing was sent twice");
    } else {
        assert_eq!(baked, ["bread", "pie", "pie", "cake"]);
        assert_eq!(keys[1], keys[2], "the pie had two keys");
        println!("  the pie was begun twice, under one key: the oven can tell that it is one pie");
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => {
            scene("idempotent").await?;
            scene("effectful").await
        }
        [folder, effect] => bakery(Path::new(folder), effect).await,
        other => anyhow::bail!("unknown arguments {other:?}; none are needed"),
    }
}
