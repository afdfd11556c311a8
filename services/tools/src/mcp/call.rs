//! One call of a server's tool.

use super::error::{Broken, words};
use super::frame::{REFUSED, UNREADABLE};
use super::handler::Routes;
use super::mask::Mask;
use super::result;
use crate::error::ToolError;
use crate::tool::{Call, Effect, Input, Output, ToolSpec};
use cairn_rpc::TraceParent;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ErrorCode, InputResponses,
    RequestMetaObject, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, RoleClient, ServiceError};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// Where a server finds the key of a call: the same for each repeat of it, and for no other.
pub(crate) const KEY: &str = "dev.cairn/idempotency-key";

/// How long the reason of an end is waited for.
const KNOWN: Duration = Duration::from_secs(1);

/// The connection of a server.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) server: Arc<str>,
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) mask: Arc<Mask>,
    /// The server is to be listed again.
    pub(crate) changed: Arc<Notify>,
    /// Why the program's connection is over, once that is known.
    pub(crate) over: Option<watch::Receiver<Option<String>>>,
}

impl Live {
    /// Why the connection is over, in words that follow the server's name.
    async fn why_over(&self) -> String {
        let closed = || "closed the connection".to_owned();
        let Some(mut over) = self.over.clone() else {
            return closed();
        };
        let known = tokio::time::timeout(KNOWN, over.wait_for(Option::is_some)).await;
        match known {
            Ok(Ok(why)) => why.clone().unwrap_or_else(closed),
            // It is not said, as when the source is closed.
            Ok(Err(_)) | Err(_) => closed(),
        }
    }
}

/// Sends the call, and waits for its result. If this future is dropped, or the call is stopped, the
/// server is asked to cancel it.
///
/// # Errors
/// Those of [`crate::tool::Tool::call`].
pub(crate) async fn call(
    live: &Live,
    spec: &ToolSpec,
    remote: &str,
    call: &Call,
) -> Result<Output, ToolError> {
    live.mask.result(made(live, spec, remote, call).await)
}

async fn made(
    live: &Live,
    spec: &ToolSpec,
    remote: &str,
    call: &Call,
) -> Result<Output, ToolError> {
    let mut came = answer(live, spec, remote, call).await?;
    if call.input.is_some()
        && let Err(ServiceError::McpError(error)) = &came
        && error.code == ErrorCode::INVALID_PARAMS
    {
        // The answer of the person is not taken, as when it came too late.
        if spec.effect == Effect::Effectful {
            let (tool, words) = (&spec.name, words(error));
            return Err(ToolError::Unknown(format!(
                "tool '{tool}' did not take the answer, and what it had done before is not known: {words}"
            )));
        }
        // Its first part may be made again, and then asks again.
        let from_start = Call {
            input: None,
            ..call.clone()
        };
        came = answer(live, spec, remote, &from_start).await?;
    }
    match came {
        Ok(result) => result::read(&spec.name, result),
        Err(ServiceError::TransportClosed) => {
            let why = live.why_over().await;
            Err(lost(&spec.name, &live.server, &why))
        }
        Err(error) => Err(failed(live, spec, &error)),
    }
}

/// Sends the call once, and waits for what comes back.
///
/// # Errors
/// It was not sent, or was stopped.
async fn answer(
    live: &Live,
    spec: &ToolSpec,
    remote: &str,
    call: &Call,
) -> Result<Result<ServerResult, ServiceError>, ToolError> {
    let params = params(remote, call)?;
    let unreachable = |why: &str| {
        let server = &live.server;
        ToolError::Unreachable(format!(
            "tool '{}' was not called: server '{server}' {why}",
            spec.name
        ))
    };
    if live.peer.is_transport_closed() {
        return Err(unreachable("closed the connection"));
    }
    let mut routes = live.routes.lock().await;
    call.permit.check()?;
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let sent = live
        .peer
        .send_cancellable_request(request, PeerRequestOptions::no_options());
    let handle = sent
        .await
        .map_err(|_| unreachable("closed the connection"))?;
    routes.insert(handle.progress_token.clone(), call.progress.clone());
    drop(routes);
    let mut sent = Sent {
        handle: Some(handle),
        live,
    };
    let answer = tokio::select! {
        answer = sent.answer() => answer,
        () = call.stop.cancelled() => {
            return Err(stopped(live, spec));
        }
    };
    sent.is_answered().await;
    Ok(answer)
}

fn params(remote: &str, call: &Call) -> Result<CallToolRequestParams, ToolError> {
    let mut params = CallToolRequestParams::new(remote.to_owned());
    if let Value::Object(arguments) = &call.arguments {
        params = params.with_arguments(arguments.clone());
    }
    if let Some(Input { responses, state }) = &call.input {
        let responses: InputResponses = serde_json::from_str(responses).map_err(|error| {
            ToolError::InvalidArguments(format!("the answer is no JSON object: {error}"))
        })?;
        params = params.with_input_responses(responses);
        if let Some(state) = state {
            params = params.with_request_state(state.clone());
        }
    }
    let mut meta = RequestMetaObject::new();
    meta.0.0.insert(KEY.to_owned(), call.key.clone().into());
    // A process that records nothing itself passes on what it was given.
    let trace = TraceParent::of_span(&tracing::Span::current()).or(call.trace);
    if let Some(trace) = trace {
        meta.0.set_traceparent(trace.to_string());
    }
    params.meta = Some(meta);
    Ok(params)
}

/// A call that was sent. Dropped without an answer, it is cancelled at the server.
struct Sent<'a> {
    handle: Option<RequestHandle<RoleClient>>,
    live: &'a Live,
}

impl Sent<'_> {
    async fn answer(&mut self) -> Result<ServerResult, ServiceError> {
        match &mut self.handle {
            Some(handle) => match (&mut handle.rx).await {
                Ok(answer) => answer,
                Err(_) => Err(ServiceError::TransportClosed),
            },
            None => Err(ServiceError::TransportClosed),
        }
    }

    async fn is_answered(&mut self) {
        if let Some(handle) = self.handle.take() {
            self.live.routes.lock().await.remove(&handle.progress_token);
        }
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else {
            return;
        };
        let Live {
            routes, changed, ..
        } = self.live.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                routes.lock().await.remove(&handle.progress_token);
                // A server that is stuck does not list its tools either, and is started again.
                changed.notify_one();
                // A server that is gone has nothing to cancel.
                _ = handle.cancel(Some("the call was stopped".to_owned())).await;
            });
        }
    }
}

/// The server is asked to stop, and need not.
fn stopped(live: &Live, spec: &ToolSpec) -> ToolError {
    let (tool, server) = (&spec.name, &live.server);
    match spec.effect {
        Effect::Pure => ToolError::ExecutionFailed(format!("tool '{tool}' was stopped")),
        Effect::Idempotent | Effect::Effectful => ToolError::Unknown(format!(
            "tool '{tool}' was asked to stop, and its result is not known: server '{server}' may continue"
        )),
    }
}

fn failed(live: &Live, spec: &ToolSpec, error: &ServiceError) -> ToolError {
    let (tool, server) = (&spec.name, &live.server);
    match error {
        ServiceError::McpError(error) => match error.code {
            UNREADABLE => ToolError::ExecutionFailed(format!(
                "tool '{tool}' was carried out, and its result cannot be read: {}",
                words(error)
            )),
            REFUSED => ToolError::Unreachable(format!(
                "tool '{tool}' was not called: server '{server}' refused it: {}",
                words(error)
            )),
            ErrorCode::INVALID_PARAMS => ToolError::InvalidArguments(words(error)),
            _ => ToolError::ExecutionFailed(format!("tool '{tool}' failed: {}", words(error))),
        },
        ServiceError::TransportSend(error) => {
            let broken = Broken::of_transport(error);
            let why = broken.why;
            if let Some(wait) = broken.put_off {
                // Sent again at once, it would be refused again.
                return ToolError::ExecutionFailed(format!(
                    "tool '{tool}' was not called: server '{server}' {why}; wait {wait} before you call it again"
                ));
            }
            // Over HTTP nothing else shows that the server is gone.
            live.changed.notify_one();
            match broken.is_unsent {
                true => ToolError::Unreachable(format!(
                    "tool '{tool}' was not called: server '{server}' {why}"
                )),
                false => lost(tool, server, &why),
            }
        }
        _ => ToolError::ExecutionFailed(format!(
            "tool '{tool}' answered what is no result of a tool"
        )),
    }
}

fn lost(tool: &str, server: &str, why: &str) -> ToolError {
    ToolError::Unknown(format!(
        "tool '{tool}' was called, and its result is not known: server '{server}' {why}"
    ))
}
