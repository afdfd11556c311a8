//! What a transition costs above raw SQL: the same rows, pragmas and driver, alternated with the
//! store in the same run, one session at a time and 64 at a time.
//!
//! `cargo bench -p cairn-memory --bench commit`; with `-- FOLDER` in another folder than the build's,
//! as on another disk, or in memory to see what remains without one.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and fails by panicking"
)]

use bytes::Bytes;
use cairn_memory::port::{
    Commit, Create, Header, LeaseChange, LeaseRequest, RequestId, SessionKey, Store,
};
use cairn_memory::sqlite::{RawProbe, SqliteOptions, SqliteStore};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const ROUNDS: usize = 40;
const SINGLE: usize = 100;
const SESSIONS: usize = 64;
const GROUPS: usize = 15;
/// Bytes of a transition's one event.
const PAYLOAD: usize = 1024;

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'));
    let place = arguments
        .next()
        .unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").to_owned());
    let folder = tempfile::tempdir_in(place).unwrap();
    let runtime = Runtime::new().unwrap();
    let mut raw = RawProbe::create(&folder.path().join("raw.db"), SESSIONS).unwrap();
    let store = SqliteStore::open(folder.path().join("cairn.db"), SqliteOptions::default());
    let store: Arc<dyn Store> = Arc::new(store.unwrap());
    let mut owners: Vec<_> = (0..SESSIONS)
        .map(|n| runtime.block_on(Owner::new(&store, n)))
        .collect();

    let (mut raw_single, mut store_single) = (Vec::new(), Vec::new());
    let (mut raw_group, mut store_group) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let single = (raw_one(&mut raw), store_one(&runtime, &mut owners[0]));
        let group = (raw_many(&mut raw), store_many(&runtime, &mut owners));
        // The first round warms up.
        if round > 0 {
            raw_single.extend(single.0);
            store_single.extend(single.1);
            raw_group.push(group.0);
            store_group.push(group.1);
        }
    }
    report(&mut raw_single, &mut store_single);
    report_groups(&mut raw_group, &mut store_group);
}

/// An owner at work on a session.
struct Owner {
    store: Arc<dyn Store>,
    key: SessionKey,
    name: String,
    version: u64,
    seen: u64,
    event: Bytes,
}

impl Owner {
    async fn new(store: &Arc<dyn Store>, number: usize) -> Self {
        let key = SessionKey::new("default", format!("session-{number}"));
        let name = "an owner with a name of usual length".to_owned();
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
                owner: name.clone(),
                lease_ms: 600_000,
            }),
            time_to_live_ms: None,
        };
        store.create(create).await.unwrap();
        Self {
            store: store.clone(),
            key,
            name,
            version: 0,
            seen: 1,
            event: vec![7; PAYLOAD].into(),
        }
    }

    async fn commit(&mut self) {
        let commit = Commit {
            key: self.key.clone(),
            owner: self.name.clone(),
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

fn raw_one(raw: &mut RawProbe) -> Vec<Duration> {
    let payload = vec![7; PAYLOAD + 5];
    let commit = |_| {
        let start = Instant::now();
        raw.commit(&[0], &payload).unwrap();
        start.elapsed()
    };
    (0..SINGLE).map(commit).collect()
}

fn store_one(runtime: &Runtime, owner: &mut Owner) -> Vec<Duration> {
    runtime.block_on(async {
        let mut times = Vec::with_capacity(SINGLE);
        for _ in 0..SINGLE {
            let start = Instant::now();
            owner.commit().await;
            times.push(start.elapsed());
        }
        times
    })
}

/// Transitions a second.
fn raw_many(raw: &mut RawProbe) -> f64 {
    let payload = vec![7; PAYLOAD + 5];
    let all: Vec<_> = (0..SESSIONS).collect();
    let start = Instant::now();
    for _ in 0..GROUPS {
        raw.commit(&all, &payload).unwrap();
    }
    rate(start.elapsed())
}

fn store_many(runtime: &Runtime, owners: &mut Vec<Owner>) -> f64 {
    let start = Instant::now();
    let work: Vec<_> = owners
        .drain(..)
        .map(|mut owner| {
            runtime.spawn(async move {
                for _ in 0..GROUPS {
                    owner.commit().await;
                }
                owner
            })
        })
        .collect();
    owners.extend(work.into_iter().map(|work| runtime.block_on(work).unwrap()));
    rate(start.elapsed())
}

#[allow(clippy::cast_precision_loss, reason = "small numbers")]
fn rate(elapsed: Duration) -> f64 {
    (SESSIONS * GROUPS) as f64 / elapsed.as_secs_f64()
}

fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) * percent / 100]
}

fn report(raw: &mut [Duration], store: &mut [Duration]) {
    println!("one session at a time, {PAYLOAD} bytes a transition");
    for percent in [50, 90, 99] {
        let (raw, store) = (percentile(raw, percent), percentile(store, percent));
        println!(
            "  p{percent}  raw {raw:>10.1?}   store {store:>10.1?}   above raw {:>10.1?}",
            store.saturating_sub(raw)
        );
    }
    let (raw, store) = (percentile(raw, 50), percentile(store, 50));
    println!(
        "  at p50: raw {:.0}/s, store {:.0}/s, ratio {:.2}",
        1.0 / raw.as_secs_f64(),
        1.0 / store.as_secs_f64(),
        raw.as_secs_f64() / store.as_secs_f64()
    );
}

fn report_groups(raw: &mut [f64], store: &mut [f64]) {
    let median = |rates: &mut [f64]| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    let (raw, store) = (median(raw), median(store));
    println!("{SESSIONS} sessions at a time, {PAYLOAD} bytes a transition (median of {ROUNDS})");
    println!(
        "  raw {raw:.0}/s, store {store:.0}/s, ratio {:.2}",
        store / raw
    );
}
