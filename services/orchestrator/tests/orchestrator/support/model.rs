//! A real executor, for which the test plays the model.

use super::tools::{Tools, tools};
use cairn_engine::message::{Message, ToolCall, Usage};
use cairn_executor::{Config, Deps};
use cairn_model::{
    ChatReply, ChatRequest, FinishReason, Model, ModelError, ModelInfo, ModelRegistry,
};
use cairn_rpc::{Exposure, Link, ServerBuilder};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// The model is asked for the next reply of a step.
pub(crate) struct Question {
    /// Title of the step.
    pub(crate) step: String,
    /// The texts of all messages.
    pub(crate) texts: Vec<String>,
    /// The names of the tools that are offered.
    pub(crate) tools: Vec<String>,
    answer: oneshot::Sender<ChatReply>,
}

impl Question {
    /// Answers with text and calls, each a tool and its arguments, unless the question was given up.
    pub(crate) fn reply(self, text: &str, calls: &[(&str, &str)]) {
        let calls = calls.iter().enumerate();
        let calls = calls.map(|(at, (name, arguments))| ToolCall {
            id: format!("id-{at}"),
            name: (*name).to_owned(),
            arguments: (*arguments).to_owned(),
        });
        let reply = ChatReply {
            message: Message::assistant(text, calls.collect()),
            usage: Usage::default(),
            finish: FinishReason::Other,
            model: "played-1".to_owned(),
        };
        drop(self.answer.send(reply));
    }

    /// No executor waits for the answer any more.
    pub(crate) fn is_given_up(&self) -> bool {
        self.answer.is_closed()
    }
}

#[derive(Debug)]
struct Played {
    questions: mpsc::UnboundedSender<Question>,
    window_tokens: u64,
}

#[tonic::async_trait]
impl Model for Played {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        let (answer, wait) = oneshot::channel();
        let texts = request.messages.iter().map(|message| message.text());
        let texts: Vec<String> = texts.collect();
        let step = texts.iter().find(|text| text.contains("\nTitle: "));
        let step = step.expect("the step is in the question");
        let (_, step) = step.split_once("\nTitle: ").expect("it was found");
        let step = step.lines().next().unwrap_or_default().to_owned();
        // The test may be over, and then nobody answers.
        let tools = request.tools.iter().map(|tool| tool.name.clone());
        drop(self.questions.send(Question {
            step,
            texts,
            tools: tools.collect(),
            answer,
        }));
        match wait.await {
            Ok(reply) => Ok(reply),
            Err(_) => std::future::pending().await,
        }
    }

    fn estimate_tokens(&self, _messages: &[Arc<Message>]) -> u64 {
        0
    }

    fn describe(&self) -> ModelInfo {
        let info = ModelInfo {
            provider: "test".to_owned(),
            name: "played".to_owned(),
            window_tokens: 100_000,
            vision: false,
            prices: None,
        };
        ModelInfo {
            window_tokens: self.window_tokens,
            ..info
        }
    }
}

/// An executor and the questions to its model.
pub(crate) async fn real_executor() -> (Link, mpsc::UnboundedReceiver<Question>) {
    real_executor_with(Config::default(), 100_000).await
}

/// The same with these settings, and with a model that has such a window.
pub(crate) async fn real_executor_with(
    config: Config,
    window_tokens: u64,
) -> (Link, mpsc::UnboundedReceiver<Question>) {
    executor_of(config, window_tokens, &Tools::default()).await
}

/// An executor that sends its calls to these tools.
pub(crate) async fn real_executor_on(tools: &Tools) -> (Link, mpsc::UnboundedReceiver<Question>) {
    executor_of(Config::default(), 100_000, tools).await
}

async fn executor_of(
    config: Config,
    window_tokens: u64,
    called: &Tools,
) -> (Link, mpsc::UnboundedReceiver<Question>) {
    let (to_test, questions) = mpsc::unbounded_channel();
    let mut models = ModelRegistry::new();
    let played = Played {
        questions: to_test,
        window_tokens,
    };
    models.insert("played", Arc::new(played));
    let deps = Deps {
        models: Arc::new(models),
        tools: tools(called).await,
    };
    let (service, _) = cairn_executor::build(config, deps);
    let server = ServerBuilder::new(Exposure::Internal).register(service, cairn_proto::DESCRIPTORS);
    (server.build().await.expect("a server").link(), questions)
}
