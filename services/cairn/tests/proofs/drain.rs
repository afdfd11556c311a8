//! Drains: `cairn serve` is stopped (SIGTERM) at random moments of runs whose parallel model steps make
//! effectful calls, and is started again. No step fails, every call is made exactly once, and none is
//! in doubt.
//!
//! `deploy/prove drain` does this 200 times; the suite runs a short form.
//!
//! # Figures
//!
//! In 200 stops, no step failed. Each of 3,868 effectful calls was made exactly once, and none was
//! in doubt. Of these calls, 519 began only after the stop.

use crate::support::served::{self, add_model, done, title, turn};
use crate::support::{CAIRN, Client};
use cairn_proto::orchestrator as pb;
use cairn_testkit::model_server::{Answer, reply};
use cairn_testkit::site::Running;
use cairn_testkit::{Journal, ModelServer, PATIENCE, Site};
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hasher as _};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// Sessions with an active run at the same time.
const SESSIONS: usize = 2;
/// Model steps of each run, all parallel.
const STEPS: usize = 8;
/// Replies of each step before the one that ends it.
const TURNS: usize = 8;
/// A stop comes after this many questions to the model, at most, and then at any moment within this
/// time.
const MOST_QUESTIONS: u64 = 24;
const MOMENT_US: u64 = 60_000;
/// Commits take this long, as on a busy disk: what arrives meanwhile is decided together.
const SLOW: (&str, &str) = ("CAIRN_FAIL_COMMIT", "slow:10");
/// Runs that are about to end may ask nothing more.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How long the model takes to answer, at most.
const ANSWER_MS: u64 = 20;
/// No call takes so long, and nothing else keeps a process that stops.
const STOPS_WITHIN: Duration = Duration::from_secs(8);
/// Between two looks at runs that are to end.
const LOOK: Duration = Duration::from_millis(50);

/// A call that takes long enough for stops to come in the middle of some.
const RECORD: &str = r#"
set -eu
arguments=$(cat)
sleep 0.01
printf '%s %s\n' "$CAIRN_CALL_KEY" "$arguments" >>"$LEDGER"
sleep 0.01
echo "recorded $arguments"
"#;

/// How often the process is stopped. The defaults are the long form.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Stop the process this many times
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) drains: usize,
    /// Selects the moments of the stops
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

#[test]
fn stops_at_any_moment_fail_no_step_and_repeat_no_call() {
    prove(&Options { drains: 8, seed: 1 });
}

/// Stops a server this often, and panics with what it found.
pub(crate) fn prove(options: &Options) {
    println!("{options:?}");
    let asked = Arc::new(Asked::default());
    let mut world = World::start(&asked);
    let mut slowest = Duration::ZERO;
    for drain in 0..options.drains {
        world.keep_busy();
        let roll = |what: &str| hash(&(options.seed, drain, what));
        asked.wait_for_more(1 + roll("questions") % MOST_QUESTIONS);
        std::thread::sleep(Duration::from_micros(roll("moment") % MOMENT_US));
        slowest = slowest.max(world.stop_and_start());
    }
    world.wait_for_all();
    let found = world.found();
    println!(
        "{} stops, the slowest took {slowest:.1?}; {} runs, {} calls made, {} attempts handed over, {} \
         calls left to the next owner",
        options.drains, found.runs, found.calls, found.continued, found.left
    );
    if !found.findings.is_empty() {
        let (kept, findings) = (world.keep(), found.findings.join("\n"));
        let kept = kept.display();
        panic!("what was found (kept in {kept}):\n{findings}");
    }
    assert!(found.continued >= options.drains, "nothing was handed over");
}

/// Questions that the model was asked.
#[derive(Debug, Default)]
struct Asked {
    count: Mutex<u64>,
    more: Condvar,
}

impl Asked {
    fn add(&self) {
        *self.count.lock().expect("a count") += 1;
        self.more.notify_all();
    }

    /// Waits for more questions, or until the last ones of all runs may have been asked.
    fn wait_for_more(&self, more: u64) {
        let count = self.count.lock().expect("a count");
        let enough = *count + more;
        let is_early = |count: &mut u64| *count < enough;
        let waited = self.more.wait_timeout_while(count, LONGEST_PAUSE, is_early);
        drop(waited.expect("a count"));
    }
}

/// The same number for the same values.
fn hash(values: &impl std::hash::Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    values.hash(&mut hasher);
    hasher.finish()
}

/// How many calls a reply asks for. Half of the replies are text alone, and the next question comes at
/// once.
fn calls_of(step: &str, turn: usize) -> usize {
    (hash(&(step, turn, "calls")) % 6).saturating_sub(2) as usize
}

/// The model's reply. It takes a while, so that replies and commits overlap in every way.
fn answer(body: &Value) -> Answer {
    let step = title(body).expect("a step");
    let turn = turn(body);
    let millis = hash(&(&step, turn, "time")) % ANSWER_MS;
    std::thread::sleep(Duration::from_millis(millis));
    if turn == TURNS {
        return done("recorded");
    }
    let calls = (0..calls_of(&step, turn))
        .map(|index| ("record", json!({"what": format!("{step}/{turn}/{index}")})));
    let calls: Vec<_> = calls.collect();
    reply(&format!("turn-{turn}"), "I record.", &calls)
}

/// The server, its sessions and the folder that it works in.
struct World {
    process: Running,
    client: Client,
    runtime: Runtime,
    active: Vec<String>,
    ended: Vec<String>,
    site: Site,
    _model: ModelServer,
}

/// What came of it.
#[derive(Debug, Default)]
struct Found {
    runs: usize,
    calls: usize,
    /// Attempts that another process continued.
    continued: usize,
    /// Effectful calls of replies that were durable when the process stopped, and had not begun.
    left: usize,
    findings: Vec<String>,
}

impl World {
    fn start(asked: &Arc<Asked>) -> Self {
        let site = Site::new(CAIRN);
        let settings = site.read("cairn.toml").expect("settings");
        let settings = settings.replace(r#"lease = "1s""#, r#"lease = "10s""#);
        let settings = settings.replace("time_limit_ms = 2000", "time_limit_ms = 30000");
        site.write("cairn.toml", &settings);
        site.append("cairn.toml", "\n[run]\nmax_turns = 1000\n");
        site.write("record.sh", RECORD);
        let asked = asked.clone();
        let model = ModelServer::start(move |body| {
            asked.add();
            answer(body)
        });
        add_model(&site, &model);
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime");
        let client = runtime.block_on(async { served::client(&site) });
        Self {
            process: site.start(&served::SERVE, &[SLOW]),
            client,
            runtime,
            active: Vec::new(),
            ended: Vec::new(),
            site,
            _model: model,
        }
    }

    /// Starts runs in place of those that have ended.
    fn keep_busy(&mut self) {
        self.look();
        while self.active.len() < SESSIONS {
            let session = format!("s{}", self.active.len() + self.ended.len());
            let steps = (0..STEPS).map(|step| {
                json!({"id": format!("{step}"), "title": format!("{session}-{step}"),
                    "description": "Record."})
            });
            let plan = json!({"order": "graph", "steps": steps.collect::<Vec<_>>()});
            let starting = served::start_in(&mut self.client, &session, &plan);
            self.runtime.block_on(starting);
            self.active.push(session);
        }
    }

    /// Takes note of runs that have ended, however they did.
    fn look(&mut self) {
        for session in std::mem::take(&mut self.active) {
            let request = pb::GetRunRequest {
                session: session.clone(),
                run: 0,
            };
            let run = self.runtime.block_on(self.client.get_run(request));
            let run = run.expect("a run").into_inner().run.expect("a run");
            match run.status() {
                pb::RunStatus::Running => self.active.push(session),
                _ => self.ended.push(session),
            }
        }
    }

    /// Returns how long the process took to stop.
    fn stop_and_start(&mut self) -> Duration {
        let began = Instant::now();
        self.process.terminate();
        assert_eq!(
            self.process.wait_for_code(),
            Some(0),
            "it does not stop cleanly"
        );
        let stopped = began.elapsed();
        assert!(stopped < STOPS_WITHIN, "it took {stopped:?} to stop");
        self.process = self.site.start(&served::SERVE, &[SLOW]);
        stopped
    }

    fn wait_for_all(&mut self) {
        let began = Instant::now();
        while !self.active.is_empty() {
            assert!(began.elapsed() < PATIENCE, "{:?} do not end", self.active);
            std::thread::sleep(LOOK);
            self.look();
        }
    }

    fn found(&self) -> Found {
        let mut found = Found {
            runs: self.ended.len(),
            ..Found::default()
        };
        let made = self.made();
        for session in &self.ended {
            let journal = self.site.journal(session);
            journal.check();
            for (kind, times) in [
                ("run_completed", 1),
                ("step_completed", STEPS),
                ("step_failed", 0),
                ("call_in_doubt", 0),
            ] {
                let events = journal.of_kind(kind);
                if events.len() != times {
                    let finding = format!("{session}: {} {kind}, not {times}", events.len());
                    found.findings.push(format!("{finding}: {events:?}"));
                }
            }
            found.continued += journal.of_kind("attempt_continued").len();
            found.left += left_calls(&journal);
            for step in (0..STEPS).map(|step| format!("{session}-{step}")) {
                for (turn, count) in (0..TURNS).map(|turn| (turn, calls_of(&step, turn))) {
                    for what in (0..count).map(|index| format!("{step}/{turn}/{index}")) {
                        found.calls += 1;
                        let times = made.get(&what).copied().unwrap_or(0);
                        if times != 1 {
                            found
                                .findings
                                .push(format!("{what} was made {times} times"));
                        }
                    }
                }
            }
        }
        found
    }

    /// Keeps what is needed to understand a failure, and returns where.
    fn keep(&self) -> PathBuf {
        let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("drain");
        drop(fs::remove_dir_all(&target));
        fs::create_dir_all(&target).expect("a folder for what is kept");
        let mut copy = Command::new("cp");
        let copied = copy
            .arg("-r")
            .args([self.site.path(), self.site.state(), &target])
            .status();
        assert!(copied.is_ok_and(|status| status.success()), "cp failed");
        target
    }

    /// How often each call was made, by its argument.
    fn made(&self) -> BTreeMap<String, usize> {
        let mut made = BTreeMap::new();
        for line in self.site.read("ledger").unwrap_or_default().lines() {
            let (_, arguments) = line.split_once(' ').expect("a key and arguments");
            let arguments: Value = serde_json::from_str(arguments).expect("arguments");
            let what = arguments["what"].as_str().expect("what it is").to_owned();
            *made.entry(what).or_default() += 1;
        }
        made
    }
}

/// Calls that were intended only after another process had continued their attempt.
fn left_calls(journal: &Journal) -> usize {
    let (mut left, mut continued) = (0, BTreeMap::new());
    for event in &journal.0 {
        let attempt = event["attempt"].to_string();
        match event["kind"].as_str() {
            Some("reply_received") => _ = continued.insert(attempt, false),
            Some("attempt_continued") => _ = continued.insert(attempt, true),
            Some("call_intended") => {
                let attempt = event["call"]["attempt"].to_string();
                left += usize::from(continued.get(&attempt) == Some(&true));
            }
            _ => {}
        }
    }
    left
}
