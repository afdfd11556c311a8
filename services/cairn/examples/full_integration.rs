//! Everything together, over real files in a temporary folder: session memory, a goal that a model
//! plans and carries out with the file tools, a tool of one's own, the report, the execution tree
//! and what it cost. With `OPENAI_API_KEY` (and, if wanted, `OPENAI_BASE_URL`, `OPENAI_MODEL`) a
//! real model does it; without a key the offline model.
//!
//! `cargo run -q -p cairn --example full_integration`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod common;

use anyhow::{Context as _, Result};
use cairn_boot::Environment;
use cairn_model::{Model, OpenAi, OpenAiConfig};
use cairn_proto::event::event::Kind;
use cairn_proto::memory::SetMemoryRequest;
use cairn_proto::orchestrator as pb;
use cairn_tools::{Call, Effect, Output, Tool, ToolError, ToolSpec};
use common::{Client, answer, chain, client, goal, memory, node, plan, short, start, tool_step};
use common::{offline, report, session, watch, write_files};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;

const GOAL: &str = "Which files mention \"lantern\"?";

/// A real model if there is a key for one, else the offline model. Whether it is a real one.
fn choose_model(environment: &Environment) -> Result<(Arc<dyn Model>, bool)> {
    let key = environment.get("OPENAI_API_KEY").unwrap_or_default();
    if key.is_empty() {
        println!("no OPENAI_API_KEY: the offline model does it\n");
        return Ok((offline(), false));
    }
    let url = environment.get("OPENAI_BASE_URL");
    let name = environment.get("OPENAI_MODEL").unwrap_or("gpt-5-mini");
    let mut config = OpenAiConfig::new(url.unwrap_or("https://api.openai.com/v1"), name);
    config.server.api_key = Some(key.into());
    println!("OPENAI_API_KEY is set: {name} does it\n");
    Ok((Arc::new(OpenAi::new(config)?), true))
}

const LOGBOOK: [(&str, &str); 4] = [
    ("crew.md", "# Crew\n\n- Ada keeps the lantern\n- Grace\n"),
    ("log/day-1.md", "# Day 1\n\nCalm sea. Grace steers.\n"),
    ("log/day-2.md", "# Day 2\n\nFog. Ada lit the lantern.\n"),
    ("log/day-3.md", "# Day 3\n\nLand! The lantern is out.\n"),
];

/// A tool of our own: how many words a folder has.
struct CountWords(ToolSpec, PathBuf);

impl CountWords {
    fn tool(folder: PathBuf) -> Arc<dyn Tool> {
        let schema = json!({"type": "object", "additionalProperties": false});
        let mut spec = ToolSpec::new("count_words", "Counts the words of the logbook.", schema);
        spec.effect = Effect::Pure;
        Arc::new(Self(spec, folder))
    }
}

#[async_trait::async_trait]
impl Tool for CountWords {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, _: &Call) -> Result<Output, ToolError> {
        let failed = |error: std::io::Error| ToolError::ExecutionFailed(error.to_string());
        let mut words = 0;
        for entry in std::fs::read_dir(&self.1).map_err(failed)? {
            let text = std::fs::read_to_string(entry.map_err(failed)?.path()).map_err(failed)?;
            words += text.split_whitespace().count();
        }
        Ok(Output::text(format!("{words} words")))
    }
}

/// The first lines of a text, set in.
fn beginning(text: &str, lines: usize) -> String {
    let lines = text.lines().take(lines);
    lines.map(|line| format!("  {line}\n")).collect()
}

async fn tree(client: &mut Client, session: &str, view: pb::TreeView) -> Result<String> {
    let request = pb::GetTreeRequest {
        session: session.to_owned(),
        run: 1,
        view: view.into(),
        at_seq: 0,
    };
    Ok(client.get_tree(request).await?.into_inner().text)
}

/// Carries the goal out; the answer, which is not empty.
async fn pursue(client: &mut Client, session: &str) -> Result<String> {
    println!("── goal ──\n  {GOAL}\n\n── plan and steps ──");
    let started = start(client, session, "goal", goal(GOAL)).await?;
    watch(client, session, started.seq - 1, |_, kind| {
        match kind {
            Kind::PlanApplied(applied) => {
                for step in applied.plan.iter().flat_map(|plan| &plan.steps) {
                    println!("  · {}", short(&step.description, 90));
                }
            }
            Kind::StepCompleted(step) => println!("  ✓ {}", short(&step.summary, 90)),
            _ => {}
        }
        false
    })
    .await?;
    let answer = answer(client, &started).await?;
    println!("\n── answer ──\n{}", beginning(&answer, 12));
    for step in plan(client, session).await? {
        assert_eq!(step.status(), pb::StepStatus::Completed);
    }
    assert!(!answer.is_empty());
    Ok(answer)
}

#[tokio::main]
async fn main() -> Result<()> {
    let (model, is_real) = choose_model(&Environment::from_process())?;
    let folder = tempfile::tempdir()?;
    write_files(folder.path(), &LOGBOOK)?;
    let tools = vec![CountWords::tool(folder.path().join("files/log"))];
    let node = node(folder.path(), model, tools).await?;
    let mut client = client(&node);

    let session = session(&mut client, "voyage").await?;
    let request = SetMemoryRequest {
        session: session.clone(),
        key: "tone".to_owned(),
        value: "dry, with the source of every statement".to_owned(),
        metadata: Default::default(),
    };
    memory(&node).set_memory(request).await?;

    let answer = pursue(&mut client, &session).await?;
    let text = report(&mut client, &session, 1).await?;
    println!("── report, its first lines ──\n{}", beginning(&text, 14));
    assert!(text.contains(GOAL));
    if !is_real {
        // The offline model is deterministic: it finds all three, and not the fourth.
        let said = answer + &text;
        for name in ["crew.md", "log/day-2.md", "log/day-3.md"] {
            assert!(said.contains(name), "{name} is not in {said}");
        }
    }
    let todo = tree(&mut client, &session, pb::TreeView::Todo).await?;
    println!("── tree, as a to-do list ──\n{}", beginning(&todo, 20));
    assert!(!todo.is_empty());
    let whole = tree(&mut client, &session, pb::TreeView::Json).await?;
    serde_json::from_str::<serde_json::Value>(&whole).context("the tree is JSON")?;

    println!("── a second run of the session, from a plan, with a tool of our own ──");
    let run = chain(vec![tool_step("Count", "count_words", &json!({}))]);
    let started = start(&mut client, &session, "count", run).await?;
    let counted = common::answer(&mut client, &started).await?;
    println!("  {counted}\n");
    assert_eq!(counted, "23 words");
    usage(&mut client, session).await?;
    node.drain().await;
    Ok(())
}

async fn usage(client: &mut Client, session: String) -> Result<()> {
    println!("── usage ──");
    let request = pb::ListRunsRequest { session };
    let runs = client.list_runs(request).await?.into_inner().runs;
    for run in &runs {
        let usage = run.usage.unwrap_or_default();
        let (calls, turns) = (usage.model_calls, run.tool_turns);
        let (sent, received) = (usage.input_tokens, usage.output_tokens);
        let number = run.number;
        print!("  run {number}: {calls} model calls, {turns} tool turns, ");
        println!("{sent} tokens sent, {received} received");
    }
    assert_eq!(runs.len(), 2);
    let calls = |at: usize| runs[at].usage.unwrap_or_default().model_calls;
    assert!(calls(0) > 0);
    assert_eq!(calls(1), 0, "a tool step asks no model");
    Ok(())
}
