//! Calls of the tools service.

use crate::owner::HOLD;
use crate::queue::Sender;
use cairn_engine::event::{CallFinished, CallRef, Effect};
use cairn_engine::failure::Failure;
use cairn_engine::key::call_key;
use cairn_engine::limits::{LARGEST_UNDIVIDED_RESULT, MAX_RESULT_PART};
use cairn_engine::message::ToolCall;
use cairn_engine::result::most_for_window;
use cairn_proto::event::{CallProgress, Condition, ToolInput};
use cairn_proto::executor::{CallResult, PermittedCall, ResultPart};
use cairn_proto::tools::invoke_tool_response::Message;
use cairn_proto::tools::tools_service_client::ToolsServiceClient;
use cairn_proto::tools::{InvokeToolRequest, InvokeToolResponse, ToolResult};
use cairn_proto::{CALL_PLACE, no_result};
use cairn_rpc::trace::is_recording;
use cairn_rpc::{Link, Namespace, Principal, RpcError, TraceParent, with_principal};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tonic::{Code, Request, Status, Streaming};

/// How long to wait before a call is sent again that may be, when the tools service was out of
/// reach: it may just be starting anew.
const RETRY_DELAYS: [Duration; 3] = [
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
];

/// Reason of an error by which a tools service says that it did not begin a call.
const NOT_BEGUN: &str = "NOT_SENT";

/// A call that may be sent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) at: CallRef,
    pub(crate) name: String,
    /// JSON, as the model wrote it.
    pub(crate) arguments: String,
    /// `None` for the key that belongs to this place.
    key: Option<String>,
    not_after_unix_ms: i64,
    effect: Effect,
    /// The tool that was judged.
    tool_digest: String,
    /// The values that were judged, where they differ from what the arguments say.
    resolved: Vec<Condition>,
    /// The answer to what the tool asked.
    input: Option<ToolInput>,
    /// The digests of the file in the preview that was judged; empty for a call without one.
    before_digest: String,
    after_digest: String,
}

impl Call {
    /// A pure call, which needs nobody's permit.
    pub(crate) fn pure(at: CallRef, call: &ToolCall, tool_digest: String) -> Self {
        Self {
            at,
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            key: None,
            not_after_unix_ms: 0,
            effect: Effect::Pure,
            tool_digest,
            resolved: Vec::new(),
            input: None,
            before_digest: String::new(),
            after_digest: String::new(),
        }
    }

    /// A call that the owner has permitted.
    pub(crate) fn permitted(at: CallRef, permit: PermittedCall) -> Result<Self, RpcError> {
        let effect = permit.effect().into();
        let call = permit
            .tool_call
            .ok_or_else(|| RpcError::missing("permitted_calls.tool_call"))?;
        Ok(Self {
            at,
            name: call.name,
            arguments: call.arguments_json,
            key: Some(permit.call_key),
            not_after_unix_ms: permit.not_after_unix_ms,
            effect,
            tool_digest: permit.tool_digest,
            resolved: permit.resolved,
            input: permit.input,
            before_digest: permit.before_digest,
            after_digest: permit.after_digest,
        })
    }
}

/// A call that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// What came of it, for the report.
    pub(crate) result: CallResult,
    /// The result has to be durable before the model is asked again: it has cost an effect or
    /// time, or the owner has to say what is to become of the call.
    pub(crate) urgent: bool,
    /// The owner says what the model gets of the result.
    pub(crate) is_left_to_owner: bool,
}

/// Limits of calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// A call without an answer is given up after this.
    pub(crate) time: Duration,
    /// Most bytes of a result that the model gets as it is; 0 for any number.
    pub(crate) result_bytes: usize,
    /// The model gets no result as it is.
    pub(crate) leaves_results: bool,
}

/// A result, with what was sent of it before.
#[derive(Debug, Default)]
struct Received {
    result: ToolResult,
    /// Bytes of its text that were passed on in parts.
    part_bytes: u64,
}

impl From<ToolResult> for Received {
    fn from(result: ToolResult) -> Self {
        Self {
            result,
            part_bytes: 0,
        }
    }
}

/// The tools service on behalf of one session.
#[derive(Debug)]
pub(crate) struct Tools {
    client: ToolsServiceClient<Link>,
    caller: Caller,
    limits: Limits,
}

/// For whom calls are made.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) namespace: Namespace,
    /// The session's id.
    pub(crate) session: String,
    /// Name of the agent that makes the calls; empty for the default agent.
    pub(crate) agent: String,
    /// The span of the owner.
    pub(crate) trace: Option<TraceParent>,
}

impl Tools {
    /// The tools service at the end of `link`.
    pub(crate) fn new(link: Link, caller: Caller, limits: Limits) -> Self {
        Self {
            client: ToolsServiceClient::new(link),
            caller,
            limits,
        }
    }

    /// The owner learns with a reply how large the window of the model is, and takes fewer results of later calls as
    /// they are.
    pub(crate) fn fit_results(&mut self, window_tokens: u64) {
        let most = self.limits.result_bytes;
        self.limits.result_bytes = most_for_window(most, window_tokens);
    }

    /// Makes a call and waits for its result. Its progress and the parts of a long result go to `reports`. A
    /// pure or idempotent call is sent again for a while if the tools service is out of reach.
    ///
    /// # Errors
    /// Unavailable, if nobody knows what became of the call.
    pub(crate) async fn call(
        &self,
        call: Call,
        reports: &Sender,
    ) -> (CallRef, Result<Ended, RpcError>) {
        let (at, effect) = (call.at, call.effect);
        let started = Instant::now();
        let outcome = self.send(call, reports).await.map(|received| {
            let took = started.elapsed();
            let (result, is_left) = (&received.result, self.is_left_to_owner(&received));
            Ended {
                urgent: effect == Effect::Effectful
                    || took > HOLD
                    || is_left
                    || result.question.is_some()
                    || result.reason == CallFinished::NOT_SENT,
                is_left_to_owner: is_left,
                result: reported(at, received, took),
            }
        });
        (at, outcome)
    }

    /// The end of a call that this process carried out by asking a model. What it cost has to be durable before the
    /// model is asked again. A long output goes to `reports` in parts.
    pub(crate) async fn carried_out(
        &self,
        at: CallRef,
        mut result: CallResult,
        reports: &Sender,
    ) -> Ended {
        if result.output.len() > LARGEST_UNDIVIDED_RESULT {
            let output = std::mem::take(&mut result.output);
            let mut rest = output.as_str();
            while !rest.is_empty() {
                let (text, more) = rest.split_at(rest.floor_char_boundary(MAX_RESULT_PART));
                let part = ResultPart {
                    call: Some(at.into()),
                    offset: result.part_bytes,
                    text: text.to_owned(),
                };
                reports.part(part).await;
                result.part_bytes += text.len() as u64;
                rest = more;
            }
        }
        Ended {
            urgent: true,
            is_left_to_owner: result.part_bytes > 0 || self.is_changed(&result.output),
            result,
        }
    }

    /// The owner decides what the model gets of the output of a call that has ended.
    fn is_changed(&self, output: &str) -> bool {
        let most = self.limits.result_bytes;
        self.limits.leaves_results || (most > 0 && output.len() > most)
    }

    /// The result is too long for the model or has media, or hooks are asked about it. A call that has not ended has
    /// no result.
    fn is_left_to_owner(&self, received: &Received) -> bool {
        let result = &received.result;
        let is_open = result.question.is_some() || result.reason == CallFinished::NOT_SENT;
        let is_changed = self.is_changed(&result.output) || !result.media.is_empty();
        received.part_bytes > 0 || (!is_open && is_changed)
    }

    async fn send(&self, call: Call, reports: &Sender) -> Result<Received, RpcError> {
        let at = call.at;
        let repeatable = matches!(call.effect, Effect::Pure | Effect::Idempotent);
        let Caller {
            namespace,
            session,
            agent,
            ..
        } = &self.caller;
        let message = InvokeToolRequest {
            call_key: call
                .key
                .unwrap_or_else(|| call_key(namespace.as_str(), session, at)),
            name: call.name,
            arguments_json: call.arguments,
            session: session.clone(),
            agent: agent.clone(),
            not_after_unix_ms: call.not_after_unix_ms,
            tool_digest: call.tool_digest,
            resolved: call.resolved,
            input: call.input,
            before_digest: call.before_digest,
            after_digest: call.after_digest,
        };
        let mut delays = RETRY_DELAYS.into_iter();
        loop {
            let status = match self.send_once(at, message.clone(), reports).await {
                Ok(response) => return Ok(response),
                Err(status) => status,
            };
            let fault = Fault::of(&status);
            if let Some(delay) = delays.next().filter(|_| fault.may_repeat(repeatable)) {
                sleep(delay).await;
                continue;
            }
            return match fault {
                Fault::NotBegun => Ok(not_sent(&status).into()),
                Fault::NotSent if !repeatable => Ok(not_sent(&status).into()),
                Fault::Refused => Ok(refused(&status).into()),
                Fault::Failed if repeatable => Ok(refused(&status).into()),
                Fault::NotSent => Err(unreachable(at, status)),
                Fault::Failed | Fault::Lost => Err(lost(at, status)),
            };
        }
    }

    async fn send_once(
        &self,
        at: CallRef,
        message: InvokeToolRequest,
        reports: &Sender,
    ) -> Result<Received, Status> {
        let executor = Principal::service("executor", self.caller.namespace.clone());
        let mut request = with_principal(Request::new(message), &executor);
        request.set_timeout(self.limits.time);
        // A process that records nothing itself passes on what it was told.
        let own = is_recording().then(|| TraceParent::of_span(&tracing::Span::current()));
        if let Some(trace) = own.flatten().or(self.caller.trace) {
            trace.set_on(&mut request);
            set_place(&mut request, at);
        }
        let answered = async {
            let messages = self.client.clone().invoke_tool(request).await?;
            pass_on(at, messages.into_inner(), reports).await
        };
        match tokio::time::timeout(self.limits.time, answered).await {
            Ok(answer) => answer,
            Err(_) => Err(Status::deadline_exceeded(
                "the tools service did not answer in time",
            )),
        }
    }
}

/// Says where the call stands in its attempt, for the span of the call.
fn set_place<T>(request: &mut Request<T>, at: CallRef) {
    if let Ok(place) = format!("{}.{}", at.tool_turn, at.index).parse() {
        request.metadata_mut().insert(CALL_PLACE, place);
    }
}

/// The result of a call, which is the last message. What comes before it goes to the owner. Memory holds one
/// part: the next one is read once the owner's stream has room.
async fn pass_on(
    at: CallRef,
    mut messages: Streaming<InvokeToolResponse>,
    reports: &Sender,
) -> Result<Received, Status> {
    let mut part_bytes = 0;
    while let Some(response) = messages.message().await? {
        match response.message {
            Some(Message::Result(result)) => return Ok(Received { result, part_bytes }),
            Some(Message::Part(text)) => {
                let (offset, bytes) = (part_bytes, text.len() as u64);
                let call = Some(at.into());
                reports.part(ResultPart { call, offset, text }).await;
                part_bytes += bytes;
            }
            Some(Message::Progress(step)) => reports.progress(CallProgress {
                call: Some(at.into()),
                progress: step.progress,
                total: step.total,
                message: step.message,
            }),
            None => {}
        }
    }
    Err(no_result())
}

/// The result for the owner. What the owner is to judge anew has the digest of the tool as it is now.
fn reported(at: CallRef, received: Received, took: Duration) -> CallResult {
    let Received { result, part_bytes } = received;
    let (tool_digest, resolved) = match result.unsent {
        Some(unsent) => (Some(unsent.tool_digest), unsent.resolved),
        None => (None, Vec::new()),
    };
    CallResult {
        call: Some(at.into()),
        output: result.output,
        is_error: result.is_error,
        reason: result.reason,
        duration_ms: millis(took),
        media: result.media,
        tool_digest,
        resolved,
        question: result.question,
        part_bytes,
        is_cut: result.is_cut,
        file: result.file,
        ..CallResult::default()
    }
}

/// Whole milliseconds, as the contracts count time.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What an error says of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// There was no connection, or the tools service refused the token: for certain, nothing was
    /// done, and a retry may succeed.
    NotSent,
    /// The tools service says that it did not begin, as when it is too late: certain as well, and
    /// the owner may give another time.
    NotBegun,
    /// It does not take this call: for certain, nothing was done, now or later.
    Refused,
    /// It will give no result, whether it carried the call out or not.
    Failed,
    /// The tools service did not answer; it may when it is asked again.
    Lost,
}

impl Fault {
    fn of(status: &Status) -> Self {
        let error = RpcError::from_status(status);
        match status.code() {
            _ if Link::did_not_begin(&error) => Self::NotSent,
            Code::FailedPrecondition if error.reason_name() == NOT_BEGUN => Self::NotBegun,
            Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::FailedPrecondition
            | Code::Unimplemented => Self::Refused,
            // The transport's own words for a message that is too large, the result included, and
            // for a connection that it gives up.
            Code::OutOfRange | Code::ResourceExhausted | Code::DataLoss => Self::Failed,
            Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Cancelled
            | Code::Aborted
            | Code::Unknown
            | Code::Internal
            | Code::Ok => Self::Lost,
        }
    }

    fn may_repeat(self, repeatable: bool) -> bool {
        match self {
            Self::NotSent => true,
            Self::Lost => repeatable,
            Self::NotBegun | Self::Refused | Self::Failed => false,
        }
    }
}

/// The result of a call that never began: the owner decides whether it is tried again.
fn not_sent(status: &Status) -> ToolResult {
    error_result(CallFinished::NOT_SENT, "the call was not sent", status)
}

/// The result of a call that the tools service will never take, or that did no harm if it did.
fn refused(status: &Status) -> ToolResult {
    let reason = match status.code() {
        // There is another service at the end of the link.
        Code::Unimplemented => return missing(),
        Code::InvalidArgument => "InvalidArguments",
        Code::NotFound => "NotFound",
        Code::PermissionDenied | Code::Unauthenticated => "Denied",
        _ => "ExecutionFailed",
    };
    error_result(reason, "the tools service refused the call", status)
}

fn missing() -> ToolResult {
    let Failure {
        reason, message, ..
    } = Failure::missing("tool_registry");
    ToolResult {
        output: message,
        is_error: true,
        reason,
        ..ToolResult::default()
    }
}

fn error_result(reason: &str, what: &str, status: &Status) -> ToolResult {
    ToolResult {
        output: format!("{what}: {}", RpcError::from_status(status)),
        is_error: true,
        reason: reason.to_owned(),
        ..ToolResult::default()
    }
}

/// Nothing was sent, and may be once there are tools again.
fn unreachable(at: CallRef, status: Status) -> RpcError {
    let message = format!(
        "call {} of tool turn {} waits for the tools service, which cannot be reached",
        at.index, at.tool_turn
    );
    RpcError::unavailable(message)
        .reason("TOOLS_UNREACHABLE")
        .caused_by(status)
}

fn lost(at: CallRef, status: Status) -> RpcError {
    let message = format!(
        "no result of call {} of tool turn {}: the tools service did not answer",
        at.index, at.tool_turn
    );
    RpcError::unavailable(message)
        .reason("CALL_LOST")
        .caused_by(status)
}
