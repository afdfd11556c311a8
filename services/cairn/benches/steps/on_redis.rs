//! Chains of tool steps over a real server of Redis that syncs its log with each write: all services
//! in one process, with one orchestrator or four of them (each with a memory service of its own),
//! beside the bare script for a transition over one bare connection, alternated with it.
//!
//! Every session makes as many steps, and both sides count the same: steps between the first one of the
//! session that begins last and the last one of the session that ends first. So neither creations and starts
//! nor ends are timed.
//!
//! # Figures
//!
//! `cargo bench -p cairn --bench steps -- redis`, with `appendfsync always`, for 1, 16, 64 and 512
//! sessions. The ratios are those of a virtual machine with 2 cores, medians of three rounds:
//!
//! - One orchestrator: 1,980, 13,450, 15,180 and 9,200 steps/s. Bare script: 3,540, 15,010, 21,060
//!   and 22,800/s. Ratio: 56, 90, 72 and 40 %. Required: 40 % for 1 and 30 % for 64 sessions.
//!   Goal: 60 and 50 %.
//! - Four orchestrators: 3,010, 16,840, 19,690 and 12,370 steps/s. Bare script: 4,940, 23,140,
//!   33,330 and 28,460/s. Ratio: 61, 73, 59 and 43 %.

use crate::cases::models;
use crate::counted::{Calls, Counted};
use crate::support::{chain, client, node, parts, start, tool_step};
use crate::{Speed, TRANSITION_BYTES, median};
use cairn_memory::StoreConfig;
use cairn_memory::port::{Create, Header, LeaseRequest, RequestId, SessionKey, Store as _};
use cairn_memory::redis::{ProbedSession, RedisConfig, RedisOptions, RedisProbe, RedisStore};
use cairn_testkit::RedisServer;
use std::sync::Arc;
use std::time::Instant;

/// How often a case and its limit are alternated.
const ROUNDS: usize = 3;
const OWNER: &str = "an owner with a name of usual length";

const SESSIONS: [usize; 4] = [1, 16, 64, 512];

/// Steps of each session.
const STEPS: usize = 80;

pub(crate) async fn measure() {
    for orchestrators in [1, 4] {
        for sessions in SESSIONS {
            let (mut ours, mut bare) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                let server = RedisServer::start();
                let config = RedisConfig::standalone(server.url());
                bare.push(scripts(&config, sessions).await);
                ours.push(chains(&config, orchestrators, sessions).await);
            }
            let (ours, bare) = (Speed::median(&ours), Speed::median(&bare));
            let name = format!("redis, {sessions} sessions, {orchestrators} orch.");
            let ratio = ours.rate / bare.rate * 100.0;
            println!(
                "{name:<34} {:>12.0} {:>12.0} {:>7.0} µs {ratio:>6.0} %",
                ours.rate,
                bare.rate,
                ours.p50 * 1e6
            );
        }
    }
}

/// Transitions of the bare script, each session's one after the other.
async fn scripts(config: &RedisConfig, sessions: usize) -> Speed {
    let config = RedisConfig {
        prefix: "bare".to_owned(),
        ..config.clone()
    };
    let store = RedisStore::open(&config, RedisOptions::default()).await;
    let store = store.expect("a store");
    let probe = RedisProbe::connect(&config, &store).await;
    let probe = probe.expect("a connection");
    let mut probed = Vec::new();
    for number in 0..sessions {
        let key = SessionKey::new("default", format!("bare-{number}"));
        store.create(creation(&key)).await.expect("a session");
        probed.push(probe.session(&config, &key, OWNER));
    }
    probed[0].learn().await;
    let tasks = probed.into_iter().map(|it| tokio::spawn(commits(it)));
    let mut committed = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        committed.push(task.await.expect("transitions"));
    }
    while_all_run(&committed)
}

/// When each of a session's transitions was made.
async fn commits(mut session: ProbedSession) -> Vec<Instant> {
    let mut committed = Vec::with_capacity(STEPS);
    for _ in 0..STEPS {
        assert!(session.commit(&[7; TRANSITION_BYTES]).await, "a transition");
        committed.push(Instant::now());
    }
    committed
}

/// The speed while all sessions run, by when each made its steps.
fn while_all_run(sessions: &[Vec<Instant>]) -> Speed {
    let from = *sessions
        .iter()
        .flat_map(|it| it.first())
        .max()
        .expect("steps");
    let to = *sessions
        .iter()
        .flat_map(|it| it.last())
        .min()
        .expect("steps");
    assert!(from < to, "there is no time at which all sessions run");
    let steps = sessions.iter().flatten();
    let steps = steps.filter(|at| from < **at && **at <= to).count();
    let between = sessions.iter().flat_map(|it| it.windows(2));
    let between = between.map(|pair| (pair[1] - pair[0]).as_secs_f64());
    Speed {
        rate: steps as f64 / (to - from).as_secs_f64(),
        p50: median(between),
    }
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

/// Steps of all sessions a second, and the time between two calls of a session.
async fn chains(config: &RedisConfig, orchestrators: usize, sessions: usize) -> Speed {
    let calls = Arc::new(Calls::default());
    let mut nodes = Vec::new();
    let mut folders = Vec::new();
    for _ in 0..orchestrators {
        let folder = tempfile::tempdir().expect("a folder");
        let mut parts = parts(folder.path(), models());
        parts.memory.store = StoreConfig::Redis(config.clone());
        parts.more_tools.push(Counted::tool(calls.clone()));
        nodes.push(node(parts).await);
        folders.push(folder);
    }
    let run = chain(vec![tool_step("counted"); STEPS]);
    let runs = (0..sessions).map(|number| {
        let mut client = client(&nodes[number % orchestrators]);
        let (run, calls) = (run.clone(), calls.clone());
        tokio::spawn(async move {
            let session = start(&mut client, &format!("r-{number}"), run).await;
            calls.instants(&session, STEPS).await
        })
    });
    let mut called = Vec::new();
    for run in runs.collect::<Vec<_>>() {
        called.push(run.await.expect("a run"));
    }
    for node in &nodes {
        node.drain().await;
    }
    while_all_run(&called)
}
