//! What a transition on Redis costs above the bare script: the same script with the same values
//! over a bare connection, alternated with the store in the same run, on one server that syncs its
//! log with each write, for several sessions at the same time.
//!
//! `cargo bench -p cairn-memory --bench redis`; needs `redis-server`, and Linux.

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
    use cairn_memory::port::{
        Commit, Create, Header, LeaseChange, LeaseRequest, RequestId, SessionKey, Store,
    };
    use cairn_memory::redis::{ProbedSession, RedisConfig, RedisOptions, RedisProbe, RedisStore};
    use cairn_testkit::RedisServer;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    const ROUNDS: usize = 10;
    /// Transitions of a round, in all sessions together.
    const TRANSITIONS: usize = 1024;
    /// Bytes of a transition's one event.
    const PAYLOAD: usize = 1024;
    const OWNER: &str = "an owner with a name of usual length";

    pub(super) fn main() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            for sessions in [1, 16, 64, 512] {
                measure(sessions).await;
            }
        });
    }

    async fn measure(sessions: usize) {
        let server = RedisServer::start();
        let config = RedisConfig::standalone(server.url());
        let store = RedisStore::open(&config, RedisOptions::default()).await;
        let store = Arc::new(store.unwrap());
        let mut owners = Vec::new();
        for number in 0..sessions {
            owners.push(Owner::new(&store, number).await);
        }
        // By this the server knows the script.
        owners[0].commit().await;
        let probe = RedisProbe::connect(&config, &store).await.unwrap();
        let mut probed = Vec::new();
        for number in 0..sessions {
            let key = SessionKey::new("default", format!("probed-{number}"));
            create(&store, &key).await;
            probed.push(probe.session(&config, &key, OWNER));
        }
        let each = TRANSITIONS / sessions;
        let (mut bare, mut stored) = (Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let (times, took) = run(&mut probed, each).await;
            let (stored_times, stored_took) = run(&mut owners, each).await;
            // The first round warms up.
            if round > 0 {
                bare.push((rate(each * sessions, took), times));
                stored.push((rate(each * sessions, stored_took), stored_times));
            }
        }
        report(sessions, &mut bare, &mut stored, &server);
    }

    trait Worker: Send + Sized + 'static {
        fn step(&mut self) -> impl Future<Output = ()> + Send;
    }

    impl Worker for ProbedSession {
        async fn step(&mut self) {
            assert!(self.commit(&[7; PAYLOAD]).await);
        }
    }

    impl Worker for Owner {
        async fn step(&mut self) {
            self.commit().await;
        }
    }

    async fn run<W: Worker>(workers: &mut Vec<W>, each: usize) -> (Vec<Duration>, Duration) {
        let start = Instant::now();
        let tasks: Vec<_> = workers
            .drain(..)
            .map(|mut worker| {
                tokio::spawn(async move {
                    let mut times = Vec::with_capacity(each);
                    for _ in 0..each {
                        let start = Instant::now();
                        worker.step().await;
                        times.push(start.elapsed());
                    }
                    (worker, times)
                })
            })
            .collect();
        let mut all = Vec::new();
        for task in tasks {
            let (worker, times) = task.await.unwrap();
            workers.push(worker);
            all.extend(times);
        }
        (all, start.elapsed())
    }

    /// An owner at work on a session.
    struct Owner {
        store: Arc<RedisStore>,
        key: SessionKey,
        version: u64,
        seen: u64,
        event: Bytes,
    }

    impl Owner {
        async fn new(store: &Arc<RedisStore>, number: usize) -> Self {
            let key = SessionKey::new("default", format!("session-{number}"));
            create(store, &key).await;
            Self {
                store: store.clone(),
                key,
                version: 0,
                seen: 1,
                event: vec![7; PAYLOAD].into(),
            }
        }

        async fn commit(&mut self) {
            let commit = Commit {
                key: self.key.clone(),
                owner: OWNER.to_owned(),
                epoch: 1,
                version: self.version,
                operation_id: format!("operation-{}", self.version),
                seen_seq: self.seen,
                events: vec![self.event.clone()],
                memory_writes: Vec::new(),
                header: Header::default(),
                lease: LeaseChange::Renew,
                lease_ms: 600_000,
                checkpoint: None,
                from_reserve: false,
                no_progress: false,
            };
            let committed = self.store.commit(commit).await.unwrap();
            self.version += 1;
            self.seen = committed.first_seq;
        }
    }

    async fn create(store: &RedisStore, key: &SessionKey) {
        let create = Create {
            key: key.clone(),
            request: RequestId {
                id: "request".to_owned(),
                digest: Bytes::from_static(b"digest"),
            },
            operation_id: "creation".to_owned(),
            events: vec![Bytes::from_static(b"created")],
            last_command_seq: 0,
            header: Header::default(),
            lease: Some(LeaseRequest {
                owner: OWNER.to_owned(),
                lease_ms: 600_000,
            }),
            time_to_live_ms: None,
        };
        store.create(create).await.unwrap();
    }

    #[allow(clippy::cast_precision_loss, reason = "small numbers")]
    fn rate(count: usize, took: Duration) -> f64 {
        count as f64 / took.as_secs_f64()
    }

    type Rounds = [(f64, Vec<Duration>)];

    /// The median of the rounds' rates, and percentiles of all times.
    fn figures(rounds: &mut Rounds) -> (f64, Duration, Duration) {
        rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
        let rate = rounds[rounds.len() / 2].0;
        let mut times: Vec<_> = rounds.iter().flat_map(|(_, times)| times).collect();
        times.sort_unstable();
        let percentile = |percent: usize| *times[(times.len() - 1) * percent / 100];
        (rate, percentile(50), percentile(99))
    }

    fn report(sessions: usize, bare: &mut Rounds, stored: &mut Rounds, server: &RedisServer) {
        println!("{sessions} sessions at a time, {PAYLOAD} bytes a transition");
        let (bare, stored) = (figures(bare), figures(stored));
        for (name, (rate, p50, p99)) in [("bare script", bare), ("store", stored)] {
            println!("  {name:<12} {rate:>7.0}/s   p50 {p50:>9.1?}   p99 {p99:>9.1?}");
        }
        println!("  ratio {:.2}", stored.0 / bare.0);
        let statistics = server.ask(&["INFO", "commandstats"]);
        let mut lines = statistics.lines();
        if let Some(line) = lines.find(|line| line.starts_with("cmdstat_evalsha")) {
            println!("  server: {line}");
        }
    }
}
