//! The three peers of the executor, each with a handle for the test.

use cairn_engine::message::{Message, ToolCall, Usage};
use cairn_executor::{Config, Deps};
use cairn_model::{
    ChatReply, ChatRequest, FinishReason, Model, ModelError, ModelInfo, ModelRegistry, StreamEvent,
};
use cairn_proto::event::{self, AttemptRef, CallRef, Effect};
use cairn_proto::executor::executor_service_client::ExecutorServiceClient;
use cairn_proto::executor::run_step_request::Message as ToExecutor;
use cairn_proto::executor::{
    Acknowledgement, AttemptStart, CallResult, OfferedTool, PermittedCall, RunStepRequest,
    RunStepResponse,
};
use cairn_proto::tools::tools_service_server::{ToolsService, ToolsServiceServer};
use cairn_proto::tools::{
    InvokeToolRequest, InvokeToolResponse, ListToolsRequest, ListToolsResponse,
};
use cairn_rpc::{Exposure, Link, Namespace, ServerBuilder, identity, with_namespace};
use futures::stream::BoxStream;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// What a model answers.
pub(crate) type Answer = Result<ChatReply, ModelError>;

/// A question to the model. Dropping it makes the model panic.
pub(crate) struct Asked {
    pub(crate) request: ChatRequest,
    answer: oneshot::Sender<Answer>,
}

impl Asked {
    /// Answers with text and calls, each a name and its arguments.
    pub(crate) fn reply(self, text: &str, calls: &[(&str, &str)]) {
        self.answer(Ok(reply(text, calls)));
    }

    pub(crate) fn answer(self, answer: Answer) {
        self.answer.send(answer).expect("the executor waits for the model");
    }

    /// Waits until the question is given up.
    pub(crate) async fn dropped(mut self) {
        within(self.answer.closed()).await;
    }

    /// The messages after the step's context.
    pub(crate) fn said(&self) -> &[Message] {
        &self.request.messages[2..]
    }
}

/// A reply with calls whose ids are their positions.
pub(crate) fn reply(text: &str, calls: &[(&str, &str)]) -> ChatReply {
    let calls = calls.iter().enumerate().map(|(at, (name, arguments))| ToolCall {
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
        },
        finish: FinishReason::Other,
        model: "played-1".to_owned(),
    }
}

#[derive(Debug)]
struct PlayedModel(mpsc::UnboundedSender<Asked>);

#[tonic::async_trait]
impl Model for PlayedModel {
    async fn chat(&self, request: &ChatRequest) -> Answer {
        let (answer, wait) = oneshot::channel();
        let request = request.clone();
        self.0.send(Asked { request, answer }).expect("the test listens");
        wait.await.expect("the test answers")
    }

    async fn chat_stream(
        &self,
        _request: &ChatRequest,
    ) -> Result<BoxStream<'static, StreamEvent>, ModelError> {
        unreachable!("the executor does not stream")
    }

    fn estimate_tokens(&self, _messages: &[Message]) -> u64 {
        0
    }

    fn describe(&self) -> ModelInfo {
        ModelInfo {
            provider: "test".to_owned(),
            name: "played".to_owned(),
            window_tokens: 1000,
            input_nano_usd_per_million: 0,
            output_nano_usd_per_million: 0,
        }
    }
}

/// A call that has arrived at the tools service.
pub(crate) struct Called {
    pub(crate) request: InvokeToolRequest,
    pub(crate) namespace: String,
    answer: oneshot::Sender<Result<InvokeToolResponse, Status>>,
}

impl Called {
    pub(crate) fn output(self, output: &str) {
        self.answer(Ok(InvokeToolResponse {
            output: output.to_owned(),
            ..InvokeToolResponse::default()
        }));
    }

    pub(crate) fn answer(self, answer: Result<InvokeToolResponse, Status>) {
        self.answer.send(answer).expect("the executor waits for the call");
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
    async fn list_tools(
        &self,
        _request: Request<ListToolsRequest>,
    ) -> Result<Response<ListToolsResponse>, Status> {
        Err(Status::unimplemented("the executor does not list tools"))
    }

    async fn invoke_tool(
        &self,
        request: Request<InvokeToolRequest>,
    ) -> Result<Response<InvokeToolResponse>, Status> {
        let namespace = identity(&request)?.namespace().to_string();
        let (answer, wait) = oneshot::channel();
        let request = request.into_inner();
        let called = Called {
            request,
            namespace,
            answer,
        };
        self.0.send(called).expect("the test listens");
        wait.await.expect("the test answers").map(Response::new)
    }
}

/// An executor with its peers.
pub(crate) struct Bench {
    pub(crate) client: ExecutorServiceClient<Link>,
    pub(crate) model: mpsc::UnboundedReceiver<Asked>,
    pub(crate) tools: mpsc::UnboundedReceiver<Called>,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::with(Config::default()).await
    }

    pub(crate) async fn with(config: Config) -> Self {
        let (called, tools) = mpsc::unbounded_channel();
        let service = ToolsServiceServer::new(PlayedTools(called));
        let builder = ServerBuilder::new(Exposure::Internal);
        let server = builder.register(service, cairn_proto::DESCRIPTORS).build().await;
        let (asked, model) = mpsc::unbounded_channel();
        let mut models = ModelRegistry::new();
        models.insert("played", Arc::new(PlayedModel(asked)));
        Self {
            client: executor(config, models, server.expect("a server").link()).await,
            model,
            tools,
        }
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
) -> ExecutorServiceClient<Link> {
    let deps = Deps {
        models: Arc::new(models),
        tools,
    };
    let service = cairn_executor::build(config, deps);
    let builder = ServerBuilder::new(Exposure::Internal);
    let server = builder.register(service, cairn_proto::DESCRIPTORS).build().await;
    ExecutorServiceClient::new(server.expect("a server").link())
}

/// The owner's end of a stream.
pub(crate) struct Owner {
    pub(crate) to_executor: mpsc::UnboundedSender<RunStepRequest>,
    pub(crate) reports: Streaming<RunStepResponse>,
}

impl Owner {
    pub(crate) async fn open(
        client: &ExecutorServiceClient<Link>,
        start: AttemptStart,
    ) -> Result<Self, Status> {
        let (to_executor, requests) = mpsc::unbounded_channel();
        let request = Request::new(UnboundedReceiverStream::new(requests));
        let request = with_namespace(request, &namespace());
        let reports = client.clone().run_step(request).await?.into_inner();
        let owner = Self {
            to_executor,
            reports,
        };
        owner.send(ToExecutor::Start(start));
        Ok(owner)
    }

    pub(crate) fn send(&self, message: ToExecutor) {
        let request = RunStepRequest {
            message: Some(message),
        };
        self.to_executor.send(request).expect("the executor listens");
    }

    /// The next report.
    pub(crate) async fn report(&mut self) -> RunStepResponse {
        let report = within(self.reports.message()).await.expect("no error");
        report.expect("a report")
    }

    /// Fails if a report comes before nothing moves any more.
    pub(crate) async fn hears_nothing(&mut self) {
        let quiet = Duration::from_secs(30);
        let report = tokio::time::timeout(quiet, self.reports.message()).await;
        assert!(report.is_err(), "a report: {report:?}");
    }

    pub(crate) fn ack(&self, through_number: u64) {
        self.ack_with(through_number, Vec::new(), Vec::new());
    }

    pub(crate) fn ack_with(
        &self,
        through_number: u64,
        permitted_calls: Vec<PermittedCall>,
        results: Vec<CallResult>,
    ) {
        self.send(ToExecutor::Acknowledgement(Acknowledgement {
            through_number,
            permitted_calls,
            results,
            ended: false,
            lease_until_unix_ms: 15_000,
        }));
    }

    /// Ends the attempt, and waits until the executor has closed the stream.
    pub(crate) async fn end(mut self, through_number: u64) {
        self.send(ToExecutor::Acknowledgement(Acknowledgement {
            through_number,
            ended: true,
            ..Acknowledgement::default()
        }));
        let last = within(self.reports.message()).await.expect("no error");
        assert_eq!(last, None);
    }

    /// The error that the stream ends with.
    pub(crate) async fn error(&mut self) -> cairn_rpc::RpcError {
        let status = within(self.reports.message()).await.expect_err("an error");
        cairn_rpc::RpcError::from_status(&status)
    }
}

/// What has to happen; a test that waits in vain fails after a time that passes at once.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(3600);
    tokio::time::timeout(limit, future).await.expect("something happens")
}

pub(crate) fn namespace() -> Namespace {
    "tenant-a".parse().expect("a namespace")
}

pub(crate) fn attempt() -> AttemptRef {
    AttemptRef {
        run: 1,
        step: 2,
        attempt: 3,
    }
}

pub(crate) fn call_ref(tool_turn: u32, index: u32) -> CallRef {
    CallRef {
        attempt: Some(attempt()),
        tool_turn,
        index,
    }
}

pub(crate) fn permit(
    at: CallRef,
    name: &str,
    arguments: &str,
    effect: Effect,
) -> PermittedCall {
    PermittedCall {
        tool_call: Some(event::ToolCall {
            id: format!("id-{}", at.index),
            name: name.to_owned(),
            arguments_json: arguments.to_owned(),
        }),
        call_key: format!("key-{}-{}", at.tool_turn, at.index),
        not_after_unix_ms: 9_000,
        effect: effect.into(),
        call: Some(at),
    }
}

pub(crate) fn owners_result(at: CallRef, output: &str) -> CallResult {
    CallResult {
        call: Some(at),
        output: output.to_owned(),
        ..CallResult::default()
    }
}

/// The start of a step for the model, with one tool of each effect.
pub(crate) fn model_step() -> AttemptStart {
    let tool = |name: &str, effect: Effect| OfferedTool {
        name: name.to_owned(),
        description: format!("the tool {name}"),
        parameters_json: r#"{"type":"object"}"#.to_owned(),
        effect: effect.into(),
    };
    AttemptStart {
        session: "s-1".to_owned(),
        attempt: Some(attempt()),
        prompt_layers: vec!["You are a tester.\n".to_owned(), String::new(), "Pool: 1".to_owned()],
        step_context: "## Requirement\ntest".to_owned(),
        tools: vec![
            tool("look", Effect::Pure),
            tool("put", Effect::Idempotent),
            tool("send", Effect::Effectful),
            tool("step", Effect::State),
        ],
        max_tool_turns: 5,
        lease_until_unix_ms: 15_000,
        ..AttemptStart::default()
    }
}

/// Results as call position and output.
pub(crate) fn outputs(report: &RunStepResponse) -> Vec<(u32, &str)> {
    let position = |result: &CallResult| result.call.expect("a call").index;
    let results = report.results.iter();
    results.map(|result| (position(result), result.output.as_str())).collect()
}
