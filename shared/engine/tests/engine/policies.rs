//! What a run does when a step fails: stop, go on, ask for another plan.

use crate::control::{answer, pause, refused, resume};
use crate::world::notation::plan;
use crate::world::{World, fold, kinds};
use cairn_engine::command::{Command, LimitOverrides, OnFailure, RevisePlan};
use cairn_engine::event::{self, EventKind};
use cairn_engine::outstanding::Work;
use cairn_engine::plan::PlanDraft;
use cairn_engine::session::{PlanState, RunStatus, StepNo, StepStatus};
use std::collections::BTreeMap;

/// b fails; c waits for a, d for b, e for nothing but a free place.
const GRAPH: &str = "g: a b c<a d<b e";

fn world(on_failure: OnFailure, text: &str) -> World {
    let mut world = World::new();
    let limits = LimitOverrides {
        max_parallel_steps: 2,
        max_own_revisions: 2,
        on_failure: Some(on_failure),
        ..LimitOverrides::default()
    };
    world.start_with(plan(text), limits);
    world
}

fn own_revision() -> Work {
    Work::Plan {
        run: 1,
        request: Some(0),
    }
}

#[test]
fn as_many_steps_run_at_the_same_time_as_the_run_allows() {
    let mut world = world(OnFailure::Stop, GRAPH);
    assert_eq!(world.running(), [1, 2]);
    world.end(1);
    assert_eq!(world.running(), [2, 3]);
    world.end(3);
    assert_eq!(world.running(), [2, 5]);
}

#[test]
fn stop_begins_nothing_more_and_lets_end_what_runs() {
    let mut world = world(OnFailure::Stop, GRAPH);
    world.fail(2, refused());
    assert_eq!(
        (world.running(), world.run().status),
        (vec![1], RunStatus::Running)
    );
    world.end(1);
    assert_eq!(world.fates(5), "1d 2f 3p 4p 5p");
    assert_eq!(world.run().status, RunStatus::Failed);
    assert_eq!(world.run().end.failure, Some(refused()));
}

#[test]
fn going_on_leaves_out_what_depends_on_the_failure_and_fails_in_the_end() {
    let mut world = world(OnFailure::GoOn, GRAPH);
    world.fail(2, refused());
    while let Some(&step) = world.running().last() {
        world.end(step);
    }
    assert_eq!(world.fates(5), "1d 2f 3d 4p 5d");
    assert_eq!(world.run().status, RunStatus::Failed);
    assert_eq!(world.run().end.failure, Some(refused()), "the first one");
}

#[test]
fn a_new_plan_is_asked_for_once_nothing_runs() {
    let mut world = world(OnFailure::Revise, GRAPH);
    world.fail(2, refused());
    assert_eq!(world.running(), [1]);
    assert!(!world.outstanding().contains(&own_revision()));
    let events = world.end_events(1);
    assert_eq!(
        kinds(&events)[1..],
        ["StepCompleted", "RevisionRequested"][..]
    );
    assert_eq!(world.outstanding(), [own_revision()]);
    let change = &world.run().revisions.requests[&0];
    assert!(change.apply && change.feedback.contains("no"), "{change:?}");
    world.revised(Ok(plan("g: a x c<a d<x e")));
    assert_eq!(world.fates(5), "1d 6n 3r 7n 5p | 2f 4p");
    assert_eq!(world.run().revisions.own, 1);
    world.finish();
    assert_eq!(world.run().status, RunStatus::Completed);
}

/// After as many of them in a row as are allowed, the run fails; a person's change counts anew.
#[test]
fn a_run_asks_so_often_and_no_more() {
    let mut world = world(OnFailure::Revise, "a b");
    for revision in 1..=2 {
        let step = world.running()[0];
        world.fail(step, refused());
        assert_eq!(world.run().status, RunStatus::Running);
        world.revised(Ok(plan(&format!("again{revision} b"))));
        assert_eq!(world.run().revisions.own, revision);
    }
    let mut anew = world.clone();
    let step = world.running()[0];
    let events = world.fail(step, refused());
    assert_eq!(kinds(&events), ["StepFailed", "RunFailed"]);
    assert_eq!(world.outstanding(), []);

    for mut world in [anew.clone(), world] {
        world.command(edit("x y"));
        assert_eq!(world.run().revisions.own, 0);
        let step = world.running()[0];
        world.fail(step, refused());
        assert_eq!(world.outstanding(), [own_revision()]);
    }
    // So does a person's plan that comes while the run waits for its own.
    anew.command(edit("x y"));
    let step = anew.running()[0];
    anew.fail(step, refused());
    anew.command(edit("x z"));
    assert_eq!(anew.outstanding().len(), 1, "{:?}", anew.outstanding());
    assert!(!anew.outstanding().contains(&own_revision()));
    assert_eq!(fold(&anew.journal), anew.session);
}

fn edit(text: &str) -> Command {
    Command::RevisePlan(RevisePlan {
        run: 1,
        plan: Some(plan(text)),
        apply: true,
        ..RevisePlan::default()
    })
}

#[test]
fn a_run_whose_planner_knows_no_way_fails_for_what_failed() {
    for outcome in [Err(refused()), Ok(PlanDraft::default())] {
        let mut world = world(OnFailure::Revise, "a b");
        world.fail(1, refused());
        let events = world.revised(outcome);
        assert_eq!(kinds(&events), ["RevisionFailed", "RunFailed"]);
        assert_eq!(world.run().end.failure, Some(refused()));
    }
}

/// The planner's plan may say the same again: what failed is done again.
#[test]
fn the_same_plan_again_repeats_what_failed() {
    let mut world = world(OnFailure::Revise, "a b c");
    world.end(1);
    world.fail(2, refused());
    world.revised(Ok(plan("a b c")));
    assert_eq!(world.fates(3), "1d 4n 3p | 2f");
    assert_eq!(world.running(), [4]);
}

#[test]
fn a_failure_while_paused_waits_for_the_run() {
    for (policy, expected) in [
        (OnFailure::Stop, RunStatus::Failed),
        (OnFailure::GoOn, RunStatus::Running),
        (OnFailure::Revise, RunStatus::Running),
    ] {
        let mut world = world(policy, "g: a b c");
        world.end(1);
        assert_eq!(world.running(), [2, 3]);
        world.command(pause());
        world.fail(2, refused());
        world.end(3);
        assert_eq!(world.run().status, RunStatus::Paused);
        assert_eq!(world.outstanding(), []);
        world.command(resume());
        let expected = if policy == OnFailure::GoOn {
            RunStatus::Failed
        } else {
            expected
        };
        assert_eq!(world.run().status, expected, "{policy:?}");
        let asks = world.outstanding().contains(&own_revision());
        assert_eq!(asks, policy == OnFailure::Revise);
    }
}

/// A pause does not lose the run's own wish, and nobody is asked meanwhile.
#[test]
fn a_run_that_asks_for_a_plan_may_be_paused() {
    let mut world = world(OnFailure::Revise, "a b");
    world.fail(1, refused());
    world.command(pause());
    assert_eq!(world.outstanding(), []);
    assert_eq!(answer(&world.command(resume())), "");
    assert_eq!(world.outstanding(), [own_revision()]);
}

/// The same outcomes give the same plan, in whatever order they come. After a failure that stops the
/// run, what had not begun may begin no more: what has ended has ended the same way all the same.
#[test]
fn the_order_of_outcomes_does_not_matter() {
    let text = "g: a b c d e<a,b f<c g<b,d h";
    let orders = [[1, 2, 3, 4, 8], [8, 4, 3, 2, 1], [3, 8, 1, 4, 2]];
    for policy in [OnFailure::Stop, OnFailure::GoOn, OnFailure::Revise] {
        let outcomes = orders.map(|order| {
            let mut world = World::new();
            let limits = LimitOverrides {
                max_parallel_steps: 8,
                on_failure: Some(policy),
                ..LimitOverrides::default()
            };
            world.start_with(plan(text), limits);
            for step in order {
                if step == 3 {
                    world.fail(step, refused());
                } else {
                    world.end(step);
                }
            }
            while policy == OnFailure::GoOn
                && let Some(&step) = world.running().first()
            {
                world.end(step);
            }
            world
        });
        if policy == OnFailure::GoOn {
            let fates = outcomes.each_ref().map(|world| world.fates(8));
            assert_eq!(fates, ["1d 2d 3f 4d 5d 6p 7d 8d"; 3]);
        }
        let ends = outcomes.each_ref().map(ends);
        for (step, end) in &ends[0] {
            let others = ends[1..].iter().filter_map(|other| other.get(step));
            assert!(others.into_iter().all(|other| other == end), "step {step}");
        }
        for world in &outcomes {
            let f = &world.run().plan.as_ref().unwrap().steps[5];
            assert_eq!(f.status, StepStatus::Pending, "it depends on the failure");
            let begun = world.journal.iter().filter(|event| {
                matches!(&event.kind, EventKind::StepStarted(event::StepStarted { attempt, .. }) if attempt.step == 6.into())
            });
            assert_eq!(begun.count(), 0);
        }
    }
}

/// How the steps ended that did.
fn ends(world: &World) -> BTreeMap<StepNo, StepStatus> {
    let steps = world.run().plan.iter().flat_map(PlanState::current);
    let ended = steps.filter(|(_, step)| step.has_ended());
    ended
        .map(|(number, step)| (number, step.status.clone()))
        .collect()
}

impl World {
    fn end_events(&mut self, step: u32) -> Vec<event::Event> {
        let known = self.journal.len();
        self.end(step);
        // The reply and its call come first.
        let events = &self.journal[known + 1..];
        events.to_vec()
    }
}
