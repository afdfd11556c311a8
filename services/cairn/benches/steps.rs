//! What Cairn costs beside what the machine can do: durable steps, turns and runs per second on the
//! embedded store, next to bare SQL with the same rows, pragmas and driver, alternated with them.
//!
//! ```text
//! cargo bench -p cairn --bench steps            all cases
//! cargo bench -p cairn --bench steps -- chain   those whose name has "chain" in it
//! ```

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and is over when its world cannot be set up"
)]

#[path = "../tests/support/mod.rs"]
mod support;

use cairn_memory::sqlite::RawProbe;
use cairn_model::ModelRegistry;
use cairn_model::recorded::Recorded;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::watch_to_end;
use support::{chain, check_completed, client, model_step, node, parts, start, tool_step};

/// As in the program itself.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How often a case and its raw limit are alternated; medians are shown.
const ROUNDS: usize = 5;
/// Bytes of the events of a transition between two tool steps.
const TRANSITION_BYTES: usize = 160;

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let workers: usize = wanted
        .iter()
        .find_map(|word| word.strip_prefix("workers=")?.parse().ok())
        .unwrap_or(2);
    let wanted: Vec<String> = wanted.into_iter().filter(|w| !w.contains('=')).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .expect("a runtime");
    println!(
        "{:<34} {:>12} {:>12} {:>10} {:>8}",
        "case", "per second", "raw", "p50", "ratio"
    );
    for case in cases() {
        if wanted.is_empty() || wanted.iter().any(|word| case.name.contains(word.as_str())) {
            runtime.block_on(measure(&case));
        }
    }
    if wanted.is_empty()
        || wanted
            .iter()
            .any(|word| "resume memory".contains(word.as_str()))
    {
        runtime.block_on(resume_and_memory());
    }
}

struct Case {
    name: &'static str,
    sessions: usize,
    runs: usize,
    run: wire::StartRun,
    /// What is counted: steps, turns or runs of one run.
    units: usize,
    /// Transitions of one unit.
    commits: f64,
}

fn cases() -> Vec<Case> {
    let tools = |n: usize| chain(vec![tool_step("pure"); n]);
    let turns = 9;
    let model = |steps: usize| chain(vec![model_step("turns"); steps]);
    vec![
        case("chain of tool steps, 1 session", 1, 1, tools(1000), 1000),
        case("chain of tool steps, 64 sessions", 64, 1, tools(150), 150),
        case("agent loop, 1 session", 1, 1, limits(model(40)), 40 * turns),
        case(
            "agent loop, 64 sessions",
            64,
            1,
            limits(model(6)),
            6 * turns,
        ),
        Case {
            commits: 2.0,
            ..case("runs of one step, 64 at once", 64, 20, tools(1), 1)
        },
    ]
}

fn case(
    name: &'static str,
    sessions: usize,
    runs: usize,
    run: wire::StartRun,
    units: usize,
) -> Case {
    Case {
        name,
        sessions,
        runs,
        run,
        units,
        commits: 1.0,
    }
}

fn limits(mut run: wire::StartRun) -> wire::StartRun {
    run.limits = Some(wire::LimitOverrides {
        max_turns: 100_000,
        ..wire::LimitOverrides::default()
    });
    run
}

/// Eight turns with a pure call, and one that ends the step.
fn models() -> ModelRegistry {
    let call = r#"{"tool_calls": [{"name": "pure", "arguments": {}}]}"#;
    let end =
        r#"{"tool_calls": [{"name": "step", "arguments": {"complete": true, "summary": "done"}}]}"#;
    let replies = [vec![call; 8], vec![end]].concat().join(", ");
    let text = format!(r#"{{"match": {{"step": ""}}, "replies": [{replies}]}}"#);
    let mut models = ModelRegistry::new();
    let recorded = Recorded::parse("recorded", &text).expect("a recording");
    models.insert("recorded", Arc::new(recorded));
    models
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
    let groups = (6_000 / sessions).max(60);
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

/// Units a second, and the time between the ends of two units of a session as a watcher sees them.
async fn ours_of(case: &Case, folder: &Path) -> Speed {
    let node = node(parts(folder, models())).await;
    let began = Instant::now();
    let mut tasks = Vec::new();
    for session in 0..case.sessions {
        let (mut client, run, runs) = (client(&node), case.run.clone(), case.runs);
        tasks.push(tokio::spawn(async move {
            let mut times = Vec::new();
            for repeat in 0..runs {
                let request = format!("r-{session}-{repeat}");
                let session = start(&mut client, &request, run.clone()).await;
                times.append(&mut watch_units(&mut client, &session).await);
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

/// A session of many steps: memory after it, the time to fold it and to watch it from the start.
async fn resume_and_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let at_rest_node = node(parts(folder.path(), ModelRegistry::new())).await;
    println!("{:<34} {:>9} KiB", "memory at rest", resident());
    let mut one = client(&at_rest_node);
    for steps in [2_500, 5_000, 10_000] {
        let run = chain(vec![tool_step("pure"); steps]);
        let began = Instant::now();
        let session = start(&mut one, &format!("long-{steps}"), run).await;
        let events = watch_to_end(&mut one, &session, 0).await;
        check_completed(&events);
        let ran = began.elapsed();
        let began = Instant::now();
        let again = watch_to_end(&mut one, &session, 0).await;
        let watched = began.elapsed();
        assert_eq!(again.len(), events.len());
        let folded = time_of_state(&mut one, &session).await;
        println!(
            "{steps:>6} steps, {} events: run {ran:.1?}, watch {watched:.1?}, fold {folded:.1?}",
            events.len()
        );
    }
    drop(one);
    println!("{:<34} {:>9} KiB", "memory after 17,500 steps", resident());
    at_rest_node.drain().await;
}

async fn time_of_state(client: &mut support::Client, session: &str) -> Duration {
    let request = cairn_proto::orchestrator::GetSessionRequest {
        session: session.to_owned(),
    };
    let began = Instant::now();
    client.get_session(request).await.expect("a session");
    began.elapsed()
}

fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok())
        .unwrap_or(0)
}
