//! A tool of one's own: a box office that reserves seats. It is registered in a node, called by a
//! step of a plan and by a model, and shows what its effect and its idempotency key are for. At the end
//! tools are tried by themselves: four at once within a time limit, one that a rule denies, one that is
//! not there.
//!
//! `cargo run -q -p cairn --example custom_tool`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod common;

use anyhow::{Result, anyhow};
use cairn::node::Node;
use cairn_engine::rules::{Answer as Judged, Rule};
use cairn_proto::orchestrator::CallToolRequest;
use cairn_proto::tools::ToolResult;
use cairn_tools::{Call, Effect, Output, Progress, Tool, ToolError, ToolSpec};
use common::{Client, answer, chain, client, model_step, parts, recorded, short, start, tool_step};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const SEATS: u64 = 12;

/// Who sits where. A real one would live in a database, with the key as a unique column.
struct BoxOffice {
    spec: ToolSpec,
    /// By the key of the call: a repeat finds what it did before.
    sold: Mutex<BTreeMap<String, (String, u64, String)>>,
}

impl BoxOffice {
    fn new() -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1},
                "seats": {"type": "integer", "minimum": 1, "maximum": 4}
            },
            "required": ["name", "seats"],
            "additionalProperties": false
        });
        let mut spec = ToolSpec::new("reserve", "Reserves seats in the theatre.", schema);
        // A repeat with the same key reserves nothing more, so that Cairn may repeat a call after
        // a crash. Without this line the tool is taken for effectful, and a person would be asked.
        spec.effect = Effect::Idempotent;
        let sold = Mutex::default();
        Self { spec, sold }
    }

    fn taken(&self) -> u64 {
        let sold = self.sold.lock().unwrap_or_else(PoisonError::into_inner);
        sold.values().map(|(_, seats, _)| seats).sum()
    }
}

#[async_trait::async_trait]
impl Tool for BoxOffice {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    // The schema has been checked: what is left to say is what no schema can know.
    async fn call(&self, call: &Call) -> Result<Output, ToolError> {
        let name = call.arguments["name"].as_str().unwrap_or_default();
        let seats = call.arguments["seats"].as_u64().unwrap_or_default();
        let mut sold = self.sold.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, _, ticket)) = sold.get(&call.key) {
            return Ok(Output::text(ticket));
        }
        let taken: u64 = sold.values().map(|(_, seats, _)| seats).sum();
        if taken + seats > SEATS {
            let message = format!("{} seats are left", SEATS - taken);
            return Err(ToolError::ExecutionFailed(message));
        }
        let ticket = format!("seats {} to {} for {name}", taken + 1, taken + seats);
        sold.insert(call.key.clone(), (name.to_owned(), seats, ticket.clone()));
        Ok(Output::text(ticket))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let office = Arc::new(BoxOffice::new());
    // The model wants too many seats first, reads what was wrong, and asks again.
    let reserve = |seats: u32| json!({"tool_calls": [{"name": "reserve", "arguments": {"name": "Grace", "seats": seats}}]});
    let model = recorded(&[json!({"match": {"step": "Grace"}, "replies": [
        reserve(9),
        reserve(3),
        {"tool_calls": [{"name": "step", "arguments":
            {"complete": true, "summary": "Grace has three seats beside Ada."}}]}]})])?;
    let tools: Vec<Arc<dyn Tool>> = vec![
        office.clone(),
        Arc::new(Slow::new("wait")),
        Arc::new(Slow::new("forbidden")),
    ];
    let mut parts = parts(folder.path(), model, tools)?;
    // As `[[tools.rules]]` in the settings.
    parts.tools.rules = vec![
        rule("reserve", Judged::Allow),
        rule("forbid*", Judged::Deny),
    ];
    let node = Box::pin(Node::start(parts)).await?;
    let mut client = client(&node);

    let run = chain(vec![
        tool_step(
            "Ada's seats",
            "reserve",
            &json!({"name": "Ada", "seats": 2}),
        ),
        model_step(
            "Grace's seats",
            "Reserve as many seats for Grace as you may.",
        ),
    ]);
    let started = start(&mut client, "", "theatre", run).await?;
    println!("answer: {}\n", answer(&mut client, &started).await?);

    println!("what was asked of the tool:");
    let log = cairn_proto::orchestrator::GetExecutionLogRequest {
        session: started.session.clone(),
        ..Default::default()
    };
    let log = client.get_execution_log(log).await?.into_inner().entries;
    let calls: Vec<_> = log.iter().filter(|entry| entry.tool == "reserve").collect();
    for call in &calls {
        let mark = if call.is_error { "✗" } else { "✓" };
        println!("  {mark} step {}  {}", call.step, call.input);
        println!("           {}", short(&call.output, 90));
    }
    let failed: Vec<bool> = calls.iter().map(|call| call.is_error).collect();
    assert_eq!(failed, [false, true, false]);
    assert!(calls[1].output.starts_with("InvalidArguments"));
    assert_eq!(office.taken(), 5, "nine seats were refused by the schema");

    keys(&office, &started.session).await?;
    tried(&mut client).await?;
    node.drain().await;
    Ok(())
}

/// A tool that takes its time, and one that the settings deny.
struct Slow(ToolSpec);

impl Slow {
    fn new(name: &str) -> Self {
        let schema = json!({"type": "object", "properties": {"ms": {"type": "integer"}}});
        let mut spec = ToolSpec::new(name, "Waits, and says how long.", schema);
        spec.effect = Effect::Pure;
        spec.time_limit = Duration::from_millis(300);
        Self(spec)
    }
}

#[async_trait::async_trait]
impl Tool for Slow {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, call: &Call) -> Result<Output, ToolError> {
        let ms = call.arguments["ms"].as_u64().unwrap_or_default();
        tokio::time::sleep(Duration::from_millis(ms)).await;
        Ok(Output::text(format!("{ms} ms")))
    }
}

/// Tools can be tried outside of sessions: here four at once, of which one is too slow, and then two
/// that nobody may call.
async fn tried(client: &mut Client) -> Result<()> {
    println!("\ntools tried by themselves:");
    let began = Instant::now();
    let calls = [200, 200, 200, 5000].map(|ms| tries(client, "wait", json!({ "ms": ms })));
    let mut reasons = Vec::new();
    for outcome in futures::future::join_all(calls).await {
        let result = outcome?;
        println!("  wait: {}", short(&result.output, 90));
        reasons.push(result.reason);
    }
    assert_eq!(reasons, ["", "", "", "Timeout"]);
    let took = began.elapsed();
    assert!(took < Duration::from_millis(2000), "in parallel: {took:?}");

    let result = tries(client, "nobody", json!({})).await?;
    println!("  nobody: {}", short(&result.output, 90));
    assert_eq!(result.reason, "NotFound");
    // What a rule denies is denied by the service that is asked, before any tool is.
    let denied = tries(client, "forbidden", json!({})).await;
    match denied {
        Ok(result) => Err(anyhow!("a rule denies it: {}", result.output)),
        Err(denied) => {
            println!("  forbidden: {}", short(&denied.to_string(), 90));
            Ok(())
        }
    }
}

/// One call. What goes wrong in the tool is a result.
async fn tries(client: &Client, name: &str, arguments: Value) -> Result<ToolResult> {
    let request = CallToolRequest {
        name: name.to_owned(),
        arguments_json: arguments.to_string(),
        request_id: uuid::Uuid::now_v7().to_string(),
        approved: false,
    };
    let answer = client.clone().call_tool(request).await;
    let answer = answer.map_err(|status| anyhow!("{}", status.message()))?;
    answer
        .into_inner()
        .result
        .ok_or_else(|| anyhow!("no result"))
}

fn rule(tool: &str, answer: Judged) -> Rule {
    Rule {
        tool: tool.to_owned(),
        when: BTreeMap::new(),
        agent: None,
        answer,
    }
}

/// What the key of a call is for.
async fn keys(office: &BoxOffice, session: &str) -> Result<()> {
    println!("\nwhat the box office has, by key:");
    let sold = office
        .sold
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    for (key, (_, _, ticket)) in &sold {
        println!("  {}  {ticket}", short(key, 24));
    }
    assert_eq!(sold.len(), 2, "each call has a key of its own");

    // After a crash the same call comes once more, with the same key.
    for (key, (name, seats, ticket)) in &sold {
        let again = Call {
            trace: None,
            input: None,
            progress: Progress::default(),
            key: key.clone(),
            session: session.to_owned(),
            arguments: json!({"name": name, "seats": seats}),
            stop: tokio_util::sync::CancellationToken::new(),
            permit: cairn_tools::Permit::unlimited(),
            slot: cairn_tools::Slot::default(),
        };
        let output = office
            .call(&again)
            .await
            .map_err(|e| anyhow::anyhow!("{e:?}"))?;
        assert_eq!(&output.text, ticket);
    }
    println!(
        "\nboth calls again with their keys: still {} seats taken",
        office.taken()
    );
    assert_eq!(office.taken(), 5);
    Ok(())
}
