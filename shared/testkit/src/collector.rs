//! Where traces are sent to: a collector of OTLP over gRPC on a port of 127.0.0.1.

mod convert;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

/// How long anybody waits for spans that do not come.
const PATIENCE: Duration = Duration::from_secs(20);

/// A span as it arrived. Values of attributes are texts, whatever their type was.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSpan {
    /// What is known of the process that sent it.
    pub resource: BTreeMap<String, String>,
    /// 32 hexadecimal digits.
    pub trace_id: String,
    /// 16 hexadecimal digits.
    pub span_id: String,
    /// 16 hexadecimal digits; empty for none.
    pub parent_span_id: String,
    /// What happened.
    pub name: String,
    /// `internal`, `server`, `client`, `producer`, `consumer`.
    pub kind: &'static str,
    /// In nanoseconds since 1970.
    pub start_ns: u64,
    /// In nanoseconds since 1970.
    pub end_ns: u64,
    /// What is known of it.
    pub attributes: BTreeMap<String, String>,
    /// What happened meanwhile, in order.
    pub events: Vec<SpanEvent>,
    /// Trace and span ids.
    pub links: Vec<(String, String)>,
    /// What went wrong, if anything did.
    pub error: Option<String>,
}

/// An event of a span.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanEvent {
    /// What happened.
    pub name: String,
    /// In nanoseconds since 1970.
    pub at_ns: u64,
    /// What is known of it.
    pub attributes: BTreeMap<String, String>,
}

/// A collector, on threads of its own.
pub struct Collector {
    address: SocketAddr,
    received: Arc<Received>,
    runtime: Option<Runtime>,
}

#[derive(Default)]
struct Received {
    spans: Mutex<Vec<TraceSpan>>,
    more: Condvar,
}

impl Collector {
    /// Listens on a free port.
    pub fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::new(Received::default());
        let service = TraceServiceServer::new(Service(Arc::clone(&received)));
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let incoming = TcpListenerStream::new(listener);
            let server = Server::builder().add_service(service);
            server.serve_with_incoming(incoming).await.unwrap();
        });
        Self {
            address,
            received,
            runtime: Some(runtime),
        }
    }

    /// Its address as the program wants it: `http://127.0.0.1:<port>`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The spans so far, in the order in which they came.
    pub fn spans(&self) -> Vec<TraceSpan> {
        self.received.lock().clone()
    }

    /// Waits until the spans so far are what somebody waits for.
    ///
    /// # Panics
    /// That does not happen; the message has the names of those that came.
    pub fn wait_for(&self, enough: impl Fn(&[TraceSpan]) -> bool) -> Vec<TraceSpan> {
        let spans = self.received.lock();
        let waited = self
            .received
            .more
            .wait_timeout_while(spans, PATIENCE, |spans| !enough(spans));
        let (spans, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
        assert!(!timeout.timed_out(), "only these spans came: {names:?}");
        spans.clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = &self.address;
        f.debug_struct("Collector")
            .field("address", address)
            .finish_non_exhaustive()
    }
}

impl Received {
    fn lock(&self) -> MutexGuard<'_, Vec<TraceSpan>> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Service(Arc<Received>);

#[tonic::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let spans = convert::spans(request.into_inner());
        self.0.lock().extend(spans);
        self.0.more.notify_all();
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}
