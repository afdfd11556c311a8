//! `cairn.tools.v1.ToolsService`: convert, call, convert.

use crate::invoke::{GRACE, Invoker, Outcome, Request as CallRequest};
use crate::tool::{Effect, ToolSpec};
use cairn_proto::event;
use cairn_proto::tools as proto;
use cairn_proto::tools::tools_service_server::ToolsService;
use cairn_rpc::TraceParent;
use std::sync::Arc;
use std::time::Duration;
use tonic::{Request, Response, Status};

#[derive(Debug)]
pub(crate) struct Grpc {
    invoker: Arc<Invoker>,
}

impl Grpc {
    pub(crate) fn new(invoker: Arc<Invoker>) -> Self {
        Self { invoker }
    }
}

#[tonic::async_trait]
impl ToolsService for Grpc {
    async fn list_tools(
        &self,
        _request: Request<proto::ListToolsRequest>,
    ) -> Result<Response<proto::ListToolsResponse>, Status> {
        let tools = self.invoker.list().map(|listed| proto::ToolSpec {
            needs_approval: self.invoker.asks(&listed.name),
            ..spec(listed)
        });
        let tools = tools.collect();
        Ok(Response::new(proto::ListToolsResponse { tools }))
    }

    async fn invoke_tool(
        &self,
        request: Request<proto::InvokeToolRequest>,
    ) -> Result<Response<proto::InvokeToolResponse>, Status> {
        let trace = TraceParent::of(&request);
        let call = CallRequest {
            trace,
            ..call(request.into_inner())
        };
        let outcome = self.invoker.invoke(call).await;
        Ok(Response::new(answer(outcome)))
    }
}

/// What is missing is left to the gate, whose refusal is a result: an error of the call itself
/// would leave open whether anything was done.
fn call(request: proto::InvokeToolRequest) -> CallRequest {
    CallRequest {
        name: request.name,
        arguments: request.arguments_json,
        key: request.call_key,
        session: request.session,
        not_after: u64::try_from(request.not_after_unix_ms)
            .ok()
            .filter(|millis| *millis > 0),
        trace: None,
        approval: request.approval,
    }
}

fn answer(outcome: Outcome) -> proto::InvokeToolResponse {
    let duration_ms = millis(outcome.elapsed);
    match outcome.result {
        Ok(output) => proto::InvokeToolResponse {
            output: output.text,
            is_error: false,
            reason: String::new(),
            duration_ms,
        },
        Err(error) => proto::InvokeToolResponse {
            output: error.to_text(),
            is_error: true,
            reason: error.reason().to_owned(),
            duration_ms,
        },
    }
}

fn spec(spec: &ToolSpec) -> proto::ToolSpec {
    let effect = match spec.effect {
        Effect::Pure => event::Effect::Pure,
        Effect::Idempotent => event::Effect::Idempotent,
        Effect::Effectful => event::Effect::Effectful,
    };
    proto::ToolSpec {
        name: spec.name.clone(),
        description: spec.description.clone(),
        parameters_json: spec.parameters.to_string(),
        effect: effect.into(),
        // A call that is stopped may still hand over an answer that it has.
        time_limit_ms: millis(spec.time_limit + GRACE),
        in_process: spec.in_process,
        needs_approval: false,
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
