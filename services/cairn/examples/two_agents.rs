//! Two agents with different rights: a researcher that only reads, and a publisher that only publishes. The model
//! of the researcher tries to publish in a run and in a conversation, and the tool is never called. Then the
//! conversation switches to the publisher.
//!
//! `cargo run -q -p cairn --example two_agents`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod common;

use anyhow::{Context as _, Result};
use cairn_proto::api::PutAgentRequest;
use cairn_proto::api::agent_service_client::AgentServiceClient;
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::context_service_client::ContextServiceClient;
use cairn_rpc::{Link, RpcError};
use cairn_tools::{Call, Effect, Output, Tool, ToolError, ToolSpec};
use common::{
    Client, answer, chain, client, model_step, node, recorded, session, short, start, tool_step,
};
use pb::turn_event::Event;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const RESEARCHER: &str = "\
---
description: Reads the notes
tools: [Read, Grep]
---
You read the notes. You never publish.
";
const PUBLISHER: &str = "\
---
description: Publishes what others wrote
tools: [publish]
---
You publish what you are given.
";

/// Counts what it publishes.
struct Press {
    spec: ToolSpec,
    published: AtomicUsize,
}

impl Press {
    fn new() -> Self {
        let mut spec = ToolSpec::new("publish", "Publishes.", json!({"type": "object"}));
        spec.effect = Effect::Idempotent;
        let published = AtomicUsize::new(0);
        Self { spec, published }
    }

    fn count(&self) -> usize {
        self.published.load(Ordering::SeqCst)
    }
}

#[async_trait::async_trait]
impl Tool for Press {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, _call: &Call) -> Result<Output, ToolError> {
        self.published.fetch_add(1, Ordering::SeqCst);
        Ok(Output::text("published"))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let press = Arc::new(Press::new());
    let publish = json!({"tool_calls": [{"name": "publish", "arguments": {}}]});
    let done = json!({"complete": true, "summary": "The notes name three stores."});
    let complete = json!({"tool_calls": [{"name": "step", "arguments": done}]});
    // Each reply is for one agent: the prompt of an agent is a part of the system prompt.
    let model = recorded(&[
        json!({"match": {"step": "Read", "system": "You never publish"}, "replies": [publish, complete]}),
        json!({"match": {"contains": "the world", "system": "You never publish"}, "replies": [
            publish, {"text": "I have no tool for that. Ask the publisher."}]}),
        json!({"match": {"contains": "Publish it", "system": "You publish what"}, "replies": [
            publish, {"text": "It is published."}]}),
    ])?;
    let node = node(folder.path(), model, vec![press.clone()]).await?;
    let mut client = client(&node);
    let mut agents = AgentServiceClient::new(node.link());
    for (name, source) in [("researcher", RESEARCHER), ("publisher", PUBLISHER)] {
        put(&mut agents, name, source).await?;
    }
    runs_as_researcher(&mut client, &press).await?;
    a_conversation_with_both(&mut client, node.link(), &press).await?;
    node.drain().await;
    Ok(())
}

/// Stores an agent, and shows what counts of its file.
async fn put(agents: &mut AgentServiceClient<Link>, name: &str, source: &str) -> Result<()> {
    let put = PutAgentRequest {
        request_id: format!("put-{name}"),
        name: Some(name.to_owned()),
        source: source.to_owned(),
        expected_version: None,
    };
    let stored = agents.put_agent(put).await?.into_inner().agent;
    let stored = stored.context("an agent")?;
    let definition = stored.definition.context("a definition")?;
    println!("agent {}: {}", stored.name, definition.description);
    Ok(())
}

async fn runs_as_researcher(client: &mut Client, press: &Press) -> Result<()> {
    println!("\n── a run as the researcher ──");
    let run = wire::StartRun {
        agent: "researcher".to_owned(),
        ..chain(vec![model_step(
            "Read",
            "Read the notes, and say what they name.",
        )])
    };
    let started = start(client, "", "read", run).await?;
    println!("answer: {}", answer(client, &started).await?);
    assert_eq!(press.count(), 0, "the tool is not on the list of the agent");
    let request = pb::GetRunRequest {
        session: started.session,
        run: started.run,
    };
    let run = client.get_run(request).await?.into_inner().run;
    let agent = run.and_then(|run| run.agent).context("an agent")?;
    println!(
        "the run keeps {} as {}",
        agent.name,
        short(&agent.digest, 8)
    );

    println!("\n── a plan with a tool that the researcher lacks ──");
    let run = wire::StartRun {
        agent: "researcher".to_owned(),
        ..chain(vec![tool_step("Publish", "publish", &json!({}))])
    };
    let refused = start(client, "", "publish", run).await.err();
    let refused = refused.context("the plan is refused")?;
    let status = refused
        .downcast_ref::<tonic::Status>()
        .context("a status")?;
    let refused = RpcError::from_status(status);
    println!("{}: {refused}", refused.reason_name());
    assert_eq!(refused.reason_name(), "TOOL_NOT_ALLOWED");
    Ok(())
}

async fn a_conversation_with_both(client: &mut Client, link: Link, press: &Press) -> Result<()> {
    println!("\n── a conversation with both ──");
    let session = session(client, "news").await?;
    let mut contexts = ContextServiceClient::new(link);
    let turns = [
        (
            "researcher",
            "Tell the world.",
            "I have no tool for that. Ask the publisher.",
        ),
        ("publisher", "Publish it, please.", "It is published."),
    ];
    for (agent, text, expected) in turns {
        let switch = pb::SwitchAgentRequest {
            session: session.clone(),
            request_id: format!("switch-to-{agent}"),
            context: String::new(),
            agent: agent.to_owned(),
        };
        contexts.switch_agent(switch).await?;
        let response = say(client, &session, agent, text).await?;
        println!("{text}\n  {agent}: {response}");
        assert_eq!(response, expected);
    }
    assert_eq!(press.count(), 1, "the publisher alone has published");
    let request = pb::GetSessionRequest { session };
    let session = client.get_session(request).await?.into_inner().session;
    assert_eq!(session.context("a session")?.agent, "publisher");
    Ok(())
}

/// Says something, and waits for the response.
async fn say(client: &mut Client, session: &str, id: &str, text: &str) -> Result<String> {
    let turn = common::turn(session, "", id, text);
    let mut stream = client.submit_turn(turn).await?.into_inner();
    while let Some(message) = stream.message().await? {
        for event in message.events.into_iter().filter_map(|it| it.event) {
            match event {
                Event::Complete(complete) => return Ok(complete.response),
                Event::Error(error) => anyhow::bail!("the turn failed: {:?}", error.failure),
                _ => {}
            }
        }
    }
    None.context("the stream ended before the turn")
}
