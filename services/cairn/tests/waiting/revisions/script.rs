//! A model and a tool that do in each step what the case says, when it says so.

use cairn_engine::message::{Message, ToolCall, Usage};
use cairn_model::{ChatReply, ChatRequest, FinishReason, Model, ModelError, ModelInfo, tokens};
use cairn_tools::{Call, Effect, Output, Tool, ToolError, ToolSpec};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// What comes of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Outcome {
    /// It ends well.
    Ends,
    /// It ends badly.
    Fails,
    /// The model thinks about it, once.
    Thought,
}

/// What cases have said so far.
#[derive(Debug, Default)]
struct Said {
    /// By case and place of the step in its plan, from 1.
    steps: HashMap<(String, u32), Outcome>,
    /// Cases in which every step ends well.
    all: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Script {
    said: Mutex<Said>,
    changed: Notify,
}

impl Script {
    /// The step at that place comes to this.
    pub(crate) fn say(&self, case: &str, place: u32, outcome: Outcome) {
        self.lock().steps.insert((case.to_owned(), place), outcome);
        self.changed.notify_waiters();
    }

    /// Every step ends well.
    pub(crate) fn say_all(&self, case: &str) {
        self.lock().all.push(case.to_owned());
        self.changed.notify_waiters();
    }

    /// Nothing more ends.
    pub(crate) fn hold(&self, case: &str) {
        let mut said = self.lock();
        said.all.retain(|known| known != case);
        said.steps.retain(|(known, _), _| known != case);
    }

    /// Waits until the case has said it.
    async fn outcome(&self, case: &str, place: u32) -> Outcome {
        loop {
            let changed = self.changed.notified();
            if let Some(outcome) = self.lock().outcome(case, place) {
                return outcome;
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Said {
    fn outcome(&mut self, case: &str, place: u32) -> Option<Outcome> {
        if self.all.iter().any(|known| known == case) {
            return Some(Outcome::Ends);
        }
        let key = (case.to_owned(), place);
        match self.steps.get(&key).copied() {
            Some(Outcome::Thought) => self.steps.remove(&key),
            known => known,
        }
    }
}

/// The model. The case is the goal of its run.
#[derive(Debug)]
pub(crate) struct Played(pub(crate) Arc<Script>);

fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(begin).expect("a beginning");
    rest.split_once(end).expect("an end").0
}

#[async_trait::async_trait]
impl Model for Played {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        let reported = &request.messages[1].text();
        let case = between(reported, "## Requirement\n", "\n");
        let place = between(reported, "## Current step (step ", ")");
        let outcome = self.0.outcome(case, place.parse().expect("a place")).await;
        let ends = ToolCall {
            id: "ends".to_owned(),
            name: "step".to_owned(),
            arguments: r#"{"complete": true, "summary": "done"}"#.to_owned(),
        };
        let (text, calls, finish) = match outcome {
            Outcome::Ends => ("", vec![ends], FinishReason::ToolCalls),
            Outcome::Thought => ("hm", Vec::new(), FinishReason::Stop),
            Outcome::Fails => {
                let message = "it was to fail".to_owned();
                return Err(ModelError::BadRequest { message });
            }
        };
        Ok(ChatReply {
            message: Message::assistant(text.to_owned(), calls),
            usage: Usage::default(),
            finish,
            model: "played".to_owned(),
        })
    }

    fn estimate_tokens(&self, messages: &[Arc<Message>]) -> u64 {
        tokens::estimate_tokens(messages)
    }

    fn describe(&self) -> ModelInfo {
        ModelInfo {
            provider: "test".to_owned(),
            name: "played".to_owned(),
            window_tokens: 8000,
            vision: false,
            prices: None,
        }
    }
}

/// The place of every tool step in the plans of the table.
const TOOL_PLACE: u32 = 3;

/// The tool `look`, which is pure. The case is the session that it is called in.
pub(crate) struct Scripted(ToolSpec, Arc<Script>);

impl Scripted {
    pub(crate) fn tool(script: Arc<Script>) -> Arc<dyn Tool> {
        let schema = serde_json::json!({"type": "object"});
        let mut spec = ToolSpec::new("look", "looks around", schema);
        spec.effect = Effect::Pure;
        spec.time_limit = Duration::from_secs(600);
        Arc::new(Self(spec, script))
    }
}

#[async_trait::async_trait]
impl Tool for Scripted {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, call: &Call) -> Result<Output, ToolError> {
        self.1.outcome(&call.session, TOOL_PLACE).await;
        Ok(Output::text("looked"))
    }
}
