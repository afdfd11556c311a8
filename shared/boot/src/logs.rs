//! Logs: one event, one line, on standard error.
//!
//! On a terminal a line is text for people, elsewhere it is JSON for machines. Whatever an event
//! carries, its characters cannot begin a line of their own, drive a terminal, or turn the text
//! around: they are written out instead.

mod escaped;

use crate::config::{Checks, Settings};
use escaped::Escaped;
use serde::{Deserialize, Serialize};
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::IsTerminal;
use std::panic::PanicHookInfo;
use thiserror::Error;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{DefaultFields, Format, JsonFields};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer, fmt};

/// How and how much is logged.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct LogConfig {
    /// What is logged: a level (`error`, `warn`, `info`, `debug`, `trace`, `off`), or directives
    /// such as `info,cairn_memory=debug`. Libraries of the transport log below `info` only if a
    /// directive names them: `debug,h2=debug`.
    pub level: String,
    /// The form of a line.
    pub format: LogFormat,
}

/// The form of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    #[default]
    Auto,
    /// Text for people.
    Text,
    /// A JSON object.
    Json,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            level: "info".to_owned(),
            format: LogFormat::Auto,
        }
    }
}

impl Settings for LogConfig {
    fn check(&self, checks: &mut Checks) {
        let holds = filter(&self.level).is_ok();
        let problem = format!("is {:?}", self.level);
        let allowed = "error, warn, info, debug, trace, off, or directives such as \
                       info,cairn_memory=debug";
        checks.require(holds, "level", &problem, allowed);
    }
}

/// The level is none.
#[derive(Debug, Error)]
#[error("the log level {0:?} is not valid")]
pub struct LogError(String);

/// The part that writes lines: to be combined with other parts, such as traces.
pub fn layer<S, W>(format: LogFormat, writer: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let is_text = match format {
        LogFormat::Auto => std::io::stderr().is_terminal(),
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    let layer = fmt::layer()
        .with_writer(writer)
        .with_ansi(false)
        .log_internal_errors(false);
    if is_text {
        layer
            .fmt_fields(DefaultFields::new())
            .event_format(Escaped::text(Format::default()))
            .boxed()
    } else {
        layer
            .fmt_fields(JsonFields::new())
            .event_format(Escaped::json(Format::default().json().flatten_event(true)))
            .boxed()
    }
}

/// Libraries that log each frame, connection or handshake below `info`: 100 KiB a second and more,
/// between which nobody finds a line of Cairn. [`filter`] keeps them at `info` unless they are named.
const NOISY: [&str; 8] = [
    "h2",
    "hyper",
    "hyper_util",
    "tower",
    "rustls",
    "tonic",
    "reqwest",
    "tokio_util",
];

/// Logs what servers of tools send, and their addresses with queries that may be secrets, at every level.
/// Cairn has lines of its own about what goes wrong there.
const TALKATIVE: &str = "rmcp";

/// What is logged at that level. `debug` and `trace` are for Cairn: libraries of the transport log no
/// more than `info` unless a directive such as `debug,h2=debug` names them.
///
/// # Errors
/// The level is none.
pub fn filter(level: &str) -> Result<EnvFilter, LogError> {
    let invalid = || LogError(level.to_owned());
    // The text itself first: what is added must not hide a fault.
    EnvFilter::builder().parse(level).map_err(|_| invalid())?;
    let directives = || level.split(',').map(str::trim);
    let mut general = directives().filter_map(|text| text.parse::<LevelFilter>().ok());
    let general = general.next_back();
    let is_named = |library: &str| {
        let targets = directives().map(|text| text.split(['=', '[', ':']).next());
        targets.flatten().any(|target| target == library)
    };
    let mut text = level.to_owned();
    let mut add = |library: &str, most: &str| {
        if !is_named(library) {
            text.push_str(&format!(",{library}={most}"));
        }
    };
    add(TALKATIVE, "off");
    if general > Some(LevelFilter::INFO) {
        NOISY.iter().for_each(|library| add(library, "info"));
    }
    EnvFilter::builder().parse(text).map_err(|_| invalid())
}

/// From now on panics are logged like everything else.
pub(crate) fn log_panics() {
    std::panic::set_hook(Box::new(log_panic));
}

/// A panic as one line, like everything else.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let said = panic.payload_as_str().unwrap_or("a value that is no text");
    let location = panic.location().map(ToString::to_string);
    let thread = std::thread::current();
    let trace = Backtrace::capture();
    let trace = (trace.status() == BacktraceStatus::Captured).then(|| trace.to_string());
    tracing::error!(
        panic = said,
        location,
        thread = thread.name(),
        trace,
        "a thread panicked"
    );
}

#[cfg(test)]
mod tests;
