//! Each check finds what it is for, in histories that were made up.

use super::super::oracle::{End, Started};
use super::*;
use serde_json::json;

const SESSION: &str = "s-1";
const NAME: &str = "r-1";

fn attempt(step: u32) -> Value {
    json!({"run": 1, "step": step, "attempt": 1})
}

fn call(step: u32) -> Value {
    json!({"attempt": attempt(step), "tool_turn": 0, "index": 0})
}

fn key(step: u32) -> String {
    call_key_of(SESSION, &call(step))
}

fn step(tool: &str, what: &str) -> Value {
    let arguments = format!(r#"{{"what":"{NAME} {what}"}}"#);
    json!({"tool": {"name": tool, "arguments_json": arguments}})
}

fn command(request: &str) -> Value {
    json!({"kind": "command_received", "request_id": request})
}

fn intended(step: u32) -> Value {
    let call = call(step);
    json!({"kind": "call_intended", "call": call, "not_after_unix_ms": 2000, "time_limit_ms": 500})
}

fn started(step: u32) -> Value {
    json!({"kind": "step_started", "attempt": attempt(step)})
}

fn completed(step: u32) -> Value {
    json!({"kind": "step_completed", "attempt": attempt(step)})
}

fn plan(steps: &[Value]) -> Value {
    json!({"order": "chain", "steps": steps})
}

fn applied(seq: u64, numbers: &[u32], steps: &[Value]) -> Value {
    let plan = plan(steps);
    json!({"kind": "plan_applied", "run": 1, "plan": plan, "numbers": numbers, "answers": seq})
}

fn decided(seq: u64, step: u32, settlement: &Value) -> Value {
    let id = format!("approval-1.{step}.1.0.0");
    json!({"kind": "decided", "answers": seq, "pending_id": id, "settlement": settlement})
}

fn numbered_events(events: Vec<Value>) -> Vec<Value> {
    let numbered = events.into_iter().zip(1..).map(|(mut event, seq)| {
        event["seq"] = json!(seq);
        event
    });
    numbered.collect()
}

fn said(request: &str, what: What, seq: u64, asked_at: i64, reported_at: i64) -> Said {
    Said {
        request: request.to_owned(),
        what,
        reported: Reported::Accepted(seq),
        asked_at,
        reported_at,
    }
}

fn watched(said: Vec<Said>) -> Watched {
    Watched {
        starts: vec![Started {
            session: SESSION.to_owned(),
            run: 1,
            seq: 1,
        }],
        said,
        end: End::Completed,
        ..Watched::new(NAME)
    }
}

/// What happened, what was said, and what the tools know.
struct History {
    events: Vec<Value>,
    said: Vec<Said>,
    outside: Outside,
}

impl History {
    fn findings(&self) -> Vec<String> {
        check(&watched(self.said.clone()), &self.events, &self.outside)
    }

    fn overlaps(&self) -> usize {
        overlapping(&watched(self.said.clone()), &self.events, &self.outside)
    }

    /// Changes the journal.
    fn edit(&mut self, change: impl FnOnce(&mut Vec<Value>)) {
        change(&mut self.events);
        self.events = numbered_events(std::mem::take(&mut self.events));
    }
}

/// Panics unless one of the findings says this.
#[track_caller]
fn finds(history: &History, what: &str) {
    let findings = history.findings();
    let says = |it: &&String| it.contains(what) && it.starts_with(SESSION);
    let says = findings.iter().filter(says).count();
    assert_eq!(says, 1, "{findings:#?}");
}

fn outside(done: &[(u32, &str, i64)]) -> Outside {
    let ledger = |(step, what, _): &(u32, &str, i64)| {
        format!("{} {{\"what\":\"{NAME} {what}\"}}\n", key(*step))
    };
    let begun = |(step, _, at): &(u32, &str, i64)| format!("{} {at}\n", key(*step));
    let ledger: String = done.iter().map(ledger).collect();
    let begun: String = done.iter().map(begun).collect();
    let uses = done.iter().map(|(step, ..)| (key(*step), 1)).collect();
    Outside::read(uses, &ledger, &begun)
}

/// One call is approved and made, another one is denied.
fn asking() -> History {
    let steps = [step(SPEND, "1"), step(SPEND, "2")];
    let events = vec![
        applied(0, &[], &steps),
        json!({"kind": "approval_requested", "call": call(1)}),
        json!({"kind": "approval_requested", "call": call(2)}),
        command("decide-approval-1.1.1.0.0"),
        decided(4, 1, &json!({"approve": {}})),
        intended(1),
        command("decide-approval-1.2.1.0.0"),
        decided(7, 2, &json!({"deny": {"reason": "no"}})),
    ];
    History {
        events: numbered_events(events),
        said: vec![
            said(
                "decide-approval-1.1.1.0.0",
                What::Decide(json!({"approve": {}})),
                0,
                1000,
                1010,
            ),
            said(
                "decide-approval-1.2.1.0.0",
                What::Decide(json!({"deny": {"reason": "no"}})),
                0,
                1100,
                1110,
            ),
        ],
        outside: outside(&[(1, "1", 1005)]),
    }
}

/// One call is made, then the run is held.
fn held_by(what: What) -> History {
    let (request, kind) = match what {
        What::Cancel => ("cancel", "run_cancelled"),
        _ => ("pause", "run_paused"),
    };
    let plan = [step("record", "1"), step("record", "2")];
    let events = vec![
        applied(0, &[], &plan),
        started(1),
        intended(1),
        completed(1),
        command(request),
        json!({"kind": kind, "answers": 5}),
    ];
    History {
        events: numbered_events(events),
        said: vec![said(request, what, 0, 1100, 1110)],
        outside: outside(&[(1, "1", 1005)]),
    }
}

/// Two steps of three are kept by another plan.
fn revised() -> History {
    let old = [
        step("record", "1"),
        step("record", "2"),
        step("record", "3"),
    ];
    let new = [
        step("record", "1"),
        step("record", "2"),
        step("record", "4"),
    ];
    let events = vec![
        applied(0, &[], &old),
        started(1),
        intended(1),
        completed(1),
        command("apply"),
        applied(5, &[1, 2, 4], &new),
        started(2),
        intended(2),
        completed(2),
    ];
    History {
        events: numbered_events(events),
        said: vec![said("apply", What::Apply(plan(&new)), 6, 1100, 1110)],
        outside: outside(&[(1, "1", 1005), (2, "2", 1205)]),
    }
}

#[test]
fn good_histories_have_no_findings() {
    let none: Vec<String> = Vec::new();
    let (cancelled, paused) = (held_by(What::Cancel), held_by(What::Pause));
    for history in [asking(), cancelled, paused, revised()] {
        assert_eq!(history.findings(), none);
    }
}

#[test]
fn an_answer_that_is_not_in_the_journal_is_found() {
    let mut history = held_by(What::Cancel);
    history.edit(|events| events.truncate(4));
    finds(&history, "cancel was answered and is there 0 times");
    let mut history = held_by(What::Cancel);
    history.edit(|events| _ = events.pop());
    finds(&history, "cancel has 0 answers run_cancelled");
}

#[test]
fn a_request_that_was_taken_twice_is_found() {
    let mut history = held_by(What::Pause);
    history.edit(|events| events.push(command("pause")));
    finds(&history, "pause was answered and is there 2 times");
    history.edit(|events| events[6] = events[5].clone());
    finds(&history, "pause has 2 answers run_paused");
}

#[test]
fn a_refusal_that_is_none_is_found() {
    let mut history = held_by(What::Pause);
    history.said[0].reported = Reported::Refused("RUN_ENDED".to_owned());
    finds(&history, "pause has 0 answers command_refused");
    history.edit(|events| {
        events[5] = json!({"kind": "command_refused", "answers": 5, "reason": "RUN_PAUSED"});
    });
    finds(&history, "pause was Said");
}

#[test]
fn another_answer_is_found() {
    let mut history = asking();
    history.said[0].what = What::Decide(json!({"retry": {}}));
    finds(&history, "decide-approval-1.1.1.0.0 was Said");
}

#[test]
fn a_call_that_nobody_approved_is_found() {
    let mut history = asking();
    history.edit(|events| events.swap(4, 5));
    finds(&history, "nobody had approved it");
}

#[test]
fn a_call_that_was_made_before_it_was_approved_is_found() {
    let mut history = asking();
    history.outside = outside(&[(1, "1", 995)]);
    finds(
        &history,
        "decide-approval-1.1.1.0.0 was made before: Some(995)",
    );
}

#[test]
fn a_denied_call_that_is_made_is_found() {
    let mut history = asking();
    history.edit(|events| events.push(intended(2)));
    finds(&history, "was denied and is intended all the same");
    let mut history = asking();
    history.outside = outside(&[(1, "1", 1005), (2, "2", 1200)]);
    finds(&history, "was denied and happened 1 times");
}

#[test]
fn what_begins_in_a_run_that_is_held_is_found() {
    for what in [What::Cancel, What::Pause] {
        for event in [started(2), intended(2), json!({"kind": "run_completed"})] {
            let mut history = held_by(what.clone());
            let wrong = event["kind"].to_string();
            history.edit(|events| events.push(event));
            finds(&history, &format!(r#""kind":{wrong}"#));
        }
    }
    let mut history = held_by(What::Cancel);
    history.edit(|events| events.push(completed(2)));
    finds(&history, r#""kind":"step_completed""#);
    let resumed = json!({"kind": "run_resumed", "answers": 7});
    let mut history = held_by(What::Cancel);
    history.edit(|events| events.extend([resumed, started(2)]));
    finds(&history, r#""kind":"step_started""#);
}

#[test]
fn what_ends_or_is_taken_back_in_a_paused_run_is_right() {
    let mut history = held_by(What::Pause);
    history.edit(|events| {
        events.push(completed(2));
        let mut back = intended(2);
        back["not_after_unix_ms"] = json!(0);
        events.push(back);
        events.push(command("resume"));
        events.push(json!({"kind": "run_resumed", "answers": 9}));
        events.push(started(2));
    });
    assert_eq!(history.findings(), Vec::<String>::new());
    history.edit(|events| drop(events[9]["answers"].take()));
    finds(&history, r#""kind":"step_started""#);
}

#[test]
fn a_call_that_the_tools_know_of_too_late_is_found() {
    for what in [What::Cancel, What::Pause] {
        // It was intended before, and may begin until then.
        let mut history = held_by(what.clone());
        history.outside = outside(&[(1, "1", 2500)]);
        assert_eq!(history.findings(), Vec::<String>::new());
        assert_eq!(history.overlaps(), 1);
        history.outside = outside(&[(1, "1", 2501)]);
        finds(&history, "began at 2501");
    }
    assert_eq!(held_by(What::Pause).overlaps(), 0);
}

#[test]
fn a_call_of_a_paused_run_that_was_intended_later_is_found() {
    let mut history = held_by(What::Pause);
    history.edit(|events| {
        events.push(command("resume"));
        events.push(json!({"kind": "run_resumed", "answers": 7}));
        events.push(intended(2));
    });
    history
        .said
        .push(said("resume", What::Resume, 0, 1500, 1510));
    history.outside = outside(&[(1, "1", 1005), (2, "2", 1505)]);
    assert_eq!(history.findings(), Vec::<String>::new());
    history.outside = outside(&[(1, "1", 1005), (2, "2", 1405)]);
    finds(&history, "began at 1405");
}

#[test]
fn a_plan_that_is_not_the_one_that_was_sent_is_found() {
    let mut history = revised();
    history.edit(|events| {
        let steps = events[5]["plan"]["steps"].as_array_mut().expect("steps");
        steps.pop();
    });
    finds(&history, "apply was Said");
    let mut history = revised();
    history.said[0].reported = Reported::Accepted(1);
    finds(&history, "apply was Said");
}

#[test]
fn a_step_that_was_not_kept_is_found() {
    let mut history = revised();
    history.edit(|events| events[5]["numbers"] = json!([4, 2, 5]));
    finds(&history, "step 1 had completed and is not kept");
    // One that depends on what has changed is another step.
    let mut history = revised();
    history.edit(|events| {
        events[0]["plan"]["steps"][0] = step("record", "0");
        events[5]["numbers"] = json!([4, 5, 6]);
    });
    assert_eq!(history.findings(), Vec::<String>::new());
    history.edit(|events| {
        events[0]["plan"]["order"] = json!("graph");
        events[3] = completed(2);
    });
    finds(&history, "step 2 had completed and is not kept");
}

#[test]
fn a_step_that_was_done_as_two_calls_is_found() {
    let mut history = revised();
    history.outside = outside(&[(1, "1", 1005), (4, "1", 1205)]);
    finds(&history, "was done as 2 calls");
}
