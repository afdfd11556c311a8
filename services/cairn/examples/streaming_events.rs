//! Two kinds of streams: a model's reply as semantic events (text, tool call, end), and a run as
//! the events of its journal, watched from a cursor with the line cut several times on the way.
//!
//! `cargo run -q -p cairn --example streaming_events`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod common;

use anyhow::Result;
use cairn_engine::message::Message;
use cairn_model::stream::chat_streamed;
use cairn_model::{ChatRequest, FinishReason, Model, StreamEvent};
use cairn_proto::event::event::Kind;
use common::{chain, client, model_step, node, recorded, start, tool_step, watch};
use serde_json::json;
use std::io::Write as _;
use std::sync::Arc;

#[tokio::main]
async fn main() -> Result<()> {
    let model = recorded(&[
        json!({"match": {"contains": "weather"}, "usage": {"input_tokens": 12, "output_tokens": 20},
            "reply": {"text": "Let me look out of the window first.",
                "tool_calls": [{"name": "look", "arguments": {"at": "sky"}}]}}),
        json!({"match": {"contains": "broken"}, "reply": {"error": "rate_limit", "text": "slow down"}}),
        json!({"match": {"step": "Look"}, "replies": [
            {"text": "One moment.", "tool_calls": [{"name": "list_files", "arguments": {}}]},
            {"tool_calls": [{"name": "step", "arguments": {"complete": true, "summary": "Looked."}}]}]}),
    ])?;
    a_reply(model.as_ref()).await?;
    a_run(model).await
}

/// The reply of a model, piece by piece.
async fn a_reply(model: &dyn Model) -> Result<()> {
    println!("── a model's reply ──");
    let asked = |text: &str| ChatRequest::new([Message::user(text)]);
    let (mut text, mut kinds) = (String::new(), Vec::new());
    let reply = chat_streamed(model, &asked("How is the weather?"), |event| match event {
        StreamEvent::AssistantTextDelta { text: delta } => {
            print!("[{delta}]");
            text.push_str(delta);
            kinds.push("text");
        }
        StreamEvent::ToolCall(call) => {
            println!("\ntool call      {}({})", call.name, call.arguments);
            kinds.push("call");
        }
        StreamEvent::TurnComplete { reply } => {
            println!("turn complete  {:?}, {:?}", reply.finish, reply.usage);
            kinds.push("end");
        }
        StreamEvent::Error { message, .. } => println!("error          {message}"),
    })
    .await?;
    assert_eq!(text, reply.message.text(), "the pieces make the whole");
    assert_eq!(reply.finish, FinishReason::ToolCalls);
    assert!(kinds.len() > 3 && kinds.ends_with(&["text", "call", "end"]));

    let Err(error) = chat_streamed(model, &asked("broken"), |_| {}).await else {
        anyhow::bail!("the error was lost");
    };
    println!(
        "error          {error} (worth another try: {})\n",
        error.is_retryable()
    );
    assert!(error.is_retryable());
    Ok(())
}

/// A run, watched by somebody whose line is cut after every fourth event.
async fn a_run(model: Arc<dyn Model>) -> Result<()> {
    println!("── a run, over a bad line ──");
    let folder = tempfile::tempdir()?;
    let node = node(folder.path(), model, Vec::new()).await?;
    let mut client = client(&node);
    let run = chain(vec![
        tool_step("First", "list_files", &json!({})),
        model_step("Look", "Look around."),
        tool_step("Last", "list_files", &json!({"max": 1})),
    ]);
    let started = start(&mut client, "", "stream", run).await?;
    let (mut cursor, mut seen, mut cuts) = (0, Vec::new(), 0);
    let mut is_over = false;
    while !is_over {
        let mut here = 0;
        cursor = watch(&mut client, &started.session, cursor, |seq, kind| {
            print!("{seq:>3} {}  ", name(kind));
            seen.push(seq);
            is_over = matches!(kind, Kind::RunCompleted(_));
            here += 1;
            here == 4
        })
        .await?;
        // The stream has been dropped; the next one continues after the last number that came.
        cuts += usize::from(!is_over);
        println!("{}", if is_over { "" } else { " ✂" });
        std::io::stdout().flush()?;
    }
    let (count, last) = (seen.len(), cursor);
    println!("{count} events, the line cut {cuts} times: none missed, none twice");
    assert!(cuts >= 2);
    assert_eq!(seen, (1..=last).collect::<Vec<_>>());

    let mut whole = Vec::new();
    watch(&mut client, &started.session, 0, |seq, _| {
        whole.push(seq);
        false
    })
    .await?;
    assert_eq!(seen, whole, "one long look shows the same");
    node.drain().await;
    Ok(())
}

/// The name of an event: the first word of its Debug text.
fn name(kind: &Kind) -> String {
    let text = format!("{kind:?}");
    let end = text.find(['(', ' ']).unwrap_or(text.len());
    text[..end].to_owned()
}
