//! Kill -9 before and after every commit of a run, of `cairn run` and of `cairn serve`: after a
//! restart the run ends with the same result, nothing that was finished runs again, and calls with
//! side effects happen once or are asked about.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot set up its world is over"
)]

use cairn_testkit::{Journal, Output, Site};
use serde_json::Value;
use std::collections::BTreeMap;

const CAIRN: &str = env!("CARGO_BIN_EXE_cairn");
const SIGKILL: i32 = 9;

/// Tool steps of all three effects; the calls of `record` must happen exactly once each.
const PLAN: &str = r#"{"steps": [
  {"title": "Survey", "tool": "list_files", "arguments": {"path": "docs"}},
  {"title": "Record one", "tool": "record", "arguments": {"what": "one"}},
  {"title": "Search", "tool": "search_files", "arguments": {"pattern": "Redis", "path": "docs"}},
  {"title": "Write", "tool": "write_file", "arguments": {"path": "cairn-out/note.md", "content": "two mentions\n"}},
  {"title": "Record two", "tool": "record", "arguments": {"what": "two"}}
]}"#;

/// How a run is begun. The request id makes a repeat find the run that was accepted.
fn begin(site: &Site, goal: Option<&str>, fail: &str) -> Output {
    let mut arguments = vec!["run", "--request-id", "r-1", "--json"];
    match goal {
        Some(goal) => arguments.push(goal),
        None => arguments.extend(["--plan", "plan.json"]),
    }
    if fail.is_empty() {
        return site.run(&arguments);
    }
    site.run_with(&arguments, &[("CAIRN_FAIL_COMMIT", fail)])
}

/// A site with the plan, or for a goal.
fn site() -> Site {
    let site = Site::new(CAIRN);
    site.write("plan.json", PLAN);
    site
}

/// The result of a run that nobody disturbed, and how many commits any such run takes at least: on
/// a busy machine a result may be committed before the reply that it usually travels with.
fn undisturbed(goal: Option<&str>) -> (Journal, u64) {
    let runs = (0..3).map(|_| undisturbed_once(goal));
    runs.min_by_key(|(_, commits)| *commits)
        .expect("three runs")
}

fn undisturbed_once(goal: Option<&str>) -> (Journal, u64) {
    let site = site();
    let count = site.path().join("commits");
    let output = begin(&site, goal, &format!("count:{}", count.display()));
    assert_eq!(output.code, Some(0), "{output:?}");
    let commits = site
        .read("commits")
        .expect("commits are counted")
        .lines()
        .count();
    let journal = site.journal(&only_session(&site));
    journal.check();
    (journal, commits as u64)
}

fn only_session(site: &Site) -> String {
    let sessions = site.sessions();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    sessions.into_iter().next().expect("one session")
}

/// Goes on until the run has ended, and answers truly what is asked about calls in doubt. Returns
/// how many calls were in doubt.
fn go_on(site: &Site, session: &str) -> u32 {
    let mut doubts = 0;
    for _ in 0..10 {
        let output = site.run(&["resume", session, "--json"]);
        match output.code {
            Some(0) => return doubts,
            Some(3) => doubts += settle(site, session),
            _ => panic!("resume failed: {output:?}"),
        }
    }
    panic!("the run does not end");
}

fn settle(site: &Site, session: &str) -> u32 {
    let output = site.run(&["pending", session, "--json"]);
    let mut settled = 0;
    for line in output.out.lines() {
        let pending: Value = serde_json::from_str(line).expect("a line of JSON");
        let id = pending["id"].as_str().expect("an id");
        let key = pending["call_key"].as_str().expect("a key");
        let answer: &[&str] = if site.ledger().has(key) {
            &["done", "--output", "recorded, says the ledger"]
        } else {
            &["retry"]
        };
        let decide = [&["decide", session, id], answer].concat();
        let output = site.run(&decide);
        assert_eq!(output.code, Some(0), "{output:?}");
        settled += 1;
    }
    assert!(settled > 0, "the run waits, but for nothing: {output:?}");
    settled
}

/// Panics unless the run ended as if nobody had disturbed it.
fn check_end(site: &Site, session: &str, reference: &Journal, seen: &Journal, calls: usize) {
    let journal = site.journal(session);
    journal.check();
    assert_eq!(
        journal.of_kind("run_completed").len(),
        1,
        "the run did not complete"
    );
    let steps = |journal: &Journal| -> Vec<u64> {
        journal
            .summaries()
            .into_iter()
            .map(|(step, _)| step)
            .collect()
    };
    assert_eq!(steps(&journal), steps(reference));
    let settled = journal.of_kind("call_settled").len();
    if settled == 0 {
        assert_eq!(journal.summaries(), reference.summaries());
    }
    let uses = site.ledger().uses();
    assert!(
        uses.values().all(|&times| times == 1),
        "a call happened twice: {uses:?}"
    );
    assert_eq!(
        uses.len(),
        calls,
        "a call is missing or was made up: {uses:?}"
    );
    for event in &seen.0 {
        let seq = event["seq"].as_u64().expect("a seq");
        let stored = &journal.0[seq as usize - 1];
        assert_eq!(stored, event, "an acknowledged event was lost");
    }
}

/// Kills the run before and after each of its commits.
fn kill_everywhere(goal: Option<&str>) {
    let (reference, commits) = undisturbed(goal);
    let calls = if goal.is_none() { 2 } else { 0 };
    let mut kills: BTreeMap<u64, (u32, u32)> = BTreeMap::new();
    let mut doubts = 0;
    for commit in 1..=commits {
        for side in ["before", "after"] {
            let site = site();
            let output = begin(&site, goal, &format!("{side}:{commit}"));
            assert_eq!(output.signal, Some(SIGKILL), "{side} {commit}: {output:?}");
            let count = kills.entry(commit).or_default();
            if side == "before" {
                count.0 += 1
            } else {
                count.1 += 1
            }
            if (commit, side) == (1, "before") {
                // Nothing was accepted, so the client asks again.
                let output = begin(&site, goal, "");
                assert!(matches!(output.code, Some(0)), "{output:?}");
            }
            let session = only_session(&site);
            doubts += go_on(&site, &session);
            let seen = Journal::read(whole_lines(&output.out));
            check_end(&site, &session, &reference, &seen, calls);
        }
    }
    for (commit, (before, after)) in &kills {
        println!("commit {commit}: killed {before} before, {after} after");
        assert!(
            *before > 0 && *after > 0,
            "commit {commit} was not killed on both sides"
        );
    }
    println!(
        "{commits} commits, {} kills, {doubts} calls in doubt",
        kills.len() * 2
    );
    if goal.is_none() {
        assert!(doubts >= 2, "no call was killed on its way");
    }
}

/// A process that is killed may leave half a line.
fn whole_lines(text: &str) -> &str {
    text.rfind('\n').map_or("", |end| &text[..=end])
}

#[test]
fn a_plan_survives_a_kill_at_every_commit() {
    kill_everywhere(None);
}

#[test]
fn a_goal_survives_a_kill_at_every_commit() {
    kill_everywhere(Some("Which files under docs mention Redis?"));
}

#[test]
fn a_run_survives_kill_after_kill() {
    let (reference, commits) = undisturbed(None);
    let site = site();
    let first = begin(&site, None, "after:1");
    assert_eq!(first.signal, Some(SIGKILL));
    let session = only_session(&site);
    let mut kills = 1;
    for round in 0..commits * 4 {
        let side = if round % 2 == 0 { "after" } else { "before" };
        let fail = format!("{side}:{}", 1 + round % 3);
        let arguments = ["resume", &session, "--json"];
        let output = site.run_with(&arguments, &[("CAIRN_FAIL_COMMIT", &fail)]);
        match (output.signal, output.code) {
            (Some(SIGKILL), _) => kills += 1,
            (_, Some(3)) => {
                settle(&site, &session);
            }
            (_, Some(0)) => break,
            _ => panic!("{output:?}"),
        }
    }
    go_on(&site, &session);
    println!("{kills} kills");
    assert!(kills > 3);
    check_end(&site, &session, &reference, &Journal(Vec::new()), 2);
}
