//! What every view says of a session, over the public API of `cairn serve` and on the command
//! line: written by hand, or made anew from the journal by code of this test. In a file, on Redis and
//! on a cluster.
//!
//! The views are compared with the session as it is now, and with the state after each event.

mod commands;
mod expected;
mod refold;
mod reports;
mod runs;
mod scene;
mod states;

use crate::support::place;
use cairn::ui::event_json::event_json;
use cairn::ui::time::utc;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::orchestrator as pb;
use cairn_testkit::{Journal, TestStore};
use expected::Row;
use scene::Scene;
use serde_json::Value;
use std::collections::BTreeSet;

/// One scene for all: it is played once, by one server.
async fn every_view_says_what_happened(store: TestStore) {
    let mut scene = Scene::play(store).await;
    check_journal(&mut scene).await;
    check_tree(&mut scene, 1, &expected::FIRST).await;
    check_tree(&mut scene, 2, &expected::SECOND).await;
    check_texts(&mut scene).await;
    check_plans(&mut scene).await;
    runs::check_keys(&mut scene).await;
    runs::check_runs(&mut scene).await;
    runs::check_sessions(&mut scene).await;
    check_log(&mut scene).await;
    check_states(&mut scene).await;
    reports::check(&mut scene).await;
    commands::check(&mut scene).await;
}

/// What is exported is what was watched, whole, and the command line shows the same.
async fn check_journal(scene: &mut Scene) {
    let session = scene.session.clone();
    let request = pb::ExportSessionRequest { session };
    let stream = scene
        .client
        .export_session(request)
        .await
        .expect("a journal");
    let mut stream = stream.into_inner();
    let mut exported = Vec::new();
    while let Some(message) = stream.message().await.expect("an event") {
        exported.push((message.seq, message.event.expect("an event")));
    }
    assert_eq!(exported, scene.events);
    let shown = Journal::read(&scene.cli(&["export", "both"]));
    shown.check();
    let exported = exported.iter().map(|(seq, event)| event_json(*seq, event));
    assert_eq!(shown.0, exported.collect::<Vec<_>>());
    assert_eq!(shown.of_kind("call_finished").len(), 14);
}

/// Kinds, parents, order, states, texts and prices by hand; times and data from the journal.
async fn check_tree(scene: &mut Scene, run: u32, expected: &[Row]) {
    let nodes = scene.tree(run, pb::TreeView::Nodes).await.nodes;
    let unspecified = scene.tree(run, pb::TreeView::Unspecified).await.nodes;
    assert_eq!(nodes, unspecified);
    let mut path: Vec<String> = Vec::new();
    for (node, row) in nodes.iter().zip(expected) {
        let (depth, kind, status, description, tokens, cost) = *row;
        assert_eq!(
            (node.kind(), node.status(), node.description.as_str()),
            (kind, status, description)
        );
        assert_eq!(
            (node.tokens, node.cost_nano_usd),
            (tokens, cost),
            "{node:?}"
        );
        path.truncate(depth);
        assert_eq!(node.parent_id, path.last().cloned().unwrap_or_default());
        path.push(node.id.clone());
        let summary = match kind {
            pb::NodeKind::Evaluation => description,
            _ => "",
        };
        assert_eq!(node.summary, summary);
    }
    assert_eq!(nodes.len(), expected.len());
    let ids: BTreeSet<&str> = nodes.iter().map(|node| node.id.as_str()).collect();
    assert_eq!(ids.len(), nodes.len(), "an id is there twice");

    let mut made: Vec<&pb::TreeNode> = nodes.iter().collect();
    made.sort_by_key(|node| node.sequence);
    let sequences = made.iter().map(|node| node.sequence);
    assert!(sequences.eq(1..=nodes.len() as u32));
    let made: Vec<_> = made.into_iter().map(made_of).collect();
    assert_eq!(made, refold::nodes(&scene.events_of(run)));
    check_tree_json(scene, run, &nodes).await;
}

fn made_of(node: &pb::TreeNode) -> refold::Made {
    refold::Made {
        kind: node.kind(),
        created: node.created_unix_ms,
        duration: node.duration_ms,
        data: serde_json::from_str(&node.data_json).expect("JSON"),
    }
}

/// The document holds the same nodes, each in its parent.
async fn check_tree_json(scene: &mut Scene, run: u32, nodes: &[pb::TreeNode]) {
    let text = scene.tree(run, pb::TreeView::Json).await.text;
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let usage = refold::usage(&scene.events_of(run), None);
    let trace = &document["trace"];
    assert_eq!(trace["run"], run);
    assert_eq!(trace["total_steps"], nodes.len());
    assert_eq!(
        trace["total_tokens"],
        usage.input_tokens + usage.output_tokens
    );
    let dollars = trace["total_cost"].as_f64().expect("a number");
    assert_eq!((dollars * 1e9).round(), usage.cost_nano_usd as f64);
    let mut flat = Vec::new();
    let mut stack: Vec<(&str, &Value)> = vec![("", &document["steps"])];
    while let Some((parent, children)) = stack.pop() {
        for child in children.as_array().expect("children") {
            let id = child["step_id"].as_str().expect("an id");
            assert_eq!(child["parent_id"].as_str().unwrap_or_default(), parent);
            flat.push((id, child));
            stack.push((id, &child["children"]));
        }
    }
    assert_eq!(flat.len(), nodes.len());
    let name = |name: &str| name.rsplit_once('_').map_or("", |it| it.1).to_lowercase();
    for node in nodes {
        let (_, shown) = flat.iter().find(|(id, _)| *id == node.id).expect("it");
        let status = match node.status() {
            pb::NodeStatus::InProgress => "in_progress".to_owned(),
            status => name(status.as_str_name()),
        };
        assert_eq!(shown["step_type"], name(node.kind().as_str_name()));
        assert_eq!(shown["status"], status);
        assert_eq!(shown["description"], node.description);
        assert_eq!(
            (shown["trace_id"].as_str(), node.trace_id.len()),
            (Some(&*node.trace_id), 32)
        );
        assert_eq!(shown["sequence"], node.sequence);
        assert_eq!(shown["duration_ms"].as_u64().unwrap_or(0), node.duration_ms);
        assert_eq!(shown["tokens"].as_u64().unwrap_or(0), node.tokens);
        assert_eq!(shown["created_at"], utc(node.created_unix_ms));
    }
}

async fn check_texts(scene: &mut Scene) {
    let mut shown = String::new();
    for (run, view) in [
        (1, pb::TreeView::Todo),
        (1, pb::TreeView::History),
        (2, pb::TreeView::Todo),
    ] {
        let text = scene.tree(run, view).await.text;
        shown.push_str(&format!("--- {view:?} of run {run}\n{text}\n"));
    }
    insta::assert_snapshot!("todo_and_history", shown);
    let failed = scene.tree(2, pb::TreeView::Todo).await.text;
    // 0 is the latest run.
    assert_eq!(scene.tree(0, pb::TreeView::Todo).await.text, failed);
    for (run, rows) in [(1, &expected::FIRST[..]), (2, &expected::SECOND)] {
        let text = scene.tree(run, pb::TreeView::Text).await.text;
        let lines = text.lines().filter(|line| line.contains("── ["));
        let lines: Vec<&str> = lines.collect();
        assert_eq!(lines.len(), rows.len(), "{text}");
        for (line, (depth, kind, status, description, ..)) in lines.iter().zip(rows) {
            let kind = kind.as_str_name().rsplit_once('_').map_or("", |it| it.1);
            let mark = match status {
                pb::NodeStatus::Completed => "✓",
                pb::NodeStatus::Failed => "✗",
                _ => " ",
            };
            let description = description.replace('\t', " ");
            let said = format!("── [{mark}] {}: {description}", kind.to_lowercase());
            assert!(line.ends_with(&said), "{line:?} does not say {said:?}");
            let before = line.chars().take_while(|&c| c != '─').count();
            assert_eq!(before, depth * 4 + 1, "{line}");
        }
    }
}

async fn check_plans(scene: &mut Scene) {
    let plan = scene.plan(1).await;
    assert_eq!((plan.run, plan.revision), (1, 1));
    assert_eq!(plan.order(), wire::Order::Graph);
    let done = pb::StepStatus::Completed;
    let answer = "Two lines name Redis: docs/one.md:2 and docs/two.md:3.";
    let found = "docs/one.md:2: Redis is a store. (+2 lines)";
    let expected = [
        (
            "survey",
            "All parts are done.",
            "docs holds two files.",
            6,
            "docs/one.md names Redis",
        ),
        ("find", "", found, 0, ""),
        ("tell", "Redis is named twice.", answer, 3, ""),
    ];
    let events = scene.events_of(1);
    assert_eq!(plan.steps.len(), 3);
    for ((step, expected), number) in plan.steps.iter().zip(expected).zip(1..) {
        let (id, response, summary, turns, notes) = expected;
        assert_eq!(step.number, number);
        assert_eq!(step.step.as_ref().expect("a step").id, id);
        assert_eq!((step.status(), step.attempts), (done, 1));
        let said = (step.response.as_str(), step.summary.as_str());
        assert_eq!(said, (response, summary));
        assert_eq!((step.tool_turns, step.notes.as_str()), (turns, notes));
        assert_eq!(step.usage, Some(refold::usage(&events, Some(number))));
        assert!(step.failure.is_none() && step.skip_reason.is_empty());
        assert!(step.started_unix_ms <= step.ended_unix_ms);
    }
    let plan = scene.plan(0).await;
    assert_eq!((plan.run, plan.order()), (2, wire::Order::Chain));
    let states: Vec<_> = plan.steps.iter().map(pb::PlannedStep::status).collect();
    let failed = pb::StepStatus::Failed;
    assert_eq!(states, [done, failed, pb::StepStatus::Pending]);
    let failure = plan.steps[1].failure.clone().expect("a failure");
    assert_eq!(failure.kind(), wire::FailureKind::Tool);
    assert_eq!(
        failure.message,
        "ExecutionFailed: there is no 'nowhere.md' in the workspace; list_files shows what there is"
    );
    let never = &plan.steps[2];
    let times = (never.started_unix_ms, never.ended_unix_ms, never.attempts);
    assert_eq!(times, (0, 0, 0));
}

/// Decisions, texts of the model and results of calls, in the order of the journal; whole, and page by
/// page.
async fn check_log(scene: &mut Scene) {
    let mut expected = Vec::new();
    for run in [1, 2] {
        let events = scene.events_of(run);
        for (seq, event) in &events {
            let entry = match event.kind.as_ref().expect("a kind") {
                Kind::ReplyReceived(reply) if !reply.text.is_empty() => pb::LogEntry {
                    step: reply.attempt.expect("an attempt").step,
                    output: reply.text.clone(),
                    duration_ms: reply.duration_ms,
                    ..pb::LogEntry::default()
                },
                Kind::CallFinished(finished) => {
                    let (tool, input) = refold::call_of(&events, finished);
                    let call = finished.call.expect("a call");
                    pb::LogEntry {
                        step: call.attempt.expect("an attempt").step,
                        tool,
                        input,
                        output: finished.output.clone(),
                        is_error: finished.is_error,
                        duration_ms: finished.duration_ms,
                        ..pb::LogEntry::default()
                    }
                }
                Kind::RunStarted(_) => pb::LogEntry {
                    decision: "started the run".to_owned(),
                    principal: event.principal.clone(),
                    ..pb::LogEntry::default()
                },
                _ => continue,
            };
            expected.push(pb::LogEntry {
                seq: *seq,
                at_unix_ms: event.at_unix_ms,
                run,
                ..entry
            });
        }
    }
    assert_eq!(
        expected.len(),
        2 + 3 + 14,
        "two starts, three texts and all calls"
    );
    assert_eq!(scene.log(0).await, expected);
    assert_eq!(scene.log(1).await, expected, "one entry a page");
}

/// The state after every event, and now.
async fn check_states(scene: &mut Scene) {
    let expected = states::after_each(&scene.events);
    for (expected, (seq, event)) in expected.iter().zip(&scene.events.clone()) {
        let (of, state) = scene.state(*seq).await;
        assert_eq!(of, *seq);
        assert_eq!(&state, expected, "after {seq}, {event:?}");
    }
    let last = scene.events.len() as u64;
    assert_eq!(scene.state(0).await.1, expected[expected.len() - 1]);
    let request = pb::GetStateRequest {
        session: scene.session.clone(),
        at_seq: last + 1,
    };
    let refused = scene.client.get_state(request).await;
    let refused = refused.expect_err("no such event");
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file_every_view_says_what_happened() {
    every_view_says_what_happened(TestStore::file()).await;
}

/// Each needs servers of Redis.
mod redis {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn over_redis_every_view_says_what_happened() {
        every_view_says_what_happened(TestStore::redis()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn over_a_cluster_every_view_says_what_happened() {
        every_view_says_what_happened(TestStore::cluster()).await;
    }
}
