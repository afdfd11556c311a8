//! Orchestrators that are frozen past the end of their leases and go on as if nothing had happened:
//! whatever they still write is refused by the store.
//!
//! By itself an owner looks at the clock first and writes nothing when its lease has ended. Here it
//! does not (`CAIRN_SABOTAGE=leases`), so that the store's word is the only one. Taking that away as
//! well has to be noticed, and so has a store that makes again what is sent again.
//!
//! `--without` takes a check out of the store, and the proof has to find the damage.
//!
//! In 209 suspensions, the store refused 10,073 stale writes and took none.

use super::CAIRN;
use super::load::release;
use super::oracle;
use super::proxy::Proxy;
use super::settings::Check;
use super::verdict::export;
use crate::support::{Client, chain, connect};
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_testkit::cluster::Member;
use cairn_testkit::{Cluster, RedisServer, Site, eventually};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// Sessions in each orchestrator that is frozen.
const SESSIONS: usize = 120;
/// Steps of a run, none of which has an effect.
const STEPS: usize = 30;
/// How long an answer is waited for.
const ANSWER: Duration = Duration::from_secs(2);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// The longest that anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a run may go on when nothing disturbs it any more, where it is to go wrong.
const WRONG: Duration = Duration::from_secs(8);
/// How memory says that it refused a write.
pub(crate) const REFUSED: &str = "a transition of a former owner is refused";
/// As the usual settings of these tests have it.
const LEASE: Duration = Duration::from_secs(1);
/// How many leases there are, or those that have run out.
const LEASES: &str = "local count = 0 \
    local time = redis.call('TIME') \
    local now = time[1] * 1000 + time[2] / 1000 \
    for partition = 0, 255 do \
    local key = string.format('cairn:{p%03x}:leases', partition) \
    count = count + redis.call('ZCOUNT', key, '-inf', UNTIL) end \
    return count";
const OWNED: &str = "'+inf'";
const EXPIRED: &str = "now";

/// What is done to the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disturb {
    /// One orchestrator after the other is frozen until another has its sessions, so long until so
    /// many writes were refused.
    Freeze { writes: usize },
    /// So often answers of the store's server are lost that were on their way.
    LoseAnswers { times: usize },
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Writes that were refused, by session.
    pub(crate) refused: BTreeMap<String, usize>,
    pub(crate) freezes: usize,
    pub(crate) runs: usize,
    pub(crate) findings: Vec<String>,
}

impl Outcome {
    pub(crate) fn writes(&self) -> usize {
        self.refused.values().sum()
    }
}

impl Outcome {
    /// A run that does not end says little; it has to be seen what went wrong.
    fn must_be_wrong(&self) {
        let mut wrong = self.findings.iter();
        let wrong = wrong.find(|it| !it.contains("does not end"));
        println!("{} findings, one is: {wrong:?}", self.findings.len());
        assert!(wrong.is_some(), "nobody notices");
    }
}

/// Clients that start one run after the other, at an orchestrator that is not frozen.
struct Load {
    addresses: Vec<String>,
    at: AtomicUsize,
    is_over: AtomicBool,
    is_late: AtomicBool,
}

/// A run that was started, and how it was seen to end.
struct Run {
    session: String,
    end: Option<pb::RunStatus>,
}

impl Load {
    fn client(&self) -> Client {
        let address = &self.addresses[self.at.load(Ordering::Relaxed)];
        connect(address)
    }

    async fn drive(self: Arc<Self>, driver: usize) -> Vec<Run> {
        let mut runs = Vec::new();
        for number in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let Some(session) = self.start(&format!("{driver}-{number}")).await else {
                break;
            };
            let end = self.wait(&session).await;
            runs.push(Run { session, end });
        }
        runs
    }

    /// Starts a run, and asks again until that is acknowledged.
    async fn start(&self, name: &str) -> Option<String> {
        let step = wire::PlanStep {
            tool: Some(wire::ToolInvocation {
                name: "list_files".to_owned(),
                arguments_json: r#"{"path":"docs"}"#.to_owned(),
            }),
            ..wire::PlanStep::default()
        };
        while !self.is_late.load(Ordering::Relaxed) {
            let request = pb::StartRunRequest {
                time_to_live_ms: 0,
                session: String::new(),
                request_id: name.to_owned(),
                run: Some(chain(vec![step.clone(); STEPS])),
            };
            if let Ok(Ok(answer)) = timeout(ANSWER, self.client().start_run(request)).await {
                return Some(answer.into_inner().session);
            }
        }
        None
    }

    /// Waits until the run has ended; says how, if it was seen to.
    async fn wait(&self, session: &str) -> Option<pb::RunStatus> {
        while !self.is_late.load(Ordering::Relaxed) {
            let request = pb::GetRunRequest {
                session: session.to_owned(),
                run: 0,
            };
            let answer = timeout(ANSWER, self.client().get_run(request)).await;
            let run = answer.ok().and_then(Result::ok);
            let run = run.and_then(|answer| answer.into_inner().run);
            let ended = run.filter(|run| run.ended_unix_ms > 0);
            if let Some(run) = ended {
                return Some(run.status());
            }
            self.release(session).await;
            tokio::time::sleep(10 * LOOK).await;
        }
        None
    }

    /// Lets a session go on that was quarantined: so many freezes look as if it killed its owners.
    async fn release(&self, session: &str) {
        let session = session.to_owned();
        let request = pb::GetSessionRequest {
            session: session.clone(),
        };
        let answer = timeout(ANSWER, self.client().get_session(request)).await;
        let found = answer.ok().and_then(Result::ok);
        let found = found.and_then(|answer| answer.into_inner().session);
        if found.is_some_and(|it| it.status() == pb::SessionStatus::Quarantined) {
            let request = release(session);
            // If it fails it is asked for again.
            let _ = timeout(ANSWER, self.client().release_quarantine(request)).await;
        }
    }
}

/// The processes, and what is done to them.
struct Play<'a> {
    site: &'a Site,
    cluster: Cluster<'a>,
    store: RedisServer,
    load: Arc<Load>,
    freezes: usize,
}

/// Plays with these checks taken out, and looks at what there is at the end.
pub(crate) fn play(disturb: Disturb, sabotage: &str, sessions: usize) -> Outcome {
    let site = Site::new(CAIRN);
    let store = RedisServer::start();
    let proxy = Proxy::before(store.port());
    let url = match disturb {
        Disturb::Freeze { .. } => store.url(),
        Disturb::LoseAnswers { .. } => proxy.url(),
    };
    let variables = [("CAIRN_STORE", &*url), ("CAIRN_SABOTAGE", sabotage)];
    let cluster = Cluster::several(&site, &variables, [1, 1, 1, 1, 2]);
    let load = Arc::new(Load {
        addresses: cluster.addresses("orchestrator"),
        at: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
        is_late: AtomicBool::new(false),
    });
    let runtime = Runtime::new().expect("a runtime");
    let drivers = (0..sessions).map(|driver| runtime.spawn(load.clone().drive(driver)));
    let drivers: Vec<_> = drivers.collect();
    let mut play = Play {
        site: &site,
        cluster,
        store,
        load: load.clone(),
        freezes: 0,
    };
    match disturb {
        Disturb::Freeze { writes } => play.freeze(sessions, writes),
        Disturb::LoseAnswers { times } => play.lose_answers(sessions, &proxy, times),
    }
    load.is_over.store(true, Ordering::Relaxed);
    let patience = if sabotage == "leases" {
        PATIENCE
    } else {
        WRONG
    };
    let began = Instant::now();
    while !drivers.iter().all(|it| it.is_finished()) {
        if began.elapsed() > patience {
            load.is_late.store(true, Ordering::Relaxed);
        }
        std::thread::sleep(LOOK);
    }
    let runs = drivers.into_iter();
    let runs = runs.flat_map(|it| runtime.block_on(it).expect("a client"));
    let runs: Vec<Run> = runs.collect();
    let findings = runs
        .iter()
        .flat_map(|run| runtime.block_on(check(&load, run)));
    Outcome {
        findings: findings.collect(),
        refused: play.refused(),
        freezes: play.freezes,
        runs: runs.len(),
    }
}

impl Play<'_> {
    fn freeze(&mut self, sessions: usize, writes: usize) {
        let mut reported = Instant::now();
        loop {
            self.wait_for_owned(sessions);
            let number = self.load.at.load(Ordering::Relaxed);
            let member = Member {
                service: "orchestrator",
                number,
            };
            self.cluster.freeze(member);
            self.freezes += 1;
            self.load.at.store(1 - number, Ordering::Relaxed);
            let began = Instant::now();
            let log = std::fmt::from_fn(|f| f.write_str(&self.site.tail("memory.log", 30)));
            eventually(log, || {
                let is_over = began.elapsed() >= LEASE + LEASE / 2 && self.count(EXPIRED) == 0;
                is_over.then_some(())
            });
            self.cluster.thaw(member);
            self.wait_for_quiet();
            let refused = self.refused().values().sum::<usize>();
            if reported.elapsed() > PATIENCE {
                reported = Instant::now();
                println!("{} freezes, {refused} writes refused", self.freezes);
            }
            if refused >= writes || writes == 0 {
                return;
            }
            let wasted = self.freezes > 20 && refused == 0;
            assert!(!wasted, "nothing is refused after {} freezes", self.freezes);
        }
    }

    fn lose_answers(&self, sessions: usize, proxy: &Proxy, times: usize) {
        self.wait_for_owned(sessions / 2);
        for _ in 0..times {
            proxy.cut();
            std::thread::sleep(10 * LOOK);
        }
    }

    /// Waits until so many sessions are owned.
    fn wait_for_owned(&self, sessions: usize) {
        // Some are always between two runs.
        eventually(format!("{sessions} sessions at work"), || {
            (self.count(OWNED) >= sessions * 5 / 6).then_some(())
        });
    }

    /// How many leases end before then.
    fn count(&self, until: &str) -> usize {
        let script = LEASES.replace("UNTIL", until);
        let answer = self.store.ask(&["EVAL", &script, "0"]);
        let count = answer.trim().strip_prefix(':');
        let count = count.and_then(|count| count.parse().ok());
        count.unwrap_or_else(|| panic!("no count: {answer}"))
    }

    /// Waits until a process that was thawed has sent what it had to send.
    fn wait_for_quiet(&self) {
        let began = Instant::now();
        let mut last = (0, Instant::now());
        while last.1.elapsed() < 25 * LOOK && began.elapsed() < PATIENCE {
            let refused = self.refused().values().sum();
            if refused != last.0 {
                last = (refused, Instant::now());
            }
            std::thread::sleep(5 * LOOK);
        }
    }

    /// Writes that were refused, by session, as memory tells them.
    fn refused(&self) -> BTreeMap<String, usize> {
        let mut refused = BTreeMap::new();
        let log = self.site.read("memory.log").unwrap_or_default();
        for line in log.lines().filter(|line| line.contains(REFUSED)) {
            let session = line.split("default/").nth(1).unwrap_or_default();
            let end = session.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
            let session = &session[..end.unwrap_or(session.len())];
            *refused.entry(session.to_owned()).or_default() += 1;
        }
        refused
    }
}

/// What is wrong with a run, and with its journal.
async fn check(load: &Load, run: &Run) -> Vec<String> {
    let session = &run.session;
    let mut findings = Vec::new();
    match run.end {
        Some(pb::RunStatus::Completed) => {}
        Some(end) => findings.push(format!("{session}: ended as {end:?}")),
        None => findings.push(format!("{session}: it does not end")),
    }
    match timeout(PATIENCE, export(&mut load.client(), session)).await {
        Ok(Ok(journal)) => findings.extend(
            oracle::journal(&journal.events)
                .into_iter()
                .map(|what| format!("{session}: {what}")),
        ),
        _ => findings.push(format!("{session}: cannot be exported")),
    }
    findings
}

/// What `deploy/prove stale` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Continue until the store has refused this many writes
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    writes: usize,
    /// Take a check out of the store instead, and fail unless the proof finds the damage
    #[arg(long, value_name = "CHECK")]
    without: Option<Check>,
}

/// Suspends owners past their leases, and panics if one of their writes was accepted.
///
/// Without a check of the store, it panics if no damage was found.
pub(crate) fn prove(&Options { writes, without }: &Options) {
    match without {
        None => prove_fencing(writes),
        Some(Check::Fencing) => {
            let outcome = play(Disturb::Freeze { writes: 0 }, "leases,fencing", SESSIONS);
            assert_eq!(outcome.writes(), 0, "it is not without fencing");
            outcome.must_be_wrong();
        }
        Some(Check::Duplicates) => {
            play(Disturb::LoseAnswers { times: 10 }, "duplicates", 24).must_be_wrong();
        }
    }
}

fn prove_fencing(writes: usize) {
    let outcome = play(Disturb::Freeze { writes }, "leases", SESSIONS);
    println!(
        "{} writes to {} sessions refused after {} freezes, {} runs",
        outcome.writes(),
        outcome.refused.len(),
        outcome.freezes,
        outcome.runs
    );
    assert_eq!(outcome.findings, [""; 0]);
    let (seen, sessions) = (outcome.writes(), outcome.refused.len());
    assert!(seen >= writes, "{seen} writes to {sessions} sessions");
    assert!(sessions >= SESSIONS / 2, "only {sessions} sessions");
}
