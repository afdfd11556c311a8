//! What a process tells of itself: logs, traces, metrics.
//!
//! | module | gives |
//! |---|---|
//! | [`config`] | [`TelemetryConfig`]: where traces and metrics go, and what may be in them |
//! | [`Standard`] | what the variables of OpenTelemetry ask for |
//! | [`metrics`] | the table of all metrics |
//! | [`scrape`] | [`MetricsServer`]: the metrics over HTTP |
//!
//! There is one subscriber, and each event and each span goes to one place only. Those of the target
//! [`TARGET`] are for traces and are never logged; all others are logged and are in no trace. Without
//! a collector nobody wants the first kind, and the code that makes them is skipped where it stands.

pub mod config;
mod export;
pub mod metrics;
pub mod scrape;
mod standard;

pub use config::{MetricsAddress, TelemetryConfig};
pub use scrape::MetricsServer;
pub use standard::Standard;

use crate::logs::{self, LogConfig, LogError};
use cairn_http::Proxies;
use cairn_rpc::trace::{self, TARGET};
use export::Exporting;
use opentelemetry_sdk::trace::SdkTracer;
use standard::Ignored;
use std::time::Duration;
use thiserror::Error;
use tracing::Dispatch;
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, registry};

/// How long the last spans may take on their way out.
const STOP: Duration = Duration::from_secs(2);

/// Why telemetry could not be set up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// The level of the logs is none.
    #[error(transparent)]
    Log(#[from] LogError),
    /// There is no way to the collector.
    #[error("traces cannot be exported")]
    Export(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The process has a global subscriber already.
    #[error("logging is set up already")]
    Twice(#[source] tracing_subscriber::util::TryInitError),
}

/// The telemetry of this process. When it is dropped, spans that have not been sent are lost.
#[derive(Debug)]
#[must_use = "spans are sent as long as it lives"]
pub struct Telemetry {
    exporting: Option<Exporting>,
}

/// Sets up logs, panics included, and traces for this process. `services` are the names of those in
/// it, `proxies` are those on the way to the collector, `writer` is where the lines of the log go.
/// Metrics are served by a [`MetricsServer`]. Traces that cannot be exported are a warning in the log.
///
/// Needs no runtime: spans leave on threads of their own, which are there only if there is a
/// collector. That it cannot be reached is logged once in a while, and holds up nothing.
///
/// # Errors
/// See [`TelemetryError`].
pub fn init<W>(
    config: &TelemetryConfig,
    standard: &Standard,
    log: &LogConfig,
    services: &[&str],
    proxies: &Proxies,
    writer: W,
) -> Result<Telemetry, TelemetryError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let exporting = config.endpoint().map(|endpoint| {
        let tunnel = proxies.tunnel_to(&endpoint);
        Exporting::start(endpoint, standard, tunnel, services)
    });
    let (exporting, failed) = match exporting.transpose() {
        Ok(exporting) => (exporting, None),
        Err(error) => (None, Some(error)),
    };
    let tracer = exporting.as_ref().map(Exporting::tracer);
    subscriber(log, writer, tracer.clone())?
        .try_init()
        .map_err(TelemetryError::Twice)?;
    logs::log_panics();
    if let Some(tracer) = tracer {
        trace::install(Box::new(tracer), config.content, standard.ratio);
    }
    if let Some(error) = failed {
        let error = &error as &(dyn std::error::Error + 'static);
        tracing::warn!(error, "traces are not exported");
    }
    warn_of_ignored(standard, config.otlp.is_some(), exporting.is_some());
    Ok(Telemetry { exporting })
}

/// Warns of variables that are passed over, if they matter: those of the collector unless Cairn's own settings
/// name one, the others if there is a collector.
fn warn_of_ignored(standard: &Standard, has_own: bool, is_exporting: bool) {
    for ignored in &standard.ignored {
        let Ignored {
            variable,
            problem,
            allowed,
            is_collector,
        } = ignored;
        let matters = match is_collector {
            true => !has_own,
            false => is_exporting,
        };
        if matters {
            tracing::warn!(variable, problem, allowed, "variable ignored");
        }
    }
}

impl Telemetry {
    /// Sends the spans that have ended, and ends the export. Takes 2 seconds at most, during which
    /// the thread is blocked; the runtime may be gone.
    pub fn flush_and_stop(self) {
        if let Some(exporting) = self.exporting {
            exporting.stop(STOP);
        }
    }
}

/// Logs to `writer`, and spans to `tracer`.
fn subscriber<W>(
    log: &LogConfig,
    writer: W,
    tracer: Option<SdkTracer>,
) -> Result<Dispatch, LogError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let logged = logs::filter(&log.level)?.and(filter_fn(|of| of.target() != TARGET));
    let lines = registry().with(logs::layer(log.format, writer).with_filter(logged));
    let Some(tracer) = tracer else {
        // A layer that is none beside one with a filter would enable every span there is.
        return Ok(Dispatch::new(lines));
    };
    // A span says what happened to a run. Where in the code that was is no help to whoever reads it,
    // and makes it twice as large.
    let traces = tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_context_activation(false)
        .with_filter(filter_fn(|of| of.target() == TARGET));
    Ok(Dispatch::new(lines.with(traces)))
}

#[cfg(test)]
mod tests;
