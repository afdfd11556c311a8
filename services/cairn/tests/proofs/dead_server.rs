//! Five memory processes over a Redis Cluster, one of whose servers is dead and has no replica: none of
//! them grows while it is dead.
//!
//! Before, many sessions are made through each process, which remembers what it was answered. Then the
//! server is killed. Clients read on, and the orchestrator claims. After 20 seconds the memory of each
//! process is measured, and it may be no more than 10 % larger until the end.

use super::kib;
use crate::support::{CAIRN, link};
use cairn_proto::event as wire;
use cairn_proto::memory as pb;
use cairn_proto::memory::journal_service_client::JournalServiceClient;
use cairn_rpc::{Link, Principal, with_principal};
use cairn_testkit::{Cluster, RedisCluster, Site};
use clap::Args;
use prost::Message as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tonic::Request;

const PROCESSES: usize = 5;
/// Sessions that are made at the same time.
const AT_ONCE: usize = 64;
/// When the memory of the processes is measured first.
const SETTLED: Duration = Duration::from_secs(20);
/// Between two measurements.
const LOOK: Duration = Duration::from_secs(1);
/// Between two reads of a client.
const PACE: Duration = Duration::from_millis(5);
/// So much larger a process may become, in percent.
const MOST_GROWTH: u64 = 10;

/// How large the store is, and for how long the server is dead. The defaults are the long form.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Sessions that are made before
    #[arg(long, value_name = "N", default_value_t = 20_000,
          value_parser = clap::value_parser!(u32).range(100..))]
    pub(crate) sessions: u32,
    /// Seconds for which the server is dead
    #[arg(long, value_name = "N", default_value_t = 120,
          value_parser = clap::value_parser!(u16).range(30..=3600))]
    pub(crate) seconds: u16,
}

/// Kills the server, and panics if a process grows.
pub(crate) fn prove(options: &Options) {
    let mut servers = RedisCluster::with_replicas();
    let site = Site::new(CAIRN);
    let urls = servers.urls().join(",");
    let variables = [
        ("CAIRN_STORE", urls.as_str()),
        ("CAIRN_STORE__REDIS__MODE", "cluster"),
    ];
    let cluster = Cluster::several(&site, &variables, [PROCESSES, 1, 1, 1, 1]);
    let members = cluster.members_of("memory");
    let processes = members.iter().map(|it| cluster.process_id_of(*it));
    let processes: Vec<u32> = processes.map(|id| id.expect("a process")).collect();
    let runtime = Runtime::new().expect("a runtime");
    let addresses = cluster.addresses("memory");
    let links: Vec<Link> =
        runtime.block_on(async { addresses.iter().map(|it| link(it)).collect() });
    runtime.block_on(fill(&links, options.sessions));

    servers.replicas[2].kill();
    servers.servers[2].kill();
    let killed = Instant::now();
    let answered = Arc::new(AtomicU64::new(0));
    for link in links {
        runtime.spawn(read_on(link, options.sessions, answered.clone()));
    }
    let sizes = || -> Vec<u64> { processes.iter().map(|id| kib(*id, "VmRSS")).collect() };
    thread::sleep(SETTLED);
    let (settled, reads) = (sizes(), answered.load(Ordering::Relaxed));
    let mut largest = settled.clone();
    while killed.elapsed() < Duration::from_secs(options.seconds.into()) {
        thread::sleep(LOOK);
        for (largest, now) in largest.iter_mut().zip(sizes()) {
            *largest = now.max(*largest);
        }
    }
    let answered = answered.load(Ordering::Relaxed);
    assert!(answered > reads, "the other servers answer nothing");
    for (number, (largest, settled)) in largest.iter().zip(&settled).enumerate() {
        println!("memory {number}: {settled} KiB after 20 s, {largest} KiB at most until the end");
    }
    let mut grown = largest.iter().zip(&settled);
    let grows = grown.any(|(largest, settled)| largest * 100 > settled * (100 + MOST_GROWTH));
    assert!(!grows, "a process grows by more than {MOST_GROWTH} %");
    println!(
        "{} sessions, one server of three dead for {} s: no memory process grew by more than \
         {MOST_GROWTH} %; {answered} reads were answered",
        options.sessions, options.seconds
    );
}

fn name(number: u32) -> String {
    format!("s-{number:05}")
}

/// Makes the sessions, through each process in turn.
async fn fill(links: &[Link], sessions: u32) {
    let created = wire::event::Kind::SessionCreated(wire::SessionCreated::default());
    let event = wire::Event {
        at_unix_ms: 1,
        kind: Some(created),
        ..wire::Event::default()
    };
    let event = event.encode_to_vec();
    let mut making = JoinSet::new();
    for (number, link) in (0..sessions).zip(links.iter().cycle()) {
        if making.len() == AT_ONCE {
            let made = making.join_next().await;
            made.expect("a task").expect("a session");
        }
        let mut journal = JournalServiceClient::new(link.clone());
        let request = as_process(session(number, event.clone()));
        making.spawn(async move {
            journal.create_session(request).await.expect("a session");
        });
    }
    making.join_all().await;
}

fn session(number: u32, event: Vec<u8>) -> pb::CreateSessionRequest {
    pb::CreateSessionRequest {
        session: name(number),
        request_id: "make".to_owned(),
        request_digest: vec![1; 32].into(),
        events: vec![event.into()],
        header: Some(pb::Header {
            status: pb::SessionStatus::Idle.into(),
            ..pb::Header::default()
        }),
        ..pb::CreateSessionRequest::default()
    }
}

/// Reads one session after the other, and counts those that are answered.
async fn read_on(link: Link, sessions: u32, answered: Arc<AtomicU64>) {
    let mut journal = JournalServiceClient::new(link);
    for number in (0..sessions).cycle() {
        let request = pb::ReadEventsRequest {
            session: name(number),
            ..pb::ReadEventsRequest::default()
        };
        // What the dead server has cannot be read.
        if journal.read_events(as_process(request)).await.is_ok() {
            answered.fetch_add(1, Ordering::Relaxed);
        }
        tokio::time::sleep(PACE).await;
    }
}

fn as_process<T>(message: T) -> Request<T> {
    with_principal(Request::new(message), &Principal::process())
}
