//! Durable rounds: what a run costs in commits, with a model and tools that take no time.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot set up its world is over"
)]
#![cfg(debug_assertions)]

mod support;

use cairn_model::ModelRegistry;
use cairn_model::recorded::Recorded;
use cairn_proto::event as wire;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use support::{chain, check_completed, client, count_commits, model_step, node, parts, start};
use support::{tool_step, watch_to_end};

/// A plan of two steps for a goal, two tool turns with `tool` in each step, and the end of each.
fn recording(tool: &str) -> String {
    let call = format!(r#"{{"tool_calls": [{{"name": "{tool}", "arguments": {{}}}}]}}"#);
    let end =
        r#"{"tool_calls": [{"name": "step", "arguments": {"complete": true, "summary": "done"}}]}"#;
    let steps = format!(r#"{{"match": {{"step": ""}}, "replies": [{call}, {call}, {end}]}}"#);
    let plan = r#"{"match": {"contains": "the goal"}, "reply": {"text": "{\"steps\": [{\"description\": \"first\"}, {\"description\": \"second\"}]}"}}"#;
    format!("{plan}\n{steps}\n")
}

fn models(tool: &str) -> ModelRegistry {
    let mut models = ModelRegistry::new();
    let recorded = Recorded::parse("recorded", &recording(tool)).expect("a recording");
    models.insert("recorded", Arc::new(recorded));
    models
}

/// The commits of a run. A result that waits 20 ms for the next reply is committed alone, which
/// happens on a machine that is busy with something else: the least of a few runs counts.
async fn commits_of(tool: &str, run: wire::StartRun) -> u64 {
    let mut least = u64::MAX;
    for _ in 0..5 {
        let folder = tempfile::tempdir().expect("a folder");
        let mut parts = parts(folder.path(), models(tool));
        let commits = count_commits(&mut parts);
        let node = node(parts).await;
        let mut client = client(&node);
        let session = start(&mut client, "r-1", run.clone()).await;
        check_completed(&watch_to_end(&mut client, &session, 0).await);
        node.drain().await;
        least = least.min(commits.load(Ordering::SeqCst));
    }
    least
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_of_n_tool_steps_takes_n_plus_1() {
    for tool in ["pure", "idempotent", "effectful"] {
        for n in [1, 2, 10] {
            let run = chain(vec![tool_step(tool); n]);
            assert_eq!(
                commits_of(tool, run).await,
                n as u64 + 1,
                "{n} steps with {tool}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_turn_takes_one_and_two_with_an_effect() {
    let turns_of_a_step = 3;
    let with_effects = 2;
    let run = chain(vec![model_step("first"), model_step("second")]);
    for tool in ["pure", "idempotent"] {
        let commits = commits_of(tool, run.clone()).await;
        assert_eq!(commits, 2 * turns_of_a_step + 1, "with {tool}");
    }
    let commits = commits_of("effectful", run).await;
    assert_eq!(commits, 2 * (turns_of_a_step + with_effects) + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn planning_adds_one() {
    let run = wire::StartRun {
        goal: "the goal".to_owned(),
        ..wire::StartRun::default()
    };
    assert_eq!(commits_of("pure", run).await, 2 * 3 + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn independent_steps_share_commits() {
    let steps = vec![tool_step("pure"); 8];
    let graph = wire::StartRun {
        plan: Some(wire::Plan {
            order: wire::Order::Graph.into(),
            steps,
        }),
        ..wire::StartRun::default()
    };
    assert!(commits_of("pure", graph).await < 9);
}
