//! Session memory over gRPC and a socket on loopback, on a server of Redis that syncs its log with
//! each write, beside the bare commands over a bare connection, alternated with it: one at a time,
//! and 64 at the same time. A bare `set` is HSET, `get` is HGET, and a snapshot of 100 keys HGETALL; a
//! `change` is a set and then a snapshot.
//!
//! What no service over gRPC can pass is shown, too: the way there and back alone, of a health check,
//! and then the bare command. The server has a thread of its own, as its process has on two cores.
//!
//! `cargo bench -p cairn-memory --bench session_memory [-- set|get|snapshot|change ...]`; needs
//! `redis-server`, and Linux.
//!
//! # Figures
//!
//! One operation at a time, in 3 runs; November 2026, a quiet virtual machine with 2 cores.
//! Required: 40 % of the bare command. Goal: 60 %.
//!
//! - `set`: 1,480 to 1,660/s. Bare: 3,000 to 3,560/s. Ratio: 47 to 50 %. A hop and then the bare
//!   command: 68 to 70 %.
//! - `get`: 3,530 to 3,880/s. Bare: 36,600 to 41,100/s. Ratio: 9 to 10 %. A hop and then the bare
//!   command: 13 to 14 %.
//! - `snapshot` of 100 unchanged keys: 3,200 to 3,760/s. Bare: 6,440 to 6,790/s. Ratio: 49 to 55
//!   %. A hop and then the bare command: 44 to 48 %.
//! - `change`, a snapshot after a set: 990 to 1,070/s. Bare: 2,240 to 2,610/s. Ratio: 41 to 46 %.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

#[cfg(target_os = "linux")]
fn main() {
    on_linux::main();
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod on_linux {
    use bytes::Bytes;
    use cairn_memory::Memory;
    use cairn_memory::port::{Create, Header, RequestId, SessionKey, Store as _};
    use cairn_memory::redis::{RedisConfig, RedisOptions, RedisStore};
    use cairn_proto::memory as pb;
    use cairn_proto::memory::session_memory_service_client::SessionMemoryServiceClient;
    use cairn_rpc::{
        AllowAnonymous, Exposure, Link, Listener, Principal, ServerBuilder, with_principal,
    };
    use cairn_testkit::RedisServer;
    use redis::aio::MultiplexedConnection;
    use std::sync::Arc;
    use std::time::{Duration, Instant};
    use tokio::runtime::{Builder, Runtime};
    use tonic::Request;
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;

    /// As in the program itself.
    #[global_allocator]
    static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

    const ROUNDS: usize = 5;
    /// Calls of a round, of all sessions together.
    const CALLS: usize = 1024;
    const KEYS: usize = 100;
    const VALUE: &str = "a value of some thirty characters";

    #[derive(Debug, Clone, Copy)]
    enum What {
        Set,
        Get,
        /// Of what has not changed since the last one.
        Snapshot,
        /// A set and then a snapshot, so that each sees another.
        Change,
    }

    impl What {
        /// The bare commands.
        fn commands(self) -> &'static [&'static str] {
            match self {
                Self::Set => &["HSET"],
                Self::Get => &["HGET"],
                Self::Snapshot => &["HGETALL"],
                Self::Change => &["HSET", "HGETALL"],
            }
        }
    }

    pub(super) fn main() {
        let mut server = Builder::new_multi_thread();
        let server = server.worker_threads(1).enable_all().build().unwrap();
        let clients = Builder::new_current_thread().enable_all().build().unwrap();
        let wanted: Vec<String> = std::env::args()
            .skip(1)
            .filter(|it| !it.starts_with('-'))
            .collect();
        for what in [What::Set, What::Get, What::Snapshot, What::Change] {
            let name = format!("{what:?}").to_lowercase();
            if !wanted.is_empty() && !wanted.contains(&name) {
                continue;
            }
            for sessions in [1, 64] {
                let redis = RedisServer::start();
                let address = serve(&server, &redis, sessions);
                clients.block_on(measure(what, sessions, &redis, &address));
            }
        }
    }

    /// Serves so many sessions until the end, and says where.
    fn serve(server: &Runtime, redis: &RedisServer, sessions: usize) -> String {
        let config = RedisConfig::standalone(redis.url());
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", socket.local_addr().unwrap());
        socket.set_nonblocking(true).unwrap();
        let ready = server.spawn(async move {
            let store = RedisStore::open(&config, RedisOptions::default()).await;
            let store = Arc::new(store.unwrap());
            for number in 0..sessions {
                store.create(creation(number)).await.unwrap();
            }
            let memory = Memory::over(store);
            let open = Exposure::Services(Arc::new(AllowAnonymous));
            let builder = memory.register_internal(ServerBuilder::new(open));
            let server = builder.build().await.unwrap();
            let listener = Listener::Tcp(tokio::net::TcpListener::from_std(socket).unwrap());
            let never = std::future::pending();
            tokio::spawn(server.serve(listener, never, Duration::ZERO));
        });
        server.block_on(ready).unwrap();
        address
    }

    async fn measure(what: What, sessions: usize, redis: &RedisServer, address: &str) {
        let link = Link::remote(&address.parse().unwrap());
        let client = redis::Client::open(redis.url()).unwrap();
        let bare = client.get_multiplexed_async_connection().await.unwrap();
        let mut ours = workers(sessions, |number| Ours::new(&link, number));
        let mut hops = workers(sessions, |_| Hop(HealthClient::new(link.clone())));
        let mut theirs = workers(sessions, |number| Bare::new(&bare, number));
        let fill = What::Set;
        run(&mut ours, fill, KEYS).await;
        run(&mut theirs, fill, KEYS).await;
        let (mut rates, mut bares, mut ways) = (Vec::new(), Vec::new(), Vec::new());
        let each = CALLS / sessions;
        for round in 0..=ROUNDS {
            let bare = run(&mut theirs, what, each).await;
            let rate = run(&mut ours, what, each).await;
            let way = run(&mut hops, what, each).await;
            // The first round warms up.
            if round > 0 {
                rates.push(rate);
                bares.push(bare);
                ways.push(way);
            }
        }
        let (rate, bare, way) = (median(rates), median(bares), median(ways));
        let ratio = rate / bare * 100.0;
        let bound = 1.0 / (1.0 / bare + 1.0 / way);
        let (least, of_bound) = (bound / bare * 100.0, rate / bound * 100.0);
        println!("{what:?}, {sessions} at a time: {rate:.0}/s, bare {bare:.0}/s, {ratio:.0} %");
        println!(
            "  a hop alone {way:.0}/s, and then the bare command {bound:.0}/s: {least:.0} % of the \
             bare command; of that {of_bound:.0} %"
        );
    }

    fn creation(number: usize) -> Create {
        Create {
            time_to_live_ms: None,
            key: SessionKey::new("default", format!("s-{number}")),
            request: RequestId {
                id: "request".to_owned(),
                digest: Bytes::from_static(b"digest"),
            },
            operation_id: "creation".to_owned(),
            events: vec![Bytes::from_static(b"created")],
            last_command_seq: 0,
            header: Header::default(),
            lease: None,
        }
    }

    fn workers<W>(count: usize, make: impl Fn(usize) -> W) -> Vec<W> {
        (0..count).map(make).collect()
    }

    trait Worker: Send + Sized + 'static {
        fn call(&mut self, what: What, number: usize) -> impl Future<Output = ()> + Send;
    }

    /// Calls of all workers a second.
    #[allow(clippy::cast_precision_loss, reason = "small numbers")]
    async fn run<W: Worker>(workers: &mut Vec<W>, what: What, each: usize) -> f64 {
        let count = workers.len() * each;
        let start = Instant::now();
        let tasks = workers.drain(..).map(|mut worker| {
            tokio::spawn(async move {
                for number in 0..each {
                    worker.call(what, number).await;
                }
                worker
            })
        });
        let tasks: Vec<_> = tasks.collect();
        for task in tasks {
            workers.push(task.await.unwrap());
        }
        count as f64 / start.elapsed().as_secs_f64()
    }

    fn median(mut rates: Vec<f64>) -> f64 {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    }

    fn key(number: usize) -> String {
        format!("key-{}", number % KEYS)
    }

    struct Ours {
        client: SessionMemoryServiceClient<Link>,
        session: String,
    }

    impl Ours {
        fn new(link: &Link, number: usize) -> Self {
            Self {
                client: SessionMemoryServiceClient::new(link.clone()),
                session: format!("s-{number}"),
            }
        }
    }

    fn here<T>(message: T) -> Request<T> {
        with_principal(Request::new(message), &Principal::process())
    }

    impl Worker for Ours {
        async fn call(&mut self, what: What, number: usize) {
            if matches!(what, What::Set | What::Change) {
                let request = pb::SetMemoryRequest {
                    session: self.session.clone(),
                    key: key(number),
                    value: VALUE.to_owned(),
                    metadata: Default::default(),
                };
                self.client.set_memory(here(request)).await.unwrap();
            }
            let session = self.session.clone();
            match what {
                What::Set => {}
                What::Get => {
                    let request = pb::GetMemoryRequest {
                        session,
                        key: key(number),
                    };
                    self.client.get_memory(here(request)).await.unwrap();
                }
                What::Snapshot | What::Change => {
                    let request = pb::SnapshotMemoryRequest { session };
                    self.client.snapshot_memory(here(request)).await.unwrap();
                }
            }
        }
    }

    /// The way there and back.
    struct Hop(HealthClient<Link>);

    impl Worker for Hop {
        async fn call(&mut self, what: What, _: usize) {
            for _ in what.commands() {
                let question = HealthCheckRequest::default();
                self.0.check(question).await.unwrap();
            }
        }
    }

    struct Bare {
        connection: MultiplexedConnection,
        hash: String,
    }

    impl Bare {
        fn new(connection: &MultiplexedConnection, number: usize) -> Self {
            Self {
                connection: connection.clone(),
                hash: format!("bare-{number}"),
            }
        }
    }

    impl Worker for Bare {
        async fn call(&mut self, what: What, number: usize) {
            for name in what.commands() {
                let mut cmd = redis::cmd(name);
                cmd.arg(&self.hash);
                match *name {
                    "HSET" => _ = cmd.arg(key(number)).arg(VALUE),
                    "HGET" => _ = cmd.arg(key(number)),
                    _ => {}
                }
                let answer = cmd.query_async::<redis::Value>(&mut self.connection).await;
                answer.unwrap();
            }
        }
    }
}
