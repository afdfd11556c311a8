//! Each check finds what it is for, in histories that were made up.

use super::*;
use serde_json::json;

const SESSION: &str = "s-1";

/// A run of one step that records, as it should be.
fn journal() -> Vec<Value> {
    let attempt = json!({"run": 1, "step": 1, "attempt": 1});
    let call = json!({"attempt": attempt, "tool_turn": 0, "index": 0});
    let plan = json!({"order": "chain", "steps": [{"tool": {"name": "record"}}]});
    let events = [
        json!({"kind": "session_created"}),
        json!({"kind": "run_started", "run": 1}),
        json!({"kind": "plan_applied", "run": 1, "plan": plan}),
        json!({"kind": "step_started", "attempt": attempt}),
        json!({"kind": "call_intended", "call": call}),
        json!({"kind": "call_finished", "call": call, "output": "recorded"}),
        json!({"kind": "step_completed", "attempt": attempt}),
        json!({"kind": "run_completed", "run": 1}),
    ];
    let numbered = events.into_iter().zip(1..).map(|(mut event, seq)| {
        event["seq"] = json!(seq);
        event
    });
    numbered.collect()
}

fn key() -> String {
    let attempt = AttemptRef {
        run: 1,
        step: 1.into(),
        attempt: 1,
    };
    key_of(SESSION, attempt, 0, 0)
}

fn ledger(times: u32) -> Ledger {
    let uses = (times > 0).then(|| (key(), times));
    uses.into_iter().collect()
}

fn start() -> Started {
    Started {
        session: SESSION.to_owned(),
        run: 1,
        seq: 2,
    }
}

fn watched() -> Watched {
    let seen = journal().into_iter().zip(1..);
    Watched {
        starts: vec![start(), start()],
        seen: seen.map(|(event, seq)| (seq, event.to_string())).collect(),
        ..Watched::new("r-1")
    }
}

/// Panics unless there is one finding, which names the session and says this.
#[track_caller]
fn finds(findings: &[String], what: &str) {
    let all = findings.iter();
    let named = all.clone().all(|it| it.contains(SESSION));
    assert!(named, "{findings:#?}");
    assert_eq!(
        all.filter(|it| it.contains(what)).count(),
        1,
        "{findings:#?}"
    );
}

#[track_caller]
fn finds_in_journal(change: impl FnOnce(&mut Vec<Value>), what: &str) {
    let mut journal = journal();
    change(&mut journal);
    finds(&check(&watched(), Some(&journal), &ledger(1)), what);
}

#[track_caller]
fn finds_in_watch(change: impl FnOnce(&mut Watched), what: &str) {
    let mut watched = watched();
    change(&mut watched);
    finds(&check(&watched, Some(&journal()), &ledger(1)), what);
}

#[test]
fn a_good_history_has_no_findings() {
    let none: Vec<String> = Vec::new();
    assert_eq!(check(&watched(), Some(&journal()), &ledger(1)), none);
    let calls = effects(SESSION, &journal()).into_keys().collect();
    let listed = [SESSION.to_owned()];
    assert_eq!(check_all(&[watched()], &listed, &calls, &ledger(1)), none);
    assert_eq!(check_queues(&[]), none);
}

#[test]
fn a_lost_event_is_found() {
    finds_in_journal(
        |journal| _ = journal.pop(),
        "event 8 was seen and is lost, the journal has 7",
    );
}

#[test]
fn a_changed_event_is_found() {
    finds_in_journal(
        |journal| journal[5]["output"] = json!("other"),
        "event 6 was seen as",
    );
}

#[test]
fn a_gap_in_the_journal_is_found() {
    finds_in_journal(
        |journal| {
            journal.remove(3);
        },
        "the journal has Some(5) in the place of 4",
    );
}

#[test]
fn a_step_that_ends_twice_is_found() {
    finds_in_journal(
        |journal| {
            let mut again = journal[6].clone();
            again["seq"] = json!(9);
            journal.push(again);
        },
        "ended twice",
    );
}

#[test]
fn a_run_that_is_doubled_is_found() {
    finds_in_journal(
        |journal| {
            journal.push(json!({"kind": "run_started", "run": 2, "seq": 9}));
        },
        "2 events run_started",
    );
}

#[test]
fn a_gap_in_a_watch_is_found() {
    finds_in_watch(|it| _ = it.seen.remove(3), "a watcher got 5 after 3");
}

#[test]
fn an_event_that_comes_twice_is_found() {
    finds_in_watch(
        |it| it.seen.insert(3, it.seen[2].clone()),
        "event 3 came again after 3",
    );
}

#[test]
fn a_run_that_does_not_end_is_found() {
    finds_in_watch(
        |it| it.end = End::Otherwise("nothing for 90 s".to_owned()),
        "did not complete: nothing for 90 s",
    );
}

#[test]
fn a_run_that_ends_as_nobody_asked_is_found() {
    finds_in_watch(|it| it.end = End::Cancelled, "its end, and it came to");
    finds_in_watch(
        |it| it.end = End::Failed("?".to_owned()),
        "its end, and it came to",
    );
    let change = |what| Said {
        request: "wish".to_owned(),
        what,
        reported: Reported::Accepted(0),
        asked_at: 0,
        reported_at: 0,
    };
    let cancel = change(What::Cancel);
    finds_in_watch(|it| it.said.push(cancel), "run_cancelled is its end");
    let deny = change(What::Decide(json!({"deny": {"reason": ""}})));
    finds_in_watch(|it| it.said.push(deny), "run_failed is its end");
}

#[test]
fn a_run_that_ends_otherwise_than_it_was_seen_is_found() {
    finds_in_journal(
        |journal| journal[7]["kind"] = json!("run_failed"),
        "ended it, not run_completed",
    );
}

#[test]
fn a_run_that_ends_again_is_found_unless_it_has_another_plan() {
    let mut journal = journal();
    let mut again = |number: usize, kind: &str, seq: u64| {
        let mut event = journal[number].clone();
        event["kind"] = json!(kind);
        event["seq"] = json!(seq);
        journal.push(event);
        check(&watched(), Some(&journal), &ledger(1))
    };
    let none: Vec<String> = Vec::new();
    // Between the two there is a run that has not ended.
    finds(&again(2, "plan_applied", 9), "None ended it");
    assert_eq!(again(7, "run_completed", 10), none);
    finds(&again(7, "run_completed", 11), "it ended again");
}

#[test]
fn an_odd_answer_is_found() {
    finds_in_watch(|it| it.odd.push("Internal".to_owned()), "answered Internal");
}

#[test]
fn a_lost_start_is_found() {
    finds(&check(&watched(), None, &ledger(1)), "start was lost");
    let listed: [String; 0] = [];
    let calls = effects(SESSION, &journal()).into_keys().collect();
    let findings = check_all(&[watched()], &listed, &calls, &ledger(1));
    finds(&findings, "is not in the list");
}

#[test]
fn two_answers_to_one_request_are_found() {
    finds_in_watch(|it| it.starts[1].run = 2, "one request, two starts");
}

#[test]
fn a_session_that_nobody_asked_for_is_found() {
    let calls = effects(SESSION, &journal()).into_keys().collect();
    let listed = [SESSION.to_owned(), "s-12".to_owned()];
    let findings = check_all(&[watched()], &listed, &calls, &ledger(1));
    finds(&findings, "s-12: nobody asked for it");
}

#[test]
fn a_session_of_two_requests_is_found() {
    let mut other = watched();
    other.request = "r-2".to_owned();
    let calls = effects(SESSION, &journal()).into_keys().collect();
    let listed = [SESSION.to_owned()];
    let findings = check_all(&[watched(), other], &listed, &calls, &ledger(1));
    finds(&findings, "belongs to r-1 and to r-2");
}

#[test]
fn a_doubled_call_is_found() {
    let findings = check(&watched(), Some(&journal()), &ledger(2));
    finds(&findings, "happened 2 times");
}

#[test]
fn a_watcher_that_is_not_sent_what_is_stored_is_found() {
    let mut watched = watched();
    watched.overdue.push((2, 3));
    let findings = check(&watched, Some(&journal()), &ledger(1));
    finds(&findings, "was at event 2 and was not sent those up to 3");
}

#[test]
fn a_call_that_never_happened_is_found() {
    let findings = check(&watched(), Some(&journal()), &ledger(0));
    finds(&findings, "its call never happened");
}

#[test]
fn a_call_that_is_no_runs_is_found() {
    let listed = [SESSION.to_owned()];
    let findings = check_all(&[watched()], &listed, &BTreeSet::new(), &ledger(1));
    let [finding] = findings.as_slice() else {
        panic!("{findings:#?}");
    };
    assert!(finding.contains("is no run's"), "{finding}");
}

#[test]
fn a_session_that_is_still_queued_is_found() {
    let findings = check_queues(&["due default/s-1".to_owned()]);
    finds(&findings, "due default/s-1");
}
