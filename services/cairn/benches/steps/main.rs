//! What Cairn costs beside what the machine can do: durable steps, turns and runs per second on the
//! embedded store, next to bare SQL with the same rows, pragmas and driver, alternated with them.
//!
//! ```text
//! cargo bench -p cairn --bench steps            all cases
//! cargo bench -p cairn --bench steps -- chain   those whose name has "chain" in it
//! cargo bench -p cairn --bench steps -- memory  long sessions: memory, fold, watch
//! cargo bench -p cairn --bench steps -- redis   over Redis, one orchestrator and four
//! ```
//!
//! # Figures
//!
//! Measured in November 2026 on a quiet virtual machine with 2 cores; medians of five rounds. Only
//! ratios within one run hold on other machines, and they differ by a fifth.
//!
//! - Chain of tool steps, 1 session: 4,290 to 5,040 steps/s, p50 164 to 201 µs a step. Raw: p50
//!   130 to 138 µs a commit. A step takes raw + 28 to 63 µs in 3 runs, median 45. Required: raw +
//!   100 µs. Goal: raw + 50 µs.
//! - Chain of tool steps, 64 sessions: 26,700 to 28,900 steps/s. Raw: 62,000 to 66,200 commits/s.
//!   Ratio: 42 to 44 % in 3 runs. Required: 25 % and 6,000 steps/s. Goal: 15,000 steps/s.
//! - Agent loop (a reply and a pure call), 1 and 64 sessions: 4,560 and 16,500 turns/s. Required:
//!   1,000 and 4,000. Goal: 2,000 and 8,000.
//! - Runs of one step, 64 at once: 5,800 runs/s. Required: 2,000. Goal: 5,000.
//!
//! A single step is about fifteen messages between tasks. One core is left to the thread of the
//! store.
//!
//! Two more figures, measured by hand:
//!
//! - Start to first finished run, with `--release`: 38 to 71 ms in eight runs of `cairn run
//!   --plan` with one step and a new store. Required: 200 ms. Goal: 100 ms.
//! - Clean build of the first command of the README (`cargo build --profile quick`): 2 min 24 s.
//!   Required: 150 s.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and is over when its world cannot be set up"
)]

mod cases;
mod counted;
mod long;
mod on_redis;
#[path = "../../tests/support/mod.rs"]
mod support;

use cairn_memory::sqlite::RawProbe;
use cairn_proto::event::event::Kind;
use cases::{Case, cases, models};
use counted::{Calls, Counted};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use support::{client, node, parts, start};

/// As in the program itself.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How often a case and its raw limit are alternated; medians are shown.
const ROUNDS: usize = 5;
/// Transitions of a raw round. As many as a lone session makes in one: until the log has its size,
/// a sync takes longer, because the file grows.
pub(crate) const RAW_COMMITS: usize = 6_048;
/// Bytes of the events of a transition between two tool steps.
const TRANSITION_BYTES: usize = 160;

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let workers = wanted
        .iter()
        .find_map(|word| word.strip_prefix("workers=")?.parse().ok());
    let wanted: Vec<String> = wanted.into_iter().filter(|w| !w.contains('=')).collect();
    let runtime = workers.map_or_else(cairn::runtime::runtime, cairn::runtime::with_workers);
    let runtime = runtime.expect("a runtime");
    println!(
        "{:<34} {:>12} {:>12} {:>10} {:>8}",
        "case", "per second", "raw", "p50", "ratio"
    );
    for case in cases() {
        if wanted.is_empty() || wanted.iter().any(|word| case.name.contains(word.as_str())) {
            runtime.block_on(measure(&case));
        }
    }
    // That needs a server's program, and so is not among all.
    if wanted.iter().any(|word| word == "redis") {
        runtime.block_on(on_redis::measure());
    }
    if wanted.is_empty()
        || wanted
            .iter()
            .any(|word| "resume memory".contains(word.as_str()))
    {
        runtime.block_on(long::resume_and_memory());
    }
}

async fn measure(case: &Case) {
    let mut ours = Vec::new();
    let mut raws = Vec::new();
    for _ in 0..ROUNDS {
        let folder = tempfile::tempdir().expect("a folder");
        raws.push(raw(folder.path(), case.sessions));
        ours.push(ours_of(case, folder.path()).await);
    }
    let (ours, raw) = (Speed::median(&ours), Speed::median(&raws));
    let raw_rate = raw.rate / case.commits;
    let ratio = ours.rate / raw_rate * 100.0;
    println!(
        "{:<34} {:>12.0} {raw_rate:>12.0} {:>7.0} µs {ratio:>6.0} %",
        case.name,
        ours.rate,
        ours.p50 * 1e6
    );
    if case.sessions == 1 {
        let above = (ours.p50 - raw.p50 * case.commits) * 1e6;
        let raw = raw.p50 * 1e6;
        println!("{:<34} p50 of a raw commit {raw:.0} µs + {above:.0} µs", "");
    }
}

#[derive(Clone, Copy)]
struct Speed {
    /// Units a second.
    rate: f64,
    /// Median of the times of single units, in seconds.
    p50: f64,
}

impl Speed {
    fn median(all: &[Self]) -> Self {
        Self {
            rate: median(all.iter().map(|speed| speed.rate)),
            p50: median(all.iter().map(|speed| speed.p50)),
        }
    }
}

/// Transitions of bare SQL, one at a time or in groups as large as there are sessions.
fn raw(folder: &Path, sessions: usize) -> Speed {
    let mut probe = RawProbe::create(&folder.join("raw.db"), sessions).expect("a database");
    let payload = vec![7; TRANSITION_BYTES];
    let group: Vec<usize> = (0..sessions).collect();
    let groups = (RAW_COMMITS / sessions).max(60);
    let mut times = Vec::with_capacity(groups);
    let began = Instant::now();
    for _ in 0..groups {
        let began = Instant::now();
        probe.commit(&group, &payload).expect("a commit");
        times.push(began.elapsed().as_secs_f64());
    }
    Speed {
        rate: (groups * sessions) as f64 / began.elapsed().as_secs_f64(),
        p50: median(times.into_iter()),
    }
}

/// Units a second, and the time between two units of a session: between two calls of its tool, or,
/// if it is watched, between what the watcher gets.
async fn ours_of(case: &Case, folder: &Path) -> Speed {
    let calls = Arc::new(Calls::default());
    let mut parts = parts(folder, models());
    parts.more_tools.push(Counted::tool(calls.clone()));
    let node = node(parts).await;
    let began = Instant::now();
    let mut tasks = Vec::new();
    for session in 0..case.sessions {
        let (mut client, run, case) = (client(&node), case.run.clone(), case.clone());
        let calls = calls.clone();
        tasks.push(tokio::spawn(async move {
            let mut times = Vec::new();
            for repeat in 0..case.runs {
                let request = format!("r-{session}-{repeat}");
                let session = start(&mut client, &request, run.clone()).await;
                times.append(&mut if case.is_watched {
                    watch_units(&mut client, &session).await
                } else {
                    calls.times(&session, case.calls).await
                });
            }
            times
        }));
    }
    let mut times = Vec::new();
    for task in tasks {
        times.append(&mut task.await.expect("a run"));
    }
    let elapsed = began.elapsed().as_secs_f64();
    node.drain().await;
    let units = (case.sessions * case.runs * case.units) as f64;
    Speed {
        rate: units / elapsed,
        p50: median(times.into_iter()),
    }
}

/// Watches a run to its end; the seconds between the ends of its units: tool steps, turns of the
/// model, or the run.
async fn watch_units(client: &mut support::Client, session: &str) -> Vec<f64> {
    let request = cairn_proto::orchestrator::WatchSessionRequest {
        session: session.to_owned(),
        after_seq: 3,
        ..cairn_proto::orchestrator::WatchSessionRequest::default()
    };
    let mut last = Instant::now();
    let stream = client.watch_session(request).await.expect("a watch");
    let mut stream = stream.into_inner();
    let mut times = Vec::new();
    while let Some(message) = stream.message().await.expect("an event") {
        match message.event.and_then(|event| event.kind) {
            Some(Kind::StepCompleted(_) | Kind::ReplyReceived(_)) => {
                times.push(last.elapsed().as_secs_f64());
                last = Instant::now();
            }
            Some(Kind::RunCompleted(_)) => break,
            Some(kind @ (Kind::RunFailed(_) | Kind::RunCancelled(_))) => panic!("{kind:?}"),
            _ => {}
        }
    }
    times
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
