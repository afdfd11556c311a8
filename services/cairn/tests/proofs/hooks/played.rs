//! The model and the tool of a run. Both note what comes to them.

use async_trait::async_trait;
use cairn_engine::hooks::Point;
use cairn_engine::message::Message;
use cairn_model::{ChatReply, ChatRequest, Model, ModelError, ModelInfo, Recorded};
use cairn_tools::{Call, Effect, Output, Tool, ToolError, ToolSpec};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The tool, and its result.
const TOOL: &str = "noted";
pub(super) const RESULT: &str = "what the tool gives";

/// A model that reaches a point.
#[derive(Debug)]
pub(super) struct Played {
    replies: Recorded,
    /// The first request fails, and another try may help.
    fails_first: bool,
    /// The texts of each request.
    requests: Mutex<Vec<String>>,
}

impl Played {
    pub(super) fn reaching(point: Point) -> Self {
        let call = json!({"text": "Let me see.", "tool_calls": [{"name": TOOL, "arguments": {}}]});
        let end = json!({"tool_calls": [{"name": "step", "arguments": {"complete": true, "summary": "done"}}]});
        let exchange = match point {
            Point::OnError => {
                json!({"match": {"step": ""}, "replies": [{"error": "auth", "text": "no"}], "repeat": true})
            }
            // Turns, and a summary of them.
            Point::OnCompaction => {
                json!({"match": {}, "replies": [{"text": "Fine."}], "repeat": true})
            }
            _ => {
                json!({"match": {"step": ""}, "replies": [call, end, end, end], "repeat": true})
            }
        };
        let replies = Recorded::parse("recorded", &format!("{exchange}\n"));
        Self {
            replies: replies.expect("a recording"),
            fails_first: point == Point::OnRetry,
            requests: Mutex::default(),
        }
    }

    /// The texts of all requests, in order.
    pub(super) fn requests(&self) -> Vec<String> {
        locked(&self.requests).clone()
    }
}

#[async_trait]
impl Model for Played {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        let texts: Vec<String> = request.messages.iter().map(|it| it.text()).collect();
        let number = {
            let mut requests = locked(&self.requests);
            requests.push(texts.join("\n"));
            requests.len()
        };
        if self.fails_first && number == 1 {
            return Err(ModelError::Server {
                status: 500,
                message: "not now".to_owned(),
            });
        }
        self.replies.chat(request).await
    }

    fn estimate_tokens(&self, messages: &[Arc<Message>]) -> u64 {
        self.replies.estimate_tokens(messages)
    }

    fn describe(&self) -> ModelInfo {
        self.replies.describe()
    }
}

/// A tool without an effect.
#[derive(Debug)]
pub(super) struct Noted {
    spec: ToolSpec,
    calls: Mutex<Vec<Value>>,
}

impl Noted {
    pub(super) fn new() -> Self {
        let mut spec = ToolSpec::new(TOOL, "notes its calls", json!({"type": "object"}));
        spec.effect = Effect::Pure;
        Self {
            spec,
            calls: Mutex::default(),
        }
    }

    /// The arguments of all calls, in order.
    pub(super) fn calls(&self) -> Vec<Value> {
        locked(&self.calls).clone()
    }
}

#[async_trait]
impl Tool for Noted {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, call: &Call) -> Result<Output, ToolError> {
        locked(&self.calls).push(call.arguments.clone());
        Ok(Output::text(RESULT))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
