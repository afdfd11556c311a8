//! The cost of checkpoints while a session grows to a state of 8 MiB and continues: size and time of
//! each, bytes written in all, the checkpoints that are kept, and the time to resume. On Redis, also
//! the longest time that another client waits, beside the same state through a script.
//!
//! `cargo bench -p cairn-memory --bench checkpoints`; needs `redis-server`, and Linux.
//!
//! # Figures
//!
//! A checkpoint of 8 MiB on Redis with `appendfsync always` takes 45 to 64 ms, and another client
//! waits 22 to 34 ms. By a script it takes 58 to 77 ms, and another client waits 38 to 53 ms.
//! Measured in November 2026 on a quiet virtual machine with 2 cores.

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
        Checkpoint, Commit, Create, Header, LeaseChange, LeaseRequest, RequestId, SessionKey, Store,
    };
    use cairn_memory::redis::{RedisConfig, RedisOptions, RedisStore};
    use cairn_memory::sqlite::{SqliteOptions, SqliteStore};
    use cairn_testkit::RedisServer;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::thread::JoinHandle;
    use std::time::{Duration, Instant};

    const KIB: usize = 1024;
    const MIB: usize = 1024 * KIB;
    /// Bytes of a transition's one event.
    const EVENT: usize = 32 * KIB;
    /// The journal in the end.
    const JOURNAL: usize = 48 * MIB;
    /// The state does not grow beyond this.
    const STATE: usize = 8 * MIB;
    /// As an owner has it: below this, no checkpoint is due.
    const LEAST: usize = 64 * KIB;
    /// How often a state goes to the server in each of both ways.
    const ROUNDS: usize = 10;

    pub(super) fn main() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("cairn.db");
            let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
            println!("SQLite");
            grow(&store, None).await;
            println!(
                "  file: {} MiB",
                path.metadata().unwrap().len() as usize / MIB
            );

            let server = RedisServer::start();
            let config = RedisConfig::standalone(server.url());
            let store = RedisStore::open(&config, RedisOptions::default()).await;
            println!("Redis");
            grow(&store.unwrap(), Some(&Pings::begin(server.url()))).await;
            println!("  the log is synced with each write:");
            in_two_ways(&server);
            println!("  no log:");
            in_two_ways(&RedisServer::with(&[("appendonly", "no")]));
        });
    }

    fn key() -> SessionKey {
        SessionKey::new("space", "a")
    }

    /// Makes transitions, with checkpoints as an owner does, and resumes in the end.
    async fn grow(store: &dyn Store, pings: Option<&Pings>) {
        create(store).await;
        let (mut version, mut journal, mut since, mut last) = (0, 0, 0, 0);
        let (mut written, mut checkpoint) = (0, None);
        while journal < JOURNAL {
            let carries = checkpoint.take();
            let size = carries.as_ref().map(|it: &Checkpoint| it.state.len());
            pings.map(Pings::longest);
            let began = Instant::now();
            store.commit(transition(version, carries)).await.unwrap();
            let took = began.elapsed();
            if let Some(size) = size {
                let blocked = pings.map(Pings::longest);
                let blocked = blocked.map_or(String::new(), |it| format!(", others wait {it:.1?}"));
                println!(
                    "  checkpoint of {:>5} KiB: {took:>8.1?}{blocked}",
                    size / KIB
                );
                written += size;
            }
            (version, journal, since) = (version + 1, journal + EVENT, since + EVENT);
            if since >= LEAST.max(last) {
                (since, last) = (0, journal.min(STATE));
                let state = vec![7; last].into();
                let through_seq = version + 1;
                checkpoint = Some(Checkpoint { through_seq, state });
            }
        }
        let share = written as f64 / journal as f64;
        println!(
            "  written: {} KiB, {share:.2} of the journal",
            written / KIB
        );
        resume(store).await;
    }

    async fn resume(store: &dyn Store) {
        let began = Instant::now();
        let newest = store.checkpoint(&key(), u64::MAX).await.unwrap().unwrap();
        let (mut seq, mut events) = (newest.through_seq, 0);
        loop {
            let page = store.read(&key(), seq, 1000).await.unwrap();
            events += page.events.len();
            match page.events.last() {
                Some(last) => seq = last.seq,
                None => break,
            }
        }
        println!(
            "  resume: checkpoint and {events} events in {:.1?}",
            began.elapsed()
        );
        let (mut kept, mut bytes, mut seq) = (0, 0, u64::MAX);
        while let Some(found) = store.checkpoint(&key(), seq).await.unwrap() {
            (kept, bytes) = (kept + 1, bytes + found.state.len());
            seq = found.through_seq - 1;
        }
        println!("  kept: {kept} checkpoints, {} KiB", bytes / KIB);
    }

    /// The same state by a script, as before, and by a bare command.
    fn in_two_ways(server: &RedisServer) {
        let client = redis::Client::open(server.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        let pings = Pings::begin(server.url());
        let state = vec![7_u8; STATE];
        let script = "return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])";
        for (way, is_bare) in [("script", false), ("bare  ", true)] {
            server.ask(&["CONFIG", "RESETSTAT"]);
            let mut longest = Duration::ZERO;
            let mut took = Duration::ZERO;
            for round in 0..ROUNDS {
                let mut command = match is_bare {
                    true => redis::cmd("HSET"),
                    false => redis::cmd("EVAL"),
                };
                if !is_bare {
                    command.arg(script).arg(1);
                }
                command.arg("states").arg(round).arg(&state[..]);
                pings.longest();
                let began = Instant::now();
                command.query::<u64>(&mut connection).unwrap();
                took += began.elapsed();
                longest = longest.max(pings.longest());
            }
            let mean = took / ROUNDS as u32;
            let statistics = server.ask(&["INFO", "commandstats"]);
            let name = if is_bare {
                "cmdstat_hset:"
            } else {
                "cmdstat_eval:"
            };
            let mut lines = statistics.lines();
            let line = lines.find_map(|line| line.strip_prefix(name)?.split(',').nth(2));
            println!(
                "    8 MiB by {way}: {mean:>8.1?}, others wait {longest:.1?} at most, {}",
                line.unwrap_or_default()
            );
        }
    }

    async fn create(store: &dyn Store) {
        let create = Create {
            key: key(),
            request: RequestId {
                id: "request".to_owned(),
                digest: Bytes::from_static(b"digest"),
            },
            operation_id: "creation".to_owned(),
            events: vec![Bytes::from_static(b"created")],
            last_command_seq: 0,
            header: Header::default(),
            lease: Some(LeaseRequest {
                owner: "one".to_owned(),
                lease_ms: 600_000,
            }),
            time_to_live_ms: None,
        };
        store.create(create).await.unwrap();
    }

    fn transition(version: u64, checkpoint: Option<Checkpoint>) -> Commit {
        Commit {
            key: key(),
            owner: "one".to_owned(),
            epoch: 1,
            version,
            operation_id: format!("operation-{version}"),
            seen_seq: version + 1,
            events: vec![vec![7; EVENT].into()],
            memory_writes: Vec::new(),
            header: Header::default(),
            lease: LeaseChange::Renew,
            lease_ms: 600_000,
            checkpoint,
            from_reserve: false,
            no_progress: false,
        }
    }

    /// Another client of the server, which asks the whole time.
    struct Pings {
        longest_us: Arc<AtomicU64>,
        answers: Arc<AtomicU64>,
        is_over: Arc<AtomicBool>,
        thread: Option<JoinHandle<()>>,
    }

    impl Pings {
        fn begin(url: impl Into<String>) -> Self {
            let longest_us = Arc::new(AtomicU64::new(0));
            let answers = Arc::new(AtomicU64::new(0));
            let is_over = Arc::new(AtomicBool::new(false));
            let client = redis::Client::open(url.into()).unwrap();
            let mut connection = client.get_connection().unwrap();
            let (longest, over) = (longest_us.clone(), is_over.clone());
            let answered = answers.clone();
            let thread = std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    redis::cmd("PING").query::<String>(&mut connection).unwrap();
                    let took = began.elapsed().as_micros();
                    longest.fetch_max(took.try_into().unwrap(), Ordering::Relaxed);
                    answered.fetch_add(1, Ordering::Release);
                }
            });
            Self {
                longest_us,
                answers,
                is_over,
                thread: Some(thread),
            }
        }

        /// The longest wait for an answer since this was asked last, with the one that continues.
        fn longest(&self) -> Duration {
            let seen = self.answers.load(Ordering::Acquire);
            while self.answers.load(Ordering::Acquire) == seen {
                std::thread::yield_now();
            }
            Duration::from_micros(self.longest_us.swap(0, Ordering::Relaxed))
        }
    }

    impl Drop for Pings {
        fn drop(&mut self) {
            self.is_over.store(true, Ordering::Relaxed);
            let thread = self.thread.take();
            thread.map(JoinHandle::join);
        }
    }
}
