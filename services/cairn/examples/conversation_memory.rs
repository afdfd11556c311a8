//! Contexts: a window over a conversation, values that cross to another context, and a context that goes
//! and leaves its conclusions.
//!
//! `cargo run -q -p cairn --example conversation_memory`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod common;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use cairn_engine::message::{Message, Role};
use cairn_model::{ChatReply, ChatRequest, Model, ModelError, ModelInfo, StreamEvent};
use cairn_proto::event as wire;
use cairn_proto::memory as memory_pb;
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::context_service_client::ContextServiceClient;
use cairn_rpc::Link;
use common::{Client, client, memory, node, recorded, user};
use futures::stream::BoxStream;
use pb::turn_event::Event;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A model that counts the messages that it is sent.
#[derive(Debug)]
struct Counting {
    model: Arc<dyn Model>,
    messages: AtomicUsize,
}

impl Counting {
    fn note(&self, request: &ChatRequest) {
        let messages = request.messages.iter();
        let said = messages.filter(|message| message.role != Role::System);
        self.messages.store(said.count(), Ordering::Relaxed);
    }
}

#[async_trait]
impl Model for Counting {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        self.note(request);
        self.model.chat(request).await
    }

    async fn chat_stream(
        &self,
        request: &ChatRequest,
    ) -> Result<BoxStream<'static, StreamEvent>, ModelError> {
        self.note(request);
        self.model.chat_stream(request).await
    }

    fn estimate_tokens(&self, messages: &[Message]) -> u64 {
        self.model.estimate_tokens(messages)
    }

    fn describe(&self) -> ModelInfo {
        self.model.describe()
    }
}

/// The clients of one session.
struct Session {
    id: String,
    client: Client,
    contexts: ContextServiceClient<Link>,
    requests: u32,
}

impl Session {
    fn request_id(&mut self) -> String {
        self.requests += 1;
        format!("request-{}", self.requests)
    }

    /// One turn in a context.
    async fn ask(&mut self, context: &str, text: &str) -> Result<String> {
        let request = pb::SubmitTurnRequest {
            session: self.id.clone(),
            request_id: self.request_id(),
            turn: Some(wire::SubmitTurn {
                context: context.to_owned(),
                message: Some(user(text)),
                ..wire::SubmitTurn::default()
            }),
            after_seq: 0,
        };
        let mut stream = self.client.submit_turn(request).await?.into_inner();
        while let Some(response) = stream.message().await? {
            for event in response.events.into_iter().filter_map(|event| event.event) {
                match event {
                    Event::Complete(complete) => {
                        println!("[{context}] {text}\n        {}", complete.response);
                        return Ok(complete.response);
                    }
                    Event::Error(error) => anyhow::bail!("the turn failed: {error:?}"),
                    _ => {}
                }
            }
        }
        None.context("the stream ended before the turn")
    }

    async fn create(&mut self, name: &str, window: Option<u32>) -> Result<()> {
        let request = pb::CreateContextRequest {
            session: self.id.clone(),
            request_id: self.request_id(),
            context: Some(wire::CreateContext {
                name: name.to_owned(),
                window: window.map(|messages| wire::Window { messages }),
                ..wire::CreateContext::default()
            }),
        };
        self.contexts.create_context(request).await?;
        Ok(())
    }

    /// Number of messages of a context, in its window or in all.
    async fn count(&mut self, context: &str, in_window: bool) -> Result<usize> {
        let request = pb::ListMessagesRequest {
            session: self.id.clone(),
            context: context.to_owned(),
            in_window,
            ..pb::ListMessagesRequest::default()
        };
        let page = self.contexts.list_messages(request).await?.into_inner();
        Ok(page.messages.len())
    }

    async fn bridge(
        &mut self,
        from: &str,
        to: &str,
        values: BTreeMap<String, String>,
    ) -> Result<()> {
        let request = pb::BridgeContextRequest {
            session: self.id.clone(),
            request_id: self.request_id(),
            bridge: Some(wire::BridgeContext {
                from: from.to_owned(),
                to: to.to_owned(),
                values,
            }),
        };
        self.contexts.bridge_context(request).await?;
        Ok(())
    }

    async fn destroy(&mut self, name: &str, conclusions: BTreeMap<String, String>) -> Result<()> {
        let request = pb::DestroyContextRequest {
            session: self.id.clone(),
            request_id: self.request_id(),
            context: Some(wire::DestroyContext {
                context: name.to_owned(),
                conclusions,
                ask_model: false,
            }),
        };
        self.contexts.destroy_context(request).await?;
        Ok(())
    }
}

fn pair(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}

/// It knows what stands in its system prompt, and nothing else.
fn model() -> Result<Arc<Counting>> {
    let model = recorded(&[
        json!({"match": {"contains": "drink?", "system": "drink: tea"}, "reply": {"text": "You drink tea."}}),
        json!({"match": {"contains": "drink?"}, "reply": {"text": "I do not know."}}),
        json!({"match": {"contains": "name?", "system": "name: Ada"}, "reply": {"text": "You are Ada."}}),
        json!({"match": {"contains": ""}, "reply": {"text": "I see."}}),
    ])?;
    let messages = AtomicUsize::new(0);
    Ok(Arc::new(Counting { model, messages }))
}

/// Of eight messages a request has the latest four, and the new one.
async fn a_window(session: &mut Session, model: &Counting) -> Result<()> {
    println!("── a window of four messages ──");
    session.create("chat", Some(4)).await?;
    for text in [
        "My name is Ada.",
        "I live in Lisbon.",
        "I drink tea.",
        "It rains.",
    ] {
        session.ask("chat", text).await?;
    }
    let (all, window) = (
        session.count("chat", false).await?,
        session.count("chat", true).await?,
    );
    let sent = model.messages.load(Ordering::Relaxed);
    println!("{all} messages, {window} in the window, {sent} in the last request\n");
    assert_eq!((all, window), (8, 4));
    assert!(sent <= 5, "the window and the new message");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let model = model()?;
    let node = node(folder.path(), model.clone(), Vec::new()).await?;
    let mut client = client(&node);
    let created = client.create_session(pb::CreateSessionRequest {
        request_id: "create".to_owned(),
        ..pb::CreateSessionRequest::default()
    });
    let mut session = Session {
        id: created.await?.into_inner().session,
        client,
        contexts: ContextServiceClient::new(node.link()),
        requests: 0,
    };

    a_window(&mut session, &model).await?;

    println!("── values for another context ──");
    assert_eq!(
        session.ask("main", "What do I drink?").await?,
        "I do not know."
    );
    session.bridge("chat", "main", pair("drink", "tea")).await?;
    assert_eq!(
        session.ask("main", "And now, what do I drink?").await?,
        "You drink tea."
    );

    println!("\n── conclusions of a context that is destroyed ──");
    session.destroy("chat", pair("name", "Ada")).await?;
    session.create("next", None).await?;
    assert_eq!(
        session.ask("next", "What is my name?").await?,
        "You are Ada."
    );
    let request = memory_pb::ListMemoryRequest {
        session: session.id.clone(),
    };
    let entries = memory(&node)
        .list_memory(request)
        .await?
        .into_inner()
        .entries;
    let entries: Vec<String> = entries
        .iter()
        .map(|entry| format!("{}={}", entry.key, entry.value))
        .collect();
    println!("session memory: {}", entries.join(", "));
    assert_eq!(entries, ["drink=tea", "name=Ada"]);
    node.drain().await;
    Ok(())
}
