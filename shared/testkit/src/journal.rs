//! Journals, and what must hold of any.

use serde_json::Value;
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

    /// The summaries of completed steps, by step.
    pub fn summaries(&self) -> Vec<(u64, String)> {
        let mut found: Vec<_> = self
            .of_kind("step_completed")
            .into_iter()
            .map(|event| {
                let step = event["attempt"]["step"].as_u64().expect("a step");
                (
                    step,
                    event["summary"].as_str().unwrap_or_default().to_owned(),
                )
            })
            .collect();
        found.sort();
        found
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
