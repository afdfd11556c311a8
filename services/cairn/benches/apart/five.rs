//! Chains of tool steps over five processes.
//!
//! A step takes three ways to another process and back (a report and its acknowledgement, a call of
//! the tool, a commit) and one durable commit. The machine's limit is measured as just that: three
//! unary calls of the health service over loopback, one after the other, and a raw commit.
//!
//! # Figures
//!
//! November 2026, a quiet virtual machine with 2 cores, for 1 and 64 sessions. *Raw* is three hops
//! and a commit.
//!
//! - SQLite (`-- five`): 1,220 to 1,300 and 4,250 to 4,700 steps/s. Raw: 3,200 to 3,500 and 12,500
//!   to 13,800/s. Ratio: 37 to 38 and 31 to 38 %. Nothing is required on this store.
//! - Redis (`-- redis`): 600 to 690 and 2,720 to 3,670 steps/s. Raw: 940 to 1,120 and 6,110 to
//!   10,550/s. Ratio in 4 runs: 59 to 64 % and 32 to 45 %, median 43. Required: 40 %. Goal: 70 %.

use crate::support::{Client, chain, link, start};
use crate::{CAIRN, median};
use cairn_memory::port::{Create, Header, LeaseRequest, RequestId, SessionKey, Store as _};
use cairn_memory::redis::{RedisConfig, RedisOptions, RedisProbe, RedisStore};
use cairn_memory::sqlite::RawProbe;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::orchestrator as pb;
use cairn_testkit::{Cluster, RedisServer, Site};
use std::time::Instant;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

const ROUNDS: usize = 3;
const HOPS: f64 = 3.0;
const TRANSITION_BYTES: usize = 160;
/// Hops, or commits, that a limit is measured with.
const CALLS: usize = 6_000;
const OWNER: &str = "an owner with a name of usual length";

/// On the embedded store, or on servers that are made so.
pub(crate) async fn measure(server: Option<fn() -> RedisServer>) {
    println!(
        "{:<34} {:>12} {:>16} {:>8}",
        "case", "steps/s", "3 hops + commit", "ratio"
    );
    for (sessions, steps) in [(1, 600), (64, 60)] {
        let (mut ours, mut limits) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let site = Site::new(CAIRN);
            let settings = site.read("cairn.toml").expect("settings");
            site.write(
                "cairn.toml",
                &settings.replace(r#"lease = "1s""#, r#"lease = "15s""#),
            );
            let server = server.map(|start| start());
            let url = server.as_ref().map(RedisServer::url);
            let variables = url.iter().map(|url| ("CAIRN_STORE", url.as_str()));
            let cluster = Cluster::start(&site, &variables.collect::<Vec<_>>());
            let commit = match &server {
                None => raw_commit(&site, sessions),
                Some(server) => script(server, sessions).await,
            };
            let hop = hop(&cluster, sessions).await;
            limits.push(1.0 / (HOPS * hop + commit));
            ours.push(steps_a_second(&cluster, sessions, steps, round).await);
        }
        let (ours, limit) = (median(ours), median(limits));
        let store = server.map_or("", |_| " on redis");
        let name = format!("five processes{store}, {sessions} session(s)");
        let ratio = ours / limit * 100.0;
        println!("{name:<34} {ours:>12.0} {limit:>16.0} {ratio:>6.0} %");
    }
}

async fn steps_a_second(cluster: &Cluster<'_>, sessions: usize, steps: usize, round: usize) -> f64 {
    let step = || wire::PlanStep {
        title: "read".to_owned(),
        tool: Some(wire::ToolInvocation {
            name: "read_file".to_owned(),
            arguments_json: r#"{"path":"docs/one.md"}"#.to_owned(),
        }),
        ..wire::PlanStep::default()
    };
    let link = link(&cluster.url());
    let began = Instant::now();
    let runs = (0..sessions).map(|number| {
        let (mut client, run) = (
            Client::new(link.clone()),
            chain((0..steps).map(|_| step()).collect()),
        );
        tokio::spawn(async move {
            let session = start(&mut client, &format!("r-{round}-{number}"), run).await;
            to_the_end(&mut client, session).await;
        })
    });
    for run in runs.collect::<Vec<_>>() {
        run.await.expect("a run");
    }
    (sessions * steps) as f64 / began.elapsed().as_secs_f64()
}

async fn to_the_end(client: &mut Client, session: String) {
    let request = pb::WatchSessionRequest {
        session,
        after_seq: 3,
        ..pb::WatchSessionRequest::default()
    };
    let mut events = client
        .watch_session(request)
        .await
        .expect("a watch")
        .into_inner();
    while let Some(message) = events.message().await.expect("an event") {
        match message.event.and_then(|event| event.kind) {
            Some(Kind::RunCompleted(_)) => return,
            Some(kind @ (Kind::RunFailed(_) | Kind::RunCancelled(_))) => panic!("{kind:?}"),
            _ => {}
        }
    }
}

/// Seconds of one way to another process and back, of so many at the same time.
async fn hop(cluster: &Cluster<'_>, sessions: usize) -> f64 {
    let calls = CALLS / sessions;
    let link = link(&cluster.address("memory"));
    let began = Instant::now();
    let hops = (0..sessions).map(|_| {
        let mut health = HealthClient::new(link.clone());
        tokio::spawn(async move {
            for _ in 0..calls {
                health
                    .check(HealthCheckRequest::default())
                    .await
                    .expect("an answer");
            }
        })
    });
    for hop in hops.collect::<Vec<_>>() {
        hop.await.expect("calls");
    }
    began.elapsed().as_secs_f64() / (calls * sessions) as f64
}

/// Seconds of a raw commit, in groups of so many.
fn raw_commit(site: &Site, sessions: usize) -> f64 {
    let calls = CALLS / sessions;
    let mut probe = RawProbe::create(&site.path().join("raw.db"), sessions).expect("a database");
    let (payload, group) = (vec![7; TRANSITION_BYTES], (0..sessions).collect::<Vec<_>>());
    let began = Instant::now();
    for _ in 0..calls {
        probe.commit(&group, &payload).expect("a commit");
    }
    began.elapsed().as_secs_f64() / (calls * sessions) as f64
}

/// Seconds of a bare script for a transition, of so many at the same time.
async fn script(server: &RedisServer, sessions: usize) -> f64 {
    let config = RedisConfig {
        prefix: "bare".to_owned(),
        ..RedisConfig::standalone(server.url())
    };
    let store = RedisStore::open(&config, RedisOptions::default()).await;
    let store = store.expect("a store");
    let probe = RedisProbe::connect(&config, &store).await;
    let probe = probe.expect("a connection");
    let mut probed = Vec::new();
    for number in 0..sessions {
        let key = SessionKey::new("default", format!("bare-{number}"));
        let create = creation(&key);
        store.create(create).await.expect("a session");
        probed.push(probe.session(&config, &key, OWNER));
    }
    probed[0].learn().await;
    let calls = CALLS / sessions;
    let began = Instant::now();
    let tasks = probed.into_iter().map(|mut session| {
        tokio::spawn(async move {
            for _ in 0..calls {
                let done = session.commit(&[7; TRANSITION_BYTES]).await;
                assert!(done, "a transition");
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("transitions");
    }
    began.elapsed().as_secs_f64() / (calls * sessions) as f64
}

fn creation(key: &SessionKey) -> Create {
    Create {
        time_to_live_ms: None,
        key: key.clone(),
        request: RequestId {
            id: "request".to_owned(),
            digest: "digest".into(),
        },
        operation_id: "creation".to_owned(),
        events: vec!["created".into()],
        last_command_seq: 0,
        header: Header::default(),
        lease: Some(LeaseRequest {
            owner: OWNER.to_owned(),
            lease_ms: 600_000,
        }),
    }
}
