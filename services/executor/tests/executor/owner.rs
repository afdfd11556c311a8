//! The owner's end of a stream, and what it sends.

use crate::bench::within;
use cairn_engine::conversation::{Conversation, Layer, LayerKind, Op};
use cairn_engine::message::Message;
use cairn_proto::START_BYTES;
use cairn_proto::event::{self, AttemptRef, CallRef, Effect};
use cairn_proto::executor::executor_service_client::ExecutorServiceClient;
use cairn_proto::executor::run_step_request::Message as ToExecutor;
use cairn_proto::executor::{
    Acknowledgement, AttemptStart, CallResult, Catalogue, OfferedTool, PermittedCall,
    RunStepRequest, RunStepResponse,
};
use cairn_rpc::{Link, Namespace, Principal, RpcError, with_principal};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Request, Status, Streaming};

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
        Self::open_large(client, start, 0).await
    }

    /// Names the bytes of the start before it is sent.
    pub(crate) async fn open_large(
        client: &ExecutorServiceClient<Link>,
        start: AttemptStart,
        bytes: usize,
    ) -> Result<Self, Status> {
        let (to_executor, requests) = mpsc::unbounded_channel();
        let request = Request::new(UnboundedReceiverStream::new(requests));
        let mut request = with_principal(request, &principal());
        let metadata = request.metadata_mut();
        metadata.insert(START_BYTES, (bytes as u64).into());
        let reports = client.clone().run_step(request).await?.into_inner();
        let owner = Self {
            to_executor,
            reports,
        };
        owner.send(ToExecutor::Start(Box::new(start)));
        Ok(owner)
    }

    pub(crate) fn send(&self, message: ToExecutor) {
        let request = RunStepRequest {
            message: Some(message),
        };
        self.to_executor
            .send(request)
            .expect("the executor listens");
    }

    /// The next report.
    pub(crate) async fn report(&mut self) -> RunStepResponse {
        let report = within(self.reports.message()).await.expect("no error");
        report.expect("a report")
    }

    /// The executor asks for the catalogue, and is sent this one.
    pub(crate) async fn lacks(&mut self, catalogue: Catalogue) {
        let first = self.report().await;
        assert!(first.lacks_catalogue, "{first:?}");
        self.send(ToExecutor::Catalogue(catalogue));
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
            ..Acknowledgement::default()
        }));
    }

    /// Acknowledges, and changes the conversation.
    pub(crate) fn changes(&self, through_number: u64, ops: Vec<Op>) {
        self.send(ToExecutor::Acknowledgement(Acknowledgement {
            through_number,
            ops: ops.into_iter().map(Into::into).collect(),
            ..Acknowledgement::default()
        }));
    }

    /// Acknowledges, and names the catalogue from the next request on.
    pub(crate) fn switch(&self, through_number: u64, catalogue: &str) {
        self.send(ToExecutor::Acknowledgement(Acknowledgement {
            through_number,
            catalogue: catalogue.to_owned(),
            ..Acknowledgement::default()
        }));
    }

    /// Acknowledges, and holds calls.
    pub(crate) fn hold(&self, through_number: u64, held_calls: Vec<CallRef>) {
        self.send(ToExecutor::Acknowledgement(Acknowledgement {
            through_number,
            held_calls,
            ..Acknowledgement::default()
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
    pub(crate) async fn error(&mut self) -> RpcError {
        let status = within(self.reports.message()).await.expect_err("an error");
        RpcError::from_status(&status)
    }
}

pub(crate) fn namespace() -> Namespace {
    "tenant-a".parse().expect("a namespace")
}

pub(crate) fn principal() -> Principal {
    Principal::service("orchestrator", namespace())
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

pub(crate) fn permit(at: CallRef, name: &str, arguments: &str, effect: Effect) -> PermittedCall {
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
        tool_digest: "the tool".to_owned(),
        ..PermittedCall::default()
    }
}

pub(crate) fn owners_result(at: CallRef, output: &str) -> CallResult {
    CallResult {
        call: Some(at),
        output: output.to_owned(),
        ..CallResult::default()
    }
}

/// One tool of each effect.
pub(crate) fn catalogue() -> Catalogue {
    let tool = |name: &str, effect: Effect| OfferedTool {
        name: name.to_owned(),
        description: format!("the tool {name}"),
        parameters_json: r#"{"type":"object"}"#.to_owned(),
        effect: effect.into(),
        is_allowed: name != "peek",
        ..OfferedTool::default()
    };
    Catalogue {
        tools: vec![
            tool("look", Effect::Pure),
            tool("peek", Effect::Pure),
            tool("put", Effect::Idempotent),
            tool("send", Effect::Effectful),
            tool("step", Effect::State),
        ],
    }
}

/// What a step for the model begins with.
pub(crate) fn conversation() -> Conversation {
    Conversation {
        system: vec![
            Layer::new(LayerKind::Prompt, "You are a tester.\n"),
            Layer::new(LayerKind::Environment, ""),
            Layer::new(LayerKind::Memory, "Pool: 1"),
        ],
        ..Conversation::beginning_with([Message::user("## Requirement\ntest")])
    }
}

/// The start of a step for the model.
pub(crate) fn model_step() -> AttemptStart {
    AttemptStart {
        session: "s-1".to_owned(),
        attempt: Some(attempt()),
        conversation: Some(conversation().into()),
        catalogue: "one of each effect".to_owned(),
        max_tool_turns: 5,
        ..AttemptStart::default()
    }
}

/// Results as call position and output.
pub(crate) fn outputs(report: &RunStepResponse) -> Vec<(u32, &str)> {
    let position = |result: &CallResult| result.call.expect("a call").index;
    let results = report.results.iter();
    results
        .map(|result| (position(result), result.output.as_str()))
        .collect()
}
