//! A conversation over the API: turns with streaming, a message to the running turn, and a stream that is
//! cut and continued.
//!
//! `cargo run -q -p cairn --example agent_session`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod common;

use anyhow::{Context as _, Result};
use cairn_proto::orchestrator as pb;
use cairn_tools::{Call, Effect, Output, Tool, ToolError, ToolSpec};
use common::{Client, client, node, recorded, session, turn, user};
use pb::turn_event::Event;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tonic::Streaming;

/// Scales that show nothing before somebody lets them.
struct Scales {
    spec: ToolSpec,
    ready: Semaphore,
}

impl Scales {
    fn new() -> Self {
        let mut spec = ToolSpec::new("weigh", "Weighs the parcel.", json!({"type": "object"}));
        spec.effect = Effect::Pure;
        let ready = Semaphore::new(0);
        Self { spec, ready }
    }
}

#[async_trait::async_trait]
impl Tool for Scales {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, _call: &Call) -> Result<Output, ToolError> {
        let ready = self.ready.acquire().await;
        let _permit = ready.map_err(|error| ToolError::ExecutionFailed(error.to_string()))?;
        Ok(Output::text("2 kg"))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let scales = Arc::new(Scales::new());
    let model = recorded(&[
        json!({"match": {"contains": "Hello"}, "reply": {"text": "Hello! What shall I weigh?"}}),
        json!({"match": {"contains": "parcel"}, "replies": [
            {"text": "Let me weigh it.", "tool_calls": [{"name": "weigh", "arguments": {}}]},
            {"text": "It weighs 2 kg."}]}),
        json!({"match": {"contains": "pounds"}, "reply": {"text": "It weighs 4.4 pounds."}}),
        json!({"match": {"contains": "again"}, "replies": [
            {"text": "Once more.", "tool_calls": [{"name": "weigh", "arguments": {}}]},
            {"text": "Still 2 kg."}]}),
    ])?;
    let node = node(folder.path(), model, vec![scales.clone()]).await?;
    let mut client = client(&node);
    let session = session(&mut client, "parcel").await?;

    println!("── a turn ──");
    let mut stream = submit(&mut client, &session, "hello", "Hello", 0).await?;
    let complete = follow(&mut stream, |_| async { Ok(()) }).await?;
    assert_eq!(complete.response, "Hello! What shall I weigh?");
    assert_eq!(complete.turn_index, 0);

    println!("\n── a message to the running turn ──");
    let mut stream = submit(
        &mut client,
        &session,
        "weigh",
        "What does the parcel weigh?",
        0,
    )
    .await?;
    let complete = follow(&mut stream, |event| {
        let (mut client, session, scales) = (client.clone(), session.clone(), scales.clone());
        async move {
            if let Event::ToolCall(_) = event {
                // The call has begun, and ends only after the turn has this message.
                steer(&mut client, &session, "In pounds, please.").await?;
                scales.ready.add_permits(1);
            }
            Ok(())
        }
    })
    .await?;
    assert_eq!(complete.response, "It weighs 4.4 pounds.");

    a_cut_stream(&mut client, &session, &scales).await?;
    node.drain().await;
    Ok(())
}

/// A stream that is cut, and continued by the same request.
async fn a_cut_stream(client: &mut Client, session: &str, scales: &Scales) -> Result<()> {
    println!("\n── a stream that is cut ──");
    let mut stream = submit(client, session, "again", "Weigh it again.", 0).await?;
    let mut cursor = 0;
    while let Some(response) = stream.message().await? {
        cursor = cursor.max(response.seq);
        let mut events = response.events.iter();
        if events.any(|event| matches!(event.event, Some(Event::ToolCall(_)))) {
            break;
        }
    }
    drop(stream);
    scales.ready.add_permits(1);
    println!("✂ after event {cursor}");
    // The same request: no second turn begins, and nothing comes twice.
    let mut stream = submit(client, session, "again", "Weigh it again.", cursor).await?;
    let complete = follow(&mut stream, |_| async { Ok(()) }).await?;
    assert_eq!(
        (complete.response.as_str(), complete.turn_index),
        ("Still 2 kg.", 2)
    );
    Ok(())
}

/// Submits a turn, or continues its stream after a cursor.
async fn submit(
    client: &mut Client,
    session: &str,
    request_id: &str,
    text: &str,
    after_seq: u64,
) -> Result<Streaming<pb::SubmitTurnResponse>> {
    let request = pb::SubmitTurnRequest {
        after_seq,
        ..turn(session, "", request_id, text)
    };
    Ok(client.submit_turn(request).await?.into_inner())
}

/// Says something to the running turn, whose model reads it before the turn ends.
async fn steer(client: &mut Client, session: &str, text: &str) -> Result<()> {
    println!("steering       {text}");
    let request = pb::SendMessageRequest {
        session: session.to_owned(),
        request_id: "steer".to_owned(),
        step: 0,
        message: Some(user(text)),
    };
    client.send_message(request).await?;
    Ok(())
}

/// Shows a turn to its end.
async fn follow<F>(
    stream: &mut Streaming<pb::SubmitTurnResponse>,
    mut on_event: impl FnMut(Event) -> F,
) -> Result<pb::TurnComplete>
where
    F: Future<Output = Result<()>>,
{
    while let Some(response) = stream.message().await? {
        for event in response.events.into_iter().filter_map(|event| event.event) {
            match &event {
                Event::Text(delta) => println!("text           {:?}", delta.text),
                Event::Reset(_) => println!("text           (begins anew)"),
                Event::ToolCall(called) => {
                    let call = called.call.clone().unwrap_or_default();
                    println!("tool call      {}({})", call.name, call.arguments_json);
                }
                Event::ToolResult(result) => {
                    let result = result.result.clone().unwrap_or_default();
                    println!("tool result    {}", result.text);
                }
                Event::Complete(complete) => {
                    println!("turn complete  {:?}", complete.usage.unwrap_or_default());
                    return Ok(complete.clone());
                }
                Event::Error(error) => {
                    let failure = error.failure.clone().unwrap_or_default();
                    anyhow::bail!("the turn failed: {}", failure.message);
                }
                _ => {}
            }
            on_event(event).await?;
        }
    }
    None.context("the stream ended before the turn")
}
