//! Commands for a run whose process has died, given by a process that comes for just that: what a
//! person says is durable before anything else is, and no other session is touched.

use crate::support::CAIRN;
use cairn_testkit::{Journal, Site};

const SIGKILL: i32 = 9;
/// The run ends with some commit after this.
const MOST_COMMITS: usize = 12;

const PLAN: &str = r#"{"steps": [
  {"title": "Look", "tool": "look", "arguments": {"what": "around"}},
  {"title": "Record one", "tool": "record", "arguments": {"what": "one"}},
  {"title": "Look back", "tool": "look", "arguments": {"what": "back"}},
  {"title": "Record two", "tool": "record", "arguments": {"what": "two"}}
]}"#;

/// Runs the plan in a session; says whether its process was killed on the way.
fn crashes(site: &Site, session: &str, fail: &str) -> bool {
    let arguments = ["run", "--plan", "plan.json", "--session", session, "--json"];
    let output = site.run_with(&arguments, &[("CAIRN_FAIL_COMMIT", fail)]);
    match output.code {
        Some(0) => false,
        None => {
            assert_eq!(output.signal, Some(SIGKILL), "{output:?}");
            site.wait_for_programs();
            true
        }
        _ => panic!("the run failed: {output:?}"),
    }
}

/// What the journal got since, by kind.
fn since(before: &Journal, after: &Journal) -> Vec<String> {
    assert_eq!(after.0[..before.0.len()], before.0[..], "nothing is lost");
    let new = after.0[before.0.len()..].iter();
    new.map(|event| event["kind"].as_str().expect("a kind").to_owned())
        .collect()
}

/// Kills the process of the run around each of its commits, has the command given, and looks at what
/// that led to.
fn after_each_crash(command: &[&str], check: impl Fn(&Site, &Journal, &str)) {
    let mut others_open = 0;
    for when in ["before", "after"] {
        for commit in 1..MOST_COMMITS {
            let site = Site::new(CAIRN);
            site.write("plan.json", PLAN);
            assert!(crashes(&site, "other", "after:1"), "the other run ends");
            let fail = format!("{when}:{commit}");
            if !crashes(&site, "session", &fail) {
                break;
            }
            if !site.sessions().contains(&"session".to_owned()) {
                continue;
            }
            let (before, other) = (site.journal("session"), site.journal("other"));
            if !before.of_kind("run_completed").is_empty() {
                break;
            }
            // The session is there, and the wish for its run was not stored.
            if before.of_kind("command_received").is_empty() {
                let output = site.run(command);
                assert_eq!(output.code, Some(1), "{fail}: {output:?}");
                assert!(output.err.contains("has no run yet"), "{}", output.err);
                continue;
            }
            others_open += usize::from(other.of_kind("run_completed").is_empty());
            let (made, looked) = (site.ledger().uses(), site.looks().uses());
            let output = site.run(command);
            assert_eq!(output.code, Some(0), "{fail}: {output:?}");
            assert_eq!(site.ledger().uses(), made, "{fail}");
            assert_eq!(site.looks().uses(), looked, "{fail}");
            assert_eq!(site.journal("other"), other, "{fail}: the other session");
            let after = site.journal("session");
            after.check();
            let new = since(&before, &after);
            assert_eq!(new[0], "command_received", "{fail}: {new:?}");
            assert!(
                !new.contains(&"call_intended".to_owned()),
                "{fail}: {new:?}"
            );
            check(&site, &after, &fail);
        }
    }
    println!("{others_open} times the other run was open");
    assert!(others_open > 2, "the other session had something to do");
}

#[test]
fn a_run_that_is_cancelled_calls_nothing_any_more() {
    after_each_crash(&["cancel", "session"], |site, journal, fail| {
        let last = journal.0.last().expect("events");
        assert_eq!(last["kind"], "run_cancelled", "{fail}");
        // Whoever comes next finds nothing to do.
        let ledger = site.ledger().uses();
        let output = site.run(&["resume", "session", "--json"]);
        assert_ne!(output.code, None, "{output:?}");
        assert_eq!(site.ledger().uses(), ledger, "{fail}");
    });
}

#[test]
fn a_run_that_is_paused_begins_nothing() {
    after_each_crash(&["pause", "session"], |_, journal, fail| {
        assert_eq!(journal.of_kind("run_paused").len(), 1, "{fail}");
    });
}

/// The old plan is not carried on while a person looks at what the new one would change.
#[test]
fn a_run_that_gets_another_plan_carries_out_nothing_until_then() {
    let feedback = ["feedback", "session", "--yes", "look for Redis, too"];
    after_each_crash(&feedback, |_, journal, fail| {
        assert!(journal.of_kind("plan_applied").len() > 1, "{fail}");
    });
}
