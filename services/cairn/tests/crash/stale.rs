//! Orchestrators that are frozen past the end of their leases and go on as if nothing had happened:
//! whatever they still write is refused by the store.
//!
//! By itself an owner looks at the clock first and writes nothing when its lease has ended. Here it
//! does not (`CAIRN_SABOTAGE=leases`), so that the store's word is the only one. Taking that away as
//! well has to be noticed, and so has a store that makes again what is sent again.

use super::CAIRN;
use super::oracle;
use super::support::{Client, chain};
use super::verdict::export;
use cairn_boot::Environment;
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_rpc::Link;
use cairn_testkit::cluster::Member;
use cairn_testkit::{Cluster, RedisServer, Site};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// Sessions in each orchestrator that is frozen.
const SESSIONS: usize = 120;
/// Steps of a run, none of which has an effect.
const STEPS: usize = 40;
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
/// Sessions with their owners, which are none if nobody owns them.
const OWNERS: &str = "local found = {} \
    for _, key in ipairs(redis.call('KEYS', 'cairn:{p*}:s:default/*')) do \
    if redis.call('TYPE', key).ok == 'hash' then \
    local owner = redis.call('HGET', key, 'ow') \
    if owner and owner ~= '' then found[#found + 1] = owner end end end \
    return table.concat(found, '\\n')";

/// What is done to the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disturb {
    /// One orchestrator after the other is frozen until another has its sessions, so long until so
    /// many writes were refused.
    Freeze { writes: usize },
    /// The store's server is killed so often, in the middle of whatever it does.
    KillStore { times: usize },
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

/// Clients that start one run after the other, at an orchestrator that is not frozen.
struct Load {
    addresses: Vec<String>,
    at: AtomicUsize,
    is_over: AtomicBool,
    is_late: AtomicBool,
}

/// A run that was started, and whether it was seen to end.
struct Run {
    session: String,
    has_ended: bool,
}

impl Load {
    fn client(&self) -> Client {
        let address = &self.addresses[self.at.load(Ordering::Relaxed)];
        Client::new(Link::remote(&address.parse().expect("an address")))
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
            let has_ended = self.wait(&session).await;
            runs.push(Run { session, has_ended });
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

    /// Waits until the run has ended; says whether it was seen to.
    async fn wait(&self, session: &str) -> bool {
        while !self.is_late.load(Ordering::Relaxed) {
            let request = pb::GetRunRequest {
                session: session.to_owned(),
                run: 0,
            };
            let answer = timeout(ANSWER, self.client().get_run(request)).await;
            let run = answer.ok().and_then(Result::ok);
            let run = run.and_then(|answer| answer.into_inner().run);
            if run.is_some_and(|run| run.status() == pb::RunStatus::Completed) {
                return true;
            }
            tokio::time::sleep(10 * LOOK).await;
        }
        false
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
    let variables = [("CAIRN_STORE", &*store.url()), ("CAIRN_SABOTAGE", sabotage)];
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
        Disturb::KillStore { times } => play.kill_store(sessions, times),
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
        let mut told = Instant::now();
        loop {
            self.wait_for_owned(sessions);
            let number = self.load.at.load(Ordering::Relaxed);
            let member = Member {
                service: "orchestrator",
                number,
            };
            let mine = self.most_frequent_owner();
            self.cluster.freeze(member);
            self.freezes += 1;
            self.load.at.store(1 - number, Ordering::Relaxed);
            let began = Instant::now();
            while self.owners().contains(&mine) {
                assert!(began.elapsed() < PATIENCE, "nobody takes over");
                std::thread::sleep(LOOK);
            }
            self.cluster.thaw(member);
            self.wait_for_quiet();
            let refused = self.refused().values().sum::<usize>();
            if told.elapsed() > PATIENCE {
                told = Instant::now();
                println!("{} freezes, {refused} writes refused", self.freezes);
            }
            if refused >= writes || writes == 0 {
                return;
            }
            let wasted = self.freezes > 20 && refused == 0;
            assert!(!wasted, "nothing is refused after {} freezes", self.freezes);
        }
    }

    fn kill_store(&mut self, sessions: usize, times: usize) {
        self.wait_for_owned(sessions / 2);
        for _ in 0..times {
            let before = self.commands();
            while self.commands() < before + 400 {
                std::thread::yield_now();
            }
            self.store.kill();
            self.store.start_again();
            std::thread::sleep(10 * LOOK);
        }
    }

    fn commands(&self) -> u64 {
        let info = self.store.ask(&["INFO", "stats"]);
        let mut lines = info.lines();
        let count = lines.find_map(|line| line.strip_prefix("total_commands_processed:"));
        count.and_then(|it| it.trim().parse().ok()).unwrap_or(0)
    }

    /// Waits until so many sessions are owned.
    fn wait_for_owned(&self, sessions: usize) {
        let began = Instant::now();
        // Some are always between two runs.
        while self.owners().len() < sessions * 5 / 6 {
            assert!(began.elapsed() < PATIENCE, "not enough sessions at work");
            std::thread::sleep(LOOK);
        }
    }

    fn owners(&self) -> Vec<String> {
        let answer = self.store.ask(&["EVAL", OWNERS, "0"]);
        let lines = answer.lines().skip(1).map(str::trim);
        let lines = lines.filter(|line| !line.is_empty());
        lines.map(str::to_owned).collect()
    }

    fn most_frequent_owner(&self) -> String {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for owner in self.owners() {
            *counts.entry(owner).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        most.expect("an owner").0
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
            std::thread::sleep(LOOK);
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
    if !run.has_ended {
        findings.push(format!("{session}: it does not end"));
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

#[test]
fn a_frozen_owner_of_many_sessions_writes_to_none_of_them() {
    let environment = Environment::from_process();
    let writes = environment.get("CAIRN_CRASH_STALE_WRITES");
    let writes = writes.map_or(SESSIONS, |number| number.parse().expect("a number"));
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

#[test]
fn a_store_without_fencing_is_noticed() {
    let outcome = play(Disturb::Freeze { writes: 0 }, "leases,fencing", SESSIONS);
    assert_eq!(outcome.writes(), 0, "it is not without fencing");
    assert!(!outcome.findings.is_empty(), "nobody notices");
    println!(
        "{} findings: {}",
        outcome.findings.len(),
        outcome.findings[0]
    );
}

#[test]
fn a_store_that_does_not_know_duplicates_is_noticed() {
    let outcome = play(Disturb::KillStore { times: 4 }, "duplicates", 24);
    assert!(!outcome.findings.is_empty(), "nobody notices");
    println!(
        "{} findings: {}",
        outcome.findings.len(),
        outcome.findings[0]
    );
}
