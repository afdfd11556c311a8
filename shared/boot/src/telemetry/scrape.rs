//! The metrics over HTTP, for Prometheus and for people.

mod connection;

use super::metrics::{METRICS, MetricKind};
use cairn_rpc::metrics::CONNECTIONS_CLOSED;
use metrics::{KeyName, Recorder as _, counter};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Connections at a time.
const MAX_CONNECTIONS: usize = 64;
/// Connections of one address at a time.
const MAX_OF_ADDRESS: usize = 8;
/// Times are put into their buckets this often; until then each takes eight bytes.
const UPKEEP: Duration = Duration::from_secs(5);
/// A line in the log about too many connections is for this long.
const LOG_EVERY: Duration = Duration::from_secs(60);
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

    /// Answers `GET /metrics` and `GET /healthz` until `stop`; answers on their way are cut then.
    ///
    /// Each connection is for one short answer. So where there are too many, the oldest gives way,
    /// and connections that ask nothing keep nobody out.
    pub async fn serve(self, stop: CancellationToken) {
        let Self { listener, metrics } = self;
        let mut upkeep = tokio::time::interval(UPKEEP);
        let mut connections = Connections::default();
        let pages = connection::pages(metrics.clone());
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = upkeep.tick() => metrics.0.run_upkeep(),
                () = connections.ended() => {}
                (stream, peer) = accept(&listener) => {
                    connections.make_room(peer.ip().to_canonical());
                    let answering = connection::answer(stream, pages.clone());
                    connections.add(peer.ip().to_canonical(), answering);
                }
            }
        }
    }
}

async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection for metrics");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// The open connections.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    /// The oldest first. Those that have ended are taken out when there is another.
    open: VecDeque<(IpAddr, AbortHandle)>,
    logged: Option<Instant>,
}

impl Connections {
    /// Waits for the end of one.
    async fn ended(&mut self) {
        match self.tasks.is_empty() {
            true => std::future::pending().await,
            // A connection that was cut is over, too.
            false => drop(self.tasks.join_next().await),
        }
    }

    fn add(&mut self, peer: IpAddr, answering: impl Future<Output = ()> + Send + 'static) {
        self.open.push_back((peer, self.tasks.spawn(answering)));
    }

    /// Cuts the oldest connection of an address that has as many as it may have, or the oldest of all.
    fn make_room(&mut self, peer: IpAddr) {
        self.open.retain(|(_, task)| !task.is_finished());
        let of_peer = |(address, _): &(IpAddr, AbortHandle)| *address == peer;
        let is_peer_full = self.open.iter().filter(|one| of_peer(one)).count() >= MAX_OF_ADDRESS;
        let oldest = match is_peer_full {
            true => self.open.iter().position(of_peer),
            false => (self.open.len() >= MAX_CONNECTIONS).then_some(0),
        };
        let Some((peer, task)) = oldest.and_then(|at| self.open.remove(at)) else {
            return;
        };
        task.abort();
        counter!(CONNECTIONS_CLOSED, "why" => "address_limit").increment(1);
        if self
            .logged
            .is_none_or(|logged| logged.elapsed() >= LOG_EVERY)
        {
            self.logged = Some(Instant::now());
            tracing::warn!(%peer, "too many connections for metrics: the oldest is closed");
        }
    }
}

/// What this process has counted.
#[derive(Debug, Clone)]
pub(super) struct Metrics(PrometheusHandle);

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
