//! The metrics over HTTP, for Prometheus and for whoever looks.

mod connection;

use super::metrics::{METRICS, MetricKind};
use metrics::{KeyName, Recorder as _};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Connections at a time; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 16;
/// Times are put into their buckets this often; until then each takes eight bytes.
const UPKEEP: Duration = Duration::from_secs(5);
/// Pause after a failed accept, so that a full table of files is not met with a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listener that shows what this process has counted.
#[derive(Debug)]
pub struct MetricsServer {
    listener: TcpListener,
    metrics: Metrics,
}

impl MetricsServer {
    /// Listens there, and begins to count. Before that, whatever the services record is forgotten, and
    /// so are handles that they have kept: so it comes before the services.
    ///
    /// # Errors
    /// The system's; or something else in this process counts already.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let metrics = Metrics::install()?;
        Ok(Self { listener, metrics })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers `GET /metrics` and `GET /healthz` until it is told to stop; what it is answering then
    /// is cut.
    pub async fn serve(self, stop: CancellationToken) {
        let Self { listener, metrics } = self;
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut upkeep = tokio::time::interval(UPKEEP);
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = upkeep.tick() => metrics.0.run_upkeep(),
                _ = connections.join_next(), if !connections.is_empty() => {}
                accepted = accept(&listener, &slots) => {
                    connections.spawn(connection::answer(accepted, metrics.clone()));
                }
            }
        }
    }
}

async fn accept(listener: &TcpListener, slots: &Arc<Semaphore>) -> connection::Accepted {
    loop {
        let accepted = async {
            let slot = Arc::clone(slots).acquire_owned().await;
            let slot = slot.map_err(io::Error::other)?;
            Ok::<_, io::Error>((listener.accept().await?, slot))
        };
        match accepted.await {
            Ok(((stream, _), slot)) => return connection::Accepted { stream, slot },
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection for metrics");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// What this process has counted.
#[derive(Debug, Clone)]
pub(super) struct Metrics(PrometheusHandle);

impl Metrics {
    /// Begins to count, or goes on with it.
    fn install() -> io::Result<Self> {
        static INSTALLED: Mutex<Option<Metrics>> = Mutex::new(None);
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(installed) = &*installed {
            return Ok(installed.clone());
        }
        let mut builder = PrometheusBuilder::new();
        for metric in METRICS {
            if let MetricKind::Seconds(buckets) = metric.kind {
                let of = Matcher::Full(metric.name.to_owned());
                let built = builder.set_buckets_for_metric(of, buckets);
                builder = built.map_err(io::Error::other)?;
            }
        }
        let recorder = builder.build_recorder();
        for metric in METRICS {
            let (name, help) = (KeyName::from_const_str(metric.name), metric.help.into());
            match metric.kind {
                MetricKind::Counter => recorder.describe_counter(name, None, help),
                MetricKind::Gauge | MetricKind::Amount => recorder.describe_gauge(name, None, help),
                MetricKind::Seconds(_) => recorder.describe_histogram(name, None, help),
            }
        }
        let metrics = Self(recorder.handle());
        let set = metrics::set_global_recorder(recorder);
        set.map_err(|_| io::Error::other("something else counts in this process already"))?;
        begin_at_zero();
        cairn_rpc::metrics::set_recorded();
        *installed = Some(metrics.clone());
        Ok(metrics)
    }

    /// All values in the text format of Prometheus, version 0.0.4.
    fn render(&self) -> String {
        let mut text = self.0.render();
        for metric in METRICS {
            if metric.kind == MetricKind::Amount {
                // The recorder has counters of whole numbers only.
                let kind = |kind| format!("# TYPE {} {kind}\n", metric.name);
                text = text.replace(&kind("gauge"), &kind("counter"));
            }
        }
        text
    }
}

/// What has no labels is there from the start, so that its first increase is seen as one.
fn begin_at_zero() {
    for metric in METRICS.iter().filter(|metric| metric.labels.is_empty()) {
        match metric.kind {
            MetricKind::Counter => metrics::counter!(metric.name).absolute(0),
            MetricKind::Gauge => metrics::gauge!(metric.name).set(0.0),
            MetricKind::Amount | MetricKind::Seconds(_) => {}
        }
    }
}
