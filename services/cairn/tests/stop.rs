//! Ctrl-C while a call with side effects is under way: the call ends, nothing new begins, nothing
//! is in doubt, and the run goes on later.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot set up its world is over"
)]

use cairn_testkit::Site;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

const CAIRN: &str = env!("CARGO_BIN_EXE_cairn");

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

#[test]
fn an_interrupt_lets_the_call_end_and_begins_no_other() {
    let site = Site::new(CAIRN);
    site.append("cairn.toml", GATE);
    site.write("gate.sh", SCRIPT);
    site.write("plan.json", PLAN);
    for pipe in ["begun", "go"] {
        let made = Command::new("mkfifo").arg(site.path().join(pipe)).status();
        assert!(made.expect("mkfifo can be started").success());
    }
    let mut run = site
        .command(&["run", "--plan", "plan.json", "--json"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    // Opening a pipe waits for the other side: the call is under way now.
    let begun = fs::read_to_string(site.path().join("begun")).expect("the call begins");
    assert_eq!(begun, "begun\n");
    let interrupt = ["-INT", &run.id().to_string()];
    let sent = Command::new("kill").args(interrupt).status();
    assert!(sent.expect("kill can be started").success());
    // The interrupt is asynchronous: the call goes on once the program says that it waits for it.
    let mut told = BufReader::new(run.stderr.take().expect("its errors")).lines();
    let waits = |line: &String| line.contains("letting running calls end");
    let told = told.by_ref().map_while(Result::ok).find(waits);
    assert!(told.is_some(), "it does not wait");
    fs::write(site.path().join("go"), "go\n").expect("the call goes on");
    assert_eq!(run.wait().expect("its end").code(), Some(130));

    let session = site.sessions().into_iter().next().expect("a session");
    let stopped = site.journal(&session);
    stopped.check();
    assert_eq!(
        stopped.of_kind("call_finished").len(),
        1,
        "the call was let to its end"
    );
    assert_eq!(
        stopped.of_kind("step_started").len(),
        1,
        "nothing else began"
    );

    let resumed = site.run(&["resume", &session, "--json"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    let journal = site.journal(&session);
    journal.check();
    assert!(journal.of_kind("call_in_doubt").is_empty());
    assert_eq!(journal.of_kind("run_completed").len(), 1);
    let uses = site.ledger().uses();
    assert_eq!(uses.len(), 2, "{uses:?}");
    assert!(uses.values().all(|&times| times == 1), "{uses:?}");
}
