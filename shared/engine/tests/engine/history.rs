//! The history for a model whose window is full, in its literal layout; the to-do list beside it.

use crate::world::{
    World, chain, complete, explored, look, model_step, send, step_call, tool_call, tool_step, tree,
};
use cairn_engine::command::{self, Command};
use cairn_engine::decide::Input;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::views::{history, todo};
use serde_json::json;

#[test]
fn goals_results_and_summaries_are_told_also_of_goals_in_progress() {
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
fn an_attempt_is_told_of_its_own_step_alone() {
    let tree = tree(&explored());
    assert_eq!(
        history::of_step(&tree, 1, 2.into()),
        "[done] Count\n  → look(notes.md): 31 lines"
    );
    assert_eq!(history::of_step(&tree, 1, 9.into()), "");
    assert_eq!(history::of_step(&tree, 2, 1.into()), "");
    assert_eq!(history::of_run(&tree, 2), "");
}

#[test]
fn failures_skips_and_doubts_are_told() {
    let mut world = World::with_plan(chain(vec![model_step("one"), tool_step("two", "look")]));
    let part = step_call(&json!({"plan": ["A"]}));
    world.reply(1, "", &[part, send()]);
    world.decide(Input::TakenOver { holder_dead: true });
    let expected = "\
[in progress] one
  → send(somebody): nobody knows how it ended
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

#[test]
fn the_to_do_list_has_a_mark_for_every_status() {
    let mut world = World::with_plan(chain(vec![
        model_step("done"),
        tool_step("skipped", "send"),
        model_step("in progress"),
        model_step("planned"),
    ]));
    world.complete(1, "done");
    world.decide(Input::TakenOver { holder_dead: true });
    world.now += 1_000_000;
    let skip = command::Settlement::Skip {
        reason: String::new(),
    };
    world.answer("call-1.2.1.0.0", skip);
    world.reply(
        3,
        "",
        &[step_call(&json!({"plan": ["A", "B", "C"], "focus": "A"}))],
    );
    world.reply(
        3,
        "",
        &[step_call(&json!({"complete": true, "focus": "B"}))],
    );
    let expected = "\
[✓] done
[-] skipped
[→] in progress
  [✓] A
  [→] B
  [ ] C
[ ] planned";
    assert_eq!(todo::of_run(world.run()), expected);
    world.fail(3, Failure::new(FailureKind::Llm, "Refused", "no"));
    let expected = "\
[✓] done
[-] skipped
[✗] in progress
  [✓] A
  [-] B
  [-] C
[ ] planned";
    assert_eq!(todo::of_run(world.run()), expected);
}

#[test]
fn the_to_do_list_keeps_the_parts_of_steps_that_have_ended() {
    let mut world = World::with_plan(chain(vec![
        model_step("divided"),
        model_step("skipped"),
        model_step("later"),
    ]));
    let parts = step_call(&json!({"plan": ["A", "B"], "focus": "A"}));
    let next = step_call(&json!({"complete": true, "focus": "B"}));
    let last = step_call(&json!({"complete": true}));
    world.reply(1, "", &[parts]);
    world.reply(1, "", &[next]);
    world.reply(1, "", &[last, complete("both parts")]);
    world.reply(2, "", &[step_call(&json!({"plan": ["C"]}))]);
    world.command(Command::SkipStep(command::SkipStep {
        run: 1,
        step: 2.into(),
        reason: String::new(),
    }));
    let own = step_call(&json!({"plan": ["D"], "focus": "D"}));
    world.reply(3, "", &[own]);
    let expected = "\
[✓] divided
  [✓] A
  [✓] B
[-] skipped
  [-] C
[→] later
  [→] D";
    assert_eq!(todo::of_run(world.run()), expected);
    let progress = world.reply(3, "", &[tool_call("read_progress", &json!({}))]);
    assert_eq!(World::told(&progress), [(expected.to_owned(), false)]);
    assert_eq!(world.folded(), world.session);
}
