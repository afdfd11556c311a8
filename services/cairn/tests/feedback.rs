//! Changing the plan of a run through the command line: feedback, editing, doing again, pausing and
//! skipping. Each command is a process of its own.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot set up its world is over"
)]

use cairn_testkit::{Journal, Output, Site};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::process::Command;

const CAIRN: &str = env!("CARGO_BIN_EXE_cairn");
const GOAL: &str = "Which files under docs mention Redis?";
const WISH: &str = "Look for SQLite.";
const TWO: &str = r#"{"steps": [
    {"tool": "record", "arguments": {"what": "one"}},
    {"tool": "record", "arguments": {"what": "two"}}]}"#;

/// A tool that says that it was called, and waits.
const GATE: &str = r#"
[[tools.commands]]
name = "gate"
description = "Waits."
argv = ["sh", "-c", "echo begun >begun; read -r _ <go"]
effect = "effectful"
time_limit_ms = 60000
parameters = { type = "object" }
"#;

fn completed(site: &Site, arguments: &[&str]) -> Output {
    let output = site.run(arguments);
    assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}");
    output
}

fn json_of(output: &Output) -> Value {
    let lines: Vec<_> = output.out.lines().collect();
    assert_eq!(lines.len(), 1, "one object: {output:?}");
    serde_json::from_str(lines[0]).expect("JSON")
}

/// How often each step of the run began.
fn begun(journal: &Journal) -> BTreeMap<u64, usize> {
    let mut begun = BTreeMap::new();
    for event in journal.of_kind("step_started") {
        let step = event["attempt"]["step"].as_u64().expect("a step");
        *begun.entry(step).or_default() += 1;
    }
    begun
}

/// The numbers of the steps of the newest plan.
fn numbers(journal: &Journal) -> Vec<u64> {
    let plans = journal.of_kind("plan_applied");
    let newest = plans.last().expect("a plan")["numbers"].as_array();
    let numbers = newest.expect("numbers").iter();
    numbers
        .map(|number| number.as_u64().expect("one"))
        .collect()
}

fn goal_reached() -> Site {
    let site = Site::new(CAIRN);
    completed(&site, &["run", "--session", "s", GOAL]);
    site
}

fn two_recorded() -> Site {
    let site = Site::new(CAIRN);
    site.write("plan.json", TWO);
    completed(&site, &["run", "--session", "s", "--plan", "plan.json"]);
    site
}

/// How often `record` was called for this.
fn recorded(site: &Site, what: &str) -> usize {
    site.ledger().times(&format!(r#"{{"what":"{what}"}}"#))
}

#[test]
fn feedback_is_proposed_and_what_holds_is_not_done_again() {
    let site = goal_reached();
    let before = site.journal("s");
    // Nobody is there to say yes.
    let proposed = site.run(&["feedback", "s", WISH]);
    assert_eq!(proposed.code, Some(3), "{proposed:?}");
    for says in ["✓   1 ", "done, and kept", "+ ", "saved ", "plan apply s 1"] {
        assert!(proposed.out.contains(says), "{says}: {proposed:?}");
    }
    let journal = site.journal("s");
    assert_eq!(journal.of_kind("plan_proposed").len(), 1);
    assert_eq!(journal.of_kind("plan_applied").len(), 1);
    assert_eq!(begun(&journal), begun(&before));

    let applied = completed(&site, &["plan", "apply", "s", "1", "--json"]);
    let applied = json_of(&applied);
    assert_eq!(applied["revision"], 2, "{applied}");
    completed(&site, &["resume", "s"]);
    let journal = site.journal("s");
    assert_eq!(journal.of_kind("run_completed").len(), 2);
    let begun = begun(&journal);
    assert!(begun.values().all(|&times| times == 1), "{begun:?}");
    let old = before.of_kind("step_started").len() as u64;
    let numbers = numbers(&journal);
    let kept = numbers.iter().filter(|&&number| number <= old).count();
    assert!(kept >= 2, "{numbers:?}");
    assert!(numbers.iter().any(|&number| number > old), "{numbers:?}");
    // Only what is new has begun since.
    let newly = begun.keys().filter(|&&number| number > old).count();
    assert_eq!(newly, numbers.len() - kept, "{numbers:?}, {begun:?}");
}

#[test]
fn feedback_as_json_is_one_object_whether_it_is_applied_or_not() {
    let site = goal_reached();
    let only_proposed = site.run(&["feedback", WISH, "--json"]);
    assert_eq!(only_proposed.code, Some(3), "{only_proposed:?}");
    let told = json_of(&only_proposed);
    assert_eq!(
        (&told["proposal"], &told["applied"]),
        (&json!(1), &Value::Null)
    );
    assert_eq!(told["diff"]["steps"][0]["fate"], "reused", "{told}");
    assert_eq!(told["diff"]["base_revision"], 1);
    assert!(
        told["diff"]["saved"]["model_calls"].as_u64() >= Some(2),
        "{told}"
    );

    let told = json_of(&completed(
        &site,
        &["feedback", "s", WISH, "--yes", "--json"],
    ));
    assert_eq!((&told["proposal"], &told["run"]), (&json!(2), &json!(1)));
    assert_eq!(told["applied"]["revision"], 2, "{told}");
    // The first proposal was for a plan that is not in force any more.
    let late = site.run(&["plan", "apply", "s", "1"]);
    assert_eq!(late.code, Some(1), "{late:?}");
    for says in ["moved on", "plan show s"] {
        assert!(late.err.contains(says), "{says}: {late:?}");
    }
    let unknown = site.run(&["plan", "apply", "s", "9"]);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    assert!(unknown.err.contains("proposal 9"), "{unknown:?}");
    let empty = site.run(&["feedback", "s", " "]);
    assert_eq!(empty.code, Some(2), "{empty:?}");
    let forgotten = site.run(&["feedback", "s"]);
    assert_eq!(forgotten.code, Some(2), "{forgotten:?}");
}

#[test]
fn a_plan_is_edited_in_a_file() {
    let site = two_recorded();
    let shown = completed(&site, &["plan", "show", "s", "--json"]).out;
    site.write("same.json", &shown);
    let same = completed(
        &site,
        &["plan", "edit", "s", "--file", "same.json", "--yes"],
    );
    assert_eq!(same.out, "nothing was changed\n");
    let mut plan: Value = serde_json::from_str(&shown).expect("JSON");
    plan["steps"][1]["arguments"]["what"] = "three".into();
    let more = json!({"tool": "record", "arguments": {"what": "four"}});
    plan["steps"].as_array_mut().expect("steps").push(more);
    site.write("new.json", &plan.to_string());
    let edited = completed(&site, &["plan", "edit", "s", "--file", "new.json", "--yes"]);
    for says in [
        "✓   1 ",
        "-   2 ",
        "side effects",
        "step 2: record",
        "revision 2",
    ] {
        assert!(edited.out.contains(says), "{says}: {edited:?}");
    }
    completed(&site, &["resume", "s"]);
    for what in ["one", "two", "three", "four"] {
        assert_eq!(recorded(&site, what), 1, "{what}");
    }
    assert_eq!(numbers(&site.journal("s")), [1, 3, 4]);

    let diff = completed(&site, &["plan", "diff", "s", "1", "2", "--json"]);
    let steps = json_of(&diff)["steps"].clone();
    let steps = steps.as_array().expect("steps").iter();
    let steps: Vec<_> = steps
        .map(|step| (step["number"].as_u64(), step["change"].clone()))
        .collect();
    let want = [(1, "kept"), (3, "added"), (4, "added"), (2, "removed")];
    let want = want.map(|(number, change)| (Some(number), json!(change)));
    assert_eq!(steps, want);
    let none = site.run(&["plan", "diff", "1", "3"]);
    assert_eq!(none.code, Some(1), "{none:?}");
    assert!(none.err.contains("revisions 1 to 2"), "{none:?}");

    site.write("wrong.json", r#"{"steps": [{"titel": "x"}]}"#);
    let wrong = site.run(&["plan", "edit", "s", "--file", "wrong.json"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.err.contains("wrong.json"), "{wrong:?}");
}

#[test]
fn a_plan_is_edited_in_an_editor() {
    let site = two_recorded();
    fs::create_dir(site.path().join("tmp")).expect("a folder");
    let tmp = site.path().join("tmp").display().to_string();
    let left = || fs::read_dir(&tmp).expect("a folder").count();
    let edit = |editor: &str| {
        let variables = [("EDITOR", editor), ("TMPDIR", &tmp)];
        site.run_with(&["plan", "edit", "s"], &variables)
    };
    let proposed = edit("sed -i s/two/three/");
    assert_eq!(proposed.code, Some(3), "{proposed:?}");
    assert!(proposed.out.contains("plan apply s 1"), "{proposed:?}");
    let unchanged = edit("true");
    assert_eq!(unchanged.code, Some(0), "{unchanged:?}");
    assert_eq!(left(), 0);
    // What somebody has written is not lost.
    let wrong = edit("sed -i s/steps/stops/");
    assert_eq!((wrong.code, left()), (Some(2), 1), "{wrong:?}");
    assert!(wrong.err.contains(&tmp), "{wrong:?}");
    let failed = edit("false");
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let nobody = site.run(&["plan", "edit", "s"]);
    assert_eq!(nobody.code, Some(2), "{nobody:?}");
    for says in ["VISUAL", "EDITOR", "--file"] {
        assert!(nobody.err.contains(says), "{says}: {nobody:?}");
    }
    assert_eq!(site.journal("s").of_kind("plan_applied").len(), 1);
}

#[test]
fn a_step_is_done_again_with_what_depends_on_it() {
    let site = two_recorded();
    let redone = completed(&site, &["redo", "s", "2"]);
    for says in ["✓   1 ", "↻ ", "step 2 does not count", "(key "] {
        assert!(redone.out.contains(says), "{says}: {redone:?}");
    }
    completed(&site, &["resume", "s"]);
    assert_eq!((recorded(&site, "one"), recorded(&site, "two")), (1, 2));
    let told = json_of(&completed(&site, &["redo", "s", "1", "--json"]));
    assert_eq!(told["revision"], 3);
    assert_eq!(told["diff"]["steps"][0]["repeats"], 1, "{told}");
    completed(&site, &["resume", "s"]);
    assert_eq!((recorded(&site, "one"), recorded(&site, "two")), (2, 3));
    assert_eq!(numbers(&site.journal("s")), [4, 5]);
    let gone = site.run(&["redo", "s", "1"]);
    assert_eq!(gone.code, Some(1), "{gone:?}");
    for says in ["step 1", "plan show s"] {
        assert!(gone.err.contains(says), "{says}: {gone:?}");
    }
}

/// Lets the call go on that waits, for as long as this is kept.
fn open_gate(site: &Site) -> File {
    let path = site.path().join("go");
    let both = OpenOptions::new().read(true).write(true).open(path);
    let mut gate = both.expect("the gate");
    gate.write_all(b"go\n").expect("the gate opens");
    gate
}

#[test]
fn a_run_is_paused_loses_a_step_and_goes_on() {
    let site = Site::new(CAIRN);
    site.append("cairn.toml", GATE);
    for pipe in ["begun", "go"] {
        let made = Command::new("mkfifo").arg(site.path().join(pipe)).status();
        assert!(made.expect("mkfifo can be started").success());
    }
    let steps = ["two", "three"].map(|what| json!({"tool": "record", "arguments": {"what": what}}));
    let [two, three] = steps;
    let gate = json!({"tool": "gate", "arguments": {}});
    site.write(
        "plan.json",
        &json!({"steps": [gate, two, three]}).to_string(),
    );
    let mut running = site.start(&["run", "--session", "s", "--plan", "plan.json"], &[]);
    let begun_line = fs::read_to_string(site.path().join("begun"));
    assert_eq!(begun_line.expect("a call begins"), "begun\n");

    let paused = completed(&site, &["pause", "s", "--reason", "lunch", "--json"]);
    assert_eq!(json_of(&paused), json!({"session": "s", "run": 1}));
    // The call with side effects may end; then whoever did the work ends, too.
    let gate = open_gate(&site);
    assert_eq!(running.wait_for_code(), Some(3));
    drop(gate);
    let again = site.run(&["pause", "s"]);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.err.contains("paused already"), "{again:?}");
    let journal = site.journal("s");
    assert_eq!(journal.of_kind("run_paused")[0]["reason"], "lunch");
    assert_eq!(begun(&journal), BTreeMap::from([(1, 1)]));
    let shown = json_of(&completed(&site, &["show", "s", "--json"]));
    assert_eq!(shown["session"]["latest_run"]["status"], "paused");
    assert_eq!(site.run(&["watch", "s", "--no-follow"]).code, Some(3));

    let skipped = completed(&site, &["skip", "s", "2", "--reason", "by hand", "--json"]);
    assert_eq!(
        json_of(&skipped),
        json!({"session": "s", "run": 1, "step": 2})
    );
    let twice = site.run(&["skip", "s", "2"]);
    assert_eq!(twice.code, Some(1), "{twice:?}");
    assert!(twice.err.contains("plan show s"), "{twice:?}");
    let plan = completed(&site, &["plan", "show", "s"]);
    for says in ["revision 1 (3 steps, chain)", "-  2 record", "by hand"] {
        assert!(plan.out.contains(says), "{says}: {plan:?}");
    }
    let resumed = completed(&site, &["resume", "s"]);
    assert!(resumed.out.contains("step 3 completed"), "{resumed:?}");
    assert_eq!((recorded(&site, "two"), recorded(&site, "three")), (0, 1));
    let journal = site.journal("s");
    assert_eq!(begun(&journal), BTreeMap::from([(1, 1), (3, 1)]));
    let ended = site.run(&["pause", "s"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
}
