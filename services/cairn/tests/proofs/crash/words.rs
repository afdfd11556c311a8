//! What must hold of what clients said to their runs, as pure checks: of journals, and of what the
//! tools wrote down themselves. Each finding names the session.

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;

use super::oracle::{
    Ledger, Reported, Said, Watched, What, attempt_ref, call_key_of, kind, numbered, steps,
};
use super::wanted::SPEND;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What tools know, outside of Cairn.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    /// How often each call was carried out.
    pub(crate) uses: Ledger,
    /// The keys of the calls with these arguments.
    pub(crate) arguments: BTreeMap<String, BTreeSet<String>>,
    /// When a call began, by its key: milliseconds since 1970, each time.
    pub(crate) begun: BTreeMap<String, Vec<i64>>,
}

impl Outside {
    /// Reads lines with a key and arguments, and lines with a key and a time.
    pub(crate) fn read(uses: Ledger, ledger: &str, begun: &str) -> Self {
        let mut outside = Self {
            uses,
            ..Self::default()
        };
        for (key, arguments) in ledger.lines().filter_map(|line| line.split_once(' ')) {
            let keys = outside.arguments.entry(arguments.to_owned()).or_default();
            keys.insert(key.to_owned());
        }
        for (key, time) in begun.lines().filter_map(|line| line.split_once(' ')) {
            let times = outside.begun.entry(key.to_owned()).or_default();
            times.extend(time.parse::<i64>().ok());
        }
        outside
    }
}

/// Checks what one client said, and its run.
pub(crate) fn check(watched: &Watched, events: &[Value], outside: &Outside) -> Vec<String> {
    let mut findings: Vec<String> = Vec::new();
    for said in &watched.said {
        findings.extend(durable(said, events));
    }
    findings.extend(allowed(watched, events, outside));
    findings.extend(held(events));
    findings.extend(late(watched, events, outside));
    findings.extend(kept(watched, events, outside));
    let name = format!("{} ({})", watched.session(), watched.request);
    let named = findings.into_iter().map(|it| format!("{name}: {it}"));
    named.collect()
}

/// What was answered is in the journal, once, with that answer and as it was said.
fn durable(said: &Said, events: &[Value]) -> Option<String> {
    let request = &said.request;
    let received = kind(events, "command_received");
    let received: Vec<_> = received
        .filter(|event| event["request_id"] == **request)
        .collect();
    let [received] = received.as_slice() else {
        let times = received.len();
        return Some(format!("{request} was answered and is there {times} times"));
    };
    let seq = &received["seq"];
    let about = |event: &&Value| event["answers"] == *seq;
    let wanted = match (&said.reported, &said.what) {
        (Reported::Refused(reason), What::Feedback) if reason == "REVISION_FAILED" => {
            "revision_failed"
        }
        (Reported::Refused(_), _) => "command_refused",
        (_, What::Pause) => "run_paused",
        (_, What::Resume) => "run_resumed",
        (_, What::Cancel) => "run_cancelled",
        (_, What::Apply(_) | What::Feedback) => "plan_applied",
        (_, What::Decide(_)) => "decided",
    };
    let answers: Vec<_> = kind(events, wanted).filter(about).collect();
    let [answer] = answers.as_slice() else {
        let times = answers.len();
        return Some(format!("{request} has {times} answers {wanted}"));
    };
    let is_same = match (&said.reported, &said.what) {
        (Reported::Refused(reason), _) => {
            wanted == "revision_failed" || answer["reason"] == **reason
        }
        (Reported::Accepted(seq), What::Apply(plan)) => {
            answer["seq"] == *seq && answer["plan"] == *plan
        }
        (Reported::Accepted(seq), What::Feedback) => {
            answer["seq"] == *seq && !numbered(answer).is_empty()
        }
        (_, What::Decide(settlement)) => answer["settlement"] == *settlement,
        _ => true,
    };
    (!is_same).then(|| format!("{request} was {said:?} and came to {answer}"))
}

/// Whether it lets a call begin. One that is taken back has no last moment.
fn begins_call(event: &Value) -> bool {
    event["kind"] == "call_intended" && event["not_after_unix_ms"] != 0
}

/// A call that needs approval is not intended before somebody approved it, and not made before
/// somebody was going to; one that is denied never is.
fn allowed(watched: &Watched, events: &[Value], outside: &Outside) -> Vec<String> {
    let mut findings = Vec::new();
    let steps = steps(events);
    let needs_approval = |call: &Value| {
        let attempt = attempt_ref(&call["attempt"]);
        let step = steps.get(&(attempt.run, attempt.step.into()));
        step.is_some_and(|step| step["tool"]["name"] == SPEND)
    };
    let mut approved = BTreeSet::new();
    let mut denied = BTreeSet::new();
    for event in events {
        let call = match event["kind"] == "decided" {
            true => decided_call(events, event),
            false => &event["call"],
        };
        let name = call.to_string();
        if event["kind"] == "decided" {
            if event["settlement"]["approve"].is_object() {
                approved.insert(name);
            } else if event["settlement"]["deny"].is_object() {
                denied.insert(name.clone());
                let key = call_key_of(watched.session(), call);
                if let Some(times) = outside.uses.get(&key) {
                    findings.push(format!("{call} was denied and happened {times} times"));
                }
            }
        } else if begins_call(event) && denied.contains(&name) {
            findings.push(format!("was denied and is intended all the same: {event}"));
        } else if begins_call(event) && needs_approval(call) && !approved.contains(&name) {
            findings.push(format!("nobody had approved it: {event}"));
        }
    }
    for said in watched.said.iter() {
        let call = said.request.strip_prefix("decide-approval-");
        let call = call.and_then(|call| called(events, call));
        let key = call.map(|call| call_key_of(watched.session(), call));
        let begun = key.and_then(|key| outside.begun.get(&key)?.iter().min());
        if begun.is_some_and(|begun| *begun < said.asked_at) {
            findings.push(format!("{} was made before: {begun:?}", said.request));
        }
    }
    findings
}

/// The call that a decision is about; null for another question.
fn decided_call<'a>(events: &'a [Value], decided: &Value) -> &'a Value {
    let id = decided["pending_id"].as_str().unwrap_or_default();
    let place = id.split('-').nth(1).unwrap_or_default();
    called(events, place).unwrap_or(&Value::Null)
}

/// The call of this name, as in `approval-1.2.1.0.0`.
fn called<'a>(events: &'a [Value], name: &str) -> Option<&'a Value> {
    let name_of = |call: &Value| {
        let attempt = &call["attempt"];
        format!(
            "{}.{}.{}.{}.{}",
            attempt["run"], attempt["step"], attempt["attempt"], call["tool_turn"], call["index"]
        )
    };
    let mut calls = events.iter().map(|event| &event["call"]);
    calls.find(|call| call.is_object() && name_of(call) == name)
}

/// Nothing begins in a run that is paused or cancelled, nor does it come to an end by itself.
fn held(events: &[Value]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut held: Option<&Value> = None;
    for event in events {
        let is_cancelled = held.is_some_and(|by| by["kind"] == "run_cancelled");
        match event["kind"].as_str().unwrap_or_default() {
            "run_cancelled" | "run_paused" => held = Some(event),
            "run_resumed" if event["answers"].is_u64() && !is_cancelled => held = None,
            "step_started" | "run_completed" | "run_failed" => {}
            "attempt_continued" | "reply_received" | "step_completed" if is_cancelled => {}
            _ if begins_call(event) => {}
            _ => continue,
        }
        if let Some(by) = held.filter(|by| *by != event) {
            findings.push(format!("after {by} this: {event}"));
        }
    }
    findings
}

/// What tools know: a call that began after its run was known to be held had been intended before,
/// and began before it was too late for it. A frozen process can be late by as much as a call may
/// take, and no answer takes effect before.
fn late(watched: &Watched, events: &[Value], outside: &Outside) -> Vec<String> {
    let mut findings = Vec::new();
    for (said, until) in holds(watched) {
        let holding = events.iter().position(|event| answers(event, said, events));
        let before = &events[..holding.unwrap_or(0)];
        for (key, begun) in began_between(watched, events, outside, said.reported_at, until) {
            let intents = before.iter().filter(|event| begins_call(event));
            let mut intents =
                intents.filter(|event| call_key_of(watched.session(), &event["call"]) == key);
            let number = |event: &Value, name: &str| event[name].as_i64().unwrap_or_default();
            let last =
                |event: &Value| number(event, "not_after_unix_ms") + number(event, "time_limit_ms");
            if !intents.any(|event| begun <= last(event)) {
                let reported = (&said.request, said.reported_at);
                findings.push(format!("{reported:?}, and the call {key} began at {begun}"));
            }
        }
    }
    findings
}

/// How many calls began after their runs were known to be held; see `late`.
pub(crate) fn overlapping(watched: &Watched, events: &[Value], outside: &Outside) -> usize {
    let holds = holds(watched);
    let calls = holds.iter().map(|(said, until)| {
        began_between(watched, events, outside, said.reported_at, *until).len()
    });
    calls.sum()
}

/// What held the run, each until the client asked for it to go on.
fn holds(watched: &Watched) -> Vec<(&Said, i64)> {
    let resume = watched.said.iter().find(|said| said.what == What::Resume);
    let until = |said: &Said| match said.what {
        What::Cancel => Some(i64::MAX),
        What::Pause => Some(resume.map_or(i64::MAX, |resume| resume.asked_at)),
        _ => None,
    };
    let holds = watched
        .accepted()
        .filter_map(|said| Some((said, until(said)?)));
    holds.collect()
}

/// Whether that is the answer.
fn answers(event: &Value, said: &Said, events: &[Value]) -> bool {
    let mut received = kind(events, "command_received");
    let received = received.find(|event| event["request_id"] == *said.request);
    received.is_some_and(|received| event["answers"] == received["seq"])
}

/// The run's calls that began in this time, and when.
fn began_between(
    watched: &Watched,
    events: &[Value],
    outside: &Outside,
    from: i64,
    until: i64,
) -> Vec<(String, i64)> {
    let keys: BTreeSet<_> = kind(events, "call_intended")
        .map(|event| call_key_of(watched.session(), &event["call"]))
        .collect();
    let mut found = Vec::new();
    for key in keys {
        let begun = outside.begun.get(&key).into_iter().flatten();
        let begun = begun.filter(|begun| (from + 1..until).contains(begun));
        found.extend(begun.map(|begun| (key.clone(), *begun)));
    }
    found
}

/// A step that had completed and whose key another plan has as well keeps its number, and what it
/// wrote into the ledger is there once, whatever the plan.
fn kept(watched: &Watched, events: &[Value], outside: &Outside) -> Vec<String> {
    let mut findings = Vec::new();
    let plans: Vec<_> = kind(events, "plan_applied").collect();
    for pair in plans.windows(2) {
        let [old, new] = pair else { continue };
        let before = events.iter().take_while(|event| event != new);
        let done = before.filter(|event| event["kind"] == "step_completed");
        let done = done.map(|it| attempt_ref(&it["attempt"]).step.into());
        let done: BTreeSet<u32> = done.collect();
        for (number, words) in still_there(old, new) {
            let now = numbered(new).into_iter();
            let mut now = now.filter(|(_, step)| *step == words);
            if done.contains(&number) && !now.any(|(other, _)| other == number) {
                findings.push(format!(
                    "step {number} had completed and is not kept by {new}"
                ));
            }
        }
    }
    for (place, step) in steps(events) {
        let arguments = step["tool"]["arguments_json"].as_str().unwrap_or_default();
        let keys = outside.arguments.get(arguments).map_or(0, BTreeSet::len);
        let is_own = arguments.contains(&watched.request);
        if is_own && keys > 1 {
            findings.push(format!("{place:?} was done as {keys} calls: {arguments}"));
        }
    }
    findings
}

/// The steps of a plan whose keys another one has as well: in a chain the steps at the beginning, in
/// a graph of steps that depend on nothing all of the same words.
fn still_there<'a>(old: &'a Value, new: &Value) -> Vec<(u32, &'a Value)> {
    let (mine, theirs) = (numbered(old).into_iter(), numbered(new));
    if old["plan"]["order"] == "chain" {
        let pairs = mine.zip(theirs);
        let same = pairs.take_while(|((_, one), (_, other))| one == other);
        return same.map(|(one, _)| one).collect();
    }
    // Steps of the same words are told apart by nobody.
    let times = |words: &Value| theirs.iter().filter(|(_, it)| *it == words).count();
    mine.filter(|(_, words)| times(words) == 1).collect()
}
