//! An executor that the measurement plays.

use cairn_proto::START_BYTES;
use cairn_proto::event as wire;
use cairn_proto::executor::executor_service_server::{ExecutorService, ExecutorServiceServer};
use cairn_proto::executor::run_step_request::Message as ToExecutor;
use cairn_proto::executor::{
    AttemptStart, CallResult, ExecutorState, NotifyShortageRequest, NotifyShortageResponse, Reply,
    RunStepRequest, RunStepResponse, WatchStatusRequest, WatchStatusResponse,
};
use cairn_rpc::{Exposure, Link, ServerBuilder};
use futures::stream::BoxStream;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// More than the measurement takes.
const SLOTS: u32 = 1000;
/// More than any start has.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// An attempt that the orchestrator has begun.
pub(super) struct Attempt {
    start: AttemptStart,
    from_owner: Streaming<RunStepRequest>,
    reports: mpsc::UnboundedSender<Result<RunStepResponse, Status>>,
    number: u64,
    /// Changes of the conversation that it knows.
    ops: u64,
}

impl Attempt {
    /// Reports a reply with calls of these tools, and waits until it is durable.
    pub(super) async fn reply(&mut self, tool_turn: u32, tools: &[&str]) {
        let calls = tools.iter().map(|name| wire::ToolCall {
            id: format!("call-{tool_turn}"),
            name: (*name).to_owned(),
            arguments_json: "{}".to_owned(),
        });
        let reply = Reply {
            tool_turn,
            text: "I look.".to_owned(),
            tool_calls: calls.collect(),
            usage: Some(wire::Usage {
                input_tokens: 5,
                output_tokens: 2,
                model_calls: 1,
                ..wire::Usage::default()
            }),
            model: "played-1".to_owned(),
            ops_through: self.ops,
            ..Reply::default()
        };
        self.report(RunStepResponse {
            reply: Some(Box::new(reply)),
            ..RunStepResponse::default()
        })
        .await;
    }

    /// Reports the result of the call of a reply, and waits until it is durable.
    pub(super) async fn result(&mut self, tool_turn: u32) {
        let call = wire::CallRef {
            attempt: self.start.attempt,
            tool_turn,
            index: 0,
        };
        let result = CallResult {
            call: Some(call),
            output: "seen".to_owned(),
            ..CallResult::default()
        };
        self.report(RunStepResponse {
            results: vec![result],
            ..RunStepResponse::default()
        })
        .await;
    }

    async fn report(&mut self, report: RunStepResponse) {
        self.number += 1;
        let report = RunStepResponse {
            number: self.number,
            ..report
        };
        assert!(self.reports.send(Ok(report)).is_ok(), "the owner is gone");
        loop {
            let message = self.from_owner.message().await.expect("no error");
            let message = message.expect("an acknowledgement").message;
            let Some(ToExecutor::Acknowledgement(ack)) = message else {
                continue;
            };
            self.ops += ack.ops.len() as u64;
            if ack.ended || ack.through_number == self.number {
                return;
            }
        }
    }
}

struct Played(mpsc::UnboundedSender<Attempt>);

#[tonic::async_trait]
impl ExecutorService for Played {
    type RunStepStream = BoxStream<'static, Result<RunStepResponse, Status>>;
    type WatchStatusStream = BoxStream<'static, Result<WatchStatusResponse, Status>>;

    async fn watch_status(
        &self,
        _: Request<WatchStatusRequest>,
    ) -> Result<Response<Self::WatchStatusStream>, Status> {
        let status: Result<_, Status> = Ok(WatchStatusResponse {
            slots: SLOTS,
            free_slots: SLOTS,
            state: ExecutorState::Accepting.into(),
            ..WatchStatusResponse::default()
        });
        let status = tokio_stream::once(status).chain(tokio_stream::pending());
        Ok(Response::new(Box::pin(status)))
    }

    async fn notify_shortage(
        &self,
        _: Request<NotifyShortageRequest>,
    ) -> Result<Response<NotifyShortageResponse>, Status> {
        Ok(Response::new(NotifyShortageResponse {}))
    }

    async fn run_step(
        &self,
        request: Request<Streaming<RunStepRequest>>,
    ) -> Result<Response<Self::RunStepStream>, Status> {
        let is_large = request.metadata().contains_key(START_BYTES);
        let mut from_owner = request.into_inner();
        let (reports, to_owner) = mpsc::unbounded_channel();
        let measured = self.0.clone();
        let begin = async move {
            let first = from_owner.message().await?.and_then(|first| first.message);
            let Some(ToExecutor::Start(start)) = first else {
                return Err(Status::invalid_argument("the first message is no start"));
            };
            let ops = start.ops_through + start.ops.len() as u64;
            // The measurement may be over.
            let _ = measured.send(Attempt {
                start: *start,
                from_owner,
                reports,
                number: 0,
                ops,
            });
            Ok(())
        };
        match is_large {
            // It comes once the owner has the answer.
            true => drop(tokio::spawn(begin)),
            false => begin.await?,
        }
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(
            to_owner,
        ))))
    }
}

/// A link to it, and the attempts that are begun.
pub(super) async fn executor() -> (Link, mpsc::UnboundedReceiver<Attempt>) {
    let (measured, attempts) = mpsc::unbounded_channel();
    let service = ExecutorServiceServer::new(Played(measured));
    let service = service.max_decoding_message_size(MOST_BYTES);
    let server = ServerBuilder::new(Exposure::Internal).register(service, cairn_proto::DESCRIPTORS);
    let link = server.build().await.expect("a server").link();
    (link, attempts)
}
