//! What a tool is, and what it is given when it is called.

use crate::error::ToolError;
use crate::gate::Permit;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Largest arguments, in bytes of JSON text, unless the tool says otherwise.
pub const ARGUMENT_LIMIT: usize = 256 * 1024;
/// Largest output, in bytes, unless the tool says otherwise.
pub const OUTPUT_LIMIT: usize = 64 * 1024;
/// Longest call, unless the tool says otherwise.
pub const TIME_LIMIT: Duration = Duration::from_secs(30);

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
    /// Bytes of output that the model is shown; the rest is cut off.
    pub output_limit: usize,
    /// Bytes of JSON text that are read as arguments.
    pub argument_limit: usize,
    /// It runs in this process and dies with it. False if something of it may live on, such as a
    /// child process or a remote server.
    pub in_process: bool,
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
        }
    }
}

/// One call, after its arguments were checked and the gate let it through.
#[derive(Debug, Clone)]
pub struct Call {
    /// The same for every repeat of this call, and for no other. A tool that declares itself
    /// idempotent passes it on to whatever it changes.
    pub key: String,
    /// The session, for the tool's own records.
    pub session: String,
    /// An object that the tool's schema accepts.
    pub arguments: Value,
    /// Cancelled when nobody wants the result any more: the time limit is reached, or a pure call's
    /// caller has gone. Work on other threads and in other processes must watch it; the future of
    /// the call itself is dropped.
    pub stop: CancellationToken,
    /// Asked once before the tool's code runs. A tool that prepares for long asks it again right
    /// before its side effect.
    pub permit: Permit,
    /// Its place among the calls that run at one time. Work on other threads keeps a clone until it
    /// has ended.
    pub slot: Slot,
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
    /// What the model is told.
    pub text: String,
}

impl Output {
    /// An output of plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into() }
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

    /// Does the work. Calls run in parallel, also with themselves.
    ///
    /// # Errors
    /// [`ToolError::ExecutionFailed`] when the work failed, [`ToolError::InvalidArguments`] when
    /// the arguments make no sense beyond what the schema can say.
    async fn call(&self, call: &Call) -> Result<Output, ToolError>;
}
