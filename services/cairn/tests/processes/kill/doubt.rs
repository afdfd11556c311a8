//! Kills around every commit by which a run is taken over, a person is asked, the answer takes effect
//! and the run continues with it.
//!
//! `kill_asking` does the same for plans, questions of the model and approvals, on each store.

use super::{
    PLANNED, SIGKILL, at_once, begin, check_end, go_on, only_session, repeats, settle, site,
    undisturbed,
};
use cairn_testkit::{Journal, Output, Site};
use std::collections::BTreeSet;

/// How far a run is before the command that is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    /// Killed with a call with side effects on its way: it is taken over and asks.
    Interrupted,
    /// It asks, and is answered.
    Asks,
    /// It was answered, and continues.
    Answered,
}

const STAGES: [(Stage, &[&str]); 3] = [
    (
        Stage::Interrupted,
        &["attempt_continued", "call_in_doubt", "run_waiting"],
    ),
    (Stage::Asks, &["command_received", "decided"]),
    (
        Stage::Answered,
        &["call_settled", "run_resumed", "run_completed"],
    ),
];

/// The first commit after which a call of `record` is on its way.
fn begin_of_a_call() -> u64 {
    let is_on_its_way = |commit: &u64| {
        let site = site();
        let killed = begin(&site, PLANNED, &format!("after:{commit}"));
        assert_eq!(killed.signal, Some(SIGKILL), "{killed:?}");
        let journal = site.journal(&only_session(&site));
        let last = journal.0.last().expect("an event");
        last["kind"] == "call_intended"
    };
    (2..).find(is_on_its_way).expect("a call")
}

/// A site at a stage, with the call that is asked about.
fn at(stage: Stage, commit: u64, reference: &Journal) -> (Site, String) {
    let site = site();
    let killed = begin(&site, PLANNED, &format!("after:{commit}"));
    assert_eq!(killed.signal, Some(SIGKILL), "{killed:?}");
    let session = only_session(&site);
    if stage != Stage::Interrupted {
        let asks = site.run(&["resume", &session, "--json"]);
        assert_eq!(asks.code, Some(3), "{asks:?}");
    }
    if stage == Stage::Answered {
        assert_eq!(settle(&site, &session, reference), 1);
    }
    (site, session)
}

/// The command of a stage.
fn command(site: &Site, session: &str, stage: Stage, fail: &str) -> Output {
    let variables = [("CAIRN_FAIL_COMMIT", fail)];
    if stage != Stage::Asks {
        return site.run_with(&["resume", session, "--json"], &variables);
    }
    let pending = site.run(&["pending", session, "--json"]);
    let pending: serde_json::Value = serde_json::from_str(&pending.out).expect("a question");
    let id = pending["id"].as_str().expect("an id");
    site.run_with(&["decide", session, id, "retry"], &variables)
}

/// How many commits the command of a stage makes; its events are the ones that are meant.
fn commits_of(stage: Stage, kinds: &[&str], commit: u64, reference: &Journal) -> u64 {
    let (site, session) = at(stage, commit, reference);
    let before = site.journal(&session).0.len();
    let count = format!("count:{}", site.path().join("commits").display());
    command(&site, &session, stage, &count);
    let journal = site.journal(&session);
    let new = journal.0[before..].iter();
    let new: BTreeSet<_> = new.filter_map(|event| event["kind"].as_str()).collect();
    let missing: Vec<_> = kinds.iter().filter(|kind| !new.contains(**kind)).collect();
    assert!(missing.is_empty(), "{stage:?} has no {missing:?}: {new:?}");
    let commits = site.read("commits").expect("commits are counted");
    commits.lines().count() as u64
}

#[test]
fn a_question_survives_a_kill_at_every_commit_around_it() {
    let (reference, _) = undisturbed(PLANNED);
    let commit = begin_of_a_call();
    let mut points = Vec::new();
    let commits = at_once(&STAGES, |(stage, kinds)| {
        commits_of(*stage, kinds, commit, &reference)
    });
    for ((stage, _), commits) in STAGES.into_iter().zip(commits) {
        println!("{stage:?}: {commits} commits");
        assert!(commits > 0);
        // What comes after the answer has taken effect is a run like any other.
        for number in 1..=commits.min(3) {
            points.extend(["before", "after"].map(|side| (stage, format!("{side}:{number}"))));
        }
    }
    at_once(&points, |(stage, fail)| {
        let (site, session) = at(*stage, commit, &reference);
        let seen = site.journal(&session);
        let killed = command(&site, &session, *stage, fail);
        assert_eq!(killed.signal, Some(SIGKILL), "{stage:?} {fail}: {killed:?}");
        let asked = go_on(&site, &session, &reference);
        // Whose answer is stored is not asked again; a call that is made again can be in doubt again.
        let is_answered = *stage == Stage::Answered || *stage == Stage::Asks && fail != "before:1";
        let doubts = site.journal(&session).of_kind("call_in_doubt").len();
        let answers = asked as usize + usize::from(is_answered);
        assert_eq!(answers, doubts, "{stage:?} {fail}");
        check_end(&site, &session, &reference, &seen, PLANNED);
        assert!(repeats(&site) <= 1, "{stage:?} {fail}");
    });
    println!("{} kills", points.len());
}
