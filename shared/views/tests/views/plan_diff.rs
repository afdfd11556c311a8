//! What people read of another plan before they apply it.
//!
//! Notation: `=1` is reused, `>2` continues, `.3` waits, `.0` waits as a new step of the same words, `-2`
//! stays skipped, `2again` repeats step 2, `new` is added; `!` has moved. After `|` what is dropped, with
//! its status and where it stands now (from 1).

use crate::world::notation::plan;
use crate::world::{World, send};
use cairn_engine::command::{self, Command, RevisePlan};
use cairn_engine::decide::Input;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::plan::PlanError;
use cairn_engine::session::StepNo;
use cairn_views::plan_diff::{Fate, PlanDiff, Saved, diff};

fn of(world: &World, text: &str) -> PlanDiff {
    diff(world.run(), &plan(text)).unwrap()
}

/// a and c are done, b is skipped.
fn skipped(text: &str) -> World {
    let mut world = World::with_plan(plan(text));
    world.command(Command::SkipStep(command::SkipStep {
        run: 1,
        step: 2.into(),
        reason: String::new(),
    }));
    world.complete(1, "a is done");
    world.complete(3, "c is done");
    world
}

fn written(diff: &PlanDiff) -> String {
    let step = |step: &cairn_views::plan_diff::StepDiff| {
        let number = step.number.unwrap_or_default();
        let fate = match step.fate {
            Fate::Reused => format!("={number}"),
            Fate::Continues => format!(">{number}"),
            Fate::Waiting => format!(".{number}"),
            Fate::Skipped => format!("-{number}"),
            Fate::Repeated { number } => format!("{number}again"),
            Fate::Added => "new".to_owned(),
        };
        match step.fate {
            Fate::Waiting => {}
            Fate::Repeated { .. } | Fate::Added => assert_eq!(step.number, None),
            _ => assert!(step.number.is_some()),
        }
        format!("{fate}{}", if step.moved { "!" } else { "" })
    };
    let steps: Vec<String> = diff.steps.iter().map(step).collect();
    let dropped = diff.dropped.iter().map(|it| {
        let place = it.repeated_as.map(|place| format!("@{place}"));
        format!("{}{:?}{}", it.number, it.status, place.unwrap_or_default())
    });
    let dropped: Vec<String> = dropped.collect();
    match dropped.is_empty() {
        true => steps.join(" "),
        false => format!("{} | {}", steps.join(" "), dropped.join(" ")),
    }
}

/// a is done, b runs, c and d have not begun.
fn chain_under_way() -> World {
    let mut world = World::with_plan(plan("a b c d"));
    world.end(1);
    world
}

/// a is done, b and c run, d has not begun.
fn graph_under_way() -> World {
    let mut world = World::with_plan(plan("g: a b c<a d<b,c"));
    world.end(1);
    world
}

#[test]
fn changes_of_a_chain() {
    let world = chain_under_way();
    let cases = [
        ("a b c d", "=1 >2 .3 .4"),
        ("a b c d e", "=1 >2 .3 .4 new"),
        (
            "a x b c d",
            "=1 new 2again .0 .0 | 2Running@3 3Pending@4 4Pending@5",
        ),
        ("a b c~ d", "=1 >2 new .0 | 3Pending 4Pending@4"),
        ("a b d c", "=1 >2 .0 .0 | 3Pending@4 4Pending@3"),
        ("a b", "=1 >2 | 3Pending 4Pending"),
        (
            "a*1 b",
            "1again 2again | 1Completed@1 2Running@2 3Pending 4Pending",
        ),
        ("w x", "new new | 1Completed 2Running 3Pending 4Pending"),
    ];
    for (text, expected) in cases {
        assert_eq!(written(&of(&world, text)), expected, "{text}");
    }
}

#[test]
fn changes_of_a_graph() {
    let world = graph_under_way();
    let cases = [
        ("g: a b c<a d<b,c", "=1 >2 >3 .4"),
        ("g: b a c<a d<b,c", ">2! =1 >3 .4"),
        ("g: d<b,c c<a b a", ".4! >3! >2! =1"),
        ("g: c<a a b d<b,c", ">3! =1 >2 .4"),
        ("g: b c<a d<b,c a", ">2 >3 .4 =1!"),
        ("g: a b c~<a d<b,c", "=1 >2 new .0 | 3Running 4Pending@4"),
        ("g: a b d<b x:a", "=1 >2 .0 new | 3Running 4Pending@3"),
    ];
    for (text, expected) in cases {
        assert_eq!(written(&of(&world, text)), expected, "{text}");
    }
}

#[test]
fn what_failed_is_repeated_and_what_was_skipped_stays_skipped() {
    let mut world = World::with_plan(plan("g: a b c<b d"));
    world.command(Command::SkipStep(command::SkipStep {
        run: 1,
        step: 2.into(),
        reason: String::new(),
    }));
    world.fail(1, Failure::new(FailureKind::Llm, "Refused", "no"));
    let diff = of(&world, "g: a b c<b d");
    assert_eq!(written(&diff), "1again -2 >3 >4 | 1Failed@1");
    assert!(diff.stopped.is_empty());
    assert_eq!(diff.saved, Saved::default(), "a skipped step saves nothing");
}

/// Only work that had begun is done again: step 3 ran when it was skipped, step 2 did not.
#[test]
fn a_step_that_had_not_begun_waits_and_one_whose_skip_is_lost_is_new() {
    let mut world = World::with_plan(plan("a b c d"));
    for step in [2, 3] {
        if step == 3 {
            world.end(1);
        }
        world.command(Command::SkipStep(command::SkipStep {
            run: 1,
            step: step.into(),
            reason: String::new(),
        }));
    }
    world.fail(4, Failure::new(FailureKind::Llm, "Refused", "no"));
    assert_eq!(
        written(&of(&world, "a*1 b c d")),
        "1again new 3again 4again | 1Completed@1 2Skipped 3Skipped@3 4Failed@4"
    );
    let mut world = World::with_plan(plan("a b c d"));
    world.command(Command::SkipStep(command::SkipStep {
        run: 1,
        step: 2.into(),
        reason: String::new(),
    }));
    world.end(1);
    assert_eq!(
        written(&of(&world, "a*1 b c d")),
        "1again new 3again .0 | 1Completed@1 2Skipped 3Running@3 4Pending@4"
    );
}

#[test]
fn what_an_earlier_plan_did_comes_back_without_having_moved() {
    let mut world = World::with_plan(plan("g: a b"));
    world.end(1);
    world.command(Command::RevisePlan(RevisePlan {
        run: 1,
        plan: Some(plan("g: b")),
        apply: true,
        ..RevisePlan::default()
    }));
    let diff = of(&world, "g: b a");
    assert_eq!((written(&diff).as_str(), diff.base_revision), (">2 =1", 2));
}

#[test]
fn running_steps_that_are_stopped_and_their_calls_are_named() {
    let mut world = graph_under_way();
    world.reply(2, "", &[send(), send(), send()]);
    world.result(2, 0, "sent");
    world.error(2, 1, "ExecutionFailed");
    let diff = of(&world, "g: a c<a");
    assert_eq!(written(&diff), "=1 >3 | 2Running 4Pending");
    assert_eq!(diff.stopped, [StepNo::new(2)]);
    let effects = diff.effects.iter().map(|it| {
        assert_eq!((it.tool.as_str(), it.call.attempt.step), ("send", 2.into()));
        (it.call.index, it.is_done)
    });
    let effects: Vec<_> = effects.collect();
    assert_eq!(effects, [(0, true), (1, false), (2, false)]);
    assert!(of(&world, "g: a b").effects.is_empty());

    // What is said before is what is so afterwards.
    world.command(Command::RevisePlan(RevisePlan {
        run: 1,
        plan: Some(plan("g: a c<a")),
        apply: true,
        ..RevisePlan::default()
    }));
    let steps = &world.run().plan.as_ref().unwrap().steps;
    assert_eq!(steps[1].effects, diff.effects);
}

#[test]
fn a_call_in_doubt_is_named_once() {
    let mut world = graph_under_way();
    world.reply(2, "", &[send()]);
    let attempt = world.attempt(2);
    world.decide(Input::AttemptLost { attempt });
    let diff = of(&world, "g: a c<a");
    assert_eq!(diff.effects.len(), 1);
    assert!(!diff.effects[0].is_done);
}

#[test]
fn what_comes_after_a_skipped_step_is_kept_without_it() {
    for [with, without] in [
        ["a b c d", "a c d"],
        ["g: a b<a c<b d<c", "g: a c<a d<c"],
        ["g: a b<a c<b d<c", "g: d<c c<a a"],
    ] {
        let said = of(&skipped(with), without);
        assert!(
            said.steps.iter().all(|step| step.number.is_some()),
            "{said:?}"
        );
    }
}

#[test]
fn what_comes_after_a_skipped_step_is_repeated_if_that_is_done_after_all() {
    let redone = of(&skipped("a b c"), "a b*1 c");
    let fates: Vec<Fate> = redone.steps.iter().map(|step| step.fate).collect();
    let again = Fate::Repeated { number: 3.into() };
    assert_eq!(fates, [Fate::Reused, Fate::Added, again]);
}

#[test]
fn what_is_reused_is_what_is_saved() {
    let mut world = World::with_plan(plan("a b t=1 d"));
    world.now += 2_000;
    world.reply(1, "", &[crate::world::look()]);
    world.result(1, 0, "text");
    world.now += 1_000;
    world.end(1);
    world.now += 500;
    world.end(2);
    world.now += 250;
    world.end(3);
    let saved = of(&world, "a b t=1 x").saved;
    // Every reply of the test model costs 100 tokens in and 10 out.
    assert_eq!((saved.steps, saved.tool_turns), (3, 3));
    assert_eq!(
        (saved.usage.input_tokens, saved.usage.output_tokens),
        (300, 30)
    );
    assert_eq!(saved.usage.cost_nano_usd, 7_500_000);
    assert_eq!(saved.duration_ms, 3_750);
    assert_eq!(of(&world, "a x").saved.duration_ms, 3_000);
    assert_eq!(of(&world, "x").saved, Saved::default());
}

#[test]
fn without_a_plan_everything_is_added_and_no_plan_is_refused() {
    let mut world = World::new();
    world.command(crate::world::with_goal("a goal"));
    let diff = of(&world, "a b");
    assert_eq!(
        (written(&diff).as_str(), diff.base_revision),
        ("new new", 0)
    );
    assert_eq!(diff.steps[1].label, "b");
    let none = cairn_views::plan_diff::diff(world.run(), &plan(""));
    assert_eq!(none, Err(PlanError::NoSteps));
}
