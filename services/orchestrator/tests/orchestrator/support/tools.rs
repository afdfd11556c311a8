//! A catalogue of tools, and the files of a workspace. A call of `approved` waits for a person, and one of
//! `denied` is refused. The calls that come here are counted, and refused.

use cairn_engine::key::{digest, hex};
use cairn_proto::event::Effect;
use cairn_proto::tools::tools_service_server::{ToolsService, ToolsServiceServer};
use cairn_proto::tools::{
    AllowToolRequest, AllowToolResponse, CancelCallRequest, CancelCallResponse,
    ConfirmWorkspaceFilesRequest, ConfirmWorkspaceFilesResponse, InvokeToolRequest,
    InvokeToolResponse, ListToolsRequest, ListToolsResponse, PreviewToolRequest,
    PreviewToolResponse, ReadSkillFileRequest, ReadSkillFileResponse, ReadWorkspaceFilesRequest,
    ReadWorkspaceFilesResponse, RuleAnswer, ToolRule, ToolSpec, WorkspaceFile, WorkspaceFileKind,
};
use cairn_rpc::{ErrorKind, Exposure, Link, RpcError, ServerBuilder};
use futures::stream::Empty;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tonic::{Request, Response, Status};

/// The process of tools, as the test sets it up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tools(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Tools that are not listed any more.
    gone: Vec<&'static str>,
    /// The level of the process.
    level: u32,
    rules: Vec<ToolRule>,
    /// The files of the workspace by their paths.
    files: BTreeMap<String, String>,
    /// The digest that a person confirmed.
    confirmed: String,
    /// No file can be read.
    is_away: bool,
    /// How often files were read, and how often their contents were sent.
    reads: (usize, usize),
    /// The names of the tools that were called.
    called: Vec<String>,
    /// The keys of the calls that were to be interrupted, as they came.
    interrupted: Vec<String>,
}

impl Tools {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The tool is not listed any more.
    pub(crate) fn remove(&self, name: &'static str) {
        self.lock().gone.push(name);
    }

    /// The process that lists them is one of a release of this level from now on.
    pub(crate) fn set_level(&self, level: u32) {
        self.lock().level = level;
    }

    /// The rules about calls, from the next reading of the catalogue on.
    pub(crate) fn set_rules(&self, rules: Vec<ToolRule>) {
        self.lock().rules = rules;
    }

    /// Writes a file of the workspace. No file is confirmed then.
    pub(crate) fn write(&self, path: &str, text: &str) {
        self.lock().files.insert(path.to_owned(), text.to_owned());
    }

    /// A person confirms the files as they are.
    pub(crate) fn confirm(&self) {
        let mut state = self.lock();
        state.confirmed = state.digest();
    }

    /// Files cannot be read, or can be again.
    pub(crate) fn be_away(&self, is_away: bool) {
        self.lock().is_away = is_away;
    }

    /// How often files were read, and how often their contents were sent.
    pub(crate) fn reads(&self) -> (usize, usize) {
        self.lock().reads
    }

    /// The keys of the calls that were to be interrupted, as they came.
    pub(crate) fn interrupted(&self) -> Vec<String> {
        self.lock().interrupted.clone()
    }

    /// The names of the tools that were called.
    pub(crate) fn called(&self) -> Vec<String> {
        self.lock().called.clone()
    }
}

impl State {
    fn digest(&self) -> String {
        let files = self.files.iter();
        let parts: Vec<&[u8]> = files
            .flat_map(|(path, text)| [path.as_bytes(), text.as_bytes()])
            .collect();
        match parts.as_slice() {
            [] => String::new(),
            parts => hex(&digest(parts)),
        }
    }

    fn check_reach(&self) -> Result<(), Status> {
        match self.is_away {
            true => Err(RpcError::unavailable("a fault of the test").into()),
            false => Ok(()),
        }
    }

    /// The digest of a skill's folder.
    fn digest_of_skill(&self, skill: &str) -> String {
        let folder = format!("skills/{skill}/");
        let files = self.files.iter();
        let files = files.filter(|(path, _)| path.starts_with(&folder));
        let parts: Vec<&[u8]> = files
            .flat_map(|(path, text)| [path.as_bytes(), text.as_bytes()])
            .collect();
        hex(&digest(&parts))
    }

    fn file(&self, path: &str, text: &str, has_content: bool) -> Option<WorkspaceFile> {
        let (kind, digest) = match path {
            "AGENTS.md" => (WorkspaceFileKind::Instructions, String::new()),
            path if path.starts_with("agents/") => (WorkspaceFileKind::Agent, String::new()),
            path => {
                let skill = path.strip_prefix("skills/")?.strip_suffix("/SKILL.md")?;
                (WorkspaceFileKind::Skill, self.digest_of_skill(skill))
            }
        };
        Some(WorkspaceFile {
            path: path.to_owned(),
            kind: kind.into(),
            size: text.len() as u64,
            digest,
            content: match has_content {
                true => text.to_owned().into(),
                false => Default::default(),
            },
            ..WorkspaceFile::default()
        })
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
        let state = self.0.lock();
        tools.retain(|tool| !state.gone.contains(&tool.name.as_str()));
        Ok(Response::new(ListToolsResponse {
            tools,
            offered: 40,
            level: state.level,
            rules: state.rules.clone(),
            ..ListToolsResponse::default()
        }))
    }

    async fn invoke_tool(
        &self,
        request: Request<InvokeToolRequest>,
    ) -> Result<Response<Self::InvokeToolStream>, Status> {
        self.0.lock().called.push(request.into_inner().name);
        Err(Status::unimplemented("no tool is called here"))
    }

    async fn preview_tool(
        &self,
        _request: Request<PreviewToolRequest>,
    ) -> Result<Response<PreviewToolResponse>, Status> {
        Err(Status::unimplemented("no tool writes files"))
    }

    async fn cancel_call(
        &self,
        request: Request<CancelCallRequest>,
    ) -> Result<Response<CancelCallResponse>, Status> {
        let key = request.into_inner().call_key;
        self.0.lock().interrupted.push(key);
        Ok(Response::new(CancelCallResponse { found: true }))
    }

    async fn allow_tool(
        &self,
        _request: Request<AllowToolRequest>,
    ) -> Result<Response<AllowToolResponse>, Status> {
        Err(Status::unimplemented("nobody allows tools"))
    }

    async fn read_workspace_files(
        &self,
        request: Request<ReadWorkspaceFilesRequest>,
    ) -> Result<Response<ReadWorkspaceFilesResponse>, Status> {
        let known = request.into_inner().known_digest;
        let mut state = self.0.lock();
        state.check_reach()?;
        let digest = state.digest();
        let confirmed = !digest.is_empty() && digest == state.confirmed;
        let unchanged = !digest.is_empty() && digest == known;
        let has_content = confirmed && !unchanged;
        state.reads.0 += 1;
        state.reads.1 += usize::from(has_content);
        let files = state.files.iter();
        let files = files.filter_map(|(path, text)| state.file(path, text, has_content));
        Ok(Response::new(ReadWorkspaceFilesResponse {
            files: files.collect(),
            digest,
            confirmed,
            unchanged,
            problems: Vec::new(),
        }))
    }

    async fn confirm_workspace_files(
        &self,
        request: Request<ConfirmWorkspaceFilesRequest>,
    ) -> Result<Response<ConfirmWorkspaceFilesResponse>, Status> {
        let asked = request.into_inner().digest;
        let mut state = self.0.lock();
        state.check_reach()?;
        let digest = state.digest();
        if asked != digest {
            let error = RpcError::new(ErrorKind::Conflict, "the files have another digest");
            let error = error.reason("WORKSPACE_CHANGED").meta("digest", digest);
            return Err(error.into());
        }
        state.confirmed.clone_from(&digest);
        Ok(Response::new(ConfirmWorkspaceFilesResponse { digest }))
    }

    async fn read_skill_file(
        &self,
        request: Request<ReadSkillFileRequest>,
    ) -> Result<Response<ReadSkillFileResponse>, Status> {
        let asked = request.into_inner();
        let state = self.0.lock();
        state.check_reach()?;
        if state.digest_of_skill(&asked.skill) != asked.digest {
            let error = RpcError::precondition("the skill has changed").reason("SKILL_CHANGED");
            return Err(error.into());
        }
        let file = match asked.file.as_str() {
            "" => "SKILL.md",
            file => file,
        };
        let path = format!("skills/{}/{file}", asked.skill);
        let missing = || RpcError::not_found("file", file).reason("NO_SKILL_FILE");
        let text = state.files.get(&path).ok_or_else(missing)?;
        Ok(Response::new(ReadSkillFileResponse {
            size: text.len() as u64,
            content: text.clone().into(),
        }))
    }
}

pub(crate) async fn tools(tools: &Tools) -> Link {
    let service = ToolsServiceServer::new(Listed(tools.clone()));
    let server = ServerBuilder::new(Exposure::Internal).register(service, cairn_proto::DESCRIPTORS);
    server.build().await.expect("a server").link()
}
