//! Spans on their way to a collector.

mod queue;

use super::{Standard, TelemetryError};
use cairn_http::ProxyTunnel;
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanId, TraceId, TracerProvider as _};
use opentelemetry_otlp::{WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, IdGenerator, RandomIdGenerator, Sampler, SdkTracer,
    SdkTracerProvider,
};
use queue::{Bounded, Queue, Reporting};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};

/// Spans that wait; what ends while so many wait is lost.
const MAX_WAITING: usize = 8192;
/// Spans of one message.
const MAX_BATCH: usize = 512;
/// Events of one span. The span of a run has its hook points: those of a long plan, and its end.
const MAX_EVENTS: u32 = 4096;
/// Spans wait no longer than this for more of them.
const DELAY: Duration = Duration::from_secs(1);
/// How long a connection may take, and how long a message if no variable says so.
const CONNECT: Duration = Duration::from_secs(2);
const SEND: Duration = Duration::from_secs(5);

/// A provider of spans with threads of its own, so that spans leave however busy the rest of the
/// process is, and when its runtime is gone.
pub(super) struct Exporting {
    provider: SdkTracerProvider,
    runtime: Option<Runtime>,
}

impl Exporting {
    pub(super) fn start(
        endpoint: String,
        standard: &Standard,
        tunnel: Option<ProxyTunnel>,
        services: &[&str],
    ) -> Result<Self, TelemetryError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(2)
            .thread_name("cairn-export")
            .enable_all()
            .build()
            .map_err(|error| TelemetryError::Export(error.into()))?;
        let channel = {
            let _inside = runtime.enter();
            channel(endpoint, standard, tunnel)
                .map_err(|error| TelemetryError::Export(error.into()))
        };
        let provider = channel.and_then(|channel| provider(channel, standard, services));
        match provider {
            Ok(provider) => Ok(Self {
                provider,
                runtime: Some(runtime),
            }),
            Err(error) => {
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    pub(super) fn tracer(&self) -> SdkTracer {
        self.provider.tracer("cairn")
    }

    /// Sends what waits, and ends.
    pub(super) fn stop(self, limit: Duration) {
        if let Err(error) = self.provider.shutdown_with_timeout(limit) {
            tracing::warn!(%error, "the last spans were not exported");
        }
    }
}

impl Drop for Exporting {
    fn drop(&mut self) {
        // A runtime that is dropped as it is waits for its threads, and panics inside another one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Exporting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporting").finish_non_exhaustive()
    }
}

fn channel(
    endpoint: String,
    standard: &Standard,
    tunnel: Option<ProxyTunnel>,
) -> Result<Channel, tonic::transport::Error> {
    let has_tls = endpoint.starts_with("https:");
    let endpoint = Endpoint::from_shared(endpoint)?.connect_timeout(CONNECT);
    let endpoint = endpoint.timeout(standard.timeout.unwrap_or(SEND));
    let endpoint = match has_tls {
        true => endpoint.tls_config(ClientTlsConfig::new().with_native_roots())?,
        false => endpoint,
    };
    Ok(match tunnel {
        Some(tunnel) => endpoint.connect_with_connector_lazy(tunnel),
        None => endpoint.connect_lazy(),
    })
}

fn provider(
    channel: Channel,
    standard: &Standard,
    services: &[&str],
) -> Result<SdkTracerProvider, TelemetryError> {
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_tonic()
        .with_channel(channel)
        .with_timeout(standard.timeout.unwrap_or(SEND))
        .build()
        .map_err(|error| TelemetryError::Export(error.into()))?;
    let queue = Arc::new(Queue::new(MAX_WAITING));
    let batch = BatchConfigBuilder::default()
        .with_max_queue_size(MAX_WAITING)
        .with_max_export_batch_size(MAX_BATCH)
        .with_scheduled_delay(DELAY)
        .build();
    let processor = BatchSpanProcessor::builder(Reporting::new(exporter, Arc::clone(&queue)))
        .with_batch_config(batch)
        .build();
    Ok(SdkTracerProvider::builder()
        .with_span_processor(Bounded::new(processor, queue))
        .with_id_generator(GivenIds::default())
        .with_max_events_per_span(MAX_EVENTS)
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)))
        .with_resource(resource(standard, services))
        .build())
}

/// Who sends the spans. What somebody sets in `OTEL_RESOURCE_ATTRIBUTES` counts more.
fn resource(standard: &Standard, services: &[&str]) -> Resource {
    let resource = Resource::builder_empty()
        .with_service_name("cairn")
        .with_attributes([
            KeyValue::new("service.namespace", "cairn"),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", uuid::Uuid::now_v7().to_string()),
            KeyValue::new("cairn.services", services.join(",")),
            KeyValue::new("process.pid", i64::from(std::process::id())),
        ])
        .with_detectors(&[
            Box::new(TelemetryResourceDetector),
            Box::new(EnvResourceDetector::new()),
        ]);
    let resource = match &standard.service_name {
        Some(name) => resource.with_service_name(name.clone()),
        None => resource,
    };
    resource.build()
}

/// Random ids, except where somebody gave one.
#[derive(Debug, Default)]
struct GivenIds(RandomIdGenerator);

impl IdGenerator for GivenIds {
    fn new_trace_id(&self) -> TraceId {
        cairn_rpc::trace::given_trace_id().map_or_else(|| self.0.new_trace_id(), TraceId::from)
    }

    fn new_span_id(&self) -> SpanId {
        cairn_rpc::trace::given_span_id().map_or_else(|| self.0.new_span_id(), SpanId::from)
    }
}
