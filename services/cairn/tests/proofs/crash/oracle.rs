//! What must hold at the end, as pure checks of what was seen. Each finding names the session.

#[cfg(test)]
#[path = "oracle_tests.rs"]
mod tests;

use super::wanted::{RECORD, SPEND};
pub(crate) use super::watched::{End, Reported, Said, Started, Watched, What};
use cairn_engine::event::{AttemptRef, CallRef};
use cairn_engine::key::call_key;
use cairn_testkit::Journal;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::catch_unwind;

/// The namespace of everybody who does not say who they are.
const NAMESPACE: &str = "default";

/// How often each call was carried out, by its key, as the tool itself wrote it down.
pub(crate) type Ledger = BTreeMap<String, u32>;

/// Checks one run against its journal, which is `None` if there is none, and the ledger.
pub(crate) fn check(watched: &Watched, journal: Option<&[Value]>, ledger: &Ledger) -> Vec<String> {
    let mut findings = starts(watched);
    findings.extend(watched.odd.iter().map(|odd| format!("was answered {odd}")));
    findings.extend(end(watched));
    findings.extend(arrivals(watched));
    findings.extend(watched.overdue.iter().map(|(cursor, stored)| {
        format!("a watcher was at event {cursor} and was not sent those up to {stored}")
    }));
    match journal {
        None if watched.starts.is_empty() => {}
        None => findings.push("an acknowledged start was lost: there is no journal".to_owned()),
        Some(events) => {
            findings.extend(lost(watched, events));
            findings.extend(whole(events));
            findings.extend(one_run(events, end_of(&watched.end)));
            findings.extend(calls(watched, events, ledger));
        }
    }
    let name = format!("{} ({})", watched.session(), watched.request);
    let named = findings.into_iter().map(|it| format!("{name}: {it}"));
    named.collect()
}

/// Checks that every session belongs to one request, every request has one, and nothing was called
/// that no run has called.
pub(crate) fn check_all(
    watched: &[Watched],
    listed: &[String],
    calls: &BTreeSet<String>,
    ledger: &Ledger,
) -> Vec<String> {
    let mut findings = Vec::new();
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    for run in watched.iter().filter(|run| !run.starts.is_empty()) {
        if let Some(other) = owners.insert(run.session(), &run.request) {
            let (session, request) = (run.session(), &run.request);
            findings.push(format!("{session}: belongs to {other} and to {request}"));
        }
    }
    let known: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
    if known.len() != listed.len() {
        findings.push(format!("{} sessions are listed twice", listed.len()));
    }
    for (session, request) in &owners {
        if !known.contains(session) {
            findings.push(format!("{session} ({request}): is not in the list"));
        }
    }
    for session in known.iter().filter(|it| !owners.contains_key(**it)) {
        findings.push(format!("{session}: nobody asked for it"));
    }
    for (key, times) in ledger.iter().filter(|(key, _)| !calls.contains(*key)) {
        findings.push(format!(
            "the call {key} happened {times} times and is no run's"
        ));
    }
    findings
}

/// Checks that no session waits in a queue when all runs have ended.
pub(crate) fn check_queues(queued: &[String]) -> Vec<String> {
    let findings = queued.iter();
    let findings = findings.map(|it| format!("is still in a queue when all has ended: {it}"));
    findings.collect()
}

/// A request has one answer, however often it is repeated.
fn starts(watched: &Watched) -> Vec<String> {
    let Some(first) = watched.starts.first() else {
        return vec!["the start was never acknowledged".to_owned()];
    };
    let others = watched.starts.iter().filter(|other| *other != first);
    let findings = others.map(|other| format!("one request, two starts: {first:?}, {other:?}"));
    findings.collect()
}

/// Events come in order, without gaps and not twice, over all reconnects.
fn arrivals(watched: &Watched) -> Vec<String> {
    let mut findings = Vec::new();
    let mut last = 0;
    for (seq, event) in &watched.seen {
        if *seq <= last {
            findings.push(format!("event {seq} came again after {last}: {event}"));
        } else if *seq > last + 1 {
            findings.push(format!("a watcher got {seq} after {last}: {event}"));
        }
        last = last.max(*seq);
    }
    findings
}

/// What was seen is in the journal as it was seen.
fn lost(watched: &Watched, events: &[Value]) -> Vec<String> {
    let mut findings = Vec::new();
    for (seq, seen) in &watched.seen {
        let at = usize::try_from(*seq).unwrap_or(usize::MAX);
        let stored = at.checked_sub(1).and_then(|at| events.get(at));
        match stored.map(Value::to_string) {
            None => findings.push(format!(
                "event {seq} was seen and is lost, the journal has {}: {seen}",
                events.len()
            )),
            Some(stored) if stored != *seen => {
                findings.push(format!(
                    "event {seq} was seen as {seen} and is now {stored}"
                ));
            }
            Some(_) => {}
        }
    }
    findings
}

/// What holds of any journal.
fn whole(events: &[Value]) -> Vec<String> {
    let numbers = events.iter().map(|event| event["seq"].as_u64());
    let wrong = numbers.zip(1..).find(|(seq, want)| *seq != Some(*want));
    if let Some((seq, want)) = wrong {
        return vec![format!("the journal has {seq:?} in the place of {want}")];
    }
    let journal = Journal(events.to_vec());
    let Err(panic) = catch_unwind(|| journal.check()) else {
        return Vec::new();
    };
    let said = panic.downcast_ref::<String>().cloned();
    let said = said.or_else(|| panic.downcast_ref::<&str>().map(|&it| it.to_owned()));
    vec![format!("the journal: {}", said.unwrap_or_default())]
}

/// What holds of the journal of a session with one run that has completed.
pub(crate) fn journal(events: &[Value]) -> Vec<String> {
    let mut findings = whole(events);
    findings.extend(one_run(events, "run_completed"));
    findings
}

pub(crate) fn kind<'a>(events: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["kind"] == kind)
}

/// A run ends as its client wished, and else it completes.
fn end(watched: &Watched) -> Option<String> {
    let is_cancel = |said: &Said| said.what == What::Cancel;
    let is_denial = |said: &Said| matches!(&said.what, What::Decide(it) if it["deny"].is_object());
    let wanted = match watched.accepted().any(is_cancel) {
        true => "run_cancelled",
        false if watched.accepted().any(is_denial) => "run_failed",
        false => "run_completed",
    };
    match &watched.end {
        End::Otherwise(how) => Some(format!("did not complete: {how}")),
        end if end_of(end) != wanted => {
            Some(format!("{wanted} is its end, and it came to {end:?}"))
        }
        _ => None,
    }
}

fn end_of(end: &End) -> &'static str {
    match end {
        End::Completed | End::Otherwise(_) => "run_completed",
        End::Failed(_) => "run_failed",
        End::Cancelled => "run_cancelled",
    }
}

/// One run, which ended once, and once more for each plan that it was given after its end.
fn one_run(events: &[Value], end: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for name in ["session_created", "run_started"] {
        let times = kind(events, name).count();
        if times != 1 {
            let last = events.last().map(Value::to_string).unwrap_or_default();
            findings.push(format!("{times} events {name}; the last event is {last}"));
        }
    }
    let mut ended: Option<&str> = None;
    for event in events {
        let kind = event["kind"].as_str().unwrap_or_default();
        let is_end = matches!(kind, "run_completed" | "run_failed" | "run_cancelled");
        if is_end && ended.replace(kind).is_some() {
            findings.push(format!("it ended again: {event}"));
        } else if kind == "plan_applied" {
            ended = None;
        }
    }
    if ended != Some(end) {
        let last = events.last().map(Value::to_string).unwrap_or_default();
        findings.push(format!(
            "{ended:?} ended it, not {end}; the last event is {last}"
        ));
    }
    findings
}

/// Calls with side effects happen once, and those that ended happened. Who has one made again has
/// waited until it could no longer be running, and looked: it had not happened, and never will.
fn calls(watched: &Watched, events: &[Value], ledger: &Ledger) -> Vec<String> {
    let mut findings = Vec::new();
    for (key, call) in effects(watched.session(), events) {
        let times = ledger.get(&key).copied().unwrap_or(0);
        if times > 1 {
            findings.push(format!("{call} happened {times} times: {key}"));
        }
    }
    let recorded = recorded_steps(events);
    for event in kind(events, "step_completed") {
        let attempt = attempt_ref(&event["attempt"]);
        let is_record = recorded.contains(&(attempt.run, attempt.step.into()));
        let key = key_of(watched.session(), attempt, 0, 0);
        if is_record && !ledger.contains_key(&key) {
            findings.push(format!(
                "step {} has ended and its call never happened: {key}",
                attempt.step
            ));
        }
    }
    findings
}

/// The keys of all calls with side effects that a journal knows of, with their names.
pub(crate) fn effects(session: &str, events: &[Value]) -> BTreeMap<String, String> {
    let calls = kind(events, "call_intended").map(|event| {
        let call = &event["call"];
        (call_key_of(session, call), format!("the call {call}"))
    });
    calls.collect()
}

/// Run and number of the steps that call a tool with a ledger.
fn recorded_steps(events: &[Value]) -> BTreeSet<(u32, u32)> {
    let steps = steps(events).into_iter();
    let steps =
        steps.filter(|(_, step)| step["tool"]["name"] == RECORD || step["tool"]["name"] == SPEND);
    steps.map(|(place, _)| place).collect()
}

/// All steps that were ever planned, by run and number.
pub(crate) fn steps(events: &[Value]) -> BTreeMap<(u32, u32), &Value> {
    let plans = kind(events, "plan_applied");
    let steps = plans.flat_map(|event| {
        let run = event["run"].as_u64().unwrap_or_default() as u32;
        let numbered = numbered(event).into_iter();
        numbered.map(move |(number, step)| ((run, number), step))
    });
    steps.collect()
}

/// The steps of a plan with their numbers, which are their places unless it says otherwise.
pub(crate) fn numbered(applied: &Value) -> Vec<(u32, &Value)> {
    let steps = applied["plan"]["steps"].as_array().into_iter().flatten();
    let number = |place: usize| {
        let given = applied["numbers"].get(place).and_then(Value::as_u64);
        given.unwrap_or(place as u64 + 1) as u32
    };
    let numbered = steps.enumerate().map(|(place, step)| (number(place), step));
    numbered.collect()
}

/// The key of a call, as journals name it.
pub(crate) fn call_key_of(session: &str, call: &Value) -> String {
    let number = |name: &str| call[name].as_u64().unwrap_or_default() as u32;
    let attempt = attempt_ref(&call["attempt"]);
    key_of(session, attempt, number("tool_turn"), number("index"))
}

pub(crate) fn attempt_ref(value: &Value) -> AttemptRef {
    let number = |name: &str| value[name].as_u64().unwrap_or_default() as u32;
    AttemptRef {
        run: number("run"),
        step: number("step").into(),
        attempt: number("attempt"),
    }
}

pub(crate) fn key_of(session: &str, attempt: AttemptRef, tool_turn: u32, index: u32) -> String {
    let call = CallRef {
        attempt,
        tool_turn,
        index,
    };
    call_key(NAMESPACE, session, call)
}
