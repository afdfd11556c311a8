//! Notes each message between an orchestrator and an executor, with its bytes and its time.

use crate::support;
use cairn_proto::DESCRIPTORS;
use cairn_proto::executor::executor_service_client::ExecutorServiceClient;
use cairn_proto::executor::executor_service_server::{ExecutorService, ExecutorServiceServer};
use cairn_proto::executor::run_step_request::Message as ToExecutor;
use cairn_proto::executor::{
    NotifyShortageRequest, NotifyShortageResponse, RunStepRequest, RunStepResponse,
    WatchStatusRequest, WatchStatusResponse,
};
use cairn_rpc::{
    AllowAnonymous, Exposure, Link, Listener, ServerBuilder, principal, with_principal,
};
use cairn_testkit::Cluster;
use futures::stream::{BoxStream, StreamExt as _};
use prost::Message as _;
use std::fs;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tonic::{Request, Response, Status, Streaming};

/// How long the model takes where times are compared. A processor that rests for longer needs more time
/// for the same afterwards, and longer requests take longer to send: both are small beside this.
pub(crate) const THINKS: Duration = Duration::from_millis(20);

/// The largest message that passes.
const MOST_BYTES: usize = 64 * 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// To the executor: the start of an attempt.
    Start,
    /// To the executor: reports that are durable now.
    Acknowledgement,
    /// To the executor: the tools on offer.
    Catalogue,
    /// To the orchestrator: a reply of the model, possibly with results.
    Reply,
    /// To the orchestrator: anything else.
    Other,
}

impl Kind {
    pub(crate) fn is_to_executor(self) -> bool {
        !matches!(self, Self::Reply | Self::Other)
    }
}

/// A message that has passed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passed {
    pub(crate) kind: Kind,
    /// As protobuf, without frames.
    pub(crate) bytes: usize,
    pub(crate) at: Instant,
    /// Processor time of the orchestrator until then, noted at each reply only.
    pub(crate) cpu: Duration,
}

/// The way from an orchestrator to an executor. It ends with the value.
pub(crate) struct ExecutorStream {
    passed: Arc<Notes>,
    _runtime: Runtime,
}

impl ExecutorStream {
    /// Leads the orchestrator of the cluster to its executor by this way.
    pub(crate) fn within(cluster: &mut Cluster<'_>) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime");
        let passed = Arc::new(Notes::default());
        let address = runtime.block_on(async {
            let way = Way {
                executor: support::link(&cluster.address("executor")),
                passed: passed.clone(),
            };
            let service = ExecutorServiceServer::new(way).max_decoding_message_size(MOST_BYTES);
            let builder = ServerBuilder::new(Exposure::Services(Arc::new(AllowAnonymous)));
            let server = builder.register(service, DESCRIPTORS).build().await;
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            let server = server.expect("a server");
            tokio::spawn(server.serve(Listener::from(listener), pending(), Duration::ZERO));
            format!("http://{address}")
        });
        cluster.detour("executor", Some(address));
        cluster.start_again("orchestrator");
        let stream = Self {
            passed,
            _runtime: runtime,
        };
        stream.follow(cluster);
        stream
    }

    /// From now on, the processor time is that of the cluster's present orchestrator.
    pub(crate) fn follow(&self, cluster: &Cluster<'_>) {
        let orchestrator = cluster.process_id("orchestrator");
        *self.passed.orchestrator.lock().expect("no panic") = orchestrator;
    }

    /// The messages since the last time, oldest first.
    pub(crate) fn take(&self) -> Vec<Passed> {
        std::mem::take(&mut *self.passed.messages.lock().expect("no panic"))
    }
}

#[derive(Debug, Default)]
struct Notes {
    messages: Mutex<Vec<Passed>>,
    orchestrator: Mutex<Option<u32>>,
}

impl Notes {
    fn note(&self, kind: Kind, bytes: usize) {
        let at = Instant::now();
        let orchestrator = *self.orchestrator.lock().expect("no panic");
        let orchestrator = orchestrator.filter(|_| kind == Kind::Reply);
        let passed = Passed {
            kind,
            bytes,
            at,
            cpu: orchestrator.map_or(Duration::ZERO, processor_time),
        };
        self.messages.lock().expect("no panic").push(passed);
    }
}

/// The processor time of all threads that a process has. It is less after one of them has ended.
fn processor_time(process: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let nanos = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

struct Way {
    executor: Link,
    passed: Arc<Notes>,
}

#[tonic::async_trait]
impl ExecutorService for Way {
    type RunStepStream = BoxStream<'static, Result<RunStepResponse, Status>>;
    type WatchStatusStream = Streaming<WatchStatusResponse>;

    async fn watch_status(
        &self,
        _: Request<WatchStatusRequest>,
    ) -> Result<Response<Self::WatchStatusStream>, Status> {
        let mut client = ExecutorServiceClient::new(self.executor.clone());
        client.watch_status(WatchStatusRequest {}).await
    }

    async fn notify_shortage(
        &self,
        request: Request<NotifyShortageRequest>,
    ) -> Result<Response<NotifyShortageResponse>, Status> {
        let mut client = ExecutorServiceClient::new(self.executor.clone());
        client.notify_shortage(request.into_inner()).await
    }

    async fn run_step(
        &self,
        request: Request<Streaming<RunStepRequest>>,
    ) -> Result<Response<Self::RunStepStream>, Status> {
        let caller = principal(&request)?.clone();
        let there = self.passed.clone();
        // An owner that is gone ends the stream.
        let sent = request
            .into_inner()
            .take_while(|message| std::future::ready(message.is_ok()));
        let sent = sent.filter_map(|message| std::future::ready(message.ok()));
        let sent = sent.inspect(move |request| {
            let kind = match request.message {
                Some(ToExecutor::Start(_)) => Kind::Start,
                Some(ToExecutor::Catalogue(_)) => Kind::Catalogue,
                _ => Kind::Acknowledgement,
            };
            there.note(kind, request.encoded_len());
        });
        let request = with_principal(Request::new(sent), &caller);
        let client = ExecutorServiceClient::new(self.executor.clone());
        let answer = client
            .max_decoding_message_size(MOST_BYTES)
            .run_step(request)
            .await?;
        let back = self.passed.clone();
        Ok(answer.map(|reports| {
            let reports = reports.inspect(move |report| {
                if let Ok(report) = report {
                    let kind = match report.reply {
                        Some(_) => Kind::Reply,
                        None => Kind::Other,
                    };
                    back.note(kind, report.encoded_len());
                }
            });
            reports.boxed()
        }))
    }
}

/// The value in the middle.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
