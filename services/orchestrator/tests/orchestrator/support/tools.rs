//! A catalogue of tools, and the files of a workspace. A call of `approved` waits for a person, and one of
//! `denied` is refused. The calls that come here are counted, and refused, but for those of `write`.

use cairn_engine::key::{digest, hex};
use cairn_proto::event::{Effect, FileState};
use cairn_proto::tools::invoke_tool_response::Message;
use cairn_proto::tools::preview_tool_response::Outcome;
use cairn_proto::tools::tools_service_server::{ToolsService, ToolsServiceServer};
use cairn_proto::tools::{
    AllowToolRequest, AllowToolResponse, CancelCallRequest, CancelCallResponse, Capability,
    ConfirmWorkspaceFilesRequest, ConfirmWorkspaceFilesResponse, InvokeToolRequest,
    InvokeToolResponse, ListToolsRequest, ListToolsResponse, Preview, PreviewToolRequest,
    PreviewToolResponse, ReadSkillFileRequest, ReadSkillFileResponse, ReadWorkspaceFilesRequest,
    ReadWorkspaceFilesResponse, RuleAnswer, ToolResult, ToolRule, ToolSpec, Unsent, WorkspaceFile,
    WorkspaceFileKind,
};
use cairn_rpc::{ErrorKind, Exposure, Link, RpcError, ServerBuilder};
use futures::stream::{self, BoxStream};
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
    /// There is the tool `write`, which asks.
    has_writer: bool,
    /// The contents of the files that `write` writes.
    disk: BTreeMap<String, String>,
    /// Each write that was made.
    writes: Vec<(String, String)>,
    /// How often a preview was asked for.
    previews: usize,
}

/// The arguments of `write`.
fn written(arguments: &str) -> (String, String) {
    let arguments: serde_json::Value = serde_json::from_str(arguments).unwrap();
    let text = |name: &str| arguments[name].as_str().unwrap().to_owned();
    (text("path"), text("content"))
}

/// The digest of a file's content; empty for no file.
fn digest_of(content: Option<&String>) -> String {
    content.map_or_else(String::new, |content| format!("digest of {content}"))
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

    /// Lists the tool `write` as well.
    pub(crate) fn add_writer(&self) {
        self.lock().has_writer = true;
    }

    /// Another program writes a file.
    pub(crate) fn change(&self, path: &str, content: &str) {
        let (path, content) = (path.to_owned(), content.to_owned());
        self.lock().disk.insert(path, content);
    }

    /// The path and the content of each write that was made.
    pub(crate) fn writes(&self) -> Vec<(String, String)> {
        self.lock().writes.clone()
    }

    /// How often a preview was asked for.
    pub(crate) fn previews(&self) -> usize {
        self.lock().previews
    }

    /// The names of the tools that were called.
    pub(crate) fn called(&self) -> Vec<String> {
        self.lock().called.clone()
    }
}

impl State {
    /// What becomes of a call of `write`, as the file tools do it.
    fn write(&mut self, call: &InvokeToolRequest) -> ToolResult {
        let (path, content) = written(&call.arguments_json);
        assert!(!call.after_digest.is_empty(), "a write without a preview");
        let now = digest_of(self.disk.get(&path));
        let file = |digest: &str| FileState {
            path: path.clone(),
            digest: digest.to_owned(),
        };
        if now != call.after_digest && now != call.before_digest {
            return ToolResult {
                output: "the file has changed".to_owned(),
                is_error: true,
                reason: "NotSent".to_owned(),
                unsent: Some(Unsent {
                    tool_digest: WRITER.to_owned(),
                    file: Some(file(&now)),
                    ..Unsent::default()
                }),
                ..ToolResult::default()
            };
        }
        if now != call.after_digest {
            self.writes.push((path.clone(), content.clone()));
            self.disk.insert(path.clone(), content);
        }
        ToolResult {
            output: format!("wrote {path}"),
            file: Some(file(&call.after_digest)),
            ..ToolResult::default()
        }
    }

    fn preview(&mut self, call: &PreviewToolRequest) -> Preview {
        let (path, content) = written(&call.arguments_json);
        self.previews += 1;
        Preview {
            before_digest: digest_of(self.disk.get(&path)),
            after_digest: digest_of(Some(&content)),
            diff: format!("+{content}\n"),
            added: 1,
            removed: 0,
            is_protected: path == "AGENTS.md",
            path,
        }
    }

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

/// The digest of `write`.
const WRITER: &str = "writer";

struct Listed(Tools);

#[tonic::async_trait]
impl ToolsService for Listed {
    type InvokeToolStream = BoxStream<'static, Result<InvokeToolResponse, Status>>;

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
        if state.has_writer {
            tools.push(ToolSpec {
                default_answer: RuleAnswer::Ask.into(),
                previews: true,
                digest: WRITER.to_owned(),
                source: "built-in".to_owned(),
                ..tool("write", Effect::Idempotent)
            });
        }
        tools.retain(|tool| !state.gone.contains(&tool.name.as_str()));
        Ok(Response::new(ListToolsResponse {
            tools,
            offered: 40,
            level: state.level,
            rules: state.rules.clone(),
            capabilities: vec![
                capability("file_ops", "pure"),
                capability("shell_exec", "effectful"),
            ],
            ..ListToolsResponse::default()
        }))
    }

    async fn invoke_tool(
        &self,
        request: Request<InvokeToolRequest>,
    ) -> Result<Response<Self::InvokeToolStream>, Status> {
        let call = request.into_inner();
        let mut state = self.0.lock();
        state.called.push(call.name.clone());
        if call.name != "write" {
            return Err(Status::unimplemented("no tool is called here"));
        }
        let message = InvokeToolResponse {
            message: Some(Message::Result(state.write(&call))),
        };
        Ok(Response::new(Box::pin(stream::iter([Ok(message)]))))
    }

    async fn preview_tool(
        &self,
        request: Request<PreviewToolRequest>,
    ) -> Result<Response<PreviewToolResponse>, Status> {
        let mut state = self.0.lock();
        state.check_reach()?;
        let preview = state.preview(&request.into_inner());
        Ok(Response::new(PreviewToolResponse {
            outcome: Some(Outcome::Preview(preview)),
        }))
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

fn capability(name: &str, tool: &str) -> Capability {
    Capability {
        name: name.to_owned(),
        tools: vec![tool.to_owned()],
        level: 1,
    }
}

pub(crate) async fn tools(tools: &Tools) -> Link {
    let service = ToolsServiceServer::new(Listed(tools.clone()));
    let server = ServerBuilder::new(Exposure::Internal).register(service, cairn_proto::DESCRIPTORS);
    server.build().await.expect("a server").link()
}
