//! The metrics over HTTP, for Prometheus and for people.

use super::metrics::{METRICS, MetricKind};
use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::routing::get;
use cairn_rpc::{AllowAnonymous, Exposure, ServerBuilder};
use metrics::{KeyName, Recorder as _};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Times are put into their buckets this often; until then each takes eight bytes.
const UPKEEP: Duration = Duration::from_secs(5);

const PROMETHEUS_TEXT: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// A listener that shows the metrics of this process.
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

    /// The page `/metrics`, for other listeners of the process.
    pub fn pages(&self) -> Router {
        let metrics = self.metrics.clone();
        let headers = [(CONTENT_TYPE, PROMETHEUS_TEXT), (CACHE_CONTROL, NO_STORE)];
        let page = async move || (headers, metrics.render());
        Router::new().route("/metrics", get(page))
    }

    /// Answers `GET /metrics` and `GET /healthz`, of every client, until `stop`. Answers on their way
    /// are cut then.
    ///
    /// # Errors
    /// See [`cairn_rpc::serve`].
    pub async fn serve(self, stop: CancellationToken) -> io::Result<()> {
        let pages = self.pages();
        let exposure = Exposure::Public(Some(Arc::new(AllowAnonymous)));
        let server = ServerBuilder::new(exposure).build().await;
        let server = server.map_err(io::Error::other)?.with_pages(pages);
        let stop = stop.cancelled_owned();
        tokio::select! {
            served = server.serve(self.listener.into(), stop, Duration::ZERO) => {
                served.map_err(io::Error::other)
            }
            never = self.metrics.keep_up() => match never {},
        }
    }
}

/// What this process has counted.
#[derive(Debug, Clone)]
struct Metrics(PrometheusHandle);

impl Metrics {
    /// Begins to count, or continues with it.
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

    async fn keep_up(&self) -> Infallible {
        let mut upkeep = tokio::time::interval(UPKEEP);
        loop {
            upkeep.tick().await;
            self.0.run_upkeep();
        }
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
