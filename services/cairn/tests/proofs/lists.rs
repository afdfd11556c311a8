//! Lists over many sessions: what they read, and how long they take.
//!
//! The store has `sessions` sessions, some of which run, ask a person something, or have a title of
//! their own. Between the orchestrator and the memory service each call is counted. Listings read headers
//! alone: no events and no checkpoint. ListPending opens the sessions with an open question and no other.
//! `deploy/prove lists` is the long form: over a file and over Redis, with 200 and with 20,000 sessions.

use crate::support::Client;
use cairn_memory::Memory;
use cairn_proto::event as wire;
use cairn_proto::memory as memory_pb;
use cairn_proto::memory::journal_service_client::JournalServiceClient;
use cairn_proto::memory::journal_service_server::JournalServiceServer;
use cairn_proto::memory::ownership_service_server::OwnershipServiceServer;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{Exposure, Forward, Link, Principal, ServerBuilder, with_principal};
use cairn_testkit::TestStore;
use clap::Args;
use futures::future::BoxFuture;
use prost::Message as _;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tonic::Request;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;

/// Sessions that are made at the same time.
const AT_ONCE: usize = 64;
/// One of so many runs.
const RUNS: usize = 100;
/// One of so many asks a person something.
const ASKS: usize = 500;
/// One of so many has a title of its own.
const TITLED: usize = 1000;

/// How many sessions there are. The defaults are the long form.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Sessions in the store; a first round has 200
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(crate) sessions: usize,
    /// How often each list is asked for
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) rounds: usize,
}

/// As many as take several pages.
const SHORT: Options = Options {
    sessions: 2200,
    rounds: 3,
};

#[test]
fn lists_read_headers_only() {
    run(&TestStore::file(), &SHORT);
}

mod redis {
    use super::{Options, SHORT, TestStore, run};

    #[test]
    fn lists_over_redis_read_headers_only() {
        run(&TestStore::redis(), &SHORT);
    }

    pub(super) fn prove(options: &Options) {
        run(&TestStore::redis(), options);
    }
}

/// Lists over each store, and panics if something else than headers was read.
pub(crate) fn prove(options: &Options) {
    println!("{options:?}");
    let few = Options {
        sessions: options.sessions.min(200),
        ..*options
    };
    for options in [&few, options] {
        run(&TestStore::file(), options);
    }
    for options in [&few, options] {
        redis::prove(options);
    }
}

fn run(store: &TestStore, options: &Options) {
    let runtime = Builder::new_multi_thread().enable_all().build();
    let proof = prove_over(store, options.sessions, options.rounds);
    runtime.expect("a runtime").block_on(proof);
}

async fn prove_over(store: &TestStore, sessions: usize, rounds: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = cairn_memory::Config::default();
    config.store = match store.is_file() {
        true => cairn_memory::StoreConfig::Sqlite {
            path: folder.path().join("cairn.db"),
        },
        false => serde_json::from_value(store.config()).expect("a store"),
    };
    let memory = cairn_memory::build(config, cairn_memory::Deps::default());
    let memory: Memory = memory.expect("a store");
    let builder = memory.register_internal(ServerBuilder::new(Exposure::Internal));
    let link = builder.build().await.expect("memory").link();
    let began = Instant::now();
    fill(&link, sessions).await;
    let name = if store.is_file() { "SQLite" } else { "Redis" };
    println!(
        "\n{name}, {sessions} sessions (made in {:.1?})",
        began.elapsed()
    );
    let calls = Calls::default();
    let lists = Lists::over(&link, &calls).await;
    lists.measure(sessions, rounds).await;
    memory.store().close().await;
}

/// Makes the sessions: their headers are what counts.
async fn fill(link: &Link, sessions: usize) {
    let created = wire::Event {
        at_unix_ms: 1,
        kind: Some(wire::event::Kind::SessionCreated(
            wire::SessionCreated::default(),
        )),
        ..wire::Event::default()
    };
    let event = bytes_of(&created);
    let numbers: Vec<_> = (0..sessions).collect();
    for some in numbers.chunks(AT_ONCE) {
        let mut tasks = JoinSet::new();
        for &number in some {
            let (mut journal, event) = (JournalServiceClient::new(link.clone()), event.clone());
            tasks.spawn(async move {
                let made = journal.create_session(as_process(session(number, event)));
                made.await.expect("a session");
            });
        }
        tasks.join_all().await;
    }
}

fn bytes_of(event: &wire::Event) -> Vec<u8> {
    event.encode_to_vec()
}

fn session(number: usize, event: Vec<u8>) -> memory_pb::CreateSessionRequest {
    use memory_pb::SessionStatus as Noted;
    let is_asking = number.is_multiple_of(ASKS);
    let status = match () {
        () if is_asking => Noted::Waiting,
        () if number % RUNS == 1 => Noted::Running,
        () => Noted::Idle,
    };
    let asked = memory_pb::PendingKind {
        kind: wire::WaitReason::Approval as u32,
        since_unix_ms: 1,
        count: 1,
    };
    let what = if number % TITLED == 2 {
        "Nightly"
    } else {
        "Run"
    };
    memory_pb::CreateSessionRequest {
        session: format!("s-{number:05}"),
        request_id: "make".to_owned(),
        request_digest: vec![1; 32].into(),
        events: vec![event.into()],
        header: Some(memory_pb::Header {
            status: status.into(),
            title: format!("{what} {number} over the files under docs"),
            tokens: 12_345,
            cost_nano_usd: 12_300_000,
            pending: vec![asked; usize::from(is_asking)],
            ..memory_pb::Header::default()
        }),
        ..memory_pb::CreateSessionRequest::default()
    }
}

fn as_process<T>(message: T) -> Request<T> {
    with_principal(Request::new(message), &Principal::process())
}

/// The orchestrator over a store whose calls are counted.
struct Lists {
    client: Client,
    calls: Calls,
}

impl Lists {
    async fn over(memory: &Link, calls: &Calls) -> Self {
        let counted = counted(memory, calls).await;
        let config = cairn_orchestrator::Config::default();
        let reader = cairn_orchestrator::build_reader(config, &counted).await;
        let reader = reader.expect("it reads");
        let builder = reader.register(ServerBuilder::new(Exposure::Internal));
        let link = builder.build().await.expect("an orchestrator").link();
        Self {
            client: Client::new(link),
            calls: calls.clone(),
        }
    }

    async fn measure(&self, sessions: usize, rounds: usize) {
        let of = |filter| pb::ListSessionsRequest {
            page_size: 100,
            filter: Some(filter),
            ..pb::ListSessionsRequest::default()
        };
        let running = pb::SessionFilter {
            statuses: vec![pb::SessionStatus::Running.into()],
            ..pb::SessionFilter::default()
        };
        let asking = pb::SessionFilter {
            has_pending: true,
            ..pb::SessionFilter::default()
        };
        let nightly = pb::SessionFilter {
            prefix: "nightly".to_owned(),
            ..pb::SessionFilter::default()
        };
        let latest = pb::ListSessionsRequest {
            page_size: 1,
            order: pb::SessionOrder::Changed.into(),
            ..pb::ListSessionsRequest::default()
        };
        let with = |every: usize, first: usize| sessions.saturating_sub(first).div_ceil(every);
        println!("  {:<34} {:>9} {:>9}", "", "p50", "p99");
        self.list("latest", &latest, 1, rounds).await;
        let all = of(pb::SessionFilter::default());
        self.list("a page of 100", &all, 100, rounds).await;
        self.list("filter: running, first page", &of(running), 0, rounds)
            .await;
        let count = with(ASKS, 0);
        self.list("filter: open questions", &of(asking), count, rounds)
            .await;
        self.list("prefix, first page", &of(nightly.clone()), 0, rounds)
            .await;
        self.whole("prefix, all pages", &of(nightly), with(TITLED, 2), rounds)
            .await;
        self.pending(count, rounds).await;
    }

    /// Asks for one page; it has so many sessions, unless that is 0.
    async fn list(&self, name: &str, asked: &pb::ListSessionsRequest, want: usize, rounds: usize) {
        self.timed(name, rounds, async || {
            let page = self.page(asked.clone()).await;
            assert!(
                want == 0 || page.sessions.len() == want,
                "{}",
                page.sessions.len()
            );
        })
        .await;
    }

    /// Asks for all pages.
    async fn whole(&self, name: &str, asked: &pb::ListSessionsRequest, want: usize, rounds: usize) {
        self.timed(name, rounds, async || {
            let (mut asked, mut found) = (asked.clone(), 0);
            loop {
                let page = self.page(asked.clone()).await;
                found += page.sessions.len();
                asked.page_token = page.next_page_token;
                if asked.page_token.is_empty() {
                    break;
                }
            }
            assert_eq!(found, want);
        })
        .await;
    }

    async fn page(&self, asked: pb::ListSessionsRequest) -> pb::ListSessionsResponse {
        let page = self.client.clone().list_sessions(as_process(asked)).await;
        page.expect("a page").into_inner()
    }

    async fn timed(&self, name: &str, rounds: usize, ask: impl AsyncFn()) {
        self.calls.take();
        let mut times = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let began = Instant::now();
            ask().await;
            times.push(began.elapsed());
        }
        show(name, times);
        let calls = self.calls.take();
        let others = calls.keys().filter(|method| *method != "ListSessions");
        assert_eq!(others.count(), 0, "{name} reads headers only: {calls:?}");
    }

    /// The journals of those alone that ask something are read.
    async fn pending(&self, asking: usize, rounds: usize) {
        self.calls.take();
        let rounds = rounds.min(20);
        let mut times = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let began = Instant::now();
            let asked = as_process(pb::ListPendingRequest::default());
            let listed = self.client.clone().list_pending(asked).await;
            assert!(listed.expect("a list").into_inner().unreadable.is_empty());
            times.push(began.elapsed());
        }
        show(&format!("ListPending ({asking} sessions opened)"), times);
        let calls = self.calls.take();
        // A session that was read once is kept, and needs one reading of what came since.
        let opened = calls.get("ReadEvents").copied().unwrap_or_default();
        assert_eq!(opened, asking * rounds, "{calls:?}");
    }
}

fn show(name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    let ms = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1000.0);
    println!("  {name:<34} {:>9} {:>9}", ms(at(50)), ms(at(99)));
}

/// Calls of the memory service by method.
#[derive(Debug, Clone, Default)]
struct Calls(Arc<Mutex<BTreeMap<String, usize>>>);

impl Calls {
    fn count(&self, path: &str) {
        let method = path.rsplit('/').next().unwrap_or_default();
        let mut calls = self.0.lock().expect("no panic");
        *calls.entry(method.to_owned()).or_default() += 1;
    }

    /// The calls since the last look.
    fn take(&self) -> BTreeMap<String, usize> {
        std::mem::take(&mut self.0.lock().expect("no panic"))
    }
}

/// A link to the memory service on which calls are counted.
async fn counted(memory: &Link, calls: &Calls) -> Link {
    let builder = ServerBuilder::new(Exposure::Internal)
        .register(
            Counted::<JournalServiceServer<()>>::new(memory, calls),
            cairn_proto::DESCRIPTORS,
        )
        .register(
            Counted::<OwnershipServiceServer<()>>::new(memory, calls),
            cairn_proto::DESCRIPTORS,
        );
    builder.build().await.expect("a server").link()
}

struct Counted<N> {
    link: Link,
    calls: Calls,
    name: PhantomData<fn() -> N>,
}

impl<N> Counted<N> {
    fn new(link: &Link, calls: &Calls) -> Self {
        Self {
            link: link.clone(),
            calls: calls.clone(),
            name: PhantomData,
        }
    }
}

impl<N> Clone for Counted<N> {
    fn clone(&self) -> Self {
        Self::new(&self.link, &self.calls)
    }
}

impl<N: NamedService> NamedService for Counted<N> {
    const NAME: &'static str = N::NAME;
}

impl<N> Service<http::Request<Body>> for Counted<N> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        self.calls.count(request.uri().path());
        Forward::<N>::new(self.link.clone()).call(request)
    }
}
