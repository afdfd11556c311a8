//! Chains of tool steps over five processes.
//!
//! A step takes three ways to another process and back (a report and its acknowledgement, a call of
//! the tool, a commit) and one durable commit. The machine's limit is measured as just that: three
//! unary calls of the health service over loopback, one after the other, and a raw commit.

use crate::support::{Client, chain, start};
use crate::{CAIRN, median};
use cairn_memory::sqlite::RawProbe;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::orchestrator as pb;
use cairn_rpc::Link;
use cairn_testkit::{Cluster, Site};
use std::time::Instant;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

const ROUNDS: usize = 3;
const HOPS: f64 = 3.0;
const TRANSITION_BYTES: usize = 160;

pub(crate) async fn measure() {
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
            let cluster = Cluster::start(&site, &[]);
            limits.push(limit(&site, &cluster, sessions).await);
            ours.push(steps_a_second(&cluster, sessions, steps, round).await);
        }
        let (ours, limit) = (median(ours), median(limits));
        let name = format!("five processes, {sessions} session(s)");
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
    let link = Link::remote(&cluster.url().parse().expect("an address"));
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

/// Three hops and a commit, so many a second.
async fn limit(site: &Site, cluster: &Cluster<'_>, sessions: usize) -> f64 {
    let calls = 6_000 / sessions;
    let link = Link::remote(&cluster.address("memory").parse().expect("an address"));
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
    let hop = began.elapsed().as_secs_f64() / (calls * sessions) as f64;

    let mut probe = RawProbe::create(&site.path().join("raw.db"), sessions).expect("a database");
    let (payload, group) = (vec![7; TRANSITION_BYTES], (0..sessions).collect::<Vec<_>>());
    let began = Instant::now();
    for _ in 0..calls {
        probe.commit(&group, &payload).expect("a commit");
    }
    let commit = began.elapsed().as_secs_f64() / (calls * sessions) as f64;
    1.0 / (HOPS * hop + commit)
}
