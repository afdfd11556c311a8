//! A tool of your own: a box office with a schema, an effect and an idempotency key. A step of a plan
//! calls it, and a model does. Then a client calls tools outside of sessions: one twice with one key,
//! four times in parallel with a time limit, one that does not exist, and one that a rule denies.
//!
//! `cargo run -q -p cairn --example custom_tool`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod common;

use anyhow::{Context as _, Result};
use cairn::node::Node;
use cairn_engine::rules::Answer;
use cairn_proto::{orchestrator as pb, tools::ToolResult};
use cairn_tools::{Call, Effect, Output, Tool, ToolError, ToolSpec};
use common::{Client, answer, chain, client, model_step, parts, recorded, short, start, tool_step};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tonic::{Code, Status};

const SEATS: u64 = 12;

struct BoxOffice {
    spec: ToolSpec,
    /// Seats and ticket by the key of the call. A real box office has a database with unique keys.
    reservations: Mutex<BTreeMap<String, (u64, String)>>,
}

impl BoxOffice {
    fn new() -> Self {
        let schema = json!({
            "type": "object", "required": ["name", "seats"], "additionalProperties": false,
            "properties": {
                "name": {"type": "string", "minLength": 1},
                "seats": {"type": "integer", "minimum": 1, "maximum": 4},
                "pays_after_ms": {"type": "integer"}}
        });
        let mut spec = ToolSpec::new("reserve", "Reserves seats in the theatre.", schema);
        // A repeat with the same key reserves nothing more, so Cairn can repeat a call after a crash.
        // Without this line the tool counts as effectful, and a person would be asked.
        spec.effect = Effect::Idempotent;
        // Each call needs approval, unless a rule says otherwise.
        spec.default = Answer::Ask;
        spec.time_limit = Duration::from_millis(500);
        let reservations = Mutex::default();
        Self { spec, reservations }
    }

    async fn taken(&self) -> u64 {
        let reservations = self.reservations.lock().await;
        reservations.values().map(|(seats, _)| seats).sum()
    }
}

#[async_trait::async_trait]
impl Tool for BoxOffice {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    // The arguments fit the schema. The tool checks only what a schema cannot express.
    async fn call(&self, call: &Call) -> Result<Output, ToolError> {
        let name = call.arguments["name"].as_str().unwrap_or_default();
        let seats = call.arguments["seats"].as_u64().unwrap_or_default();
        let payment = call.arguments["pays_after_ms"].as_u64().unwrap_or_default();
        // Cairn asks the tool to stop at its time limit. Of one that goes on, the result would not be known.
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(payment)) => {}
            () = call.stop.cancelled() => return Err(ToolError::ExecutionFailed("not paid".into())),
        }
        let mut reservations = self.reservations.lock().await;
        if let Some((_, ticket)) = reservations.get(&call.key) {
            return Ok(Output::text(ticket));
        }
        let taken: u64 = reservations.values().map(|(seats, _)| seats).sum();
        if taken + seats > SEATS {
            let message = format!("{} seats are left", SEATS - taken);
            return Err(ToolError::ExecutionFailed(message));
        }
        let ticket = format!("seats {} to {} for {name}", taken + 1, taken + seats);
        reservations.insert(call.key.clone(), (seats, ticket.clone()));
        Ok(Output::text(ticket))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let office = Arc::new(BoxOffice::new());
    // The model asks for too many seats first, reads what was wrong, and asks again.
    let calls = |name: &str, arguments: Value| json!({"tool_calls": [{"name": name, "arguments": arguments}]});
    let model = recorded(&[json!({"match": {"step": "Grace"}, "replies": [
        calls("reserve", json!({"name": "Grace", "seats": 9})),
        calls("reserve", json!({"name": "Grace", "seats": 3})),
        calls("step", json!({"complete": true, "summary": "Grace has three seats beside Ada."}))]})])?;
    let mut parts = parts(folder.path(), model, vec![office.clone()])?;
    // As `[[tools.rules]]` in the settings. `read_file` is a built-in tool.
    let deny = json!({"tool": "read_file", "when": {"path": "*.key"}, "answer": "deny"});
    let rules = json!([{"tool": "reserve", "answer": "allow"}, deny]);
    parts.tools.rules = serde_json::from_value(rules)?;
    let node = Box::pin(Node::start(parts)).await?;
    let mut client = client(&node);
    calls_in_a_run(&mut client, &office).await?;
    one_key_twice(&client, &office).await?;
    four_in_parallel(&client, &office).await?;
    refused_calls(&client).await?;
    node.drain().await;
    Ok(())
}

async fn calls_in_a_run(client: &mut Client, office: &BoxOffice) -> Result<()> {
    println!("── calls in a run ──");
    let ada = json!({"name": "Ada", "seats": 2});
    let run = chain(vec![
        tool_step("Ada's seats", "reserve", &ada),
        model_step("Grace's seats", "Reserve all the seats that she can have."),
    ]);
    let started = start(client, "", "theatre", run).await?;
    println!("answer: {}", answer(client, &started).await?);
    let request = pb::GetExecutionLogRequest {
        session: started.session,
        ..Default::default()
    };
    let log = client.get_execution_log(request).await?.into_inner();
    let calls: Vec<_> = log.entries.iter().filter(|e| e.tool == "reserve").collect();
    for call in &calls {
        let mark = if call.is_error { "✗" } else { "✓" };
        println!("  {mark} {}  {}", call.input, short(&call.output, 60));
    }
    let failed: Vec<bool> = calls.iter().map(|call| call.is_error).collect();
    assert_eq!(failed, [false, true, false]);
    assert!(calls[1].output.starts_with("InvalidArguments"));
    let reservations = office.reservations.lock().await.clone();
    println!("  reservations by key: {reservations:#?}");
    assert_eq!(reservations.len(), 2, "each call has its own key");
    assert_eq!(office.taken().await, 5, "the schema refused nine seats");
    Ok(())
}

/// A client that has lost the answer sends its request again. Both calls reach the tool with one key.
async fn one_key_twice(client: &Client, office: &BoxOffice) -> Result<()> {
    println!("\n── one call twice, with one key ──");
    let arguments = json!({"name": "Linus", "seats": 2});
    for _ in 0..2 {
        let result = call(client, "linus", "reserve", &arguments).await?;
        println!("  {}", result.output);
        assert_eq!(result.output, "seats 6 to 7 for Linus");
    }
    assert_eq!(office.taken().await, 7);
    Ok(())
}

async fn four_in_parallel(client: &Client, office: &BoxOffice) -> Result<()> {
    println!("\n── four calls in parallel, of which one takes too long ──");
    let began = Instant::now();
    let calls = [("a", 400), ("b", 400), ("c", 400), ("d", 5000)].map(async |(name, payment)| {
        let arguments = json!({"name": name, "seats": 1, "pays_after_ms": payment});
        call(client, name, "reserve", &arguments).await
    });
    let results = futures::future::try_join_all(calls).await?;
    for result in &results {
        println!("  {}", short(&result.output, 90));
    }
    let reasons: Vec<&str> = results.iter().map(|it| it.reason.as_str()).collect();
    assert_eq!(reasons, ["", "", "", "Timeout"]);
    // In turn they would take 2.7 s: 400 ms each, and 1.5 s for the one that is stopped.
    assert!(began.elapsed() < Duration::from_millis(2500));
    assert_eq!(office.taken().await, 10, "three of four have paid");
    Ok(())
}

async fn refused_calls(client: &Client) -> Result<()> {
    println!("\n── a tool that does not exist, and one that a rule denies ──");
    let result = call(client, "dance", "dance", &json!({})).await?;
    println!("  {}", short(&result.output, 90));
    assert_eq!(result.reason, "NotFound");
    // The server refuses what a rule denies before it calls the tool.
    let result = call(client, "key", "read_file", &json!({"path": "safe.key"})).await;
    let denied = result.err().context("a rule denies this call")?;
    println!("  {}", short(denied.message(), 90));
    assert_eq!(denied.code(), Code::PermissionDenied);
    Ok(())
}

/// Calls a tool outside of sessions. The key comes from the id. A failure of the tool is a result.
async fn call(client: &Client, id: &str, tool: &str, args: &Value) -> Result<ToolResult, Status> {
    let request = pb::CallToolRequest {
        name: tool.to_owned(),
        arguments_json: args.to_string(),
        request_id: id.to_owned(),
        approved: false,
    };
    let answer = client.clone().call_tool(request).await?.into_inner();
    Ok(answer.result.unwrap_or_default())
}
