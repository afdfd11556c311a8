//! The three peers of the executor, each with a handle for the test.

use crate::owner::{Owner, catalogue, model_step};
use cairn_engine::message::{Message, ToolCall, Usage};
use cairn_executor::{Config, Deps, Running};
use cairn_model::{
    ChatReply, ChatRequest, FinishReason, Model, ModelError, ModelInfo, ModelRegistry, StreamEvent,
};
use cairn_proto::executor::AttemptStart;
use cairn_proto::executor::executor_service_client::ExecutorServiceClient;
use cairn_proto::tools::invoke_tool_response::Message as ToolMessage;
use cairn_proto::tools::tools_service_server::{ToolsService, ToolsServiceServer};
use cairn_proto::tools::{
    AllowToolRequest, AllowToolResponse, CancelCallRequest, CancelCallResponse,
    ConfirmWorkspaceFilesRequest, ConfirmWorkspaceFilesResponse, InvokeToolRequest,
    InvokeToolResponse, ListToolsRequest, ListToolsResponse, PreviewToolRequest,
    PreviewToolResponse, ReadSkillFileRequest, ReadSkillFileResponse, ReadWorkspaceFilesRequest,
    ReadWorkspaceFilesResponse, ToolResult,
};
use cairn_rpc::{Exposure, Link, Principal, ServerBuilder, principal};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Request, Response, Status};

/// Tokens that fit into a request, unless a test says less: no request of a test has as many.
const WINDOW: u64 = 10_000_000;

/// What a model answers.
pub(crate) type Answer = Result<ChatReply, ModelError>;

/// A question to the model. Dropping it makes the model panic.
pub(crate) struct Asked {
    pub(crate) request: ChatRequest,
    text: mpsc::UnboundedSender<String>,
    answer: oneshot::Sender<Answer>,
}

impl Asked {
    /// Answers with text and calls, each a name and its arguments.
    pub(crate) fn reply(self, text: &str, calls: &[(&str, &str)]) {
        self.answer(Ok(reply(text, calls)));
    }

    pub(crate) fn answer(self, answer: Answer) {
        self.answer
            .send(answer)
            .expect("the executor waits for the model");
    }

    /// More text of a reply that is still being written.
    pub(crate) fn writes(&self, text: &str) {
        self.text
            .send(text.to_owned())
            .expect("the executor reads what the model writes");
    }

    /// Waits until the question is given up.
    pub(crate) async fn dropped(mut self) {
        within(self.answer.closed()).await;
    }

    /// The messages after the step's context.
    pub(crate) fn said(&self) -> Vec<Message> {
        let said = self.request.messages[2..].iter();
        said.map(|message| Message::clone(message)).collect()
    }
}

/// A reply with calls whose ids are their positions.
pub(crate) fn reply(text: &str, calls: &[(&str, &str)]) -> ChatReply {
    let calls = calls
        .iter()
        .enumerate()
        .map(|(at, (name, arguments))| ToolCall {
            id: format!("id-{at}"),
            name: (*name).to_owned(),
            arguments: (*arguments).to_owned(),
        });
    ChatReply {
        message: Message::assistant(text, calls.collect()),
        usage: Usage {
            input_tokens: 5,
            output_tokens: 2,
            cost_nano_usd: 1,
            model_calls: 1,
            ..Usage::default()
        },
        finish: FinishReason::Other,
        model: "played-1".to_owned(),
    }
}

#[derive(Debug)]
struct PlayedModel {
    asked: mpsc::UnboundedSender<Asked>,
    window: u64,
}

#[tonic::async_trait]
impl Model for PlayedModel {
    async fn chat(&self, _request: &ChatRequest) -> Answer {
        unreachable!("the executor streams")
    }

    async fn chat_stream(
        &self,
        request: &ChatRequest,
    ) -> Result<BoxStream<'static, StreamEvent>, ModelError> {
        let (text, mut written) = mpsc::unbounded_channel();
        let (answer, mut wait) = oneshot::channel();
        let request = request.clone();
        let asked = Asked {
            request,
            text,
            answer,
        };
        self.asked.send(asked).expect("the test listens");
        tokio::select! {
            biased;
            Some(text) = written.recv() => Ok(begun(text, written, wait)),
            answer = &mut wait => {
                let reply = answer.expect("the test answers")?;
                Ok(stream::iter(cairn_model::stream::reply_events(reply)).boxed())
            }
        }
    }

    fn estimate_tokens(&self, messages: &[Arc<Message>]) -> u64 {
        cairn_model::tokens::estimate_tokens(messages)
    }

    fn describe(&self) -> ModelInfo {
        ModelInfo {
            provider: "test".to_owned(),
            name: "played".to_owned(),
            window_tokens: self.window,
            vision: false,
            prices: None,
        }
    }
}

/// The rest of a reply whose first text has come.
fn begun(
    first: String,
    written: mpsc::UnboundedReceiver<String>,
    wait: oneshot::Receiver<Answer>,
) -> BoxStream<'static, StreamEvent> {
    let texts = stream::once(async { first }).chain(UnboundedReceiverStream::new(written));
    let end = stream::once(async {
        match wait.await.expect("the test answers") {
            Ok(reply) => StreamEvent::TurnComplete {
                reply: Box::new(reply),
            },
            Err(error) => StreamEvent::from(error),
        }
    });
    let deltas = texts.map(|text| StreamEvent::AssistantTextDelta { text });
    deltas.chain(end).boxed()
}

/// What the tools service sends of a call.
pub(crate) type Messages = BoxStream<'static, Result<InvokeToolResponse, Status>>;

/// The last message of a call.
pub(crate) fn result(result: ToolResult) -> Result<InvokeToolResponse, Status> {
    Ok(InvokeToolResponse {
        message: Some(ToolMessage::Result(result)),
    })
}

/// A part of a long result.
pub(crate) fn part(text: &str) -> Result<InvokeToolResponse, Status> {
    Ok(InvokeToolResponse {
        message: Some(ToolMessage::Part(text.to_owned())),
    })
}

/// A call that has arrived at the tools service.
pub(crate) struct Called {
    pub(crate) request: InvokeToolRequest,
    pub(crate) principal: Principal,
    answer: oneshot::Sender<Result<Messages, Status>>,
}

impl Called {
    pub(crate) fn output(self, output: &str) {
        self.answer(Ok(ToolResult {
            output: output.to_owned(),
            ..ToolResult::default()
        }));
    }

    pub(crate) fn answer(self, answer: Result<ToolResult, Status>) {
        self.answer_with(answer.map(|answer| stream::iter([result(answer)]).boxed()));
    }

    /// Sends these messages, the result last.
    pub(crate) fn streams(self, messages: Messages) {
        self.answer_with(Ok(messages));
    }

    fn answer_with(self, answer: Result<Messages, Status>) {
        let sent = self.answer.send(answer);
        assert!(sent.is_ok(), "the executor waits for the call");
    }

    /// Waits until the call is given up.
    pub(crate) async fn dropped(mut self) {
        within(self.answer.closed()).await;
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.answer.is_closed()
    }
}

struct PlayedTools(mpsc::UnboundedSender<Called>);

#[tonic::async_trait]
impl ToolsService for PlayedTools {
    type InvokeToolStream = Messages;

    async fn list_tools(
        &self,
        _request: Request<ListToolsRequest>,
    ) -> Result<Response<ListToolsResponse>, Status> {
        Err(Status::unimplemented("the executor does not list tools"))
    }

    async fn invoke_tool(
        &self,
        request: Request<InvokeToolRequest>,
    ) -> Result<Response<Self::InvokeToolStream>, Status> {
        let principal = principal(&request)?.clone();
        let (answer, wait) = oneshot::channel();
        let request = request.into_inner();
        let called = Called {
            request,
            principal,
            answer,
        };
        self.0.send(called).expect("the test listens");
        let messages = wait.await.expect("the test answers")?;
        Ok(Response::new(messages))
    }

    async fn preview_tool(
        &self,
        _request: Request<PreviewToolRequest>,
    ) -> Result<Response<PreviewToolResponse>, Status> {
        Err(Status::unimplemented("the executor previews no writes"))
    }

    async fn cancel_call(
        &self,
        _request: Request<CancelCallRequest>,
    ) -> Result<Response<CancelCallResponse>, Status> {
        Err(Status::unimplemented("the executor interrupts no calls"))
    }

    async fn allow_tool(
        &self,
        _request: Request<AllowToolRequest>,
    ) -> Result<Response<AllowToolResponse>, Status> {
        Err(Status::unimplemented("the executor allows no tools"))
    }

    async fn read_workspace_files(
        &self,
        _: Request<ReadWorkspaceFilesRequest>,
    ) -> Result<Response<ReadWorkspaceFilesResponse>, Status> {
        Err(Status::unimplemented("the workspace has no files"))
    }

    async fn confirm_workspace_files(
        &self,
        _: Request<ConfirmWorkspaceFilesRequest>,
    ) -> Result<Response<ConfirmWorkspaceFilesResponse>, Status> {
        Err(Status::unimplemented("the workspace has no files"))
    }

    async fn read_skill_file(
        &self,
        _: Request<ReadSkillFileRequest>,
    ) -> Result<Response<ReadSkillFileResponse>, Status> {
        Err(Status::unimplemented("the workspace has no files"))
    }
}

/// An executor with its peers.
pub(crate) struct Bench {
    pub(crate) client: ExecutorServiceClient<Link>,
    pub(crate) running: Running,
    pub(crate) model: mpsc::UnboundedReceiver<Asked>,
    pub(crate) tools: mpsc::UnboundedReceiver<Called>,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::with(Config::default()).await
    }

    pub(crate) async fn with(config: Config) -> Self {
        Self::of(config, WINDOW).await
    }

    /// With a model whose window has so many tokens.
    pub(crate) async fn with_window(window: u64) -> Self {
        Self::of(Config::default(), window).await
    }

    async fn of(config: Config, window: u64) -> Self {
        let (called, tools) = mpsc::unbounded_channel();
        let service = ToolsServiceServer::new(PlayedTools(called));
        let builder = ServerBuilder::new(Exposure::Internal);
        let server = builder
            .register(service, cairn_proto::DESCRIPTORS)
            .build()
            .await;
        let (asked, model) = mpsc::unbounded_channel();
        let mut models = ModelRegistry::new();
        models.insert("played", Arc::new(PlayedModel { asked, window }));
        let tools_link = server.expect("a server").link();
        let (client, running) = executor(config, models, tools_link).await;
        let mut bench = Self {
            client,
            running,
            model,
            tools,
        };
        bench.learn_catalogue().await;
        bench
    }

    /// An attempt that is given up: the executor has the catalogue from then on.
    async fn learn_catalogue(&mut self) {
        let mut owner = self.start(model_step()).await;
        owner.lacks(catalogue()).await;
        let asked = self.asked().await;
        drop(owner);
        asked.dropped().await;
    }

    /// Opens a stream and sends the start.
    pub(crate) async fn start(&self, start: AttemptStart) -> Owner {
        Owner::open(&self.client, start).await.expect("a slot")
    }

    pub(crate) async fn asked(&mut self) -> Asked {
        within(self.model.recv()).await.expect("the model is asked")
    }

    pub(crate) async fn called(&mut self) -> Called {
        within(self.tools.recv()).await.expect("a tool is called")
    }

    /// Waits until nothing moves any more, and fails if the model or a tool has been asked.
    pub(crate) async fn is_quiet(&mut self) {
        let quiet = Duration::from_secs(30);
        let asked = tokio::time::timeout(quiet, self.model.recv()).await;
        assert!(asked.is_err(), "the model is asked");
        assert!(self.tools.try_recv().is_err(), "a tool is called");
    }
}

pub(crate) async fn executor(
    config: Config,
    models: ModelRegistry,
    tools: Link,
) -> (ExecutorServiceClient<Link>, Running) {
    let deps = Deps {
        models: Arc::new(models),
        tools,
    };
    let (service, running) = cairn_executor::build(config, deps);
    let builder = ServerBuilder::new(Exposure::Internal);
    let server = builder
        .register(service, cairn_proto::DESCRIPTORS)
        .build()
        .await;
    let client = ExecutorServiceClient::new(server.expect("a server").link());
    (client, running)
}

/// What has to happen; a test that waits in vain fails after a time that passes at once.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(3600);
    tokio::time::timeout(limit, future)
        .await
        .expect("something happens")
}
