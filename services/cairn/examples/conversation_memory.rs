//! Contexts, the conversations of a session. One has a window over its messages, and the model finds an older
//! message with `retrieve`. Values cross from one context to another. A context that is destroyed leaves its
//! conclusions in session memory.
//!
//! `cargo run -q -p cairn --example conversation_memory`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod common;

use anyhow::Result;
use async_trait::async_trait;
use cairn_engine::message::{Message, Role};
use cairn_model::{ChatReply, ChatRequest, Model, ModelError, ModelInfo};
use cairn_proto::event as wire;
use cairn_proto::memory::SnapshotMemoryRequest;
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::context_service_client::ContextServiceClient;
use cairn_rpc::Link;
use common::{Client, client, memory, node, recorded, say};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A model that counts the messages of its latest request.
#[derive(Debug)]
struct Counting {
    model: Arc<dyn Model>,
    messages: AtomicUsize,
}

#[async_trait]
impl Model for Counting {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        let messages = request.messages.iter();
        let conversation = messages.filter(|message| message.role != Role::System);
        self.messages.store(conversation.count(), Ordering::Relaxed);
        self.model.chat(request).await
    }

    fn estimate_tokens(&self, messages: &[Arc<Message>]) -> u64 {
        self.model.estimate_tokens(messages)
    }

    fn describe(&self) -> ModelInfo {
        self.model.describe()
    }
}

/// The model knows what is in its system prompt and in the results of its calls, and nothing else.
fn model() -> Result<Arc<Counting>> {
    let model = recorded(&[
        json!({"match": {"contains": "drink?", "system": "drink: tea"}, "reply": {"text": "You drink tea."}}),
        json!({"match": {"contains": "drink?"}, "reply": {"text": "I do not know."}}),
        json!({"match": {"contains": "name?", "system": "name: Ada"}, "reply": {"text": "You are Ada."}}),
        json!({"match": {"contains": "name?", "last": "My name is Ada.", "turn": 1}, "reply": {"text": "Ada, as you said."}}),
        json!({"match": {"contains": "name?"}, "replies": [
            {"tool_calls": [{"name": "retrieve", "arguments": {"query": "name", "scope": "conversation"}}]},
            {"text": "I do not know."}]}),
        json!({"match": {"contains": ""}, "reply": {"text": "I see."}}),
    ])?;
    let messages = AtomicUsize::new(0);
    Ok(Arc::new(Counting { model, messages }))
}

/// The clients of one session.
struct Session {
    id: String,
    client: Client,
    contexts: ContextServiceClient<Link>,
}

impl Session {
    async fn create(&mut self, name: &str, window: Option<u32>) -> Result<()> {
        let request = pb::CreateContextRequest {
            session: self.id.clone(),
            request_id: format!("create-{name}"),
            context: Some(wire::CreateContext {
                name: name.to_owned(),
                window: window.map(|messages| wire::Window { messages }),
                ..wire::CreateContext::default()
            }),
        };
        self.contexts.create_context(request).await?;
        Ok(())
    }

    /// Takes one turn in a context, and returns the model's reply.
    async fn ask(&mut self, context: &str, text: &str) -> Result<String> {
        let turned = say(&mut self.client, &self.id, context, text).await?;
        Ok(turned.reply)
    }

    /// Counts the messages of a context, in its window or in all.
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
}

/// A request has the latest four of eight messages, and the new one.
async fn a_window(session: &mut Session, model: &Counting) -> Result<()> {
    println!("── a window of four messages ──");
    session.create("chat", Some(4)).await?;
    session.ask("chat", "My name is Ada.").await?;
    session.ask("chat", "I live in Lisbon.").await?;
    session.ask("chat", "I drink tea.").await?;
    session.ask("chat", "It rains.").await?;
    let all = session.count("chat", false).await?;
    let window = session.count("chat", true).await?;
    let sent = model.messages.load(Ordering::Relaxed);
    println!("{all} messages, {window} in the window, {sent} in the last request\n");
    assert_eq!((all, window), (8, 4));
    assert!(sent <= 5, "the window and the new message");
    Ok(())
}

/// No request has the first message any more. It is in the store, and the model finds it.
async fn an_older_message(session: &mut Session) -> Result<()> {
    println!("── a message before the window ──");
    let Session { id, client, .. } = session;
    let turned = say(client, id, "chat", "What is my name?").await?;
    assert_eq!(turned.reply, "Ada, as you said.");
    let [found] = turned.results.as_slice() else {
        anyhow::bail!("one search: {:?}", turned.results);
    };
    println!("\nwhat the model reads:\n{found}\n");
    assert!(found.starts_with("[message "), "{found}");
    Ok(())
}

async fn values_for_another_context(session: &mut Session) -> Result<()> {
    println!("── values for another context ──");
    let reply = session.ask("main", "What do I drink?").await?;
    assert_eq!(reply, "I do not know.");
    let request = pb::BridgeContextRequest {
        session: session.id.clone(),
        request_id: "bridge".to_owned(),
        bridge: Some(wire::BridgeContext {
            from: "chat".to_owned(),
            to: "main".to_owned(),
            values: BTreeMap::from([("drink".to_owned(), "tea".to_owned())]),
        }),
    };
    session.contexts.bridge_context(request).await?;
    let reply = session.ask("main", "And now, what do I drink?").await?;
    assert_eq!(reply, "You drink tea.");
    Ok(())
}

async fn conclusions(session: &mut Session) -> Result<()> {
    println!("\n── conclusions of a context that is destroyed ──");
    let request = pb::DestroyContextRequest {
        session: session.id.clone(),
        request_id: "destroy".to_owned(),
        context: Some(wire::DestroyContext {
            context: "chat".to_owned(),
            conclusions: BTreeMap::from([("name".to_owned(), "Ada".to_owned())]),
            ask_model: false,
        }),
    };
    session.contexts.destroy_context(request).await?;
    session.create("next", None).await?;
    let reply = session.ask("next", "What is my name?").await?;
    assert_eq!(reply, "You are Ada.");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let model = model()?;
    let node = node(folder.path(), model.clone(), Vec::new()).await?;
    let mut client = client(&node);
    let mut session = Session {
        id: common::session(&mut client, "tea").await?,
        client,
        contexts: ContextServiceClient::new(node.link()),
    };
    a_window(&mut session, &model).await?;
    an_older_message(&mut session).await?;
    values_for_another_context(&mut session).await?;
    conclusions(&mut session).await?;
    let session = session.id;
    let request = SnapshotMemoryRequest { session };
    let snapshot = memory(&node).snapshot_memory(request).await?;
    let text = snapshot.into_inner().text;
    println!("\nsession memory, as a system prompt has it:\n{text}");
    let expected = "<session-context>\ndrink: tea\nname: Ada\n</session-context>";
    assert_eq!(text, expected);
    node.drain().await;
    Ok(())
}
