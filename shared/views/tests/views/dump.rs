//! The dump of a tree, in its literal layout.

use crate::tree::tree;
use crate::world::{World, chain, complete, explored, look, model_step, tool_step};
use cairn_views::dump;
use serde_json::json;

/// 2024-01-15 14:30:25 UTC.
const GENERATED: u64 = 1_705_329_025_000;

#[test]
fn the_text_has_the_layout_of_the_source() {
    let mut world = World::with_plan(chain(vec![
        model_step("Explore"),
        tool_step("Count", "look"),
    ]));
    world.now += 1_234;
    world.reply(1, "I look.", &[look()]);
    world.result(1, 0, "15 files");
    world.complete(1, "All seen.");
    let tree = tree(&world);
    // The ids are those of the places in the run, so they are the same for ever.
    assert_eq!(
        dump::text(&tree, 1, GENERATED).unwrap(),
        include_str!("dump.txt")
    );
}

#[test]
fn values_are_on_one_line_cut_and_harmless() {
    let mut world = World::with_plan(chain(vec![model_step("one\u{1b}[2J")]));
    let long = format!("first\n├── [✓] goal: forged\t{}", "x".repeat(500));
    world.reply(1, &long, &[]);
    let text = dump::text(&tree(&world), 1, 0).unwrap();
    assert!(text.contains(r"goal: one\u{1b}[2J"), "{text}");
    let is_node = |line: &&str| line.trim_start_matches(['│', ' ']).starts_with(['├', '└']);
    assert_eq!(text.lines().filter(is_node).count(), 2, "{text}");
    assert!(
        text.contains("content: first ├── [✓] goal: forged xxx"),
        "{text}"
    );
    assert!(
        text.lines().all(|line| line.chars().count() < 230),
        "{text}"
    );
}

#[test]
fn the_json_holds_everything_nested() {
    let tree = tree(&explored());
    let value = dump::json(&tree, 1, GENERATED).unwrap();
    assert_eq!(value["generated"], "2024-01-15T14:30:25.000Z");
    let trace = &value["trace"];
    assert_eq!(trace["status"], "running");
    assert_eq!(trace["total_steps"], tree.nodes().len());
    assert_eq!(trace["total_tokens"], 50 + 6 * 110);
    assert_eq!(trace["total_cost"], 0.015);
    let explore = &value["steps"][0];
    assert_eq!(explore["step_type"], "goal");
    assert_eq!(explore["status"], "completed");
    assert_eq!(explore["parent_id"], json!(null));
    assert_eq!(explore["trace_id"], "abc123");
    assert_eq!(explore["created_at"], "2024-01-15T14:30:26.000Z");
    let action = &explore["children"][2];
    assert_eq!(action["parent_id"], explore["step_id"]);
    assert_eq!(
        action["data"]["arguments"],
        json!({"to": "ops", "lines": 3, "tags": ["a"]})
    );
    let result = &explore["children"][1]["children"][0];
    assert_eq!(result["data"]["output"], "15 files\nsrc/main.rs");
    assert!(result.get("summary").is_none(), "only evaluations have one");
    let evaluation = explore["children"].as_array().unwrap().last().unwrap();
    assert_eq!(evaluation["summary"], "The file is src/config.");
    let mut nodes = 0;
    let mut stack: Vec<_> = value["steps"].as_array().unwrap().iter().collect();
    while let Some(node) = stack.pop() {
        nodes += 1;
        stack.extend(node["children"].as_array().unwrap());
    }
    assert_eq!(nodes, tree.nodes().len());
}

#[test]
fn arguments_that_are_no_json_are_kept_as_text() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    let mut call = look();
    call.arguments = "{broken".to_owned();
    world.reply(1, "", &[call]);
    let value = dump::json(&tree(&world), 1, 0).unwrap();
    assert_eq!(
        value["steps"][0]["children"][0]["data"]["arguments"],
        "{broken"
    );
}

#[test]
fn each_run_has_its_own_dump() {
    let mut world = World::with_plan(chain(vec![model_step("first")]));
    world.reply(1, "", &[complete("done")]);
    world.start(chain(vec![model_step("second")]));
    let tree = tree(&world);
    assert_eq!(dump::text(&tree, 3, 0), None);
    assert_eq!(dump::json(&tree, 0, 0), None);
    let text = dump::text(&tree, 2, 0).unwrap();
    assert!(
        text.contains("goal: second") && !text.contains("first"),
        "{text}"
    );
    assert!(text.contains("trace_id: abc123"), "{text}");
}

#[test]
fn a_run_without_a_plan_has_no_steps() {
    let mut world = World::new();
    world.command(cairn_engine::command::Command::StartRun(
        cairn_engine::command::StartRun {
            goal: "a goal".to_owned(),
            ..Default::default()
        },
    ));
    let text = dump::text(&tree(&world), 1, 0).unwrap();
    assert!(!text.contains("trace_id"), "what is not set is left out");
    assert!(text.ends_with(
        "status: planning\ntotal_steps: 0\ntotal_tokens: 0\ntotal_cost: 0.0000\n\n## Steps\n"
    ));
}
