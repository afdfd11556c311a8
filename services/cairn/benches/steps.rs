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
    let mut rates = Vec::new();
    let mut raws = Vec::new();
    let mut steps = Vec::new();
    for _ in 0..ROUNDS {
        let folder = tempfile::tempdir().expect("a folder");
        raws.push(raw_rate(folder.path(), case.sessions) / case.commits);
        let (rate, p50) = rate_of(case, folder.path()).await;
        rates.push(rate);
        steps.push(p50);
    }
    let (rate, raw, p50) = (median(&mut rates), median(&mut raws), median(&mut steps));
    let ratio = rate / raw * 100.0;
    println!(
        "{:<34} {rate:>12.0} {raw:>12.0} {:>7.0} µs {ratio:>6.0} %",
        case.name,
        p50 * 1e6
    );
    if case.sessions == 1 {
        let raw_step = 1.0 / raw;
        println!("{:<34} raw commit + {:.0} µs", "", (p50 - raw_step) * 1e6);
    }
}

/// Transitions per second of bare SQL, one at a time or in groups as large as there are sessions.
fn raw_rate(folder: &Path, sessions: usize) -> f64 {
    let mut probe = RawProbe::create(&folder.join("raw.db"), sessions).expect("a database");
    let payload = vec![7; TRANSITION_BYTES];
    let group: Vec<usize> = (0..sessions).collect();
    let groups = (6_000 / sessions).max(60);
    let began = Instant::now();
    for _ in 0..groups {
        probe.commit(&group, &payload).expect("a commit");
    }
    (groups * sessions) as f64 / began.elapsed().as_secs_f64()
}

/// Units per second, and the median time between the ends of two steps of a session.
async fn rate_of(case: &Case, folder: &Path) -> (f64, f64) {
    let node = node(parts(folder, models())).await;
    let began = Instant::now();
    let mut tasks = Vec::new();
    for session in 0..case.sessions {
        let (mut client, run, runs) = (client(&node), case.run.clone(), case.runs);
        tasks.push(tokio::spawn(async move {
            for repeat in 0..runs {
                let request = format!("r-{session}-{repeat}");
                let session = start(&mut client, &request, run.clone()).await;
                check_completed(&watch_to_end(&mut client, &session, 3).await);
            }
        }));
    }
    for task in tasks {
        task.await.expect("a run");
    }
    let elapsed = began.elapsed().as_secs_f64();
    node.drain().await;
    let units = (case.sessions * case.runs * case.units) as f64;
    (units / elapsed, elapsed / (case.runs * case.units) as f64)
}

fn median(values: &mut [f64]) -> f64 {
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
