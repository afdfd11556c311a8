//! The step context, byte for byte.

use crate::world::{
    World, after, chain, complete, graph, model_step, step_context, tool_call, tool_step,
};
use cairn_engine::command::{LimitOverrides, OnFailure};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::session::{PlanState, in_journal_order};
use serde_json::json;

fn context(world: &World, step: u32) -> String {
    step_context(&world.session, world.attempt(step)).unwrap()
}

#[test]
fn the_first_step_sees_the_requirement_and_the_plan() {
    let world = World::with_plan(chain(vec![model_step("Survey"), model_step("Report")]));
    let expected = "\
## Requirement
the goal

## Plan overview
1. Survey >> current
2. Report

## Current step (step 1)
Title: Survey
Description: Do Survey.";
    assert_eq!(context(&world, 1), expected);
}

#[test]
fn a_later_step_of_a_chain_sees_summaries_and_notes_of_all_before() {
    let mut world = World::with_plan(chain(vec![
        model_step("Survey"),
        tool_step("Count", "look"),
        model_step("Report"),
        model_step("Send"),
    ]));
    let note = tool_call("scratchpad", &json!({"text": "notes of the survey"}));
    world.reply(1, "I look.", &[note, complete("12 files")]);
    world.result(2, 0, "31 lines\nand more");
    let expected = "\
## Requirement
the goal

## Plan overview
1. Survey done
2. Count done
3. Report >> current
4. Send

## Current step (step 3)
Title: Report
Description: Do Report.

## Summaries of finished steps
- Step 1: 12 files
- Step 2: 31 lines (+1 line)

## Scratchpad
notes of the survey";
    assert_eq!(context(&world, 3), expected);
}

#[test]
fn failed_and_skipped_steps_are_marked_and_not_summarised() {
    let mut world = World::with_plan(graph(vec![
        model_step("a"),
        tool_step("b", "send"),
        after(model_step("c"), &["2"]),
    ]));
    world.decide(cairn_engine::decide::Input::AttemptLost {
        attempt: world.attempt(2),
    });
    let skip = cairn_engine::command::Settlement::Skip {
        reason: "not needed".to_owned(),
    };
    world.now += 1_000_000;
    world.answer("call-1.2.1.0.0", skip);
    world.fail(1, Failure::new(FailureKind::Llm, "Refused", "no"));
    // Step 3 began when step 2 was skipped, before step 1 failed.
    let expected = "\
## Requirement
the goal

## Plan overview
1. a
2. b skipped
3. c >> current

## Current step (step 3)
Title: c
Description: Do c.";
    assert_eq!(context(&world, 3), expected);
}

#[test]
fn a_step_that_failed_before_is_marked() {
    let mut world = World::new();
    let plan = graph(vec![
        model_step("a"),
        model_step("b"),
        after(model_step("c"), &["2"]),
    ]);
    let limits = LimitOverrides {
        on_failure: Some(OnFailure::GoOn),
        ..LimitOverrides::default()
    };
    world.start_with(plan, limits);
    world.fail(1, Failure::new(FailureKind::Llm, "Refused", "no"));
    world.complete(2, "b is done");
    let of_c = context(&world, 3);
    let overview = "## Plan overview\n1. a FAILED\n2. b done\n3. c >> current\n";
    assert!(of_c.contains(overview), "{of_c}");
    assert!(
        of_c.contains("## Summaries of finished steps\n- Step 2: b is done"),
        "{of_c}"
    );
}

#[test]
fn what_other_steps_do_after_the_start_changes_nothing() {
    let mut world = World::with_plan(graph(vec![
        model_step("a"),
        model_step("b"),
        after(model_step("c"), &["1"]),
    ]));
    let before = context(&world, 2);
    world.complete(1, "a is done");
    assert_eq!(context(&world, 2), before);
    let of_c = context(&world, 3);
    assert!(of_c.contains("1. a done\n2. b\n3. c >> current"));
    world.complete(2, "b is done");
    assert_eq!(context(&world, 3), of_c);
    world.reply(3, "", &[tool_call("scratchpad", &json!({"text": "mine"}))]);
    assert_eq!(
        context(&world, 3),
        of_c,
        "its own notes are in its conversation"
    );
}

#[test]
fn a_step_of_a_graph_sees_only_what_it_depends_on() {
    let noted = |text: &str| tool_call("scratchpad", &json!({ "text": text }));
    let mut world = World::with_plan(graph(vec![
        model_step("a"),
        model_step("b"),
        after(model_step("c"), &["1"]),
        after(model_step("d"), &["3"]),
    ]));
    world.reply(2, "", &[noted("of b"), complete("b is done")]);
    world.reply(1, "", &[noted("of a"), complete("a is done")]);
    world.reply(3, "", &[noted("of c"), complete("c is done")]);
    let text = context(&world, 4);
    assert!(text.ends_with(
        "## Summaries of finished steps\n- Step 1: a is done\n- Step 3: c is done\n\n\
         ## Scratchpad\nof a\nof c"
    ));
    assert!(text.contains("2. b done"), "the overview shows all");
}

#[test]
fn notes_come_in_the_order_of_the_journal() {
    let noted = |text: &str| tool_call("scratchpad", &json!({ "text": text }));
    let replaced = |text: &str| {
        let arguments = json!({ "text": text, "mode": "replace" });
        tool_call("scratchpad", &arguments)
    };
    let mut world = World::with_plan(graph(vec![
        model_step("a"),
        model_step("b"),
        model_step("other"),
        after(model_step("d"), &["1", "2"]),
    ]));
    world.reply(2, "", &[noted("b says"), noted("something")]);
    world.reply(1, "", &[noted("a notes")]);
    world.reply(3, "", &[noted("not seen by d")]);
    world.reply(2, "", &[noted("b adds")]);
    world.complete(1, "a is done");
    world.reply(2, "", &[noted("and ends"), complete("b is done")]);
    let expected = "- Step 1: a is done\n- Step 2: b is done\n\n\
                    ## Scratchpad\nb says\nsomething\na notes\nb adds\nand ends";
    assert!(context(&world, 4).ends_with(expected));
    let all = "b says\nsomething\na notes\nnot seen by d\nb adds\nand ends";
    assert_eq!(all_notes(&world), all);

    // Notes that replace those of a step are its newest.
    let mut world = World::with_plan(graph(vec![model_step("a"), model_step("b")]));
    world.reply(1, "", &[noted("a draft")]);
    world.reply(2, "", &[noted("b says")]);
    world.reply(1, "", &[replaced("a says")]);
    assert_eq!(all_notes(&world), "b says\na says");
}

fn all_notes(world: &World) -> String {
    let steps = world.run().plan.iter().flat_map(PlanState::current);
    in_journal_order(steps.map(|(_, step)| step)).join("\n")
}

#[test]
fn a_step_that_is_not_there_has_no_context() {
    let world = World::with_plan(chain(vec![model_step("a")]));
    for (run, step) in [(1, 0), (1, 2), (2, 1), (0, 1)] {
        let mut attempt = world.attempt(1);
        (attempt.run, attempt.step) = (run, step.into());
        assert_eq!(step_context(&world.session, attempt), None);
    }
}
