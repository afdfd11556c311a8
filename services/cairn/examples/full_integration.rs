//! Everything together: an agent with a system prompt and two tools keeps a lighthouse over several turns. It reads a
//! page of knowledge, and what it remembers in one context counts in another. At its end, the program sums up the run.
//! With `OPENAI_API_KEY` (and, if wanted, `OPENAI_BASE_URL`, `OPENAI_MODEL`) a real model does it. Without a key,
//! recorded replies take its place, and every one of them is checked.
//!
//! `cargo run -q -p cairn --example full_integration`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod common;

use anyhow::{Context as _, Result};
use cairn::node::Node;
use cairn_model::Model;
use cairn_proto::api::agent_service_client::AgentServiceClient;
use cairn_proto::api::knowledge_service_client::KnowledgeServiceClient;
use cairn_proto::api::{PutAgentRequest, PutPageRequest};
use cairn_proto::event as wire;
use cairn_proto::memory::SnapshotMemoryRequest;
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::context_service_client::ContextServiceClient;
use cairn_tools::{Call, Effect, Output, Tool, ToolError, ToolSpec};
use common::{Client, client, memory, node, real_model, recorded, say, session};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const AGENT: &str = "\
---
description: Keeps the lighthouse
tools: [tide, light, retrieve, session_memory_set]
---
You keep the lighthouse. Ask the tool tide for tides, and switch the light with the tool light. The rules of the
house are pages: look them up with retrieve before you act on them. Store what you are to remember with
session_memory_set. Answer in one sentence.
";
const RULES: &str = "In fog the light is on at all hours, and the horn sounds every 90 seconds.";
/// What is said in each context, and what the recorded model replies.
const TURNS: [(&str, &str, &str); 4] = [
    (
        "day",
        "When is high water today?",
        "High water is at 14:30.",
    ),
    (
        "day",
        "There is fog. Do what the rules of the house say about it.",
        "The light is on, and the horn sounds every 90 seconds.",
    ),
    ("day", "Remember: the boat comes at noon.", "I will."),
    ("night", "When does the boat come?", "It comes at noon."),
];

/// The tide, or the switch of the light.
struct Device(ToolSpec, Arc<AtomicBool>);

#[async_trait::async_trait]
impl Tool for Device {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, call: &Call) -> Result<Output, ToolError> {
        if self.0.name == "tide" {
            return Ok(Output::text("high water 14:30, low water 20:45"));
        }
        let on = call.arguments["on"].as_bool().unwrap_or_default();
        self.1.store(on, Ordering::SeqCst);
        let state = ["off", "on"][usize::from(on)];
        Ok(Output::text(format!("the light is {state}")))
    }
}

fn tools(light: &Arc<AtomicBool>) -> Vec<Arc<dyn Tool>> {
    let none = json!({"type": "object", "additionalProperties": false});
    let mut tide = ToolSpec::new("tide", "Returns the times of today's tides.", none);
    tide.effect = Effect::Pure;
    let on = json!({
        "type": "object", "required": ["on"], "additionalProperties": false,
        "properties": {"on": {"type": "boolean"}}
    });
    let mut switch = ToolSpec::new("light", "Switches the light on or off.", on);
    // Switched on twice, the light is on.
    switch.effect = Effect::Idempotent;
    let device = |spec| Arc::new(Device(spec, light.clone())) as Arc<dyn Tool>;
    vec![device(tide), device(switch)]
}

/// Each reply needs what it says: the result of a call, or the reminder of session memory.
fn replies() -> Result<Arc<dyn Model>> {
    let call = |name: &str, arguments: serde_json::Value| json!({"tool_calls": [{"name": name, "arguments": arguments}]});
    let [tide, fog, boat, night] = TURNS.map(|(_, asked, reply)| (asked, json!({"text": reply})));
    let memory = json!({"key": "boat", "value": "it comes at noon"});
    recorded(&[
        json!({"match": {"contains": tide.0}, "reply": call("tide", json!({}))}),
        json!({"match": {"contains": tide.0, "last": "14:30", "turn": 1}, "reply": tide.1}),
        json!({"match": {"contains": fog.0}, "reply": call("retrieve", json!({"query": "rules fog"}))}),
        json!({"match": {"contains": fog.0, "last": RULES, "turn": 1}, "reply": call("light", json!({"on": true}))}),
        json!({"match": {"contains": fog.0, "last": "light is on", "turn": 2}, "reply": fog.1}),
        json!({"match": {"contains": boat.0}, "replies": [call("session_memory_set", memory), boat.1]}),
        json!({"match": {"contains": "boat: it comes at noon"}, "reply": night.1}),
    ])
}

/// Stores the agent and a page, and creates a context of the agent for the day and one for the night.
async fn prepare(node: &Node, session: &str) -> Result<()> {
    let agent = PutAgentRequest {
        request_id: "agent".to_owned(),
        name: Some("keeper".to_owned()),
        source: AGENT.to_owned(),
        expected_version: None,
    };
    let mut agents = AgentServiceClient::new(node.link());
    agents.put_agent(agent).await?;
    let page = PutPageRequest {
        request_id: "page".to_owned(),
        id: Some("fog".to_owned()),
        title: "Rules for fog".to_owned(),
        text: RULES.to_owned(),
        tags: vec!["rules".to_owned()],
        expected_version: None,
    };
    let mut knowledge = KnowledgeServiceClient::new(node.link());
    knowledge.put_page(page).await?;
    for name in ["day", "night"] {
        let context = wire::CreateContext {
            name: name.to_owned(),
            agent: "keeper".to_owned(),
            ..wire::CreateContext::default()
        };
        let request = pb::CreateContextRequest {
            session: session.to_owned(),
            request_id: format!("create-{name}"),
            context: Some(context),
        };
        ContextServiceClient::new(node.link())
            .create_context(request)
            .await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let real = real_model()?;
    let is_real = real.is_some();
    let model = real.map_or_else(replies, Ok)?;
    let (folder, light) = (tempfile::tempdir()?, Arc::new(AtomicBool::new(false)));
    let node = node(folder.path(), model, tools(&light)).await?;
    let mut client = client(&node);
    let session = session(&mut client, "lighthouse").await?;
    prepare(&node, &session).await?;
    for (context, text, expected) in TURNS {
        let reply = say(&mut client, &session, context, text).await?.reply;
        // A real model chooses its own words.
        let is_expected = is_real || reply == expected;
        assert!(is_expected && !reply.is_empty(), "{reply}");
    }
    sum_up(&mut client, &node, &session, is_real).await?;
    let is_on = light.load(Ordering::SeqCst);
    println!("the light is on: {is_on}");
    assert!(is_real || is_on, "the rules ask for it");
    node.drain().await;
    Ok(())
}

/// Shows the turns with what they took, and what the session remembers.
async fn sum_up(client: &mut Client, node: &Node, session: &str, is_real: bool) -> Result<()> {
    println!("\n── summary ──");
    let request = SnapshotMemoryRequest {
        session: session.to_owned(),
    };
    let snapshot = memory(node).snapshot_memory(request).await?;
    let session = session.to_owned();
    let runs = client.list_runs(pb::ListRunsRequest { session }).await?;
    let runs = runs.into_inner().runs;
    let mut all_calls = Vec::new();
    for run in &runs {
        let (usage, agent) = (run.usage.unwrap_or_default(), run.agent.clone());
        let agent = agent.context("the agent of the turn")?.name;
        let (calls, tokens) = (usage.model_calls, usage.input_tokens + usage.output_tokens);
        println!(
            "  {} in {}, as {agent}: {calls} model calls, {tokens} tokens",
            run.number, run.context
        );
        assert_eq!(run.status(), pb::RunStatus::Completed);
        assert_eq!(agent, "keeper");
        all_calls.push(calls);
    }
    assert_eq!(runs.len(), TURNS.len());
    assert!(is_real || all_calls == [2, 3, 2, 1], "{all_calls:?}");
    let remembered = snapshot.into_inner().text;
    println!("{remembered}");
    assert!(is_real || remembered.contains("boat: it comes at noon"));
    Ok(())
}
