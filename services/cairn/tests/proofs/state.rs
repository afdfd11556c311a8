//! Sessions with much state: how many one process owns, and what becomes of the others.
//!
//! Each session has session memory of about `kib`, and a run is started in all of them. The process owns
//! as many as `session.state_bytes` allows, refuses further runs with the limit's name and a delay, and
//! leaves what waits in the store's queue. Then all steps may end, and every run completes.
//! `deploy/prove state` is the long form.
//!
//! # Figures
//!
//! Runs in 2,000 sessions of 960 KiB, with `session.state_bytes` of 512 MiB: the process owns 545
//! sessions and refuses 1,455 starts until there is room. It stays below 670 MiB, and all runs
//! complete.

use crate::support::{CAIRN, Client, chain, connect, link, tool_step};
use cairn_proto::memory::SetMemoryRequest;
use cairn_proto::memory::session_memory_service_client::SessionMemoryServiceClient;
use cairn_proto::orchestrator::{CreateSessionRequest, StartRunRequest};
use cairn_rpc::{ErrorKind, RpcError};
use cairn_testkit::{PATIENCE, Site};
use clap::Args;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Bytes of one value of session memory.
const VALUE: usize = 60 * 1024;
/// Requests at the same time.
const REQUESTS: usize = 32;
/// A start that is not answered by then waits for an owner.
const ANSWER: Duration = Duration::from_secs(5);
/// Nothing takes so long once all runs are started.
const ENDS_WITHIN: Duration = Duration::from_secs(300);
/// Between two looks at the metrics.
const LOOK: Duration = Duration::from_millis(20);

/// A tool that lasts until the proof says so.
const GATE: &str = r#"
[[tools.commands]]
name = "gate"
description = "Waits until it is opened."
argv = ["sh", "-c", "until [ -e open ]; do sleep 0.2; done; echo opened"]
effect = "pure"
time_limit_ms = 3600000
parameters = { type = "object" }
"#;

/// How much state there is. The defaults are the long form.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Sessions
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub(crate) sessions: usize,
    /// State of each session in KiB, at most 960
    #[arg(long, value_name = "KIB", default_value_t = 960)]
    pub(crate) kib: usize,
    /// The bound (session.state_bytes) in MiB
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    pub(crate) bound: usize,
}

#[test]
fn one_process_owns_as_much_state_as_it_may() {
    prove(&Options {
        sessions: 48,
        kib: 240,
        bound: 4,
    });
}

/// What is counted while runs are started.
#[derive(Debug, Default)]
struct Peak {
    state_bytes: u64,
    /// Also those that are still being read, and may be given back.
    claimed: u64,
    queued: u64,
    /// In the end.
    owned: u64,
}

struct Figures {
    peak: Peak,
    refused: usize,
    waiting: usize,
}

/// How the start of a run ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    Accepted,
    Refused,
    Waits,
}

/// Starts a run in each session, lets all of them end, and panics if the process took too much.
pub(crate) fn prove(options: &Options) {
    println!("{options:?}");
    let site = Site::new(CAIRN);
    site.append("cairn.toml", GATE);
    let bound = (options.bound << 20).to_string();
    let variables = [
        ("CAIRN_SESSION__STATE_BYTES", bound.as_str()),
        ("CAIRN_EXECUTOR__MAX_ATTEMPTS", "4"),
    ];
    let arguments = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--metrics",
        "127.0.0.1:0",
        "--json",
    ];
    let mut process = site.begin(&arguments, &variables, "serve.log");
    let line = process.first_line(PATIENCE).expect("it serves").to_owned();
    let line: Value = serde_json::from_str(&line).expect("JSON");
    let address = line["listen"].as_str().expect("an address").to_owned();
    let metrics = Metrics(line["metrics"].as_str().expect("an address").to_owned());
    let id = process.id();
    let runtime = Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        fill(&address, options.sessions, options.kib).await;
        show_rss("with all sessions stored", id, "VmRSS");
        let figures = start_all(&address, &metrics, options).await;
        check(&figures, options);
        show_rss("at its peak by then", id, "VmHWM");
        let began = Instant::now();
        site.write("open", "");
        complete_all(&address, &metrics, options).await;
        println!("until all runs had completed: {:.1?}", began.elapsed());
        show_rss("at its peak", id, "VmHWM");
    });
}

fn show_rss(when: &str, process: u32, name: &str) {
    println!("RSS {when}: {} MiB", super::kib(process, name) / 1024);
}

/// Prints what was counted, and panics if the process took too much or too little.
fn check(figures: &Figures, options: &Options) {
    let Figures {
        peak,
        refused,
        waiting,
    } = figures;
    let most = options.bound << 20;
    println!("state bytes, at most: {} of {most}", peak.state_bytes);
    println!(
        "sessions owned: {}, with those being read at most {}",
        peak.owned, peak.claimed
    );
    println!("starts refused: {refused}");
    println!(
        "starts without an owner: {waiting}; queued, at most: {}",
        peak.queued
    );
    assert!(peak.state_bytes <= most as u64, "{peak:?}");
    let room = ((options.bound << 10) / options.kib) as u64;
    let owned = room * 3 / 4..=room;
    assert!(owned.contains(&peak.owned), "{peak:?}: {room}");
    assert!(*refused > 0, "no start was refused");
}

/// Makes sessions, and fills their session memory with so many KiB.
pub(super) async fn fill(address: &str, sessions: usize, kib: usize) {
    let values = kib * 1024 / VALUE;
    each(
        address,
        sessions,
        move |mut client, link, number| async move {
            let request = CreateSessionRequest {
                session: format!("s-{number}"),
                request_id: format!("make-{number}"),
                ..CreateSessionRequest::default()
            };
            client.create_session(request).await.expect("a session");
            let mut memory = SessionMemoryServiceClient::new(link);
            for value in 0..values {
                let request = SetMemoryRequest {
                    session: format!("s-{number}"),
                    key: format!("key-{value}"),
                    value: "v".repeat(VALUE),
                };
                memory.set_memory(request).await.expect("a change");
            }
        },
    )
    .await;
}

/// Starts a run in each session once, while the metrics are looked at.
async fn start_all(address: &str, metrics: &Metrics, options: &Options) -> Figures {
    let watched = metrics.clone();
    let (end, mut ended) = tokio::sync::oneshot::channel::<()>();
    let peak = tokio::task::spawn_blocking(move || {
        let mut peak = Peak::default();
        loop {
            let shown = watched.get();
            let value = |name| value(&shown, name);
            peak.state_bytes = peak.state_bytes.max(value("cairn_state_bytes"));
            peak.owned = value("cairn_sessions_owned");
            peak.claimed = peak.claimed.max(peak.owned);
            peak.queued = peak.queued.max(value("cairn_queue_sessions"));
            if ended.try_recv().is_ok() {
                return peak;
            }
            std::thread::sleep(LOOK);
        }
    });
    let starts = each(address, options.sessions, |client, _, number| {
        start(client, number)
    })
    .await;
    end.send(()).expect("the metrics are looked at");
    let count = |end| starts.iter().filter(|it| **it == end).count();
    Figures {
        peak: peak.await.expect("figures"),
        refused: count(Start::Refused),
        waiting: count(Start::Waits),
    }
}

async fn start(mut client: Client, number: usize) -> Start {
    let request = StartRunRequest {
        session: format!("s-{number}"),
        request_id: format!("start-{number}"),
        run: Some(chain(vec![tool_step("gate")])),
        ..StartRunRequest::default()
    };
    let Ok(started) = tokio::time::timeout(ANSWER, client.start_run(request)).await else {
        return Start::Waits;
    };
    let Err(status) = started else {
        return Start::Accepted;
    };
    let error = RpcError::from_status(&status);
    if error.kind() == ErrorKind::DeadlineExceeded {
        return Start::Waits;
    }
    assert_eq!(error.reason_name(), RpcError::OVERLOADED, "{error}");
    assert_eq!(
        error.metadata("limit"),
        Some("session.state_bytes"),
        "{error}"
    );
    assert!(error.retry_delay().is_some(), "{error}");
    Start::Refused
}

/// Starts what was refused as often as it takes, and waits until all runs have completed.
async fn complete_all(address: &str, metrics: &Metrics, options: &Options) {
    each(address, options.sessions, |client, _, number| async move {
        while start(client.clone(), number).await != Start::Accepted {
            tokio::time::sleep(LOOK).await;
        }
    })
    .await;
    let completed = "cairn_runs_total{status=\"completed\"}";
    let began = Instant::now();
    while value(&metrics.get(), completed) < options.sessions as u64 {
        assert!(began.elapsed() < ENDS_WITHIN, "some runs do not end");
        tokio::time::sleep(LOOK).await;
    }
}

/// Does something for each session, several at a time, with a client and a link.
pub(super) async fn each<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    address: &str,
    sessions: usize,
    act: impl Fn(Client, cairn_rpc::Link, usize) -> F,
) -> Vec<T> {
    let (client, link, permits) = (
        connect(address),
        link(address),
        Arc::new(Semaphore::new(REQUESTS)),
    );
    let mut tasks = JoinSet::new();
    for number in 0..sessions {
        let permit = permits.clone().acquire_owned().await.expect("a permit");
        let act = act(client.clone(), link.clone(), number);
        tasks.spawn(async move {
            let done = act.await;
            drop(permit);
            done
        });
    }
    tasks.join_all().await
}

/// Where the process shows its metrics.
#[derive(Debug, Clone)]
struct Metrics(String);

impl Metrics {
    fn get(&self) -> String {
        let rest = self.0.strip_prefix("http://").expect("a URL");
        let (address, path) = rest.split_once('/').expect("a path");
        let mut stream = TcpStream::connect(address).expect("a connection");
        let request =
            format!("GET /{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }
}

/// The value of a metric; 0 if nothing was recorded.
fn value(metrics: &str, series: &str) -> u64 {
    let mut lines = metrics.lines().filter_map(|line| line.strip_prefix(series));
    let value = lines.find_map(|rest| rest.strip_prefix(' ')?.trim().parse::<f64>().ok());
    value.map_or(0, |value| value as u64)
}
