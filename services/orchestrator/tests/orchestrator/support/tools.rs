//! A catalogue of tools that are not called here. A call of `approved` waits for a person, and one of
//! `denied` is refused.

use cairn_proto::event::Effect;
use cairn_proto::tools::tools_service_server::{ToolsService, ToolsServiceServer};
use cairn_proto::tools::{
    AllowToolRequest, AllowToolResponse, CancelCallRequest, CancelCallResponse,
    ConfirmWorkspaceFilesRequest, ConfirmWorkspaceFilesResponse, InvokeToolRequest,
    InvokeToolResponse, ListToolsRequest, ListToolsResponse, PreviewToolRequest,
    PreviewToolResponse, ReadSkillFileRequest, ReadSkillFileResponse, ReadWorkspaceFilesRequest,
    ReadWorkspaceFilesResponse, RuleAnswer, ToolSpec,
};
use cairn_rpc::{Exposure, Link, ServerBuilder};
use futures::stream::Empty;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use tonic::{Request, Response, Status};

/// The tools that have gone, and the level of the process that lists the others.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tools(Arc<Mutex<Vec<&'static str>>>, Arc<AtomicU32>);

impl Tools {
    /// The tool is not listed any more.
    pub(crate) fn remove(&self, name: &'static str) {
        self.0.lock().unwrap().push(name);
    }

    /// The process that lists them is one of a release of this level from now on.
    pub(crate) fn set_level(&self, level: u32) {
        self.1.store(level, Ordering::Relaxed);
    }

    fn has(&self, name: &str) -> bool {
        !self.0.lock().unwrap().contains(&name)
    }
}

struct Listed(Tools);

#[tonic::async_trait]
impl ToolsService for Listed {
    type InvokeToolStream = Empty<Result<InvokeToolResponse, Status>>;

    async fn list_tools(
        &self,
        _request: Request<ListToolsRequest>,
    ) -> Result<Response<ListToolsResponse>, Status> {
        let tool = |name: &str, effect: Effect| ToolSpec {
            name: name.to_owned(),
            description: format!("the tool {name}"),
            parameters_json: r#"{"type":"object"}"#.to_owned(),
            effect: effect.into(),
            time_limit_ms: 1_000,
            in_process: false,
            default_answer: match name {
                "approved" => RuleAnswer::Ask,
                "denied" => RuleAnswer::Deny,
                _ => RuleAnswer::Allow,
            }
            .into(),
            ..ToolSpec::default()
        };
        let mut tools = vec![
            tool("approved", Effect::Effectful),
            tool("denied", Effect::Effectful),
            tool("effectful", Effect::Effectful),
            tool("idempotent", Effect::Idempotent),
            tool("pure", Effect::Pure),
        ];
        tools.retain(|tool| self.0.has(&tool.name));
        Ok(Response::new(ListToolsResponse {
            tools,
            offered: 40,
            level: self.0.1.load(Ordering::Relaxed),
            ..ListToolsResponse::default()
        }))
    }

    async fn invoke_tool(
        &self,
        _request: Request<InvokeToolRequest>,
    ) -> Result<Response<Self::InvokeToolStream>, Status> {
        Err(Status::unimplemented("the executors are played"))
    }

    async fn preview_tool(
        &self,
        _request: Request<PreviewToolRequest>,
    ) -> Result<Response<PreviewToolResponse>, Status> {
        Err(Status::unimplemented("no tool writes files"))
    }

    async fn cancel_call(
        &self,
        _request: Request<CancelCallRequest>,
    ) -> Result<Response<CancelCallResponse>, Status> {
        Err(Status::unimplemented("the executors are played"))
    }

    async fn allow_tool(
        &self,
        _request: Request<AllowToolRequest>,
    ) -> Result<Response<AllowToolResponse>, Status> {
        Err(Status::unimplemented("nobody allows tools"))
    }

    async fn read_workspace_files(
        &self,
        _: Request<ReadWorkspaceFilesRequest>,
    ) -> Result<Response<ReadWorkspaceFilesResponse>, Status> {
        Ok(Response::new(ReadWorkspaceFilesResponse::default()))
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

pub(crate) async fn tools(tools: &Tools) -> Link {
    let service = ToolsServiceServer::new(Listed(tools.clone()));
    let server = ServerBuilder::new(Exposure::Internal).register(service, cairn_proto::DESCRIPTORS);
    server.build().await.expect("a server").link()
}
