//! The command line says what the API says, beside the server and without it.

use super::scene::Scene;
use cairn::ui::describe::{session_json, step_json};
use cairn::ui::event_json::principal;
use cairn::ui::time::utc;
use cairn_proto::orchestrator as pb;
use serde_json::{Value, json};

pub(crate) async fn check(scene: &mut Scene) {
    let beside = said(scene);
    check_trees(scene, &beside).await;
    check_others(scene, &beside).await;
    scene.place.stop_server();
    assert_eq!(said(scene), beside, "without the server");
}

/// What commands print of the session.
#[derive(Debug, PartialEq)]
struct Said {
    short: String,
    nodes: String,
    text: String,
    json: Value,
    todo: String,
    history: String,
    report: String,
    log: String,
    state: String,
    early_state: String,
    show: String,
}

fn said(scene: &Scene) -> Said {
    let tree = |view: &str| scene.cli(&["tree", "both", "--run", "1", "--view", view]);
    let mut document: Value = serde_json::from_str(&tree("json")).expect("JSON");
    document["generated"].take();
    let short = scene.cli(&["tree", "both", "--run", "1"]);
    let short: Vec<&str> = short.lines().map(without_span).collect();
    Said {
        short: short.join("\n"),
        nodes: tree("nodes"),
        text: without_generated(&tree("text")),
        json: document,
        todo: tree("todo"),
        history: tree("history"),
        report: scene.cli(&["report", "both", "--run", "1"]),
        log: scene.cli(&["log", "both", "--json"]),
        state: scene.cli(&["state", "both", "--json"]),
        early_state: scene.cli(&["state", "both", "--at", "9"]),
        show: scene.cli(&["show", "both", "--json"]),
    }
}

/// A span stands after two blanks at the end.
fn without_span(line: &str) -> &str {
    match line.trim_start().rsplit_once("  ") {
        Some((_, span)) => line[..line.len() - span.len()].trim_end(),
        None => line,
    }
}

fn without_generated(text: &str) -> String {
    let lines = text.lines();
    let lines = lines.filter(|line| !line.starts_with("Generated: "));
    lines.collect::<Vec<_>>().join("\n")
}

async fn check_trees(scene: &mut Scene, said: &Said) {
    insta::assert_snapshot!("short_tree", said.short);
    let nodes = scene.tree(1, pb::TreeView::Nodes).await.nodes;
    let shown: Vec<Value> = lines(&said.nodes);
    let nodes: Vec<Value> = nodes.iter().map(node).collect();
    assert_eq!(shown, nodes);
    let text = scene.tree(1, pb::TreeView::Text).await.text;
    assert_eq!(said.text, without_generated(&text));
    let text = scene.tree(1, pb::TreeView::Json).await.text;
    let mut document: Value = serde_json::from_str(&text).expect("JSON");
    document["generated"].take();
    assert_eq!(said.json, document);
    let todo = scene.tree(1, pb::TreeView::Todo).await.text;
    assert_eq!(said.todo, todo + "\n");
    let history = scene.tree(1, pb::TreeView::History).await.text;
    assert_eq!(said.history, history + "\n");
}

fn lines(text: &str) -> Vec<Value> {
    let lines = text.lines().map(serde_json::from_str);
    lines.map(|line| line.expect("a line of JSON")).collect()
}

fn node(node: &pb::TreeNode) -> Value {
    let name = |name: &str, of: &str| name.replace(of, "").to_lowercase();
    let data: Value = serde_json::from_str(&node.data_json).expect("JSON");
    json!({
        "id": node.id, "parent_id": node.parent_id,
        "kind": name(node.kind().as_str_name(), "NODE_KIND_"),
        "status": name(node.status().as_str_name(), "NODE_STATUS_"),
        "sequence": node.sequence, "description": node.description, "summary": node.summary,
        "data": data, "duration_ms": node.duration_ms, "tokens": node.tokens,
        "cost_nano_usd": node.cost_nano_usd, "created": utc(node.created_unix_ms),
        "trace_id": node.trace_id,
    })
}

async fn check_others(scene: &mut Scene, said: &Said) {
    let report = scene.report(1).await;
    assert_eq!(said.report, report);
    let entries = scene.log(0).await;
    let entry = |entry: &pb::LogEntry| {
        json!({
            "seq": entry.seq, "at": utc(entry.at_unix_ms), "run": entry.run, "step": entry.step,
            "tool": entry.tool, "input": entry.input, "output": entry.output,
            "is_error": entry.is_error, "duration_ms": entry.duration_ms,
            "decision": entry.decision, "principal": principal(entry.principal.as_ref()),
            // No result is long.
            "whole": Value::Null,
        })
    };
    let entries: Vec<Value> = entries.iter().map(entry).collect();
    assert_eq!(lines(&said.log), entries);
    let (_, now) = scene.state(0).await;
    assert_eq!(lines(&said.state), [now]);
    let (_, early) = scene.state(9).await;
    let shown: Value = serde_json::from_str(&said.early_state).expect("JSON");
    assert_eq!(shown, early);

    let session = scene.session.clone();
    let request = pb::GetSessionRequest { session };
    let session = scene.client.get_session(request).await.expect("a session");
    let session = session.into_inner().session.expect("a session");
    let plan = scene.plan(2).await;
    let steps: Vec<Value> = plan.steps.iter().map(step_json).collect();
    let plan = json!({"revision": 1, "order": "chain", "steps": steps});
    let shown = json!({"session": session_json(&session), "plan": plan, "pending": []});
    assert_eq!(lines(&said.show), [shown]);
}
