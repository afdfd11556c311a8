//! The [`Model`] trait and what goes through it.

use crate::ModelError;
use crate::prices::Prices;
use crate::stream::reply_events;
use async_trait::async_trait;
use cairn_engine::command::ResponseFormat;
use cairn_engine::message::{FinishReason, Message, Part, ToolCall, Usage};
use futures::stream::BoxStream;
use std::sync::Arc;

/// A tool as it is offered to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferedTool {
    /// Name that a call refers to.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: serde_json::Value,
}

/// One question to a model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChatRequest {
    /// The conversation so far, oldest first. Requests of one conversation share its messages.
    pub messages: Vec<Arc<Message>>,
    /// How many of the first messages are the same in every later request of this conversation, so
    /// that a provider's cache can keep them; 0 if that is not known.
    pub stable: usize,
    /// The tools that the reply may call, in a stable order so that prompt caches hit. They are
    /// shared: each turn of a step offers the same ones.
    pub tools: Arc<[OfferedTool]>,
    /// Options that differ from call to call.
    pub options: ChatOptions,
}

impl ChatRequest {
    /// A question with these messages, without tools and options.
    pub fn new(messages: impl IntoIterator<Item = Message>) -> Self {
        Self {
            messages: messages.into_iter().map(Arc::new).collect(),
            ..Self::default()
        }
    }

    /// The same question for a reply that is text alone. It offers no tools, and calls stand in it as text.
    ///
    /// Some servers, such as those of Amazon Bedrock, refuse a conversation with calls and results where no tools
    /// are offered. Providers send a result without its call as text too.
    #[must_use]
    pub fn without_tools(mut self) -> Self {
        self.tools = Arc::default();
        for message in &mut self.messages {
            if message.calls().next().is_some() {
                let parts = message.parts.iter().cloned().map(call_as_text);
                *message = Arc::new(Message {
                    role: message.role,
                    parts: parts.collect(),
                });
            }
        }
        self
    }
}

fn call_as_text(part: Part) -> Part {
    match part {
        Part::Call(ToolCall {
            id,
            name,
            arguments,
        }) => Part::Text(format!("\nTool call {id}: {name} {arguments}\n")),
        other => other,
    }
}

/// Options of one call; what is not set is the provider's default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChatOptions {
    /// Most tokens that the reply may have.
    pub max_output_tokens: Option<u32>,
    /// Sampling temperature.
    pub temperature: Option<f32>,
    /// The form of the reply.
    pub format: ResponseFormat,
}

/// A model's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatReply {
    /// Texts, tool calls and what only the provider can read, in order; the role is assistant.
    pub message: Message,
    /// What the call used up; the cost is computed from the model's prices.
    pub usage: Usage,
    /// Why it ended.
    pub finish: FinishReason,
    /// The model that answered, as the provider names it.
    pub model: String,
}

/// A piece of a streamed answer.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// More of the reply's text.
    AssistantTextDelta {
        /// The new text.
        text: String,
    },
    /// A tool call, whole.
    ToolCall(ToolCall),
    /// The end: the whole reply, as `chat` would have returned it.
    TurnComplete {
        /// The whole reply; its `finish` says why it ended.
        reply: Box<ChatReply>,
    },
    /// The stream broke; nothing follows.
    Error {
        /// What happened, for people.
        message: String,
        /// The same for programs: whether asking again may help, and when.
        error: ModelError,
    },
}

/// What is known of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// The provider: `offline`, `recorded`, `openai`, `anthropic` …
    pub provider: String,
    /// The model's name at its provider.
    pub name: String,
    /// Tokens that fit into one conversation.
    pub window_tokens: u64,
    /// It sees: it is sent pictures and documents. Otherwise a line of text stands for each of them.
    pub vision: bool,
    /// What it costs; none if no price is known, and then its tokens count as unpriced.
    pub prices: Option<Prices>,
}

/// A language model behind some provider.
///
/// Implementations are shared by all sessions of a process and keep nothing between calls. A
/// dropped future closes its connection. No error names a key.
#[async_trait]
pub trait Model: Send + Sync + std::fmt::Debug {
    /// Asks for a reply and waits for the whole of it. One call of the provider: retries are
    /// the business of [`crate::retry`].
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ModelError>;

    /// Asks for a reply piece by piece; the last item is `TurnComplete` or `Error`. A model that
    /// cannot stream gives its text in one piece.
    async fn chat_stream(
        &self,
        request: &ChatRequest,
    ) -> Result<BoxStream<'static, StreamEvent>, ModelError> {
        let reply = self.chat(request).await?;
        Ok(Box::pin(futures::stream::iter(reply_events(reply))))
    }

    /// Tokens that these messages would take, estimated without a call.
    fn estimate_tokens(&self, messages: &[Arc<Message>]) -> u64;

    /// What is known of the model.
    fn describe(&self) -> ModelInfo;
}
