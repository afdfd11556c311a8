//! Kill -9 before and after every commit of a run, of `cairn run` and of `cairn serve`: after a
//! restart the run ends with the same result, nothing that was finished runs again, and calls with
//! side effects happen once or are asked about.
//!
//! A ledger outside Cairn counts the calls. Every event that was printed before the kill is in the
//! journal.

mod doubt;

use crate::support::CAIRN;
use cairn_testkit::{Journal, Output, Site};
use serde_json::Value;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const SIGKILL: i32 = 9;

/// Tool steps of all three effects; the calls of `record` must happen exactly once each, and those
/// of `look`, which is pure, once more for each kill that took their result.
const PLAN: &str = r#"{"steps": [
  {"title": "Survey", "tool": "list_files", "arguments": {"path": "docs"}},
  {"title": "Look", "tool": "look", "arguments": {"what": "around"}},
  {"title": "Record one", "tool": "record", "arguments": {"what": "one"}},
  {"title": "Search", "tool": "search_files", "arguments": {"pattern": "Redis", "path": "docs"}},
  {"title": "Write", "tool": "write_file", "arguments": {"path": "cairn-out/note.md", "content": "two mentions\n"}},
  {"title": "Record two", "tool": "record", "arguments": {"what": "two"}},
  {"title": "Look back", "tool": "look", "arguments": {"what": "back"}}
]}"#;

/// A model that was recorded: it plans two steps, and in each it has a line recorded.
const PLAYED: &str = r#"
{"match": {"contains": "Keep the books"}, "reply": {"text": "{\"steps\": [{\"title\": \"First\", \"description\": \"Record one.\"}, {\"title\": \"Second\", \"description\": \"Record two.\"}]}"}}
{"match": {"step": "First"}, "replies": [{"text": "I look first.", "tool_calls": [{"name": "look", "arguments": {"what": "around"}}, {"name": "record", "arguments": {"what": "one"}}, {"name": "search_files", "arguments": {"pattern": "Redis", "path": "docs"}}]}, {"tool_calls": [{"name": "session_memory_set", "arguments": {"key": "one", "value": "recorded"}}, {"name": "step", "arguments": {"complete": true, "summary": "One line."}}]}]}
{"match": {"step": "Second"}, "replies": [{"tool_calls": [{"name": "look", "arguments": {"what": "back"}}]}, {"tool_calls": [{"name": "write_file", "arguments": {"path": "cairn-out/books.md", "content": "two lines\n"}}, {"name": "record", "arguments": {"what": "two"}}]}, {"tool_calls": [{"name": "step", "arguments": {"complete": true, "summary": "Another line."}}]}]}
"#;

/// What is run, and killed.
#[derive(Clone, Copy)]
struct Case {
    arguments: &'static [&'static str],
    /// Calls of `record`, one a step, and of `look`.
    calls: usize,
}

const PLANNED: Case = Case {
    arguments: &["--plan", "plan.json"],
    calls: 2,
};

/// The offline model calls no tool with side effects: here only the results are compared.
const REHEARSED: Case = Case {
    arguments: &["Which files under docs mention Redis?"],
    calls: 0,
};

const GOAL: Case = Case {
    arguments: &["--model", "played", "Keep the books."],
    calls: 2,
};

/// How a run is begun. The request id makes a repeat find the run that was accepted.
fn begin(site: &Site, case: Case, fail: &str) -> Output {
    let arguments = [&["run", "--request-id", "r-1", "--json"], case.arguments].concat();
    if fail.is_empty() {
        return site.run(&arguments);
    }
    site.run_with(&arguments, &[("CAIRN_FAIL_COMMIT", fail)])
}

/// A site with the plan and the recorded model.
fn site() -> Site {
    let site = Site::new(CAIRN);
    site.write("plan.json", PLAN);
    site.write("played.jsonl", PLAYED.trim_start());
    let model = "[models.played]\nprovider = \"recorded\"\npath = \"played.jsonl\"\n";
    site.append("cairn.toml", model);
    site
}

/// The result of a run that nobody disturbed, and how many commits any such run takes at least: on
/// a busy machine a result may be committed before the reply that it usually travels with.
fn undisturbed(case: Case) -> (Journal, u64) {
    let runs = (0..3).map(|_| undisturbed_once(case));
    runs.min_by_key(|(_, commits)| *commits)
        .expect("three runs")
}

fn undisturbed_once(case: Case) -> (Journal, u64) {
    let site = site();
    let count = site.path().join("commits");
    let output = begin(&site, case, &format!("count:{}", count.display()));
    assert_eq!(output.code, Some(0), "{output:?}");
    let commits = site.read("commits").expect("commits are counted");
    let journal = site.journal(&only_session(&site));
    journal.check();
    for ledger in [site.ledger(), site.looks()] {
        let uses: Vec<u32> = ledger.uses().into_values().collect();
        assert_eq!(uses, vec![1; case.calls]);
    }
    (journal, commits.lines().count() as u64)
}

fn only_session(site: &Site) -> String {
    let sessions = site.sessions();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    sessions.into_iter().next().expect("one session")
}

/// Continues until the run has ended, and answers truly what is asked about calls in doubt. Returns
/// how many calls were in doubt.
fn go_on(site: &Site, session: &str, reference: &Journal) -> u32 {
    let mut doubts = 0;
    for _ in 0..10 {
        let output = site.run(&["resume", session, "--json"]);
        match output.code {
            Some(0) => return doubts,
            Some(3) => doubts += settle(site, session, reference),
            _ => panic!("resume failed: {output:?}"),
        }
    }
    panic!("the run does not end");
}

/// A call that the ledger has is done, with the output that it gives to those that nobody disturbs;
/// one that it has not is made.
fn settle(site: &Site, session: &str, reference: &Journal) -> u32 {
    let output = site.run(&["pending", session, "--json"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let mut settled = 0;
    for line in output.out.lines() {
        let pending: Value = serde_json::from_str(line).expect("a line of JSON");
        let id = pending["id"].as_str().expect("an id");
        let key = pending["call_key"].as_str().expect("a key");
        let recorded = reference.recorded_in(&pending["step"]);
        site.wait_for_programs();
        let answer: &[&str] = if site.ledger().has(key) {
            &["done", "--output", &recorded]
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

/// Panics unless the run ended as if nobody had disturbed it, once.
fn check_end(site: &Site, session: &str, reference: &Journal, seen: &Journal, case: Case) {
    let journal = check_journal(site, session, reference, case);
    let questions = journal.of_kind("run_waiting").len() as u32;
    for event in &seen.0 {
        let seq = event["seq"].as_u64().expect("a seq");
        let stored = &journal.0[seq as usize - 1];
        assert_eq!(stored, event, "an acknowledged event was lost");
    }
    check_looks(site, seen, case, questions);
}

/// Panics unless the journal is as if nobody had disturbed the run, and each call with side effects
/// happened once.
fn check_journal(site: &Site, session: &str, reference: &Journal, case: Case) -> Journal {
    let journal = site.journal(session);
    journal.check();
    assert_eq!(
        journal.of_kind("run_completed").len(),
        1,
        "the run did not complete"
    );
    journal.check_like(reference);
    let uses = site.ledger().uses();
    assert!(
        uses.values().all(|&times| times == 1),
        "a call happened twice: {uses:?}"
    );
    assert_eq!(
        uses.len(),
        case.calls,
        "a call is missing or was made up: {uses:?}"
    );
    journal
}

/// Panics unless each pure call was made once, and once more for each process that ended without its
/// result: the one that was killed, and any that ended because of a question. What was acknowledged
/// is not asked again.
fn check_looks(site: &Site, seen: &Journal, case: Case, questions: u32) {
    let looks = site.looks();
    let uses = looks.uses();
    assert_eq!(uses.len(), case.calls, "a call has two keys: {uses:?}");
    let is_fine = |times: &u32| (1..=2 + questions).contains(times);
    assert!(
        uses.values().all(is_fine),
        "a pure call came too often: {uses:?}"
    );
    for finished in seen.of_kind("call_finished") {
        let output = finished["output"].as_str().expect("an output");
        if let Some(given) = output.trim_end().strip_prefix("looked ") {
            assert_eq!(looks.times(given), 1, "{given} had a result");
        }
    }
}

/// How often pure calls were made again.
fn repeats(site: &Site) -> u32 {
    let uses = site.looks().uses();
    uses.values().map(|times| times - 1).sum()
}

/// Kills the run before and after each of its commits.
fn kill_everywhere(case: Case) {
    let (reference, commits) = undisturbed(case);
    let points = (1..=commits).flat_map(|commit| [("before", commit), ("after", commit)]);
    let points: Vec<_> = points.collect();
    let ends = at_once(&points, |&(side, commit)| {
        kill_and_go_on(case, &reference, side, commit)
    });
    let ends: Vec<(u32, u32)> = ends.into_iter().flatten().collect();
    // A busy machine may make one commit of two.
    assert!(ends.len() + 4 >= points.len(), "too few were killed");
    let doubts: u32 = ends.iter().map(|(doubts, _)| doubts).sum();
    let repeats: u32 = ends.iter().map(|(_, repeats)| repeats).sum();
    for (side, commit) in &points {
        println!("commit {commit}: killed {side}");
    }
    println!(
        "{commits} commits, {} kills, {doubts} calls in doubt, {repeats} pure calls made again",
        ends.len()
    );
    if case.calls == 0 {
        assert_eq!((doubts, repeats), (0, 0), "calls that nobody made");
        return;
    }
    assert!(
        doubts as usize >= case.calls,
        "no call was killed on its way"
    );
    assert!(
        repeats as usize >= case.calls,
        "no pure call lost its result"
    );
}

/// Kills one run around one commit, and lets it go on to its end. Returns how many calls were in
/// doubt, and how many pure ones were made again; none if the run ended before that commit.
fn kill_and_go_on(case: Case, reference: &Journal, side: &str, commit: u64) -> Option<(u32, u32)> {
    let site = site();
    let output = begin(&site, case, &format!("{side}:{commit}"));
    if output.code == Some(0) {
        return None;
    }
    assert_eq!(output.signal, Some(SIGKILL), "{side} {commit}: {output:?}");
    if (commit, side) == (1, "before") {
        // Nothing was accepted, so the client asks again.
        let output = begin(&site, case, "");
        assert!(matches!(output.code, Some(0)), "{output:?}");
    }
    let session = only_session(&site);
    let doubts = go_on(&site, &session, reference);
    let seen = Journal::read(whole_lines(&output.out));
    check_end(&site, &session, reference, &seen, case);
    Some((doubts, repeats(&site)))
}

/// Calls in doubt wait until they can no longer be running: a few sites wait at the same time.
fn at_once<T: Sync, R: Send>(points: &[T], kill: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, kill) = (AtomicUsize::new(0), &kill);
    let mut ends = thread::scope(|scope| {
        let worker = || {
            let mut ends = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(point) = points.get(at) else {
                    return ends;
                };
                ends.push((at, kill(point)));
            }
        };
        let workers: Vec<_> = (0..16).map(|_| scope.spawn(worker)).collect();
        let ends = workers.into_iter();
        let ends = ends.flat_map(|worker| worker.join().expect("a worker"));
        ends.collect::<Vec<_>>()
    });
    ends.sort_by_key(|(at, _)| *at);
    ends.into_iter().map(|(_, end)| end).collect()
}

/// A process that is killed may leave half a line.
fn whole_lines(text: &str) -> &str {
    text.rfind('\n').map_or("", |end| &text[..=end])
}

#[test]
fn a_plan_survives_a_kill_at_every_commit() {
    kill_everywhere(PLANNED);
}

#[test]
fn a_rehearsed_goal_survives_a_kill_at_every_commit() {
    kill_everywhere(REHEARSED);
}

#[test]
fn a_goal_with_effects_survives_a_kill_at_every_commit() {
    kill_everywhere(GOAL);
}

#[test]
fn a_run_survives_kill_after_kill() {
    let (reference, commits) = undisturbed(PLANNED);
    let site = site();
    let first = begin(&site, PLANNED, "after:1");
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
                settle(&site, &session, &reference);
            }
            (_, Some(0)) => break,
            _ => panic!("{output:?}"),
        }
    }
    go_on(&site, &session, &reference);
    println!("{kills} kills");
    assert!(kills > 3);
    check_journal(&site, &session, &reference, PLANNED);
    // At most one more for each kill.
    assert!(repeats(&site) <= kills, "{:?}", site.looks().uses());
}
