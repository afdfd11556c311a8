//! The offline model: fixed rules in place of a language model.
//!
//! It lets a first run work without a key. It plans a goal, lists, searches and reads files, and writes
//! a report that names the place of each line it quotes. In a conversation it answers from files,
//! session memory and earlier messages. A request for code gets files that only name their task. A reply
//! follows from the request alone, so an attempt that is continued anywhere comes to the same end.

mod ask;
mod chat;
mod code;
mod context;
mod desk;
mod look;
mod plan;
mod step;
mod summary;
mod words;

use self::desk::Desk;
use crate::prices::Prices;
use crate::prompt::PLANNING;
use crate::stream::word_events;
use crate::{ChatReply, ChatRequest, FinishReason, Model, ModelError, ModelInfo, StreamEvent};
use async_trait::async_trait;
use cairn_engine::message::{Message, Role, Usage};
use futures::stream::{self, BoxStream, StreamExt};
use std::sync::Arc;
use std::time::Duration;

/// Name of the provider and of its only model.
const NAME: &str = "offline";

/// The default model without a key: deterministic, free, and without network.
#[derive(Debug, Clone, Copy)]
pub struct Offline {
    pace: Duration,
}

impl Offline {
    /// An offline model that waits `pace` before each reply, so that a person can follow.
    pub fn new(pace: Duration) -> Self {
        Self { pace }
    }
}

#[async_trait]
impl Model for Offline {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        if !self.pace.is_zero() {
            tokio::time::sleep(self.pace).await;
        }
        let message = respond(request);
        let finish = match message.calls().next() {
            None => FinishReason::Stop,
            Some(_) => FinishReason::ToolCalls,
        };
        let usage = Usage {
            model_calls: 1,
            ..Usage::default()
        };
        Ok(ChatReply {
            message,
            usage,
            finish,
            model: NAME.to_owned(),
        })
    }

    async fn chat_stream(
        &self,
        request: &ChatRequest,
    ) -> Result<BoxStream<'static, StreamEvent>, ModelError> {
        let events = word_events(self.chat(request).await?);
        Ok(stream::iter(events).boxed())
    }

    fn estimate_tokens(&self, _messages: &[Arc<Message>]) -> u64 {
        0
    }

    fn describe(&self) -> ModelInfo {
        ModelInfo {
            provider: NAME.to_owned(),
            name: NAME.to_owned(),
            window_tokens: 1_000_000,
            vision: false,
            prices: Some(Prices::FREE),
        }
    }
}

/// A plan for the planner, files for a task, a summary, the next calls for a step, or an answer in a conversation.
fn respond(request: &ChatRequest) -> Message {
    let (messages, tools) = (&request.messages, &request.tools);
    let is_planning = messages.first().is_some_and(|first| {
        first.role == Role::System && first.text().starts_with(PLANNING.trim_end())
    });
    if is_planning {
        return Message::assistant(plan::plan(messages), Vec::new());
    }
    if let Some(text) = code::wanted(messages).or_else(|| summary::wanted(messages)) {
        return Message::assistant(text, Vec::new());
    }
    let is_step = tools.iter().any(|tool| tool.name == "step");
    if let Some((at, context)) = context::find(messages).filter(|_| is_step) {
        let desk = Desk::new(messages, at, tools);
        let reply = match step::carry_out(&desk, &context) {
            Ok(found) => desk.finish(&found),
            Err(reply) => reply,
        };
        return desk.message(reply);
    }
    let at = chat::question_at(messages);
    let desk = Desk::new(messages, at, tools);
    match chat::answer(&desk, messages, at) {
        Ok(text) => Message::assistant(text, Vec::new()),
        Err(reply) => desk.message(reply),
    }
}
