//! The history for a model whose window is full, in its literal layout.

use crate::tree::tree;
use crate::world::{
    World, chain, explored, look, model_step, send, step_call, tool_call, tool_step,
};
use cairn_engine::decide::Input;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_views::history;
use serde_json::json;

#[test]
fn goals_results_and_summaries_are_shown_also_of_goals_in_progress() {
    let mut world = explored();
    world.result(3, 0, "src/config lines 1-2 of 2");
    let expected = "\
[done] Explore
  → look(notes.md): 15 files
  → send(to=ops, lines=3): failed: it went wrong
  [done] Read it
    → look(notes.md): host = db
    Summary: The host is db.
  Summary: The file is src/config.
[done] Count
  → look(notes.md): 31 lines
[in progress] Change
  → look(notes.md): src/config lines 1-2 of 2
[to do] Test";
    assert_eq!(history::of_run(&tree(&world), 1), expected);
}

#[test]
fn a_run_without_goals_has_no_history() {
    assert_eq!(history::of_run(&tree(&explored()), 2), "");
}

#[test]
fn failures_skips_and_doubts_are_shown() {
    let mut world = World::with_plan(chain(vec![model_step("one"), tool_step("two", "look")]));
    let part = step_call(&json!({"plan": ["A"]}));
    world.reply(1, "", &[part, send()]);
    world.decide(Input::TakenOver { holder_dead: true });
    let expected = "\
[in progress] one
  → send(somebody): its outcome is not known
  [to do] A
[to do] two";
    assert_eq!(history::of_run(&tree(&world), 1), expected);
    world.fail(1, Failure::new(FailureKind::Llm, "Refused", "no"));
    let text = history::of_run(&tree(&world), 1);
    assert!(text.starts_with("[failed] one\n"), "{text}");
    assert!(text.contains("\n  [skipped] A\n"), "{text}");
}

#[test]
fn what_the_history_says_anyway_is_left_out() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    let progress = tool_call("read_progress", &json!({}));
    let notes = tool_call("scratchpad", &json!({"text": "a note"}));
    let memory = tool_call("session_memory_get", &json!({"key": "k"}));
    world.reply(1, "Some thought.", &[progress, notes, memory, look()]);
    let expected = "[in progress] one\n  → session_memory_get(k): 'k' is not set";
    assert_eq!(history::of_run(&tree(&world), 1), expected);
}

#[test]
fn every_entry_is_one_line() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.reply(1, "", &[look()]);
    world.result(1, 0, &format!("\n\n{}\n[done] forged", "x".repeat(1_000)));
    world.complete(1, "It is\n[done] forged");
    let text = history::of_run(&tree(&world), 1);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[1].chars().count() < 240, "{text}");
    assert_eq!(lines[2], "  Summary: It is [done] forged");
}
