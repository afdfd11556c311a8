//! Changing the plan of a run through the command line: feedback, editing, doing again, pausing and
//! skipping; in a file and on Redis. Each command is a process of its own, or comes to a server of its own.

use crate::support::{place, shown};
use cairn_testkit::{Journal, Output, Site, TestStore};
use place::Place;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::process::Command;

const GOAL: &str = "Which files under docs mention Redis?";
const CHANGE: &str = "Look for SQLite.";
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

fn json_of(output: &Output) -> Value {
    let lines: Vec<_> = output.out.lines().collect();
    assert_eq!(lines.len(), 1, "one object: {output:?}");
    serde_json::from_str(lines[0]).expect("JSON")
}

/// Compares what is printed with a snapshot that holds for each store: only without a server between, the
/// command that continues is another one.
fn check_shown(place: &Place, name: &str, output: &Output) {
    let mut settings = shown::settings(&place.site);
    settings.add_filter(
        r"(?m)^(?:go on  cairn resume|watch  cairn watch) s$",
        "<go on>",
    );
    settings.bind(|| insta::assert_snapshot!(name, output.out));
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

fn goal_reached(store: TestStore) -> Place {
    let place = Place::over(store);
    place.with_code(0, &["run", "--session", "s", GOAL]);
    place
}

fn two_recorded(store: TestStore) -> Place {
    let place = Place::over(store);
    place.site.write("plan.json", TWO);
    place.with_code(0, &["run", "--session", "s", "--plan", "plan.json"]);
    place
}

/// How often `record` was called for this.
fn recorded(place: &Place, what: &str) -> usize {
    place
        .site
        .ledger()
        .times(&format!(r#"{{"what":"{what}"}}"#))
}

fn feedback_is_proposed_and_what_holds_is_not_done_again(store: TestStore) {
    let place = goal_reached(store);
    let before = place.journal("s");
    // Nobody is there to say yes.
    let proposed = place.run(&["feedback", "s", CHANGE]);
    assert_eq!(proposed.code, Some(3), "{proposed:?}");
    check_shown(&place, "feedback_proposed", &proposed);
    let journal = place.journal("s");
    assert_eq!(journal.of_kind("plan_proposed").len(), 1);
    assert_eq!(journal.of_kind("plan_applied").len(), 1);
    assert_eq!(begun(&journal), begun(&before));

    let applied = place.with_code(0, &["plan", "apply", "s", "1", "--json"]);
    let applied = json_of(&applied);
    assert_eq!(applied["revision"], 2, "{applied}");
    place.with_code(0, &["resume", "s"]);
    let journal = place.journal("s");
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

fn feedback_as_json_is_one_object_whether_it_is_applied_or_not(store: TestStore) {
    let place = goal_reached(store);
    let only_proposed = place.run(&["feedback", CHANGE, "--json"]);
    assert_eq!(only_proposed.code, Some(3), "{only_proposed:?}");
    let reported = json_of(&only_proposed);
    assert_eq!(
        (&reported["proposal"], &reported["applied"]),
        (&json!(1), &Value::Null)
    );
    assert_eq!(reported["diff"]["steps"][0]["fate"], "reused", "{reported}");
    assert_eq!(reported["diff"]["base_revision"], 1);
    assert!(
        reported["diff"]["saved"]["model_calls"].as_u64() >= Some(2),
        "{reported}"
    );

    let reported = json_of(&place.with_code(0, &["feedback", "s", CHANGE, "--yes", "--json"]));
    assert_eq!(
        (&reported["proposal"], &reported["run"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(reported["applied"]["revision"], 2, "{reported}");
    // The first proposal was for a plan that is not in force any more.
    let late = place.run(&["plan", "apply", "s", "1"]);
    assert_eq!(late.code, Some(1), "{late:?}");
    for says in ["moved on", "plan show s"] {
        assert!(late.err.contains(says), "{says}: {late:?}");
    }
    let unknown = place.run(&["plan", "apply", "s", "9"]);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    assert!(unknown.err.contains("proposal 9"), "{unknown:?}");
    let empty = place.run(&["feedback", "s", " "]);
    assert_eq!(empty.code, Some(2), "{empty:?}");
    let forgotten = place.run(&["feedback", "s"]);
    assert_eq!(forgotten.code, Some(2), "{forgotten:?}");
}

fn a_plan_is_edited_in_a_file(store: TestStore) {
    let place = two_recorded(store);
    let shown = place.with_code(0, &["plan", "show", "s", "--json"]).out;
    place.site.write("same.json", &shown);
    let same = place.with_code(0, &["plan", "edit", "s", "--file", "same.json", "--yes"]);
    assert_eq!(same.out, "nothing was changed\n");
    let mut plan: Value = serde_json::from_str(&shown).expect("JSON");
    plan["steps"][1]["arguments"]["what"] = "three".into();
    let more = json!({"tool": "record", "arguments": {"what": "four"}});
    plan["steps"].as_array_mut().expect("steps").push(more);
    place.site.write("new.json", &plan.to_string());
    let edited = place.with_code(0, &["plan", "edit", "s", "--file", "new.json", "--yes"]);
    check_shown(&place, "plan_edited", &edited);
    place.with_code(0, &["resume", "s"]);
    for what in ["one", "two", "three", "four"] {
        assert_eq!(recorded(&place, what), 1, "{what}");
    }
    assert_eq!(numbers(&place.journal("s")), [1, 3, 4]);

    let diff = place.with_code(0, &["plan", "diff", "s", "1", "2", "--json"]);
    let steps = json_of(&diff)["steps"].clone();
    let steps = steps.as_array().expect("steps").iter();
    let steps: Vec<_> = steps
        .map(|step| (step["number"].as_u64(), step["change"].clone()))
        .collect();
    let want = [(1, "kept"), (3, "added"), (4, "added"), (2, "removed")];
    let want = want.map(|(number, change)| (Some(number), json!(change)));
    assert_eq!(steps, want);
    let none = place.run(&["plan", "diff", "1", "3"]);
    assert_eq!(none.code, Some(1), "{none:?}");
    assert!(none.err.contains("revisions 1 to 2"), "{none:?}");

    place
        .site
        .write("wrong.json", r#"{"steps": [{"titel": "x"}]}"#);
    let wrong = place.run(&["plan", "edit", "s", "--file", "wrong.json"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.err.contains("wrong.json"), "{wrong:?}");
}

fn a_plan_is_edited_in_an_editor(store: TestStore) {
    let place = two_recorded(store);
    fs::create_dir(place.site.path().join("tmp")).expect("a folder");
    let tmp = place.site.path().join("tmp").display().to_string();
    let left = || fs::read_dir(&tmp).expect("a folder").count();
    let edit = |editor: &str| {
        let variables = [("EDITOR", editor), ("TMPDIR", &tmp)];
        place.run_with(&["plan", "edit", "s"], &variables)
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
    let nobody = place.run(&["plan", "edit", "s"]);
    assert_eq!(nobody.code, Some(2), "{nobody:?}");
    for says in ["VISUAL", "EDITOR", "--file"] {
        assert!(nobody.err.contains(says), "{says}: {nobody:?}");
    }
    assert_eq!(place.journal("s").of_kind("plan_applied").len(), 1);
}

fn a_step_is_done_again_with_what_depends_on_it(store: TestStore) {
    let place = two_recorded(store);
    let redone = place.with_code(0, &["redo", "s", "2"]);
    check_shown(&place, "step_redone", &redone);
    place.with_code(0, &["resume", "s"]);
    assert_eq!((recorded(&place, "one"), recorded(&place, "two")), (1, 2));
    let reported = json_of(&place.with_code(0, &["redo", "s", "1", "--json"]));
    assert_eq!(reported["revision"], 3);
    assert_eq!(reported["diff"]["steps"][0]["repeats"], 1, "{reported}");
    place.with_code(0, &["resume", "s"]);
    assert_eq!((recorded(&place, "one"), recorded(&place, "two")), (2, 3));
    assert_eq!(numbers(&place.journal("s")), [4, 5]);
    let gone = place.run(&["redo", "s", "1"]);
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

fn a_run_is_paused_loses_a_step_and_continues(store: TestStore) {
    let place = Place::over(store);
    place.site.append("cairn.toml", GATE);
    for pipe in ["begun", "go"] {
        let made = Command::new("mkfifo")
            .arg(place.site.path().join(pipe))
            .status();
        assert!(made.expect("mkfifo can be started").success());
    }
    let steps = ["two", "three"].map(|what| json!({"tool": "record", "arguments": {"what": what}}));
    let [two, three] = steps;
    let gate = json!({"tool": "gate", "arguments": {}});
    place.site.write(
        "plan.json",
        &json!({"steps": [gate, two, three]}).to_string(),
    );
    let run = ["run", "--session", "s", "--plan", "plan.json"];
    let (mut running, _serving) = place.start(&run);
    let begun_line = fs::read_to_string(place.site.path().join("begun"));
    assert_eq!(begun_line.expect("a call begins"), "begun\n");

    let paused = place.with_code(0, &["pause", "s", "--reason", "lunch", "--json"]);
    assert_eq!(json_of(&paused), json!({"session": "s", "run": 1}));
    // The call with side effects may end; then whoever did the work ends, too.
    let gate = open_gate(&place.site);
    assert_eq!(running.wait_for_code(), Some(3));
    drop(gate);
    let again = place.run(&["pause", "s"]);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.err.contains("paused already"), "{again:?}");
    let journal = place.journal("s");
    assert_eq!(journal.of_kind("run_paused")[0]["reason"], "lunch");
    assert_eq!(begun(&journal), BTreeMap::from([(1, 1)]));
    let shown = json_of(&place.with_code(0, &["show", "s", "--json"]));
    assert_eq!(shown["session"]["latest_run"]["status"], "paused");
    assert_eq!(place.run(&["watch", "s", "--no-follow"]).code, Some(3));

    let skipped = place.with_code(0, &["skip", "s", "2", "--reason", "by hand", "--json"]);
    assert_eq!(
        json_of(&skipped),
        json!({"session": "s", "run": 1, "step": 2})
    );
    let twice = place.run(&["skip", "s", "2"]);
    assert_eq!(twice.code, Some(1), "{twice:?}");
    assert!(twice.err.contains("plan show s"), "{twice:?}");
    let plan = place.with_code(0, &["plan", "show", "s"]);
    for says in ["revision 1 (3 steps, chain)", "-  2 record", "by hand"] {
        assert!(plan.out.contains(says), "{says}: {plan:?}");
    }
    let resumed = place.with_code(0, &["resume", "s"]);
    assert!(resumed.out.contains("step 3 completed"), "{resumed:?}");
    assert_eq!((recorded(&place, "two"), recorded(&place, "three")), (0, 1));
    let journal = place.journal("s");
    assert_eq!(begun(&journal), BTreeMap::from([(1, 1), (3, 1)]));
    let ended = place.run(&["pause", "s"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
}

#[test]
fn in_a_file_feedback_is_proposed_and_what_holds_is_not_done_again() {
    feedback_is_proposed_and_what_holds_is_not_done_again(TestStore::file());
}

#[test]
fn in_a_file_feedback_as_json_is_one_object_whether_it_is_applied_or_not() {
    feedback_as_json_is_one_object_whether_it_is_applied_or_not(TestStore::file());
}

#[test]
fn in_a_file_a_plan_is_edited_in_a_file() {
    a_plan_is_edited_in_a_file(TestStore::file());
}

#[test]
fn in_a_file_a_plan_is_edited_in_an_editor() {
    a_plan_is_edited_in_an_editor(TestStore::file());
}

#[test]
fn in_a_file_a_step_is_done_again_with_what_depends_on_it() {
    a_step_is_done_again_with_what_depends_on_it(TestStore::file());
}

#[test]
fn in_a_file_a_run_is_paused_loses_a_step_and_continues() {
    a_run_is_paused_loses_a_step_and_continues(TestStore::file());
}

/// Each needs a server of Redis.
mod redis {
    use super::*;

    #[test]
    fn over_redis_feedback_is_proposed_and_what_holds_is_not_done_again() {
        feedback_is_proposed_and_what_holds_is_not_done_again(TestStore::redis());
    }

    #[test]
    fn over_redis_a_plan_is_edited_in_a_file() {
        a_plan_is_edited_in_a_file(TestStore::redis());
    }

    #[test]
    fn over_redis_a_step_is_done_again_with_what_depends_on_it() {
        a_step_is_done_again_with_what_depends_on_it(TestStore::redis());
    }

    #[test]
    fn over_redis_a_run_is_paused_loses_a_step_and_continues() {
        a_run_is_paused_loses_a_step_and_continues(TestStore::redis());
    }
}
