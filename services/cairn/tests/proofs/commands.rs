//! Commands: how long a client of an idle session waits for the first event that answers its command,
//! with and without the folds that an orchestrator keeps.
//!
//! Many sessions with some state get a command each, again and again, as conversations would. Between
//! two commands a session is parked, so each command claims it anew. `deploy/prove commands` measures
//! 500 sessions; the suite runs a short form.
//!
//! # Figures
//!
//! `deploy/prove commands`, November 2026, a debug build on a quiet virtual machine with 2 cores, 10,000
//! commands each: without kept folds p50 4.9 ms and p99 14.6 ms, with them 4.6 and 11.5 ms. With
//! `--pause 400`, which is more than these cores carry out: without p50 319 ms and p99 529 ms, with them 249
//! and 395 ms.

use super::state::{each, fill};
use crate::support::{CAIRN, Client};
use cairn_proto::orchestrator::RenameSessionRequest;
use cairn_testkit::{PATIENCE, Site};
use clap::Args;
use serde_json::Value;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How many commands there are. The defaults are the long form.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Sessions
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub(crate) sessions: usize,
    /// State of each session in KiB, at most 960
    #[arg(long, value_name = "KIB", default_value_t = 120)]
    pub(crate) kib: usize,
    /// Commands to each session
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) commands: usize,
    /// Mean time between two commands to a session, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    pub(crate) pause: u64,
}

#[test]
fn commands_of_idle_sessions_are_answered_with_and_without_kept_folds() {
    prove(&Options {
        sessions: 8,
        kib: 60,
        commands: 2,
        pause: 50,
    });
}

/// Rounds of each, in turn.
const ROUNDS: usize = 2;

/// Measures both, in turn.
pub(crate) fn prove(options: &Options) {
    println!("{options:?}");
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (times, bytes) in times.iter_mut().zip(["0", "268435456"]) {
            times.extend(measure(options, bytes));
        }
    }
    let [without, with] = times;
    print("without", without);
    print("with", with);
}

fn measure(options: &Options, cache_bytes: &str) -> Vec<Duration> {
    let site = Site::new(CAIRN);
    let variables = [("CAIRN_SESSION__CACHE_BYTES", cache_bytes)];
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--json"];
    let mut process = site.begin(&arguments, &variables, "serve.log");
    let line = process.first_line(PATIENCE).expect("it serves").to_owned();
    let line: Value = serde_json::from_str(&line).expect("JSON");
    let address = line["listen"].as_str().expect("an address").to_owned();
    let runtime = Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        fill(&address, options.sessions, options.kib).await;
        // Each session is read once before its commands are measured.
        let warm = Options {
            commands: 1,
            ..options.clone()
        };
        command_all(&address, &warm, "warm").await;
        command_all(&address, options, "measured").await
    })
}

/// Sends the commands of all sessions, each session's one after the other.
async fn command_all(address: &str, options: &Options, phase: &'static str) -> Vec<Duration> {
    let Options {
        commands, pause, ..
    } = *options;
    let clients = each(address, options.sessions, |client, _, number| async move {
        (client, number)
    });
    let mut tasks = JoinSet::new();
    for (client, number) in clients.await {
        tasks.spawn(command_one(client, number, commands, pause, phase));
    }
    tasks.join_all().await.concat()
}

async fn command_one(
    mut client: Client,
    number: usize,
    count: usize,
    pause: u64,
    phase: &str,
) -> Vec<Duration> {
    let mut times = Vec::with_capacity(count);
    for command in 0..count {
        let mut hasher = DefaultHasher::new();
        (number, command).hash(&mut hasher);
        sleep(Duration::from_millis(hasher.finish() % (2 * pause))).await;
        let request = RenameSessionRequest {
            session: format!("s-{number}"),
            request_id: format!("{phase}-{command}"),
            title: format!("{phase} {command}"),
        };
        let began = Instant::now();
        client.rename_session(request).await.expect("an answer");
        times.push(began.elapsed());
    }
    times
}

fn print(name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let percentile = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    println!(
        "{name} kept folds, from command to answer, {} times: p50 {:.1?}, p99 {:.1?}",
        times.len(),
        percentile(50),
        percentile(99)
    );
}
