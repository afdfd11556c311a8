//! New sessions from any point of another one, through the command line: in a file, on Redis and
//! on a cluster.
//!
//! A fork from any point comes to its end, and nothing happens twice.

mod place;

use crate::support::CAIRN;
use cairn_testkit::{Journal, Output, Site, TestStore, eventually};
use place::Place;
use serde_json::{Value, json};

const GOAL: &str = "Which files under docs mention Redis?";
const TWO: &str = r#"{"steps": [
    {"tool": "record", "arguments": {"what": "one"}},
    {"tool": "record", "arguments": {"what": "two"}}]}"#;

const LOOKS: &str = r#"{"order": "graph", "steps": [
    {"tool": "look", "arguments": {"what": "here"}},
    {"tool": "look", "arguments": {"what": "there"}},
    {"tool": "look", "arguments": {"what": "back"}, "depends_on": ["1"]}]}"#;

fn json_of(output: &Output) -> Value {
    assert_eq!(output.code, Some(0), "{output:?}");
    let lines: Vec<_> = output.out.lines().collect();
    assert_eq!(lines.len(), 1, "one object: {output:?}");
    serde_json::from_str(lines[0]).expect("JSON")
}

/// The number of the `nth` event of a kind, from 0.
fn nth(journal: &Journal, kind: &str, nth: usize) -> u64 {
    let events = journal.of_kind(kind);
    events[nth]["seq"].as_u64().expect("a number")
}

/// The journal that they have in common, and what makes the child its own.
fn check_child(place: &Place, parent: &Journal, child: &str, cut: u64) {
    let mine = place.journal(child);
    mine.check();
    let common = usize::try_from(cut).expect("a short journal");
    assert_eq!(mine.0[..common], parent.0[..common], "{child}");
    let forked = &mine.0[common];
    assert_eq!(forked["kind"], "forked_from");
    assert_eq!(
        (&forked["session"], &forked["at_seq"]),
        (&json!("s"), &json!(cut))
    );
    assert_eq!(place.state(child, cut), place.state("s", cut), "{child}");
}

fn a_session_is_forked_at_any_point(place: &Place) {
    place.done(&["run", "--session", "s", GOAL]);
    place.done(&["memory", "set", "tone", "dry", "--session", "s"]);
    place.done(&["memory", "set", "tone", "warm", "--session", "s"]);
    let parent = place.journal("s");
    let last = parent.0.len() as u64;
    let mut cuts = vec![];
    for at in [
        1,
        2,
        last / 4,
        last / 2,
        nth(&parent, "step_completed", 1),
        last - 1,
        last,
    ] {
        let child = format!("at-{at}");
        let cut = place.fork("s", &child, &["--at", &at.to_string()]);
        assert!((1..=at).contains(&cut), "at {at}: {cut}");
        check_child(place, &parent, &child, cut);
        cuts.push((at, cut));
    }
    // What came from outside is a transition of its own.
    assert!(cuts.contains(&(last - 1, last - 1)), "{cuts:?}");
    assert!(
        cuts.iter().any(|(at, cut)| at > cut),
        "no cut fell back: {cuts:?}"
    );
    assert!(place.remembered(&format!("at-{last}")).contains("warm"));
    assert!(
        place
            .remembered(&format!("at-{}", last - 1))
            .contains("dry")
    );
    assert_eq!(place.remembered("at-1"), "");
    assert_eq!(place.journal("s"), parent);

    // One that had not ended continues to the same end, in a session of its own.
    let child = format!("at-{}", last / 2);
    assert_eq!(place.status(&child), "paused");
    place.done(&["resume", &child]);
    let (mine, theirs) = (place.journal(&child), &parent);
    mine.check();
    let answer = |journal: &Journal| journal.of_kind("run_completed")[0]["answer"].clone();
    assert_eq!(answer(&mine), answer(theirs));
    // A fork of a fork has the same beginning as both.
    let cut = place.fork(&child, "grandchild", &["--at", &(last / 4).to_string()]);
    let grandchild = place.journal("grandchild");
    let common = usize::try_from(cut).expect("a short journal");
    assert_eq!(grandchild.0[..common], parent.0[..common]);
    assert_eq!(grandchild.0[common]["session"], json!(child));
    place.done(&["resume", "grandchild"]);
    assert_eq!(answer(&place.journal("grandchild")), answer(theirs));
}

fn what_had_effects_is_not_done_again(place: &Place) {
    place.done(&["run", "--session", "s", "--plan", "plan.json"]);
    let parent = place.journal("s");
    assert_eq!((place.recorded("one"), place.recorded("two")), (1, 1));

    // After the whole run there is nothing left to do.
    place.fork("s", "whole", &["--go-on"]);
    assert_eq!(place.status("whole"), "completed");

    // In the midst of the second call: it was made, and the child cannot know.
    let at = nth(&parent, "call_intended", 1);
    let cut = place.fork(
        "s",
        "midst",
        &["--at", &at.to_string(), "--title", "Another"],
    );
    check_child(place, &parent, "midst", cut);
    assert_eq!(cut, at, "the intent ends its transition");
    let open = json_of(&place.run(&["pending", "midst", "--json"]));
    assert_eq!(
        (&open["tool"], &open["answered"]),
        (&json!("record"), &json!(false))
    );
    let id = open["id"].as_str().expect("an id");
    let theirs = parent.recorded_in(&json!(2));
    place.done(&["decide", "midst", id, "done", "--output", &theirs]);
    settled(place, "midst");
    place.done(&["resume", "midst"]);
    assert_eq!(place.status("midst"), "completed");
    assert_eq!((place.recorded("one"), place.recorded("two")), (1, 1));
    let shown = json_of(&place.run(&["show", "midst", "--json"]));
    assert_eq!(shown["session"]["title"], "Another", "{shown}");
    assert_eq!(shown["session"]["forked_from"]["seq"], cut);

    // Before the second call: the child makes it, as its own.
    let before = nth(&parent, "call_intended", 0);
    let open = place.fork("s", "before", &["--at", &before.to_string()]);
    assert_eq!(open, before);
    let id = json_of(&place.run(&["pending", "before", "--json"]))["id"].clone();
    let id = id.as_str().expect("an id");
    place.done(&["decide", "before", id, "done", "--output", "recorded"]);
    settled(place, "before");
    place.done(&["resume", "before"]);
    assert_eq!((place.recorded("one"), place.recorded("two")), (1, 2));
    let uses = place.site.ledger().uses();
    assert!(uses.values().all(|&times| times == 1), "{uses:?}");
}

/// Waits until a session has no open question any more.
fn settled(place: &Place, session: &str) {
    eventually("no open question", || {
        let open = place.done(&["pending", session, "--json"]).out;
        open.is_empty().then_some(())
    });
}

/// Nobody waits in a fork for the answer to what was asked of its parent.
fn what_nobody_had_answered_is_asked_again(place: &Place) {
    place.done(&["run", "--session", "s", "--plan", "plan.json"]);
    let at = nth(&place.journal("s"), "call_intended", 1);
    place.fork("s", "midst", &["--at", &at.to_string()]);
    let id = json_of(&place.run(&["pending", "midst", "--json"]))["id"].clone();
    let id = id.as_str().expect("an id");
    place.done(&["decide", "midst", id, "done", "--output", "recorded"]);
    let midst = place.journal("midst");
    let asked = nth(
        &midst,
        "command_received",
        midst.of_kind("command_received").len() - 1,
    );
    assert_eq!(
        place.fork("midst", "unheard", &["--at", &asked.to_string()]),
        asked
    );
    let resumed = place.run(&["resume", "unheard"]);
    assert_eq!(resumed.code, Some(3), "{resumed:?}");
    assert!(resumed.out.contains("cairn decide unheard"), "{resumed:?}");
}

/// Whatever the cut, a child that continues comes to the end of its parent, or has no run; the parent's
/// calls with side effects are not made again.
fn a_fork_that_continues_comes_to_the_end(place: &Place) {
    place.site.write("look.json", LOOKS);
    // Without a name the session is made with its run, and so with what it begins.
    place.done(&["run", "--plan", "look.json"]);
    let made = json_of(&place.run(&["sessions", "--json"]));
    let s = made["id"].as_str().expect("an id");
    let parent = place.journal(s);
    let mut with_runs = 0;
    for at in 1..=parent.0.len() {
        let child = format!("at-{at}");
        place.fork(s, &child, &["--at", &at.to_string(), "--go-on"]);
        let journal = place.journal(&child);
        if journal.of_kind("run_started").is_empty() {
            assert!(at < 4, "only a creation has no run: {at}");
            continue;
        }
        with_runs += 1;
        place.done(&["resume", &child]);
        let journal = place.journal(&child);
        journal.check();
        assert_eq!(place.status(&child), "completed", "at {at}: {journal:?}");
    }
    assert_eq!(with_runs, parent.0.len() - 3);
}

/// What was sent in the parent keeps its key, so that a person finds it in the tool's own records, and
/// a tool that knows the key does nothing twice. What is new has a key of the child's own.
fn what_was_sent_keeps_its_key(place: &Place) {
    place.done(&["run", "--session", "s", "--plan", "plan.json"]);
    let parent = place.journal("s");
    let sent = place.site.ledger().uses();
    let at = nth(&parent, "call_intended", 0);
    place.fork("s", "child", &["--at", &at.to_string()]);
    place.fork("child", "grandchild", &[]);
    for session in ["child", "grandchild"] {
        let open = json_of(&place.run(&["pending", session, "--json"]));
        let key = open["call_key"].as_str().expect("a key");
        assert!(sent.contains_key(key), "{key} of {session} in {sent:?}");
    }
    // A fork that is paused is listed with what it asks.
    let listed = place.done(&["pending", "--json"]).out;
    assert!(listed.contains("\"child\""), "{listed}");
    assert!(listed.contains("\"grandchild\""), "{listed}");
    let id = json_of(&place.run(&["pending", "grandchild", "--json"]))["id"].clone();
    place.done(&["decide", "grandchild", id.as_str().expect("an id"), "retry"]);
    settled(place, "grandchild");
    place.done(&["resume", "grandchild"]);
    let after = place.site.ledger().uses();
    let first = sent.keys().filter(|key| after[*key] == 2).count();
    assert_eq!(first, 1, "with the key of the parent: {after:?}");
    assert_eq!(
        after.len(),
        sent.len() + 1,
        "and one with its own: {after:?}"
    );
}

#[test]
fn in_a_file_a_fork_that_continues_comes_to_the_end() {
    a_fork_that_continues_comes_to_the_end(&Place::over(TestStore::file()));
}

#[test]
fn in_a_file_what_nobody_had_answered_is_asked_again() {
    what_nobody_had_answered_is_asked_again(&Place::over(TestStore::file()));
}

#[test]
fn in_a_file_what_was_sent_keeps_its_key() {
    what_was_sent_keeps_its_key(&Place::over(TestStore::file()));
}

#[test]
fn in_a_file_a_session_is_forked_at_any_point() {
    a_session_is_forked_at_any_point(&Place::over(TestStore::file()));
}

#[test]
fn in_a_file_what_had_effects_is_not_done_again() {
    what_had_effects_is_not_done_again(&Place::over(TestStore::file()));
}

/// Each needs servers of Redis.
mod redis {
    use super::*;

    #[test]
    fn over_redis_a_fork_that_continues_comes_to_the_end() {
        a_fork_that_continues_comes_to_the_end(&Place::over(TestStore::redis()));
    }

    #[test]
    fn over_redis_what_was_sent_keeps_its_key() {
        what_was_sent_keeps_its_key(&Place::over(TestStore::redis()));
    }

    #[test]
    fn over_redis_a_session_is_forked_at_any_point() {
        a_session_is_forked_at_any_point(&Place::over(TestStore::redis()));
    }

    #[test]
    fn over_redis_what_had_effects_is_not_done_again() {
        what_had_effects_is_not_done_again(&Place::over(TestStore::redis()));
    }

    #[test]
    fn over_a_cluster_a_session_is_forked_at_any_point() {
        a_session_is_forked_at_any_point(&Place::over(TestStore::cluster()));
    }

    #[test]
    fn over_a_cluster_what_had_effects_is_not_done_again() {
        what_had_effects_is_not_done_again(&Place::over(TestStore::cluster()));
    }
}

#[test]
fn a_fork_that_is_asked_for_again_is_the_same_one() {
    let site = Site::new(CAIRN);
    site.write("plan.json", TWO);
    site.run(&["run", "--session", "s", "--plan", "plan.json"]);
    let fork = ["fork", "s", "--request-id", "once", "--json"];
    let first = json_of(&site.run(&fork));
    assert_eq!(json_of(&site.run(&fork)), first);
    assert_eq!(site.sessions().len(), 2);
    let other = site.run(&[&fork[..], &["--at", "1"]].concat());
    assert_eq!(other.code, Some(1), "{other:?}");
    assert!(other.err.contains("request"), "{other:?}");
    // A session of the same name is not written over, and the one that was copied may go.
    let id = first["session"].as_str().expect("an id");
    let taken = site.run(&["fork", "s", "--new-session", id]);
    assert_eq!(taken.code, Some(1), "{taken:?}");
    let reported = site.run(&["fork", id]);
    assert_eq!(reported.code, Some(0), "{reported:?}");
    assert!(
        reported.out.contains(&format!("forked from {id}")),
        "{reported:?}"
    );
}

/// Killed around each commit of a fork; what asks again makes one whole child.
#[cfg(debug_assertions)]
#[test]
fn a_fork_that_is_killed_is_not_there_or_whole() {
    for moment in ["before:1", "after:1", "before:2", "after:2"] {
        let site = Site::new(CAIRN);
        site.write("plan.json", TWO);
        site.run(&["run", "--session", "s", "--plan", "plan.json"]);
        let parent = site.journal("s");
        let fork = ["fork", "s", "--new-session", "c", "--request-id", "once"];
        let killed = site.run_with(&fork, &[("CAIRN_FAIL_COMMIT", moment)]);
        assert_eq!(killed.signal, Some(9), "{moment}: {killed:?}");
        let is_there = site.sessions().len() == 2;
        assert_eq!(is_there, moment == "after:2", "{moment}");
        let again = site.run(&fork);
        assert_eq!(again.code, Some(0), "{moment}: {again:?}");
        assert_eq!(site.sessions().len(), 2, "{moment}");
        let child = site.journal("c");
        child.check();
        assert_eq!(child.0[..parent.0.len()], parent.0[..], "{moment}");
        assert_eq!(child.of_kind("forked_from").len(), 1, "{moment}");
    }
}
