//! The offline model: rules in the place of a language model.
//!
//! It makes the first run on a machine without any key worth seeing: it plans, lists, searches,
//! reads and writes a report in which every statement carries its source. It sees only the messages
//! that any model sees and acts only through tool calls; its replies are a pure function of the
//! request, it keeps nothing between calls, and it costs nothing. What rules cannot do gets a plain
//! no.

mod answer;
mod compare;
mod context;
mod desk;
mod headings;
mod notes;
mod plan;
mod query;
mod reading;
mod refusal;
mod report;
mod results;
mod search;
mod survey;
mod talk;
mod task;
mod text;
mod vocabulary;
mod words;

use self::context::StepContext;
use self::desk::{Desk, Outcome, Reply};
use self::notes::Notes;
use self::report::Subject;
use self::task::Task;
use crate::prices::Prices;
use crate::stream::word_events;
use crate::{ChatReply, ChatRequest, FinishReason, Model, ModelError, ModelInfo, StreamEvent};
use async_trait::async_trait;
use cairn_engine::message::{Message, Role, Usage};
use futures::stream::{self, BoxStream, StreamExt};
use std::time::Duration;

/// Name of the provider and of its only model.
const NAME: &str = "offline";

/// The offline default: rule-based and deterministic.
#[derive(Debug, Clone, Copy)]
pub struct Offline {
    pace: Duration,
}

impl Offline {
    /// An offline model that waits `pace` before each reply, so that a person can follow; zero for no
    /// wait. The replies do not depend on it.
    pub fn new(pace: Duration) -> Self {
        Self { pace }
    }

    async fn reply(&self, request: &ChatRequest) -> ChatReply {
        if !self.pace.is_zero() {
            tokio::time::sleep(self.pace).await;
        }
        let message = respond(request);
        let finish = if message.calls().next().is_none() {
            FinishReason::Stop
        } else {
            FinishReason::ToolCalls
        };
        ChatReply {
            message,
            usage: Usage {
                model_calls: 1,
                ..Usage::default()
            },
            finish,
            model: NAME.to_owned(),
        }
    }
}

#[async_trait]
impl Model for Offline {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        Ok(self.reply(request).await)
    }

    async fn chat_stream(
        &self,
        request: &ChatRequest,
    ) -> Result<BoxStream<'static, StreamEvent>, ModelError> {
        let reply = self.reply(request).await;
        Ok(stream::iter(word_events(reply)).boxed())
    }

    fn estimate_tokens(&self, _messages: &[Message]) -> u64 {
        0
    }

    fn describe(&self) -> ModelInfo {
        ModelInfo {
            provider: NAME.to_owned(),
            name: NAME.to_owned(),
            window_tokens: 1_000_000,
            prices: Some(Prices::FREE),
        }
    }
}

/// The reply to a request: a plan where no `step` tool is offered, else the next move of the step,
/// or of the conversation where there is no step.
fn respond(request: &ChatRequest) -> Message {
    if !request.tools.iter().any(|tool| tool.name == "step") {
        return Message::assistant(plan::answer(&request.messages), Vec::new());
    }
    if let Some((at, context)) = context::find(&request.messages) {
        let desk = Desk::new(&request.messages[at + 1..], &request.tools);
        let reply = match execute(&desk, &context) {
            Ok(outcome) => desk.finish(&outcome),
            Err(reply) => reply,
        };
        return desk.message(reply);
    }
    let last = request
        .messages
        .iter()
        .rposition(|message| message.role == Role::User);
    let after = last.map_or(0, |at| at + 1);
    let desk = Desk::new(&request.messages[after..], &request.tools);
    let question = last.map_or_else(String::new, |at| request.messages[at].text());
    let question = question
        .split("<system-reminder>")
        .next()
        .unwrap_or_default();
    match talk::turn(&desk, question) {
        Ok(text) => Message::assistant(text, Vec::new()),
        Err(reply) => desk.message(reply),
    }
}

/// How the step ends, or the reply that brings the end nearer.
fn execute(desk: &Desk<'_>, context: &StepContext) -> Result<Outcome, Reply> {
    let notes = Notes::parse(&context.scratchpad);
    match Task::parse(&context.description) {
        Task::Survey(scope) => survey::run(desk, &scope),
        Task::Search { scope, term } => search::run(desk, &scope, &term),
        Task::Read { scope, terms } => reading::matches(desk, &scope, &terms, &notes),
        Task::Outline(scope) => reading::heads(desk, &scope, &notes),
        Task::Compare { scope, terms } => Ok(compare::run(&scope, &terms, &notes).into()),
        Task::Report {
            scope,
            terms,
            left_out,
        } => {
            let subject = Subject {
                scope: &scope,
                terms: &terms,
                left_out: &left_out,
            };
            report::run(desk, context, &subject, &notes)
        }
        Task::Refuse(reason) => Ok(refused(&reason).into()),
        Task::Free(_) => talk::step(desk, context, &notes),
    }
}

/// The plain no.
fn refused(reason: &str) -> String {
    format!(
        "offline is rule-based and cannot {reason}; use a real model: set OPENAI_API_KEY or \
         --model"
    )
}
