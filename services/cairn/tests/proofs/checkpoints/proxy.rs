//! Stands between the orchestrator and the memory service, and notes each checkpoint that is written: the
//! store keeps only some of them.

use crate::support;
use axum::body::{Body as Whole, to_bytes};
use cairn_proto::DESCRIPTORS;
use cairn_proto::memory::CommitRequest;
use cairn_proto::memory::journal_service_server::JournalServiceServer;
use cairn_proto::memory::ownership_service_server::OwnershipServiceServer;
use cairn_proto::memory::session_memory_service_server::SessionMemoryServiceServer;
use cairn_rpc::{AllowAnonymous, Exposure, Forward, Listener, ServerBuilder};
use cairn_testkit::Cluster;
use futures::future::{BoxFuture, FutureExt as _};
use prost::Message as _;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;

/// The largest commit that passes.
const MOST_BYTES: usize = 72 * 1024 * 1024;
/// A message of gRPC begins with a flag and its length.
const PREFIX: usize = 5;

/// A checkpoint that the store has acknowledged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    pub(super) through_seq: u64,
    pub(super) bytes: usize,
    /// Time of the commit that carried it, at the memory service.
    pub(super) took: Duration,
}

/// What has passed.
#[derive(Debug, Default)]
struct Notes {
    checkpoints: Vec<Written>,
    /// Times of the commits without a checkpoint.
    others: Vec<Duration>,
    /// The commits: one that is sent again is not written again.
    operations: BTreeSet<String>,
    /// How often a checkpoint was asked for.
    reads: usize,
}

/// The way to the memory service. It ends with the value.
pub(super) struct Proxy {
    notes: Arc<Mutex<Notes>>,
    _runtime: Runtime,
}

impl Proxy {
    /// Leads the orchestrator of the cluster to the memory service by this way.
    pub(super) fn within(cluster: &mut Cluster<'_>) -> Self {
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let notes = Arc::new(Mutex::new(Notes::default()));
        let address = runtime.block_on(async {
            let memory = support::link(&cluster.address("memory"));
            let journal = Noting {
                memory: Forward::new(memory.clone()),
                notes: notes.clone(),
            };
            let ownership = Forward::<OwnershipServiceServer<()>>::new(memory.clone());
            let session_memory = Forward::<SessionMemoryServiceServer<()>>::new(memory);
            let builder = ServerBuilder::new(Exposure::Services(Arc::new(AllowAnonymous)))
                .register(journal, DESCRIPTORS)
                .register(ownership, DESCRIPTORS)
                .register(session_memory, DESCRIPTORS);
            let server = builder.build().await.expect("a server");
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            tokio::spawn(server.serve(Listener::from(listener), pending(), Duration::ZERO));
            format!("http://{address}")
        });
        cluster.detour("memory", Some(address));
        cluster.start_again("orchestrator");
        Self {
            notes,
            _runtime: runtime,
        }
    }

    /// All checkpoints that were written, in order.
    pub(super) fn checkpoints(&self) -> Vec<Written> {
        self.notes().checkpoints.clone()
    }

    /// The times of all commits that carried no checkpoint.
    pub(super) fn other_commits(&self) -> Vec<Duration> {
        self.notes().others.clone()
    }

    /// How often the orchestrator has asked for a checkpoint.
    pub(super) fn reads(&self) -> usize {
        self.notes().reads
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().expect("no panic")
    }
}

/// The journal service, whose commits are noted.
#[derive(Clone)]
struct Noting {
    memory: Forward<JournalServiceServer<()>>,
    notes: Arc<Mutex<Notes>>,
}

impl Noting {
    /// Passes the bytes on as they came: the memory service does the work that it always does.
    async fn commit(
        mut self,
        request: http::Request<Body>,
    ) -> Result<http::Response<Body>, Infallible> {
        let (head, body) = request.into_parts();
        let body = to_bytes(Whole::new(body), MOST_BYTES).await;
        let body = body.expect("a whole request");
        assert_eq!(body.first(), Some(&0), "the request is compressed");
        let commit = CommitRequest::decode(body.slice(PREFIX..)).expect("a commit");
        let request = http::Request::from_parts(head, Body::new(Whole::from(body)));
        let began = Instant::now();
        let answer = self.memory.call(request).await?;
        let took = began.elapsed();
        // Only an error has its status in the headers.
        if Status::from_header_map(answer.headers()).is_none() {
            self.note(&commit, took);
        }
        Ok(answer)
    }

    fn note(&self, commit: &CommitRequest, took: Duration) {
        let mut notes = self.notes.lock().expect("no panic");
        if !notes.operations.insert(commit.operation_id.clone()) {
            return;
        }
        match &commit.checkpoint {
            Some(checkpoint) => notes.checkpoints.push(Written {
                through_seq: checkpoint.through_seq,
                bytes: checkpoint.state.len(),
                took,
            }),
            None => notes.others.push(took),
        }
    }
}

impl NamedService for Noting {
    const NAME: &'static str = <JournalServiceServer<()> as NamedService>::NAME;
}

impl Service<http::Request<Body>> for Noting {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let path = request.uri().path();
        if path.ends_with("/Commit") {
            return self.clone().commit(request).boxed();
        }
        if path.ends_with("/GetCheckpoint") {
            self.notes.lock().expect("no panic").reads += 1;
        }
        self.memory.call(request)
    }
}
