//! Calls of the tools service.

use crate::convert;
use crate::owner::HOLD;
use crate::turn::NOT_SENT;
use cairn_engine::event::{CallRef, Effect};
use cairn_engine::key::call_key;
use cairn_engine::message::ToolCall;
use cairn_proto::executor::{CallResult, PermittedCall};
use cairn_proto::tools::tools_service_client::ToolsServiceClient;
use cairn_proto::tools::{InvokeToolRequest, InvokeToolResponse};
use cairn_rpc::{Link, Namespace, RpcError, with_namespace};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tonic::{Code, Request, Status};

/// How long to wait before a call is sent again that may be, when the tools service was out of
/// reach: it may just be starting anew.
const RETRY_DELAYS: [Duration; 3] = [
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
];

/// A call that may be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) at: CallRef,
    name: String,
    arguments: String,
    /// `None` for the key that belongs to this place.
    key: Option<String>,
    not_after_unix_ms: i64,
    effect: Effect,
}

impl Call {
    /// A pure call, which needs nobody's permit.
    pub(crate) fn pure(at: CallRef, call: &ToolCall) -> Self {
        Self {
            at,
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            key: None,
            not_after_unix_ms: 0,
            effect: Effect::Pure,
        }
    }

    /// A call that the owner has permitted.
    pub(crate) fn permitted(at: CallRef, permit: PermittedCall) -> Result<Self, RpcError> {
        let effect = convert::effect(permit.effect());
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
}

/// The tools service on behalf of one session.
#[derive(Debug)]
pub(crate) struct Tools {
    pub(crate) client: ToolsServiceClient<Link>,
    pub(crate) namespace: Namespace,
    pub(crate) session: String,
    pub(crate) call_limit: Duration,
}

impl Tools {
    /// Makes a call and waits for its result. A pure or idempotent call is sent again for a
    /// while if the tools service is out of reach.
    ///
    /// # Errors
    /// Unavailable, if nobody knows what became of the call.
    pub(crate) async fn call(&self, call: Call) -> (CallRef, Result<Ended, RpcError>) {
        let (at, effect) = (call.at, call.effect);
        let started = Instant::now();
        let outcome = self.send(call).await.map(|response| {
            let took = started.elapsed();
            Ended {
                urgent: effect == Effect::Effectful || took > HOLD || response.reason == NOT_SENT,
                result: CallResult {
                    call: Some(convert::call_ref_to_proto(at)),
                    output: response.output,
                    is_error: response.is_error,
                    reason: response.reason,
                    duration_ms: convert::millis(took),
                },
            }
        });
        (at, outcome)
    }

    async fn send(&self, call: Call) -> Result<InvokeToolResponse, RpcError> {
        let at = call.at;
        let repeatable = matches!(call.effect, Effect::Pure | Effect::Idempotent);
        let mut delays = RETRY_DELAYS.iter().filter(|_| repeatable);
        let message = InvokeToolRequest {
            call_key: call
                .key
                .unwrap_or_else(|| call_key(self.namespace.as_str(), &self.session, at)),
            name: call.name,
            arguments_json: call.arguments,
            session: self.session.clone(),
            not_after_unix_ms: call.not_after_unix_ms,
        };
        loop {
            let status = match self.send_once(message.clone()).await {
                Ok(response) => return Ok(response),
                Err(status) => status,
            };
            if !is_passing(status.code()) && repeatable {
                return Ok(refused(&status));
            }
            match delays.next() {
                Some(delay) => sleep(*delay).await,
                None => return Err(lost(at, status)),
            }
        }
    }

    async fn send_once(&self, message: InvokeToolRequest) -> Result<InvokeToolResponse, Status> {
        let mut request = with_namespace(Request::new(message), &self.namespace);
        request.set_timeout(self.call_limit);
        let response = self.client.clone().invoke_tool(request).await?;
        Ok(response.into_inner())
    }
}

/// Whether the tools service may answer when it is asked again.
fn is_passing(code: Code) -> bool {
    matches!(
        code,
        Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Cancelled
            | Code::Aborted
            | Code::Unknown
            | Code::Internal
    )
}

/// The result of a call that the tools service will never take, and that did no harm if it did.
fn refused(status: &Status) -> InvokeToolResponse {
    let problem = RpcError::from_status(status);
    InvokeToolResponse {
        output: format!("the tools service did not take the call: {problem}"),
        is_error: true,
        reason: "ExecutionFailed".to_owned(),
        duration_ms: 0,
    }
}

fn lost(at: CallRef, status: Status) -> RpcError {
    let message = format!(
        "no result of call {} of tool turn {}: the tools service did not answer",
        at.index, at.tool_turn
    );
    RpcError::unavailable(message)
        .reason("CALL_LOST")
        .source(status)
}
