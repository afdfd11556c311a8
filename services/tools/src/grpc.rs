//! `cairn.tools.v1.ToolsService`: convert, call, convert.

mod list;
mod result;
mod workspace;

use crate::invoke::{Invoker, Outcome, Request as CallRequest};
use crate::progress::{Progress, Steps};
use crate::source::AllowError;
use crate::tool::{Digests, Input};
use crate::workspace_files::WorkspaceFiles;
use cairn_proto::CALL_PLACE;
use cairn_proto::tools as proto;
use cairn_proto::tools::invoke_tool_response::Message;
use cairn_proto::tools::tools_service_server::ToolsService;
use cairn_rpc::{RpcError, TraceParent};
use futures::future::BoxFuture;
use futures::stream::Stream;
use result::Divided;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

/// How long a list may be waited for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Grpc {
    pub(crate) invoker: Arc<Invoker>,
    pub(crate) files: Arc<WorkspaceFiles>,
    /// As the list has them.
    pub(crate) offered: u32,
    pub(crate) level: u32,
    pub(crate) capabilities: Vec<proto::Capability>,
}

#[tonic::async_trait]
impl ToolsService for Grpc {
    type InvokeToolStream = Messages;

    async fn list_tools(
        &self,
        request: Request<proto::ListToolsRequest>,
    ) -> Result<Response<proto::ListToolsResponse>, Status> {
        let request = request.into_inner();
        self.invoker.refresh().await;
        let wait = Duration::from_millis(request.wait_ms.into()).min(LONGEST_WAIT);
        let changed = self.invoker.tools_after(&request.known_digest);
        let tools = match tokio::time::timeout(wait, changed).await {
            Ok(tools) => tools,
            Err(_) => self.invoker.tools(),
        };
        let permissions = self.invoker.permissions();
        Ok(Response::new(proto::ListToolsResponse {
            offered: self.offered,
            level: self.level,
            capabilities: self.capabilities.clone(),
            ..list::answer(&tools, permissions)
        }))
    }

    async fn invoke_tool(
        &self,
        request: Request<proto::InvokeToolRequest>,
    ) -> Result<Response<Self::InvokeToolStream>, Status> {
        let trace = TraceParent::of(&request);
        let place = place_of(request.metadata());
        let (progress, steps) = Progress::followed();
        let call = CallRequest {
            trace,
            place,
            progress,
            ..call(request.into_inner())
        };
        let invoker = self.invoker.clone();
        let outcome = async move { invoker.invoke(call).await };
        Ok(Response::new(Messages {
            steps,
            outcome: Some(Box::pin(outcome)),
            ended: None,
        }))
    }

    async fn preview_tool(
        &self,
        request: Request<proto::PreviewToolRequest>,
    ) -> Result<Response<proto::PreviewToolResponse>, Status> {
        let trace = TraceParent::of(&request);
        let request = request.into_inner();
        let call = CallRequest {
            name: request.name,
            arguments: request.arguments_json,
            session: request.session,
            agent: request.agent,
            tool_digest: request.tool_digest,
            resolved: request.resolved.into_iter().map(Into::into).collect(),
            trace,
            ..CallRequest::default()
        };
        let previewed = self.invoker.preview(call).await;
        Ok(Response::new(result::previewed(previewed)))
    }

    async fn cancel_call(
        &self,
        request: Request<proto::CancelCallRequest>,
    ) -> Result<Response<proto::CancelCallResponse>, Status> {
        let found = self.invoker.interrupt(&request.into_inner().call_key);
        Ok(Response::new(proto::CancelCallResponse { found }))
    }

    async fn allow_tool(
        &self,
        request: Request<proto::AllowToolRequest>,
    ) -> Result<Response<proto::AllowToolResponse>, Status> {
        let proto::AllowToolRequest { name, digest } = request.into_inner();
        let (invoker, asked) = (self.invoker.clone(), name.clone());
        // What is stored is listed too, also if the caller goes away.
        let allowed = tokio::spawn(async move { invoker.allow(&asked, &digest).await }).await;
        let allowed = allowed.map_err(|_| RpcError::internal("the allowance was given up"))?;
        match allowed.map_err(refused)? {
            Some(digest) => Ok(Response::new(proto::AllowToolResponse { digest })),
            None => Err(RpcError::not_found("server or tool", &name)
                .reason("NO_TOOL")
                .into()),
        }
    }

    async fn read_workspace_files(
        &self,
        request: Request<proto::ReadWorkspaceFilesRequest>,
    ) -> Result<Response<proto::ReadWorkspaceFilesResponse>, Status> {
        let known = request.into_inner().known_digest;
        let reading = self.files.read(known).await.map_err(workspace::refused)?;
        Ok(Response::new(workspace::reading(reading)))
    }

    async fn confirm_workspace_files(
        &self,
        request: Request<proto::ConfirmWorkspaceFilesRequest>,
    ) -> Result<Response<proto::ConfirmWorkspaceFilesResponse>, Status> {
        let digest = request.into_inner().digest;
        // A person confirms what was shown, and never whatever is there now.
        if digest.is_empty() {
            return Err(RpcError::missing("digest").into());
        }
        let confirmed = self.files.confirm(&digest).await;
        confirmed.map_err(workspace::refused)?;
        Ok(Response::new(proto::ConfirmWorkspaceFilesResponse {
            digest,
        }))
    }

    async fn read_skill_file(
        &self,
        request: Request<proto::ReadSkillFileRequest>,
    ) -> Result<Response<proto::ReadSkillFileResponse>, Status> {
        let proto::ReadSkillFileRequest {
            skill,
            file,
            digest,
        } = request.into_inner();
        let read = self.files.skill_file(skill, file, digest).await;
        let read = read.map_err(workspace::refused)?;
        Ok(Response::new(proto::ReadSkillFileResponse {
            content: read.content,
            size: read.size,
        }))
    }
}

/// Why nothing was allowed, or perhaps nothing.
fn refused(error: AllowError) -> RpcError {
    let message = error.to_string();
    match error {
        AllowError::Changed { .. } => RpcError::conflict(message).reason("TOOL_CHANGED"),
        AllowError::NotKept(_) => RpcError::precondition(message).reason("TRUST_FILE"),
        AllowError::Memory(cause) => RpcError::unavailable(message)
            .reason("ALLOWANCE_NOT_STORED")
            .caused_by(cause),
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
        agent: request.agent,
        not_after: u64::try_from(request.not_after_unix_ms)
            .ok()
            .filter(|millis| *millis > 0),
        trace: None,
        tool_digest: request.tool_digest,
        resolved: request.resolved.into_iter().map(Into::into).collect(),
        input: request.input.map(|input| Input {
            responses: input.responses_json,
            state: input.request_state,
        }),
        digests: (!request.after_digest.is_empty()).then_some(Digests {
            before: request.before_digest,
            after: request.after_digest,
        }),
        progress: Progress::default(),
        place: None,
    }
}

/// The tool turn of a call and its position, as the executor names them.
fn place_of(metadata: &MetadataMap) -> Option<(u32, u32)> {
    let place = metadata.get(CALL_PLACE)?.to_str().ok()?;
    let (tool_turn, index) = place.split_once('.')?;
    Some((tool_turn.parse().ok()?, index.parse().ok()?))
}

/// Progress as it comes, then the parts of a long text, and the result last.
pub(crate) struct Messages {
    steps: Steps,
    outcome: Option<BoxFuture<'static, Outcome>>,
    ended: Option<Divided>,
}

impl Stream for Messages {
    type Item = Result<proto::InvokeToolResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if let Some(outcome) = &mut this.outcome {
            if let Poll::Ready(step) = this.steps.poll(context) {
                let progress = Message::Progress(result::progress(step));
                return Poll::Ready(Some(Ok(response(progress))));
            }
            let ended = ready!(outcome.as_mut().poll(context));
            this.outcome = None;
            match result::answer(ended) {
                Ok(result) => this.ended = Some(Divided::of(result)),
                Err(status) => return Poll::Ready(Some(Err(status))),
            }
        }
        let next = this.ended.as_mut().and_then(Divided::next_message);
        Poll::Ready(next.map(|message| Ok(response(message))))
    }
}

fn response(message: Message) -> proto::InvokeToolResponse {
    proto::InvokeToolResponse {
        message: Some(message),
    }
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Messages")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_two_numbers_and_nothing_else() {
        let read = |place: &str| {
            let mut metadata = MetadataMap::new();
            metadata.insert(CALL_PLACE, place.parse().unwrap());
            place_of(&metadata)
        };
        assert_eq!(read("3.1"), Some((3, 1)));
        for wrong in ["", "3", "3.", ".1", "3.1.2", "3.-1", "3.4294967296", "a.b"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(place_of(&MetadataMap::new()), None);
    }
}
