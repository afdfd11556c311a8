//! Running steps that another plan keeps or stops, at every point of a step, and steps that were to
//! be done again.

use crate::changes::{apply, change};
use crate::control::running;
use crate::control_points::{check_effects, each_point, is_begun};
use crate::world::notation::plan;
use crate::world::{World, chain, finished, fold, model_step, report_reply, send, step_context};
use cairn_engine::command::{self, Command};
use cairn_engine::decide::Input;
use cairn_engine::event::CallFinished;
use cairn_engine::outstanding::Work;
use cairn_engine::pending::pending;
use cairn_engine::session::{RunStatus, StepStatus};

/// It is stopped before it can call another tool, nobody is asked about its calls, and what they
/// came to is kept with it.
#[test]
fn a_running_step_that_does_not_hold_is_stopped() {
    each_point(|name, mut world| {
        let attempt = world.attempt(2);
        let turns = world.run().spent.tool_turns;
        let events = world.command(apply("a x c d"));
        assert_eq!(world.fates(4), "1d 5n 6n 7n | 2s 3p 4p", "{name}");
        let superseded = StepStatus::Skipped {
            reason: "superseded".to_owned(),
            by_person: false,
        };
        assert_eq!(*world.status(2), superseded, "{name}");
        check_effects(name, &world);
        assert_eq!(world.run().status, RunStatus::Running, "{name}");
        assert_eq!((world.in_doubt(), pending(&world.session).len()), (0, 0));
        assert_eq!(
            world.outstanding(),
            [Work::RunStep(world.attempt(5))],
            "{name}"
        );
        assert!(is_begun(&events), "the next step begins at once");
        // Nothing of it is heard any more, and nobody has the attempt continued.
        for late in [
            report_reply(attempt, (turns, 0), "late", &[send()]),
            Input::AttemptLost { attempt },
        ] {
            assert!(world.decide(late).is_empty(), "{name}");
        }
        world.now += 1_000_000;
        assert!(world.decide(Input::Tick).is_empty(), "{name}");
        assert_eq!(fold(&world.journal), world.session);
    });
}

/// It continues as if nothing had been: what it was told, its calls, its questions.
#[test]
fn a_running_step_that_holds_continues_undisturbed() {
    each_point(|name, mut world| {
        let attempt = world.attempt(2);
        let reported = step_context(&world.session, attempt);
        let (work, open) = (world.outstanding(), pending(&world.session));
        let calls = |world: &World| world.session.attempt(attempt).unwrap().calls.clone();
        let before = calls(&world);
        let events = world.command(apply("a b x y z"));
        assert!(!is_begun(&events), "{name}");
        assert_eq!(world.fates(4), "1d 2r 5n 6n 7n | 3p 4p", "{name}");
        assert_eq!(calls(&world), before, "{name}");
        assert_eq!(
            (world.outstanding(), pending(&world.session)),
            (work, open),
            "{name}"
        );
        assert_eq!(step_context(&world.session, attempt), reported, "{name}");
        // Also after a crash, and after one more plan.
        world.session = world.folded();
        world.decide(Input::TakenOver { holder_dead: true });
        world.command(apply("a b"));
        assert_eq!(step_context(&world.session, attempt), reported, "{name}");
        let text = reported.unwrap();
        assert!(
            text.contains("3. c\n4. d"),
            "it knows the plan of then: {text}"
        );
    });
}

/// A step that begins after a revision is told of the plan that is in force.
#[test]
fn a_new_step_is_reported_of_the_plan_in_force_by_its_places() {
    let mut world = running();
    world.command(apply("a x"));
    let text = step_context(&world.session, world.attempt(5)).unwrap();
    let expected = "\
## Requirement
the goal

## Plan overview
1. a done
2. x >> current

## Current step (step 2)
Title: x
Description: Do x.

## Summaries of finished steps
- Step 1: it is done";
    assert_eq!(text, expected);
}

fn redo(world: &mut World, step: u32) {
    let step = step.into();
    world.command(Command::RedoStep(command::RedoStep { run: 1, step }));
}

/// Whoever writes a plan does not know how often steps were done again.
#[test]
fn a_planners_plan_keeps_what_was_done_again() {
    let mut world = World::with_plan(plan("g: a b"));
    world.end(1);
    redo(&mut world, 1);
    assert_eq!(world.fates(2), "3n 2r | 1d");
    world.end(3);
    world.command(change(true));
    world.revised(Ok(plan("g: a b c")));
    assert_eq!(world.fates(3), "3d 2r 4n | 1d");
    // Not even after a plan without it.
    world.command(apply("g: b c"));
    assert_eq!(world.fates(4), "2r 4r | 1d 3d");
    world.command(apply("g: b c a"));
    assert_eq!(world.fates(4), "2r 4r 3d | 1d");
}

/// Equal steps are told apart by their order: only the one that was meant is done again, and stays.
#[test]
fn one_of_two_equal_steps_is_done_again() {
    let mut world = World::with_plan(plan("g: a x:a"));
    world.end(1);
    world.end(2);
    assert_eq!(world.run().status, RunStatus::Completed);
    redo(&mut world, 2);
    assert_eq!(world.fates(2), "1d 3n | 2d");
    world.end(3);
    world.command(apply("g: a x:a y:b"));
    assert_eq!(world.fates(3), "1d 3d 4n | 2d");
    // One more with these words than there were is not the one before it was done again.
    world.command(apply("g: a x:a y:b z:a"));
    assert_eq!(world.fates(4), "1d 3d 4r 5n | 2d");
}

#[test]
fn a_skipped_step_may_be_redone_and_a_failed_one_repeats_alone() {
    let mut world = running();
    world.command(Command::SkipStep(command::SkipStep {
        run: 1,
        step: 2.into(),
        reason: String::new(),
    }));
    redo(&mut world, 2);
    assert_eq!(world.fates(4), "1d 5n 6n 7n | 2w 3s 4p");
    world.fail(5, crate::control::refused());
    assert_eq!(world.run().status, RunStatus::Failed);
    redo(&mut world, 5);
    assert_eq!(world.fates(7), "1d 8n 9n 10n | 2w 3s 4p 5f 6p 7p");
    world.finish();
    assert_eq!(world.run().status, RunStatus::Completed);
    assert_eq!(world.run().end.failure, None);
}

/// Tools refuse what is not allowed before it is called.
#[test]
fn a_call_that_was_not_allowed_has_done_nothing() {
    for (reason, effects) in [
        (CallFinished::DENIED, 0),
        (CallFinished::NOT_SENT, 0),
        ("ExecutionFailed", 1),
    ] {
        let mut world = World::with_plan(chain(vec![model_step("one")]));
        world.reply(1, "", &[send()]);
        let call = world.call(1, 0);
        // A call that is not sent again, because the model was told.
        let result = finished(call, "no", reason);
        let reply = report_reply(world.attempt(1), (1, 1), "hm", &[]);
        let Input::Report { attempt, reply, .. } = reply else {
            unreachable!("a report");
        };
        world.decide(Input::Report {
            unfinished: Vec::new(),
            attempt,
            results: vec![result],
            reply,
            failure: None,
            full: None,
            summary: None,
            retry: None,
        });
        let step = world.session.step(world.attempt(1)).unwrap();
        assert_eq!(step.effects.len(), effects, "{reason}");
    }
}
