//! An executor whose attempts are carried out by the test.

use cairn_engine::conversation::{Conversation, Op};
use cairn_engine::tokens::estimate_tokens;
use cairn_proto::START_BYTES;
use cairn_proto::event as wire;
use cairn_proto::executor::executor_service_server::{ExecutorService, ExecutorServiceServer};
use cairn_proto::executor::run_step_request::Message as ToExecutor;
use cairn_proto::executor::{
    Acknowledgement, AttemptStart, CallResult, DeclaredCapability, ExecutorState, FullRequest,
    NotifyShortageRequest, NotifyShortageResponse, Reply, ResultPart, RunStepRequest,
    RunStepResponse, SummaryReport, WatchStatusRequest, WatchStatusResponse,
};
use cairn_rpc::{Exposure, Link, RpcError, ServerBuilder};
use futures::FutureExt as _;
use futures::stream::BoxStream;
use std::sync::{Arc, Mutex};
use tokio::sync::{mpsc, watch};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::{UnboundedReceiverStream, WatchStream};
use tonic::{Request, Response, Status, Streaming};

type Report = Result<RunStepResponse, Status>;

/// An attempt that the orchestrator has begun. Dropping it breaks its stream.
pub(crate) struct Attempt {
    pub(crate) start: AttemptStart,
    /// Bytes of the start, if the owner named them before it sent it.
    pub(crate) named_bytes: Option<usize>,
    from_owner: Streaming<RunStepRequest>,
    reports: mpsc::UnboundedSender<Report>,
    number: u64,
}

impl Attempt {
    /// How many replies and results it starts with.
    pub(crate) fn said(&self) -> usize {
        let conversation = self.start.conversation.as_ref().expect("a conversation");
        conversation.behind.len() + self.start.results.len()
    }

    /// Step and attempt.
    pub(crate) fn place(&self) -> (u32, u32) {
        let name = self.start.attempt.unwrap();
        (name.step, name.attempt)
    }

    pub(crate) fn call(&self, tool_turn: u32, index: u32) -> wire::CallRef {
        wire::CallRef {
            attempt: self.start.attempt,
            tool_turn,
            index,
        }
    }

    /// Sends a report with the next number.
    pub(crate) fn report(&mut self, report: RunStepResponse) {
        self.number += 1;
        let report = RunStepResponse {
            number: self.number,
            ..report
        };
        // The owner may have let go.
        let _ = self.reports.send(Ok(report));
    }

    /// Tells a part of the reply that the model is writing.
    pub(crate) fn writes(&self, tool_turn: u32, offset: u64, text: &str) {
        let delta = wire::TextDelta {
            retry: 0,
            progress: Default::default(),
            attempt: None,
            tool_turn,
            offset,
            text: text.to_owned(),
        };
        let message = RunStepResponse {
            delta: Some(Box::new(delta)),
            ..RunStepResponse::default()
        };
        let _ = self.reports.send(Ok(message));
    }

    /// Reports a reply, and the results of the calls before it.
    pub(crate) fn reply_with(&mut self, results: Vec<CallResult>, reply: Reply) {
        self.report(RunStepResponse {
            results,
            reply: Some(Box::new(reply)),
            ..RunStepResponse::default()
        });
    }

    pub(crate) fn reply(&mut self, reply: Reply) {
        self.reply_with(Vec::new(), reply);
    }

    /// Reports that the model ends the step.
    pub(crate) fn complete(&mut self, tool_turn: u32) {
        let end = r#"{"complete": true, "summary": "done"}"#;
        self.reply(reply(tool_turn, "", &[("step", end)]));
    }

    pub(crate) fn result(&self, tool_turn: u32, index: u32, output: &str) -> CallResult {
        CallResult {
            call: Some(self.call(tool_turn, index)),
            output: output.to_owned(),
            duration_ms: 3,
            ..CallResult::default()
        }
    }

    /// The messages that it starts with.
    pub(crate) fn conversation(&self) -> &wire::Conversation {
        self.start.conversation.as_ref().expect("a conversation")
    }

    /// The estimate of these messages.
    pub(crate) fn tokens(&self) -> u64 {
        let said = Conversation::try_from(self.conversation().clone());
        estimate_tokens(&said.expect("a conversation").messages())
    }

    /// Reports that the next request has so many tokens, which is too much of the window.
    pub(crate) fn report_full(&mut self, tokens: u64, window_tokens: u64) {
        let full = FullRequest {
            tokens,
            estimated_tokens: tokens,
            window_tokens,
            max_output_tokens: 0,
            is_refused: false,
        };
        self.report(RunStepResponse {
            full: Some(full),
            ..RunStepResponse::default()
        });
    }

    /// Reports the summary that it is to have its model write.
    pub(crate) fn summarise(&mut self, text: &str) {
        self.report_summary(text, None);
    }

    /// Reports that the model wrote none.
    pub(crate) fn write_no_summary(&mut self) {
        let failure = wire::Failure {
            kind: wire::FailureKind::Llm.into(),
            reason: "Test".to_owned(),
            message: "the model is silent".to_owned(),
            ..wire::Failure::default()
        };
        self.report_summary("", Some(failure));
    }

    fn report_summary(&mut self, text: &str, failure: Option<wire::Failure>) {
        let summary = SummaryReport {
            text: text.to_owned(),
            usage: Some(wire::Usage {
                input_tokens: 40,
                output_tokens: 9,
                model_calls: 1,
                ..wire::Usage::default()
            }),
            model: "played-1".to_owned(),
            duration_ms: 12,
            ..SummaryReport::default()
        };
        self.report(RunStepResponse {
            summary: Some(Box::new(summary)),
            failure,
            ..RunStepResponse::default()
        });
    }

    /// Sends a part of a long result, which is no report.
    pub(crate) fn part(&self, tool_turn: u32, index: u32, offset: u64, text: &str) {
        let part = ResultPart {
            call: Some(self.call(tool_turn, index)),
            offset,
            text: text.to_owned(),
        };
        let message = RunStepResponse {
            part: Some(Box::new(part)),
            ..RunStepResponse::default()
        };
        let _ = self.reports.send(Ok(message));
    }

    /// Reports a result that was sent in these parts.
    pub(crate) fn long_result(&mut self, tool_turn: u32, index: u32, parts: &[&str]) {
        let mut offset = 0;
        for text in parts {
            self.part(tool_turn, index, offset, text);
            offset += text.len() as u64;
        }
        let result = CallResult {
            part_bytes: offset,
            ..self.result(tool_turn, index, "")
        };
        self.report(RunStepResponse {
            results: vec![result],
            ..RunStepResponse::default()
        });
    }

    pub(crate) fn report_result(&mut self, tool_turn: u32, index: u32, output: &str) {
        let result = self.result(tool_turn, index, output);
        self.report(RunStepResponse {
            results: vec![result],
            ..RunStepResponse::default()
        });
    }

    /// The names of the tools that it may call, as the owner sends them to an executor that lacks the catalogue.
    pub(crate) async fn tools(&mut self) -> Vec<String> {
        let lacks = RunStepResponse {
            lacks_catalogue: true,
            ..RunStepResponse::default()
        };
        let _ = self.reports.send(Ok(lacks));
        let message = self.from_owner.message().await.expect("no error");
        match message.expect("a catalogue").message {
            Some(ToExecutor::Catalogue(catalogue)) => {
                catalogue.tools.into_iter().map(|tool| tool.name).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    /// Its system prompt and the messages after it as its next request has them, each with all its parts.
    pub(crate) fn texts(&self) -> Vec<String> {
        let conversation = Conversation::try_from(self.conversation().clone());
        let mut conversation = conversation.expect("a conversation");
        for op in &self.start.ops {
            let op = Op::try_from(op.clone()).expect("an op");
            conversation.apply(op).expect("it fits");
        }
        let messages = conversation.messages();
        let messages = messages.iter();
        messages.map(|message| format!("{message:?}")).collect()
    }

    /// The model replies to all that it was sent, without a call.
    pub(crate) fn says(&mut self, text: &str) {
        let start = &self.start;
        let said = Reply {
            ops_through: start.ops_through + start.ops.len() as u64,
            ..reply(start.tool_turns, text, &[])
        };
        self.reply(said);
    }

    /// The next acknowledgement.
    pub(crate) async fn ack(&mut self) -> Acknowledgement {
        let message = self.from_owner.message().await.expect("no error");
        match message.expect("an acknowledgement").message {
            Some(ToExecutor::Acknowledgement(ack)) => ack,
            other => panic!("{other:?}"),
        }
    }

    /// An acknowledgement that has come already.
    pub(crate) fn received(&mut self) -> Option<Acknowledgement> {
        self.ack().now_or_never()
    }

    /// Waits for the acknowledgement of all that was reported, and says whether the attempt ended.
    pub(crate) async fn settled(&mut self) -> bool {
        loop {
            let ack = self.ack().await;
            if ack.ended || ack.through_number == self.number {
                return ack.ended;
            }
        }
    }

    /// What the owner says until it lets go of the stream.
    pub(crate) async fn rest(mut self) -> Vec<Acknowledgement> {
        let mut said = Vec::new();
        while let Ok(Some(message)) = self.from_owner.message().await {
            if let Some(ToExecutor::Acknowledgement(ack)) = message.message {
                said.push(ack);
            }
        }
        said
    }

    /// The owner has not let go of the stream, and has said nothing new.
    pub(crate) fn is_held(&mut self) -> bool {
        self.from_owner.message().now_or_never().is_none()
    }

    /// Waits until the owner has let go of the stream.
    pub(crate) async fn dropped(mut self) {
        while let Ok(Some(_)) = self.from_owner.message().await {}
    }

    /// Breaks the stream with an error.
    pub(crate) fn break_with(self, status: Status) {
        let _ = self.reports.send(Err(status));
    }
}

/// A reply with calls, each a tool and its arguments.
pub(crate) fn reply(tool_turn: u32, text: &str, calls: &[(&str, &str)]) -> Reply {
    let calls = calls.iter().enumerate();
    Reply {
        tool_turn,
        text: text.to_owned(),
        tool_calls: calls
            .map(|(at, (name, arguments))| wire::ToolCall {
                id: format!("id-{tool_turn}-{at}"),
                name: (*name).to_owned(),
                arguments_json: (*arguments).to_owned(),
            })
            .collect(),
        usage: Some(wire::Usage {
            input_tokens: 5,
            output_tokens: 2,
            cost_nano_usd: 1,
            model_calls: 1,
            ..wire::Usage::default()
        }),
        model: "played-1".to_owned(),
        duration_ms: 11,
        ..Reply::default()
    }
}

/// The executor's slots.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slots(Arc<Mutex<Refusals>>, watch::Sender<Reported>);

/// What the executor reports.
#[derive(Debug, Clone, Default)]
struct Reported {
    is_draining: bool,
    level: u32,
    /// Grows with what changes the slots.
    version: u64,
    /// All slots are taken, by others than the test.
    is_busy: bool,
    /// Patterns of the tools that it may use.
    tools: Vec<String>,
    /// What it declares.
    capabilities: Vec<String>,
}

#[derive(Debug, Default)]
struct Refusals {
    absence: Option<RpcError>,
    to_come: usize,
    reported: usize,
    notices: Vec<NotifyShortageRequest>,
}

impl Slots {
    /// The next attempts find no slot.
    pub(crate) fn refuse(&self, times: usize) {
        self.0.lock().unwrap().to_come += times;
    }

    /// So many attempts find no executor at all.
    pub(crate) fn be_absent(&self, times: usize) {
        let absent = RpcError::unavailable("nobody listens");
        self.fail(times, absent.reason(Link::NOT_CONNECTED));
    }

    /// So many attempts end with this error before they begin.
    pub(crate) fn fail(&self, times: usize, error: RpcError) {
        let mut refusals = self.0.lock().unwrap();
        (refusals.to_come, refusals.absence) = (times, Some(error));
    }

    /// The executor reports that it stops, or that it takes attempts again.
    pub(crate) fn drain(&self, is_draining: bool) {
        self.1
            .send_modify(|reported| reported.is_draining = is_draining);
    }

    /// The executor is one of a release of this level from now on.
    pub(crate) fn set_level(&self, level: u32) {
        self.1.send_modify(|reported| reported.level = level);
    }

    /// All slots are taken from now on, or free again.
    pub(crate) fn be_busy(&self, is_busy: bool) {
        self.1.send_modify(|reported| {
            reported.is_busy = is_busy;
            reported.version += 1_000_000;
        });
    }

    /// Attempts may use the tools of these patterns from now on; none for all.
    pub(crate) fn set_tools(&self, patterns: &[&str]) {
        let tools = patterns.iter().map(|&it| it.to_owned()).collect();
        self.1.send_modify(|reported| reported.tools = tools);
    }

    /// The executor declares these capabilities from now on.
    pub(crate) fn declare(&self, capabilities: &[&str]) {
        let capabilities = capabilities.iter().map(|&it| it.to_owned()).collect();
        self.1
            .send_modify(|reported| reported.capabilities = capabilities);
    }

    /// The notices of shortages that came.
    pub(crate) fn notices(&self) -> Vec<NotifyShortageRequest> {
        self.0.lock().unwrap().notices.clone()
    }

    /// A slot is free from now on.
    pub(crate) fn free(&self) {
        self.0.lock().unwrap().to_come = 0;
    }

    /// Attempts that found no slot.
    pub(crate) fn refused(&self) -> usize {
        self.0.lock().unwrap().reported
    }

    fn take(&self) -> Result<(), Status> {
        let mut refusals = self.0.lock().unwrap();
        if refusals.to_come == 0 {
            return Ok(());
        }
        refusals.to_come -= 1;
        refusals.reported += 1;
        if let Some(error) = &refusals.absence {
            return Err(error.clone().into());
        }
        Err(RpcError::exhausted("all slots are taken")
            .reason("NO_FREE_SLOT")
            .into())
    }
}

/// Slots that are reported as free: more than any test takes.
const MANY: u32 = 1000;

struct Played {
    to_test: mpsc::UnboundedSender<Attempt>,
    slots: Slots,
}

#[tonic::async_trait]
impl ExecutorService for Played {
    type RunStepStream = BoxStream<'static, Report>;

    type WatchStatusStream = BoxStream<'static, Result<WatchStatusResponse, Status>>;

    async fn watch_status(
        &self,
        _: Request<WatchStatusRequest>,
    ) -> Result<Response<Self::WatchStatusStream>, Status> {
        let status = |reported: Reported| {
            let (state, free_slots) = match (reported.is_draining, reported.is_busy) {
                (true, _) => (ExecutorState::Draining, 0),
                (false, true) => (ExecutorState::Accepting, 0),
                (false, false) => (ExecutorState::Accepting, MANY),
            };
            let declared = reported.capabilities.into_iter();
            let declared = declared.map(|name| DeclaredCapability { name, level: 0 });
            Ok(WatchStatusResponse {
                slots: MANY,
                free_slots,
                state: state.into(),
                version: reported.version,
                level: reported.level,
                tools: reported.tools,
                capabilities: declared.collect(),
                ..WatchStatusResponse::default()
            })
        };
        let states = WatchStream::new(self.slots.1.subscribe());
        let status = states.map(status).chain(tokio_stream::pending());
        Ok(Response::new(Box::pin(status)))
    }

    async fn notify_shortage(
        &self,
        request: Request<NotifyShortageRequest>,
    ) -> Result<Response<NotifyShortageResponse>, Status> {
        let mut state = self.slots.0.lock().unwrap();
        state.notices.push(request.into_inner());
        Ok(Response::new(NotifyShortageResponse {}))
    }

    async fn run_step(
        &self,
        request: Request<Streaming<RunStepRequest>>,
    ) -> Result<Response<Self::RunStepStream>, Status> {
        self.slots.take()?;
        let named = request.metadata().get(START_BYTES);
        let named_bytes = named.map(|it| it.to_str().unwrap().parse().unwrap());
        let mut from_owner = request.into_inner();
        let (reports, to_owner) = mpsc::unbounded_channel();
        let to_test = self.to_test.clone();
        let begin = async move {
            let first = from_owner.message().await?.and_then(|first| first.message);
            let Some(ToExecutor::Start(start)) = first else {
                panic!("the first message is no start: {first:?}");
            };
            // The test may be over.
            let _ = to_test.send(Attempt {
                start: *start,
                named_bytes,
                from_owner,
                reports,
                number: 0,
            });
            Ok::<_, Status>(())
        };
        match named_bytes {
            // It comes once the owner has the answer.
            Some(_) => drop(tokio::spawn(begin)),
            None => begin.await?,
        }
        let reports = UnboundedReceiverStream::new(to_owner);
        Ok(Response::new(Box::pin(reports.map(|report| report))))
    }
}

pub(crate) async fn executor() -> (Link, mpsc::UnboundedReceiver<Attempt>, Slots) {
    let (to_test, attempts) = mpsc::unbounded_channel();
    let slots = Slots::default();
    let service = ExecutorServiceServer::new(Played {
        to_test,
        slots: slots.clone(),
    });
    let server = ServerBuilder::new(Exposure::Internal).register(service, cairn_proto::DESCRIPTORS);
    let link = server.build().await.expect("a server").link();
    (link, attempts, slots)
}
