//! One call, one result: lookup, permission, arguments, gate, tool, limits.

mod check;
mod interrupt;
mod limited;

use interrupt::{Entered, Running};
use limited::limited;

use crate::error::ToolError;
use crate::gate::{Gate, Permit};
use crate::permission::Permissions;
use crate::progress::Progress;
use crate::registry::{Snapshot, ToolRegistry};
use crate::source::AllowError;
use crate::text;
use crate::tool::{Call, Digests, Effect, Input, Output, Preview, Slot, Tool, ToolSpec};
use cairn_engine::rules::Condition;
use cairn_rpc::metrics::{self, counter, histogram};
use cairn_rpc::trace::{TARGET, is_content_wanted};
use cairn_rpc::{BootClock, Monotonic as _, TraceParent};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::field::Empty;
use tracing::{Instrument, Span};

/// How long a stopped tool may take to give the answer that it already has.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// How long a call waits for a server that is being started.
const STARTING: Duration = Duration::from_secs(5);
/// Most bytes of arguments or results that one span carries.
const MOST_CONTENT: usize = 16 * 1024;

/// A call that is asked for.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The tool.
    pub name: String,
    /// The arguments as the model wrote them.
    pub arguments: String,
    /// The same for every repeat of this call, and for no other. Needed unless the tool is pure.
    pub key: String,
    /// The session, for the tool's own records.
    pub session: String,
    /// The agent that calls; empty for the default one.
    pub agent: String,
    /// The attempt or step that asks for it.
    pub trace: Option<TraceParent>,
    /// Last moment at which the call may begin, in milliseconds since 1970 by the store's clock.
    /// Needed unless the tool is pure.
    pub not_after: Option<u64>,
    /// The digest of the tool that was judged; empty for whatever tool has the name.
    pub tool_digest: String,
    /// The links that the call was judged with.
    pub resolved: Vec<Condition>,
    /// The answer to what the tool asked; none for a call from its start.
    pub input: Option<Input>,
    /// The preview that was judged; none for a call without one.
    pub digests: Option<Digests>,
    /// For the one who follows the call.
    pub progress: Progress,
    /// The tool turn of the call and its position in it, for traces; none if the caller does not say.
    pub place: Option<(u32, u32)>,
}

/// How a call ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What the tool gave, or why it gave nothing.
    pub result: Result<Output, ToolError>,
    /// From gate to result; zero if the call never got there.
    pub elapsed: Duration,
}

/// Carries out calls. Every call gets exactly one outcome, whatever the tool does.
#[derive(Debug)]
pub struct Invoker {
    registry: ToolRegistry,
    permissions: Permissions,
    gate: Gate,
    slots: Slots,
    running: TaskTracker,
    calls: Running,
}

/// Calls that run at one time: so many of each source, so that one that hangs holds up no other.
#[derive(Debug)]
struct Slots {
    of_each: usize,
    by_source: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

impl Slots {
    fn of(&self, source: &str) -> Arc<Semaphore> {
        let by_source = self.by_source.lock();
        let mut by_source = by_source.unwrap_or_else(PoisonError::into_inner);
        let slots = by_source.entry(source.to_owned());
        let slots = slots.or_insert_with(|| Arc::new(Semaphore::new(self.of_each)));
        slots.clone()
    }
}

impl Invoker {
    /// At most `parallel_calls` calls of each source run at a time; further ones wait before the gate.
    pub fn new(
        registry: ToolRegistry,
        permissions: Permissions,
        gate: Gate,
        parallel_calls: usize,
    ) -> Self {
        Self {
            registry,
            permissions,
            gate,
            slots: Slots {
                of_each: parallel_calls,
                by_source: Mutex::default(),
            },
            running: TaskTracker::new(),
            calls: Running::default(),
        }
    }

    /// The tools as they are now, those included that the lists forbid.
    pub fn tools(&self) -> Arc<Snapshot> {
        self.registry.now()
    }

    /// The tools once they are not those of the digest `known`.
    pub(crate) async fn tools_after(&self, known: &str) -> Arc<Snapshot> {
        self.registry.after(known).await
    }

    /// Has the sources read again what other processes may have changed.
    pub(crate) async fn refresh(&self) {
        self.registry.refresh().await;
    }

    /// Which calls may be made.
    pub fn permissions(&self) -> &Permissions {
        &self.permissions
    }

    /// A person allows a server or a tool of that name. Returns the digest; `None` for an unknown name.
    ///
    /// # Errors
    /// It has changed, or the allowance cannot be kept.
    pub(crate) async fn allow(
        &self,
        name: &str,
        digest: &str,
    ) -> Result<Option<String>, AllowError> {
        self.registry.allow(name, digest).await
    }

    /// Makes one call. The effect decides what happens when this future is dropped: a pure call
    /// stops; any other call that has begun is finished, because half of a side effect is worse
    /// than one whose result nobody read.
    pub async fn invoke(&self, request: Request) -> Outcome {
        let span = span(&request);
        let place = request.place;
        span.in_scope(|| before_call(place));
        let name = if metrics::is_recorded() {
            request.name.clone()
        } else {
            String::new()
        };
        let outcome = self.checked(request).instrument(span.clone()).await;
        let reason = outcome.result.as_ref().err().map(ToolError::reason);
        if let Some(reason) = reason {
            span.record("error.type", reason);
            span.record("otel.status_code", "ERROR");
        }
        if is_content_wanted()
            && let Ok(output) = &outcome.result
        {
            span.record("gen_ai.tool.call.result", content(&output.text));
        }
        if has_result(&outcome) {
            span.in_scope(|| after_call(place));
        }
        if metrics::is_recorded() {
            self.count(&name, &outcome);
        }
        outcome
    }

    fn count(&self, name: &str, outcome: &Outcome) {
        // A model may make a name up.
        let tool = match self.registry.now().find(name) {
            Some(_) => metrics::label(metrics::Kind::Tool, name),
            None => metrics::OTHER.into(),
        };
        let reason = outcome.result.as_ref().err().map(ToolError::reason);
        let ended = reason.unwrap_or("ok");
        counter!(metrics::CALLS, "tool" => tool.clone(), "outcome" => ended).increment(1);
        if !outcome.elapsed.is_zero() {
            histogram!(metrics::CALL_SECONDS, "tool" => tool).record(outcome.elapsed);
        }
    }

    /// Interrupts the call of this key, also one that comes later. Returns whether it runs now.
    pub fn interrupt(&self, key: &str) -> bool {
        self.calls.interrupt(key)
    }

    /// Shows what a call would change, and changes nothing. Of the request, only the tool, its digest, the
    /// arguments, the session and the links count.
    ///
    /// # Errors
    /// What the call would end with.
    pub async fn preview(&self, request: Request) -> Result<Preview, ToolError> {
        let (entry, arguments) = self.check(&request)?;
        if !entry.spec().previews {
            let name = &request.name;
            let message = format!("tool '{name}' has no preview");
            return Err(ToolError::ExecutionFailed(message));
        }
        let slot = self.slot(&entry.spec().source).await?;
        self.check_scope(&request, &entry).await?;
        let call = Call {
            trace: request.trace,
            key: String::new(),
            session: request.session,
            arguments,
            stop: CancellationToken::new(),
            permit: Permit::unlimited(),
            slot,
            progress: Progress::default(),
            input: None,
            digests: None,
        };
        let name = request.name;
        let task = previewed(entry.tool.clone(), call).in_current_span();
        let joined = AbortOnDropHandle::new(self.running.spawn(task)).await;
        joined.unwrap_or_else(|error| Err(crashed(&name, &error)))
    }

    /// A place among the calls of a source. Waits for one.
    ///
    /// # Errors
    /// The service is stopping.
    async fn slot(&self, source: &str) -> Result<Slot, ToolError> {
        let slot = self.slots.of(source).acquire_owned().await;
        let slot =
            slot.map_err(|_| ToolError::NotSent("the tools service is stopping".to_owned()))?;
        Ok(Slot::new(slot, self.running.token()))
    }

    /// Makes several calls in parallel; the outcomes are in the order of the requests.
    pub async fn invoke_all(&self, requests: Vec<Request>) -> Vec<Outcome> {
        let calls = requests.into_iter().map(|request| self.invoke(request));
        futures::future::join_all(calls).await
    }

    /// Waits until no call runs any more, those whose caller has gone and their threads included.
    pub async fn drain(&self) {
        self.running.close();
        self.running.wait().await;
    }

    async fn checked(&self, request: Request) -> Outcome {
        let mut checked = self.check(&request);
        if matches!(checked, Err(ToolError::Unreachable(_))) {
            // Its server may just be starting.
            let found = self.registry.found(&request.name);
            _ = tokio::time::timeout(STARTING, found).await;
            checked = self.check(&request);
        } else if self.registry.is_disabled(&request.name) {
            // A person may have allowed it in another process.
            self.refresh().await;
            checked = self.check(&request);
        }
        let (entry, arguments) = match checked {
            Ok(checked) => checked,
            Err(error) => return not_begun(error),
        };
        let entered = self.calls.enter(&request.key);
        let slot = tokio::select! {
            slot = self.slot(&entry.spec().source) => slot,
            () = entered.interrupted() => Err(interrupted_early()),
        };
        let slot = match slot {
            Ok(slot) => slot,
            Err(error) => return not_begun(error),
        };
        if let Err(error) = self.check_scope(&request, &entry).await {
            return not_begun(error);
        }
        let started = Instant::now();
        let permit = match entry.spec().effect {
            Effect::Pure => Permit::unlimited(),
            Effect::Idempotent | Effect::Effectful => {
                match self.gate.admit(&request.key, request.not_after).await {
                    Ok(permit) => permit,
                    Err(error) => {
                        tracing::warn!(tool = request.name, %error, "a call is not let through");
                        return not_begun(error);
                    }
                }
            }
        };
        let call = Call {
            trace: request.trace,
            key: request.key,
            session: request.session,
            arguments,
            stop: CancellationToken::new(),
            permit,
            slot,
            progress: request.progress,
            input: request.input,
            digests: request.digests,
        };
        let result = self.run(entry.tool.clone(), call, entered).await;
        Outcome {
            result: result.map(|output| limited(output, entry.spec().output_limit)),
            elapsed: started.elapsed(),
        }
    }

    /// Runs the tool in a task of its own, so that its panics end there and its side effects do
    /// not depend on whether somebody waits.
    async fn run(
        &self,
        tool: Arc<dyn Tool>,
        call: Call,
        entered: Entered,
    ) -> Result<Output, ToolError> {
        let name = tool.spec().name.clone();
        let effect = tool.spec().effect;
        let task = attempt(tool, call, entered).in_current_span();
        let handle = self.running.spawn(task);
        let joined = match effect {
            Effect::Pure => AbortOnDropHandle::new(handle).await,
            Effect::Idempotent | Effect::Effectful => handle.await,
        };
        joined.unwrap_or_else(|error| Err(crashed(&name, &error)))
    }
}

/// The hook point PreToolCall, in the span of the call.
fn before_call(place: Option<(u32, u32)>) {
    let (tool_turn, index) = place.unzip();
    tracing::info!(target: TARGET, { cairn.tool_turn = tool_turn, cairn.call.index = index }, "PreToolCall");
}

/// The hook point PostToolCall.
fn after_call(place: Option<(u32, u32)>) {
    let (tool_turn, index) = place.unzip();
    tracing::info!(target: TARGET, { cairn.tool_turn = tool_turn, cairn.call.index = index }, "PostToolCall");
}

/// Whether the call was made and has ended: hooks are asked about such a result.
fn has_result(outcome: &Outcome) -> bool {
    use ToolError::{Denied, InputRequired, NotSent, Rejudge, Unreachable};
    let without = matches!(
        &outcome.result,
        Err(Denied(_) | InputRequired(_) | NotSent(_) | Rejudge(_) | Unreachable(_))
    );
    !without
}

/// One call, under the attempt that asks for it.
fn span(request: &Request) -> Span {
    let span = tracing::info_span!(
        target: TARGET,
        "execute_tool",
        otel.name = format!("execute_tool {}", text::brief(&request.name, 64)),
        otel.kind = "internal",
        otel.status_code = Empty,
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = text::brief(&request.name, 64),
        gen_ai.tool.type = "function",
        gen_ai.tool.call.id = request.key,
        gen_ai.conversation.id = request.session,
        gen_ai.tool.call.arguments = Empty,
        gen_ai.tool.call.result = Empty,
        error.type = Empty,
    );
    if let Some(caller) = request.trace {
        caller.adopt(&span);
    }
    if is_content_wanted() && !span.is_disabled() {
        span.record("gen_ai.tool.call.arguments", content(&request.arguments));
    }
    span
}

/// What a span carries of a text.
fn content(text: &str) -> &str {
    &text[..text.floor_char_boundary(MOST_CONTENT)]
}

/// Why a call is stopped.
#[derive(Clone, Copy)]
enum End {
    Time,
    Interrupt,
}

impl End {
    /// What a call that has stopped ends with.
    fn error(self, spec: &ToolSpec) -> ToolError {
        match self {
            Self::Time => timed_out(spec),
            Self::Interrupt => interrupted(spec),
        }
    }

    /// Why it is stopped, after the tool's name.
    fn why(self, spec: &ToolSpec) -> String {
        match self {
            Self::Time => format!(
                "took longer than its limit of {} ms",
                spec.time_limit.as_millis()
            ),
            Self::Interrupt => "was interrupted".to_owned(),
        }
    }
}

async fn attempt(tool: Arc<dyn Tool>, call: Call, entered: Entered) -> Result<Output, ToolError> {
    // Work on other threads ends with this future, however that comes about.
    let _stop = call.stop.clone().drop_guard();
    // As late as possible: the task may have waited for its turn.
    if entered.is_interrupted() {
        return Err(interrupted_early());
    }
    call.permit.check()?;
    let spec = tool.spec();
    // As whoever else looks at the limit.
    let end = BootClock.now() + spec.time_limit;
    let mut work = tool.call(&call);
    let why = tokio::select! {
        // A result that is there counts.
        biased;
        ended = tokio::time::timeout(spec.time_limit, &mut work) => match ended {
            // Somebody else may have seen to the limit first.
            Ok(Err(ToolError::Stopped(notes))) => return Err(with(timed_out(spec), &notes)),
            Ok(Err(ToolError::ExecutionFailed(_))) if BootClock.now() >= end => {
                return Err(timed_out(spec));
            }
            Ok(result) => return result,
            Err(_) => End::Time,
        },
        () = entered.interrupted() => End::Interrupt,
    };
    call.stop.cancel();
    // A tool that was just about done says so; any error is the doing of the stop.
    match tokio::time::timeout(GRACE, work).await {
        Ok(Ok(output)) => Ok(output),
        Ok(Err(
            error @ (ToolError::NotSent(_) | ToolError::Unreachable(_) | ToolError::Unknown(_)),
        )) => Err(error),
        Ok(Err(ToolError::Stopped(notes))) => Err(with(why.error(spec), &notes)),
        // It has ended, and a program with its group: it does nothing more.
        Ok(Err(_)) => Err(why.error(spec)),
        Err(_) if spec.effect == Effect::Pure => Err(why.error(spec)),
        Err(_) => Err(ToolError::Unknown(format!(
            "tool '{}' {} and has not stopped, so its result is not known",
            spec.name,
            why.why(spec)
        ))),
    }
}

async fn previewed(tool: Arc<dyn Tool>, call: Call) -> Result<Preview, ToolError> {
    let _stop = call.stop.clone().drop_guard();
    let spec = tool.spec();
    match tokio::time::timeout(spec.time_limit, tool.preview(&call)).await {
        Ok(result) => result,
        Err(_) => Err(timed_out(spec)),
    }
}

/// An error with what its tool says besides.
fn with(error: ToolError, notes: &str) -> ToolError {
    match notes.is_empty() {
        true => error,
        false => error.map_message(|message| format!("{message}\n{notes}")),
    }
}

fn interrupted(spec: &ToolSpec) -> ToolError {
    ToolError::Interrupted(match spec.effect {
        Effect::Pure => format!("tool '{}' was interrupted", spec.name),
        Effect::Idempotent | Effect::Effectful => {
            format!("tool '{}' was interrupted; what it did stays", spec.name)
        }
    })
}

fn interrupted_early() -> ToolError {
    ToolError::Interrupted("the call was interrupted before it began; nothing was done".to_owned())
}

fn timed_out(spec: &ToolSpec) -> ToolError {
    let mut message = format!(
        "tool '{}' took longer than its limit of {} ms and was stopped",
        spec.name,
        spec.time_limit.as_millis()
    );
    if spec.effect != Effect::Pure {
        message.push_str("; what it had done by then stays done");
    }
    ToolError::Timeout(message)
}

fn crashed(name: &str, error: &JoinError) -> ToolError {
    if error.is_panic() {
        // What was said in the panic is the tool's internals; the process's log has it.
        tracing::error!(tool = name, "a tool panicked");
        return ToolError::ExecutionFailed(format!(
            "tool '{name}' crashed; that is a fault in the tool, which these arguments may have \
             brought out"
        ));
    }
    ToolError::ExecutionFailed(format!("tool '{name}' was stopped with the tools service"))
}

fn not_begun(error: ToolError) -> Outcome {
    Outcome {
        result: Err(error),
        elapsed: Duration::ZERO,
    }
}
