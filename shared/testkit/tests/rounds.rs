//! Durable rounds: what a run costs in commits, with a model and tools that take no time.
//!
//! A plan of n tool steps takes exactly n + 1 rounds. A tool turn takes one, or two if it has an
//! effectful call. `cargo nextest run -p cairn-testkit --test rounds` runs the test alone.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot set up its world is over"
)]
#![cfg(debug_assertions)]

#[path = "../../../services/cairn/tests/support/node.rs"]
mod support;

use cairn_model::ModelRegistry;
use cairn_model::recorded::Recorded;
use cairn_proto::event as wire;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
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

/// The commits of a run in which no time passes: a result that is held for the next reply, for at
/// most 20 ms, is held until that reply is there, however slow the machine is.
async fn commits_of(tool: &str, run: wire::StartRun) -> u64 {
    let stopped = stop_time();
    let folder = tempfile::tempdir().expect("a folder");
    let mut parts = parts(folder.path(), models(tool));
    let commits = count_commits(&mut parts);
    let node = node(parts).await;
    let mut client = client(&node);
    let session = start(&mut client, "r-1", run.clone()).await;
    check_completed(&watch_to_end(&mut client, &session, 0).await);
    node.drain().await;
    drop(stopped);
    commits.load(Ordering::SeqCst)
}

/// Lets time stand still until what is returned is dropped. Time that is paused jumps to the next
/// timer when nothing else is to be done, but not while a thread of the runtime is busy.
fn stop_time() -> Sender<()> {
    let (busy, end) = channel();
    tokio::task::spawn_blocking(move || end.recv());
    busy
}

#[tokio::test(start_paused = true)]
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

#[tokio::test(start_paused = true)]
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

#[tokio::test(start_paused = true)]
async fn planning_adds_one() {
    let run = wire::StartRun {
        goal: "the goal".to_owned(),
        ..wire::StartRun::default()
    };
    assert_eq!(commits_of("pure", run).await, 2 * 3 + 2);
}

#[tokio::test(start_paused = true)]
async fn independent_steps_share_commits() {
    let steps = vec![tool_step("pure"); 8];
    let graph = wire::StartRun {
        plan: Some(wire::Plan {
            order: wire::Order::Graph.into(),
            steps,
        }),
        ..wire::StartRun::default()
    };
    // All steps begin with one commit. How many results are there when the next one begins is a
    // race by intent: nobody waits for the slower ones. At best all are, at worst each comes alone,
    // as on a machine that is busy with other things; so it may be tried again.
    for _ in 0..10 {
        let commits = commits_of("pure", graph.clone()).await;
        assert!((2..=9).contains(&commits), "{commits} commits");
        if commits < 9 {
            return;
        }
    }
    panic!("no two results ever shared a commit");
}
