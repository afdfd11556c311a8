//! Durable rounds: what a run costs in commits, with a model and tools that take no time.
//!
//! A plan of n tool steps takes exactly n + 1 rounds. A tool turn takes one, or two if it has an
//! effectful call. A point with a hook adds the rounds of `HOOKED`, and a run without hooks none.
//! `cargo nextest run -p cairn-testkit --test rounds` runs the test alone.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot set up its world is over"
)]
#![cfg(debug_assertions)]

#[path = "../../../services/cairn/tests/support/node.rs"]
mod support;

use cairn_engine::hooks::{Point, Verdict};
use cairn_hooks::{Asked, Definition, Hook, HookError, Means, Policy};
use cairn_model::ModelRegistry;
use cairn_model::recorded::Recorded;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::orchestrator::WatchSessionRequest;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use support::{
    Client, chain, check_completed, client, count_commits, model_step, node, parts, start,
};
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

/// Lets every question pass, and counts them.
#[derive(Debug, Default)]
struct Passing(AtomicUsize);

#[async_trait::async_trait]
impl Hook for Passing {
    async fn ask(&self, _: &Asked) -> Result<Verdict, HookError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Verdict::Proceed)
    }
}

/// What a run costs with a hook at one point, or with none.
struct Costs {
    commits: u64,
    questions: usize,
}

/// Carries out a run with a hook at a point.
async fn hooked(point: Option<Point>, recording: &str, run: &wire::StartRun) -> Costs {
    let stopped = stop_time();
    let folder = tempfile::tempdir().expect("a folder");
    let mut models = ModelRegistry::new();
    let recorded = Recorded::parse("recorded", recording).expect("a recording");
    models.insert("recorded", Arc::new(recorded));
    let mut parts = parts(folder.path(), models);
    let hook = Arc::new(Passing::default());
    if let Some(point) = point {
        parts.orchestrator.hooks = vec![Definition {
            name: "passing".to_owned(),
            points: [point].into_iter().collect(),
            agents: None,
            tools: Vec::new(),
            means: Means::InProcess,
            policy: Policy::default(),
        }];
        let passing: Arc<dyn Hook> = hook.clone();
        parts.more_hooks = vec![("passing".to_owned(), passing)];
    }
    let commits = count_commits(&mut parts);
    let node = node(parts).await;
    let mut client = client(&node);
    let session = start(&mut client, "r-1", run.clone()).await;
    let events = watch_to_end(&mut client, &session, 0).await;
    if point == Some(Point::OnRunEnd) {
        let last = events.last().map_or(0, |(seq, _)| *seq);
        until_answered(&mut client, &session, last).await;
    }
    node.drain().await;
    drop(stopped);
    Costs {
        commits: commits.load(Ordering::SeqCst),
        questions: hook.0.load(Ordering::SeqCst),
    }
}

/// Waits for what hooks answer after the end of a run.
async fn until_answered(client: &mut Client, session: &str, after_seq: u64) {
    let request = WatchSessionRequest {
        session: session.to_owned(),
        after_seq,
        ..WatchSessionRequest::default()
    };
    let events = client.watch_session(request).await;
    let mut events = events.expect("a watch").into_inner();
    loop {
        let message = events.message().await.expect("an event");
        let event = message.expect("the session is there").event;
        if matches!(
            event.and_then(|event| event.kind),
            Some(Kind::HooksAnswered(_))
        ) {
            return;
        }
    }
}

/// Of a step of two tool turns with a call and one without: the point, how often it is asked, and the further rounds
/// with calls that are pure, and with effectful ones.
const HOOKED: [(Point, usize, u64, u64); 11] = [
    (Point::OnRunStart, 1, 1, 1),
    (Point::OnPlanProposed, 1, 1, 1),
    (Point::OnStepStart, 1, 1, 1),
    (Point::OnTurnStart, 1, 1, 1),
    // The results before a request are durable before hooks are asked about it.
    (Point::PreRequest, 3, 2, 0),
    (Point::PostRequest, 3, 3, 3),
    (Point::PreToolCall, 2, 2, 2),
    // A pure result is durable first, as an effectful one is.
    (Point::PostToolCall, 2, 4, 2),
    (Point::OnTurnEnd, 1, 1, 1),
    (Point::OnPlanStepComplete, 1, 1, 1),
    (Point::OnRunEnd, 1, 1, 1),
];

#[tokio::test(start_paused = true)]
async fn each_point_with_a_hook_has_its_price() {
    let run = chain(vec![model_step("first")]);
    for (tool, is_pure) in [("pure", true), ("effectful", false)] {
        let recording = recording(tool);
        let without = hooked(None, &recording, &run).await.commits;
        let expected = if is_pure { 4 } else { 6 };
        assert_eq!(without, expected, "without hooks, with {tool}");
        for (point, questions, pure, effectful) in HOOKED {
            let more = if is_pure { pure } else { effectful };
            let costs = hooked(Some(point), &recording, &run).await;
            let found = (costs.questions, costs.commits - without);
            assert_eq!(found, (questions, more), "{point:?} with {tool}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_calls_of_a_reply_are_asked_about_together() {
    let call = r#"{"name": "pure", "arguments": {}}"#;
    let end =
        r#"{"tool_calls": [{"name": "step", "arguments": {"complete": true, "summary": "done"}}]}"#;
    let calls = [call; 8].join(", ");
    let recording =
        format!(r#"{{"match": {{"step": ""}}, "replies": [{{"tool_calls": [{calls}]}}, {end}]}}"#);
    let run = chain(vec![model_step("first")]);
    let without = hooked(None, &recording, &run).await.commits;
    let costs = hooked(Some(Point::PreToolCall), &recording, &run).await;
    assert_eq!((costs.questions, costs.commits - without), (8, 1));
}

/// A step that no recorded reply fits fails, and the run with it.
#[tokio::test(start_paused = true)]
async fn an_error_is_asked_about_in_one_round() {
    let recording = r#"{"match": {"contains": "nothing like it"}, "reply": {"text": "x"}}"#;
    let run = chain(vec![model_step("first")]);
    let without = hooked(None, recording, &run).await.commits;
    let costs = hooked(Some(Point::OnError), recording, &run).await;
    assert_eq!((costs.questions, costs.commits - without), (1, 1));
    // Points that are not reached cost nothing.
    for point in [Point::OnTurnEnd, Point::PostRequest, Point::OnCompaction] {
        let costs = hooked(Some(point), recording, &run).await;
        assert_eq!((costs.questions, costs.commits), (0, without), "{point:?}");
    }
}
