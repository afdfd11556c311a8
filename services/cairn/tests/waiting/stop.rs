//! Ctrl-C while a call with side effects is under way: the call ends, nothing new begins, nothing
//! is in doubt, and the run continues later. In a file the command itself carries the run out, on Redis
//! and on a cluster the server that it comes to.

use crate::support::place;
use cairn::ui::time::utc;
use cairn_rpc::{Clock as _, SystemClock};
use cairn_testkit::site::Running;
use cairn_testkit::{Journal, TestStore};
use place::Place;
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

const RUN: [&str; 6] = ["run", "--plan", "plan.json", "--session", "s", "--json"];
const SERVE: [&str; 4] = ["serve", "--listen", "127.0.0.1:0", "--json"];

/// A tool that says when it has begun, and ends when it is told to.
const GATE: &str = r#"
[[tools.commands]]
name = "gate"
description = "Waits at a gate."
argv = ["sh", "gate.sh"]
effect = "effectful"
time_limit_ms = 60000
env = ["LEDGER"]
parameters = { type = "object" }
"#;

const SCRIPT: &str = r#"
set -eu
echo begun >begun
read -r _ <go
printf '%s gate\n' "$CAIRN_CALL_KEY" >>"$LEDGER"
echo passed
"#;

const PLAN: &str = r#"{"steps": [
  {"title": "Wait", "tool": "gate", "arguments": {}},
  {"title": "Record", "tool": "record", "arguments": {"what": "two"}}
]}"#;

/// What carries the run out.
struct Worker {
    process: Child,
    /// Kept open, so that it can go on printing.
    out: BufReader<ChildStdout>,
    /// Who gave the command, if that is another process.
    _client: Option<Running>,
    /// The code by which it says that it was interrupted.
    code: i32,
}

impl Worker {
    /// Starts the run.
    fn start(place: &Place) -> Self {
        let arguments: &[&str] = if place.is_file() { &RUN } else { &SERVE };
        let mut process = place
            .site
            .command(arguments)
            .envs(place.variables())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let mut out = BufReader::new(process.stdout.take().expect("its output"));
        let client = (!place.is_file()).then(|| {
            let mut line = String::new();
            out.read_line(&mut line).expect("a line");
            let reported: Value = serde_json::from_str(&line).expect("a line of JSON");
            let address = reported["listen"].as_str().expect("an address");
            let there = [&RUN[..], &["--server", address]].concat();
            place.site.start(&there, &[])
        });
        Self {
            process,
            out,
            code: if client.is_some() { 0 } else { 130 },
            _client: client,
        }
    }

    /// Waits until the command knows of the call, if it carries the run out itself.
    fn wait_for_call(&mut self) {
        let mut line = String::new();
        while self.code == 130 && !line.contains("call_intended") {
            line.clear();
            let count = self.out.read_line(&mut line).expect("a line");
            assert!(count > 0, "the call never came");
        }
    }

    /// Interrupts it, and returns once it says that it waits for what is under way.
    fn interrupt(&mut self) {
        let interrupt = ["-INT", &self.process.id().to_string()];
        let sent = Command::new("kill").args(interrupt).status();
        assert!(sent.expect("kill can be started").success());
        let reported = self.process.stderr.take().expect("its errors");
        let mut reported = BufReader::new(reported).lines().map_while(Result::ok);
        let mut is_named = false;
        let waits = reported.any(|line| {
            is_named |= line.contains("of step 1 end, for at most 10 s");
            line.contains("letting running calls end")
        });
        assert!(waits, "it does not wait");
        // A server has calls of many runs.
        assert_eq!(is_named, self.code == 130, "the call that is waited for");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn an_interrupt_lets_the_call_end_and_begins_no_other(store: TestStore) {
    let place = Place::over(store);
    let site = &place.site;
    site.append("cairn.toml", GATE);
    site.write("gate.sh", SCRIPT);
    site.write("plan.json", PLAN);
    for pipe in ["begun", "go"] {
        let made = Command::new("mkfifo").arg(site.path().join(pipe)).status();
        assert!(made.expect("mkfifo can be started").success());
    }
    let mut worker = Worker::start(&place);
    // Opening a pipe waits for the other side: the call is under way now.
    let begun = fs::read_to_string(site.path().join("begun")).expect("the call begins");
    assert_eq!(begun, "begun\n");
    // The interrupt is asynchronous: the call continues once the program says that it waits for it.
    worker.wait_for_call();
    worker.interrupt();
    fs::write(site.path().join("go"), "go\n").expect("the call continues");
    let ended = worker.process.wait().expect("its end");
    assert_eq!(ended.code(), Some(worker.code));
    let stopped = now();
    let uses = site.ledger().uses();
    assert_eq!(uses.len(), 1, "nothing else was called: {uses:?}");

    let resumed = place.run(&["resume", "s", "--json"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    let journal = place.journal("s");
    journal.check();
    check_stopped(&journal, &stopped);
    assert!(journal.of_kind("call_in_doubt").is_empty());
    assert_eq!(journal.of_kind("run_completed").len(), 1);
    let uses = site.ledger().uses();
    assert_eq!(uses.len(), 2, "{uses:?}");
    assert!(uses.values().all(|&times| times == 1), "{uses:?}");
}

/// What was stored up to then. A store that is served continues, so it cannot be looked at before.
fn check_stopped(journal: &Journal, until: &str) {
    let times = |kind: &str| {
        let events = journal.of_kind(kind).into_iter();
        let stored = events.filter(|event| event["at"].as_str().expect("a time") <= until);
        stored.count()
    };
    assert_eq!(times("call_finished"), 1, "the call was let to its end");
    assert_eq!(times("step_started"), 1, "nothing else began");
}

/// As the journal writes it.
fn now() -> String {
    let millis = SystemClock.unix_ms();
    utc(i64::try_from(millis).expect("a time"))
}

#[test]
fn in_a_file_an_interrupt_lets_the_call_end_and_begins_no_other() {
    an_interrupt_lets_the_call_end_and_begins_no_other(TestStore::file());
}

/// Each needs servers of Redis.
mod redis {
    use super::*;

    #[test]
    fn over_redis_an_interrupt_lets_the_call_end_and_begins_no_other() {
        an_interrupt_lets_the_call_end_and_begins_no_other(TestStore::redis());
    }

    #[test]
    fn over_a_cluster_an_interrupt_lets_the_call_end_and_begins_no_other() {
        an_interrupt_lets_the_call_end_and_begins_no_other(TestStore::cluster());
    }
}
