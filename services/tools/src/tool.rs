//! What a tool is, and what it is given when it is called.

use crate::error::ToolError;
use crate::gate::Permit;
use crate::progress::Progress;
use async_trait::async_trait;
use cairn_engine::canonical::to_canonical_json;
use cairn_engine::key::{digest, hex};
use cairn_engine::limits::MAX_RESULT;
use cairn_engine::rules::{Answer, Condition, Matcher, Scope};
use cairn_rpc::TraceParent;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Largest arguments, in bytes of JSON text, unless the tool says otherwise.
pub const ARGUMENT_LIMIT: usize = 256 * 1024;
/// Largest output, in bytes, unless the tool says otherwise. What a model gets of it at once is less: the
/// session's owner keeps the whole.
pub const OUTPUT_LIMIT: usize = MAX_RESULT;
/// Longest call, unless the tool says otherwise.
pub const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Bytes of a tool in a list beside its texts, about.
const AROUND_TOOL: usize = 512;

/// What may happen when a call is made a second time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It changes nothing and may run again at any time.
    Pure,
    /// A repeat with the same key changes nothing more.
    Idempotent,
    /// A repeat may do harm. What is not declared is taken for this.
    #[default]
    Effectful,
}

/// What is known of a tool before it is called.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// `^[a-zA-Z0-9_-]{1,64}$`.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub parameters: Value,
    /// Decides whether the gate is asked and whether a call may be repeated.
    pub effect: Effect,
    /// A call that takes longer is stopped.
    pub time_limit: Duration,
    /// Bytes of output that are kept, at most [`MAX_RESULT`]; the rest is cut off.
    pub output_limit: usize,
    /// Bytes of JSON text that are read as arguments.
    pub argument_limit: usize,
    /// It runs in this process and dies with it. False if something of it may live on, such as a
    /// child process or a remote server.
    pub in_process: bool,
    /// Where it comes from; see [`crate::source::ToolSource::name`].
    pub source: String,
    /// A name for people; may be empty.
    pub title: String,
    /// JSON Schema of structured results, if it has any.
    pub output_schema: Option<Value>,
    /// What its server hints of it, as the server wrote it. Hints may tighten the effect. They
    /// loosen it only where the operator trusts those of the server.
    pub hints: Option<Value>,
    /// The arguments of a call that rules may name. Without any, the tool declares none, and they are read
    /// by their names; see [`cairn_engine::rules::scope()`].
    pub matchers: Vec<Matcher>,
    /// The answer to a call that no rule matches.
    pub default: Answer,
    /// The schemas are the operator's own, and not those of a server that may mean harm.
    pub is_trusted: bool,
    /// Its calls write a file, and [`Tool::preview`] shows what they would change.
    pub previews: bool,
    /// Its calls start programs that are confined to the workspace.
    pub is_confined: bool,
    /// What its commands can reach, for a person who is asked about one; empty for other tools.
    pub opens: String,
}

impl ToolSpec {
    /// A tool with the default effect (effectful) and the default limits, running in this process.
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters,
            effect: Effect::default(),
            time_limit: TIME_LIMIT,
            output_limit: OUTPUT_LIMIT,
            argument_limit: ARGUMENT_LIMIT,
            in_process: true,
            source: BUILT_IN.to_owned(),
            title: String::new(),
            output_schema: None,
            hints: None,
            matchers: Vec::new(),
            default: Answer::Allow,
            is_trusted: true,
            previews: false,
            is_confined: false,
            opens: String::new(),
        }
    }

    /// The parts that a person or a model judges it by, by the keys of stored pins, each with its digest.
    /// Two tools with equal parts are the same tool.
    pub fn parts(&self) -> [(&'static str, String); 7] {
        let text = |text: &str| hex(&digest(&[text.as_bytes()]));
        let json = |value: Option<&Value>| match value {
            Some(value) => text(&to_canonical_json(value)),
            None => String::new(),
        };
        [
            ("name", text(&format!("{}\n{}", self.source, self.name))),
            ("title", text(&self.title)),
            ("description", text(&self.description)),
            ("input_schema", json(Some(&self.parameters))),
            ("output_schema", json(self.output_schema.as_ref())),
            ("hints", json(self.hints.as_ref())),
            ("effect", text(&format!("{:?}", self.effect))),
        ]
    }

    /// Bytes of what a list says of it, about.
    pub(crate) fn bytes(&self) -> usize {
        let json = |value: &Value| value.to_string().len();
        self.description.len()
            + self.title.len()
            + json(&self.parameters)
            + self.output_schema.as_ref().map_or(0, json)
            + self.hints.as_ref().map_or(0, json)
            + AROUND_TOOL
    }

    /// Covers [`Self::parts`].
    pub fn digest(&self) -> String {
        let parts = self.parts();
        let parts: Vec<&[u8]> = parts.iter().map(|(_, digest)| digest.as_bytes()).collect();
        hex(&digest(&parts))
    }
}

/// The source of tools that are part of Cairn.
pub const BUILT_IN: &str = "built-in";
/// The source of programs that the settings name.
pub const PROGRAM: &str = "program";

/// One call, after its arguments were checked and the gate let it through.
#[derive(Debug, Clone)]
pub struct Call {
    /// The same for every repeat of this call, and for no other. A tool that declares itself
    /// idempotent passes it on to whatever it changes.
    pub key: String,
    /// The session, for the tool's own records.
    pub session: String,
    /// The span of the one who asks for it.
    pub trace: Option<TraceParent>,
    /// An object that the tool's schema accepts.
    pub arguments: Value,
    /// Cancelled when nobody wants the result any more: the time limit is reached, the call's owner
    /// interrupts it, or a pure call's caller has gone. Work on other threads and in other processes must watch it; the future of
    /// the call itself is dropped.
    pub stop: CancellationToken,
    /// Asked once before the tool's code runs. A tool that prepares for long asks it again right
    /// before its side effect.
    pub permit: Permit,
    /// Its place among the calls that run at one time. Work on other threads keeps a clone until it
    /// has ended.
    pub slot: Slot,
    /// For the one who follows the call.
    pub progress: Progress,
    /// The answer to what the tool asked; none for a call from its start.
    pub input: Option<Input>,
    /// The preview that was judged; none for a call without one.
    pub digests: Option<Digests>,
}

/// The digests of a file in an approved preview: what the call may find, and what it leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digests {
    /// Before the write; empty if there was no file.
    pub before: String,
    /// After the write.
    pub after: String,
}

/// A file as a call found or left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileState {
    /// Its path, as tools take it. One file has one path.
    pub path: String,
    /// The digest of its whole content; see [`cairn_engine::key::ContentDigest`]. Empty if there is no file.
    pub digest: String,
}

/// What a write would change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// The path of the file, as in [`FileState`].
    pub path: String,
    /// The digests of the file, now and after the write.
    pub digests: Digests,
    /// The change as a unified diff.
    pub diff: String,
    /// Lines that are added.
    pub added: u32,
    /// Lines that are removed.
    pub removed: u32,
    /// Cairn, git or an agent reads or runs the file on its own: a person must approve the write.
    pub is_protected: bool,
}

/// The answer to an [`InputRequired`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// The responses by the keys of the requests, as JSON.
    pub responses: String,
    /// The state that came with the question.
    pub state: Option<String>,
}

/// What a tool asks a person in the middle of a call. The call continues with the answer, perhaps in
/// another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputRequired {
    /// The requests by their keys, as JSON.
    pub requests: String,
    /// What the tool wants back with the answer.
    pub state: Option<String>,
}

/// A place among the calls that run at one time, held until the last clone is dropped. The default is
/// none: for calls that a test makes by itself.
#[derive(Debug, Clone, Default)]
pub struct Slot(#[expect(dead_code, reason = "it is held")] Option<Arc<Held>>);

#[derive(Debug)]
struct Held {
    _permit: OwnedSemaphorePermit,
    /// The end of the service waits for it.
    _running: TaskTrackerToken,
}

impl Slot {
    pub(crate) fn new(permit: OwnedSemaphorePermit, running: TaskTrackerToken) -> Self {
        Self(Some(Arc::new(Held {
            _permit: permit,
            _running: running,
        })))
    }
}

/// What a call gave.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    /// What the model is sent.
    pub text: String,
    /// Images, sounds and files. The text has a line about each.
    pub media: Vec<Media>,
    /// The text was cut at the limit of the tool. Set around the tool.
    pub is_cut: bool,
    /// The file that the call read or wrote.
    pub file: Option<FileState>,
}

/// An image, a sound or a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Media {
    /// Its media type, in the tool's words.
    pub mime_type: String,
    /// Its name or address, in the tool's words; may be empty.
    pub name: String,
    /// The content.
    pub data: Vec<u8>,
}

impl Output {
    /// An output of plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }
}

/// Something that a model may ask for.
///
/// Implementations need not check arguments against their schema, nor the time limit, nor the size
/// of their output, nor panics: all of that is done around them.
#[async_trait]
pub trait Tool: Send + Sync + 'static {
    /// Always the same.
    fn spec(&self) -> &ToolSpec;

    /// Where the texts of a call lead by links: those of [`Scope::texts`] that lead elsewhere than they say,
    /// in one order. The path is empty if that cannot be decided. Called before the effect; the owner judges
    /// again if it does not know them.
    fn links(&self, scope: &Scope) -> Vec<Condition> {
        let _ = scope;
        Vec::new()
    }

    /// Shows what a call would change, and changes nothing. Only for a tool with [`ToolSpec::previews`]. The
    /// call has no permit that runs out and no progress.
    ///
    /// # Errors
    /// What [`Self::call`] would fail with.
    async fn preview(&self, call: &Call) -> Result<Preview, ToolError> {
        let _ = call;
        Err(ToolError::ExecutionFailed(format!(
            "tool '{}' has no preview",
            self.spec().name
        )))
    }

    /// Does the work. Calls run in parallel, also with themselves.
    ///
    /// # Errors
    /// [`ToolError::ExecutionFailed`] when the work failed, [`ToolError::InvalidArguments`] when
    /// the arguments make no sense beyond what the schema can say, [`ToolError::InputRequired`] when a
    /// person has to answer first, [`ToolError::Unreachable`] when nothing was sent and
    /// [`ToolError::Unknown`] when nobody knows what became of the call.
    async fn call(&self, call: &Call) -> Result<Output, ToolError>;
}

/// Why a call is to be judged anew. Nothing was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejudge {
    /// The digest of the tool that has the name now.
    pub tool_digest: String,
    /// Where texts of its arguments really lead.
    pub resolved: Vec<Condition>,
    /// The file as it is now, if it is not the one of the preview.
    pub file: Option<FileState>,
}
