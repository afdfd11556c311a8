//! Journals, and what must hold of any.

use serde_json::{Value, json};
use std::collections::BTreeSet;

/// An exported journal: one JSON object an event, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Journal(pub Vec<Value>);

impl Journal {
    /// Reads lines of JSON.
    pub fn read(lines: &str) -> Self {
        let events = lines
            .lines()
            .map(|line| serde_json::from_str(line).expect("a line of JSON"));
        Self(events.collect())
    }

    /// The events of a kind.
    pub fn of_kind(&self, kind: &str) -> Vec<&Value> {
        self.0
            .iter()
            .filter(|event| event["kind"] == kind)
            .collect()
    }

    /// Panics unless the run is like another of the same request, however often either was killed.
    ///
    /// Events are compared whole, but for their numbers and times, and without those by which a
    /// run is taken up again. A call that was settled as done has ended with the output that was
    /// given.
    pub fn check_like(&self, reference: &Self) {
        let (mine, theirs) = (self.essence(), reference.essence());
        for (mine, theirs) in mine.iter().zip(&theirs) {
            assert_eq!(mine, theirs, "an event differs from that of another run");
        }
        let (mine, theirs) = (mine.iter(), theirs.iter());
        let more: Vec<_> = mine.clone().skip(theirs.len()).collect();
        let fewer: Vec<_> = theirs.skip(mine.len()).collect();
        assert!(more.is_empty(), "events that another run has not: {more:?}");
        assert!(
            fewer.is_empty(),
            "events of another run are missing: {fewer:?}"
        );
    }

    /// Panics unless it begins with the events of a journal that an earlier version exported: fields may
    /// have come since, those that there were stay and say the same.
    pub fn check_begins_with(&self, then: &Self) {
        assert!(self.0.len() >= then.0.len(), "events are missing");
        for (then, now) in then.0.iter().zip(&self.0) {
            assert!(is_within(then, now), "{then}\n{now}");
        }
    }

    fn essence(&self) -> Vec<Value> {
        let mut intended = BTreeSet::new();
        let mut essence: Vec<Value> = Vec::new();
        for event in &self.0 {
            let mut event = match event["kind"].as_str().expect("a kind") {
                "attempt_continued" | "attempt_placed" | "call_in_doubt" | "run_waiting"
                | "run_resumed" | "decided" => continue,
                "command_received" if event["command"]["decide"].is_object() => continue,
                // A call that certainly was not made is intended anew.
                "call_intended" if !intended.insert(event["call"].to_string()) => continue,
                "call_settled" => match &event["settlement"]["done"]["output"] {
                    Value::String(output) => json!({
                        "kind": "call_finished", "call": event["call"], "output": output,
                        "is_error": false, "reason": "", "media": [], "whole": null, "file": null,
                        "usage": null, "provider": "", "model": "", "held": false,
                    }),
                    _ => continue,
                },
                _ => event.clone(),
            };
            if is_move(&event) {
                continue;
            }
            for op in event["ops"].as_array_mut().into_iter().flatten() {
                for change in ["set_layer", "remind"] {
                    // They name folders, or counts and addresses of executors, which are each run's own.
                    if is_of_place(&op[change]) {
                        op[change]["text"] = Value::Null;
                        op[change]["allotted"] = Value::Null;
                    }
                }
            }
            let fields = event.as_object_mut().expect("an object");
            for field in [
                "seq",
                "at",
                "duration_ms",
                "not_after_unix_ms",
                "answers",
                "principal",
                "request",
                // It counts the names of folders, too.
                "estimated_tokens",
            ] {
                fields.remove(field);
            }
            essence.push(event);
        }
        // Calls of one turn end in any order.
        let is_result = |event: &Value| event["kind"] == "call_finished";
        for results in essence.chunk_by_mut(|a, b| is_result(a) && is_result(b)) {
            results.sort_by_key(|event| event["call"].to_string());
        }
        essence
    }

    /// What the tool `record` answered in a step.
    pub fn recorded_in(&self, step: &Value) -> String {
        let results = self.of_kind("call_finished").into_iter();
        let mut results = results.filter(|event| &event["call"]["attempt"]["step"] == step);
        let recorded = results.find_map(|event| {
            let output = event["output"].as_str().expect("an output");
            output.starts_with("recorded").then(|| output.to_owned())
        });
        recorded.expect("a call of record in this step")
    }

    /// Panics unless the numbers run from 1 without gaps, no step ended twice or began again after
    /// its end, and no call has two results.
    pub fn check(&self) {
        for (event, expected) in self.0.iter().zip(1u64..) {
            assert_eq!(
                event["seq"].as_u64(),
                Some(expected),
                "a gap in the journal"
            );
        }
        let mut ended = BTreeSet::new();
        let mut finished = BTreeSet::new();
        for event in &self.0 {
            let step = (
                event["attempt"]["run"].to_string(),
                event["attempt"]["step"].to_string(),
            );
            match event["kind"].as_str().expect("a kind") {
                "step_started" => assert!(!ended.contains(&step), "{step:?} began again"),
                "step_completed" | "step_failed" => {
                    assert!(ended.insert(step.clone()), "{step:?} ended twice");
                }
                "call_finished" => {
                    let call = event["call"].to_string();
                    assert!(finished.insert(call.clone()), "{call} finished twice");
                }
                _ => {}
            }
        }
    }
}

fn is_within(then: &Value, now: &Value) -> bool {
    match (then, now) {
        (Value::Object(then), Value::Object(now)) => {
            let has = |(name, value): (&String, &Value)| {
                now.get(name).is_some_and(|found| is_within(value, found))
            };
            then.iter().all(has)
        }
        (Value::Array(then), Value::Array(now)) => {
            let pairs = then.iter().zip(now);
            then.len() == now.len() && pairs.clone().all(|(then, now)| is_within(then, now))
        }
        (then, now) => then == now,
    }
}

/// The event says nothing but where the workspace of a run is that was taken up in another folder, or how the pool
/// is that carries it out.
fn is_move(event: &Value) -> bool {
    let ops = event["ops"].as_array().filter(|ops| !ops.is_empty());
    let is_move = |op: &Value| {
        let layer = [&op["set_layer"], &op["use_layer"]];
        is_of_place(&op["remind"]) || layer.into_iter().any(|it| it["kind"] == "pool")
    };
    ops.is_some_and(|ops| ops.iter().all(is_move))
}

/// The layer says where a run is carried out, and not what.
fn is_of_place(layer: &Value) -> bool {
    layer["kind"] == "environment" || layer["kind"] == "pool"
}
