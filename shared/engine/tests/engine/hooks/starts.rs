//! Runs, plans, steps and turns begin once hooks let them.

use super::{HOOK, block, blocked, check, failure, idle, is_planning, person, world};
use crate::world::{World, chain, kinds, model_step, with_goal};
use cairn_engine::command::{Command, RevisePlan, Settlement};
use cairn_engine::decide::Input;
use cairn_engine::hooks::{Mutation, Payload, Point, Verdict};
use cairn_engine::session::{RunStatus, StepStatus};

#[test]
fn a_run_does_nothing_before_its_start_is_answered() {
    let mut world = idle(&[Point::OnRunStart]);
    world.command(with_goal("count"));
    assert!(!is_planning(&world));
    let payload = world.payload();
    assert!(matches!(&payload, Payload::RunStart { goal, .. } if goal == "count"));
    let mut blocks = world.clone();
    assert_eq!(
        blocks.hook(Point::OnRunStart, block()),
        ["HooksAnswered", "RunEnding", "RunFailed"]
    );
    assert_eq!(failure(&blocks), blocked(Point::OnRunStart));
    let mut asks = world.clone();
    assert_eq!(
        asks.hook(Point::OnRunStart, person()),
        ["HooksAnswered", "RunWaiting"]
    );
    assert_eq!(asks.run().status, HOOK);
    assert!(asks.outstanding().is_empty());
    let mut denied = asks.clone();
    let reason = String::new();
    denied.answer("hook-1", Settlement::Deny { reason });
    assert_eq!(denied.run().status, RunStatus::Failed);
    asks.answer("hook-1", Settlement::Approve);
    assert!(is_planning(&asks));
    check(&asks);
    assert_eq!(
        world.hook(Point::OnRunStart, Verdict::Proceed),
        ["HooksAnswered"]
    );
    assert!(is_planning(&world));
}

#[test]
fn a_plan_comes_into_force_as_hooks_leave_it() {
    let world = idle(&[Point::OnPlanProposed]);
    let plan = || chain(vec![model_step("a")]);
    let mut given = world.clone();
    given.start(plan());
    let mut planned = world;
    planned.command(with_goal("count"));
    planned.planned(Ok(plan()));
    let used = planned.run().spent.usage;
    assert_eq!(used.input_tokens, 50);
    assert!(!is_planning(&planned));
    for mut world in [given, planned] {
        let Payload::PlanProposed { plan, feedback } = world.payload() else {
            panic!("{:?}", world.gate());
        };
        assert_eq!((plan.steps.len(), feedback.as_str()), (1, ""));
        let mut blocks = world.clone();
        blocks.hook(Point::OnPlanProposed, block());
        assert_eq!(failure(&blocks), blocked(Point::OnPlanProposed));
        let mut asks = world.clone();
        let events = asks.hook(Point::OnPlanProposed, person());
        assert_eq!(events, ["HooksAnswered", "PlanProposed", "RunWaiting"]);
        asks.answer("plan-1.1", Settlement::Approve);
        assert_eq!(asks.running(), [1]);
        let more = chain(vec![model_step("b"), model_step("c")]);
        world.hook(Point::OnPlanProposed, Verdict::Mutate(Mutation::Plan(more)));
        assert_eq!(world.run().plan.as_ref().unwrap().steps.len(), 2);
        assert_eq!(world.running(), [1]);
    }
}

#[test]
fn a_blocked_revision_fails_its_request_only() {
    let mut world = idle(&[Point::OnPlanProposed]);
    world.start(chain(vec![model_step("a")]));
    world.hook(Point::OnPlanProposed, Verdict::Proceed);
    world.command(Command::RevisePlan(RevisePlan {
        feedback: "add a test".to_owned(),
        apply: true,
        ..RevisePlan::default()
    }));
    let events = world.revised(Ok(chain(vec![model_step("b")])));
    assert_eq!(kinds(&events), ["HooksAsked"]);
    assert!(!is_planning(&world), "the planner has answered");
    let mut passes = world.clone();
    passes.hook(Point::OnPlanProposed, Verdict::Proceed);
    assert_eq!(passes.run().revision(), 2);
    let events = world.hook(Point::OnPlanProposed, block());
    assert_eq!(events, ["HooksAnswered", "RevisionFailed"]);
    assert_eq!((world.run().revision(), world.running()), (1, vec![1]));
}

#[test]
fn a_step_starts_once_hooks_let_it() {
    let world = world(&[Point::OnStepStart]);
    assert!(world.running().is_empty());
    let payload = world.payload();
    assert!(matches!(&payload, Payload::StepStart { title, .. } if title == "a"));
    let mut skips = world.clone();
    let events = skips.hook(Point::OnStepStart, Verdict::Skip("done by hand".to_owned()));
    assert_eq!(events, ["HooksAnswered", "StepSkipped", "RunCompleted"]);
    let mut blocks = world.clone();
    blocks.hook(Point::OnStepStart, block());
    assert_eq!(failure(&blocks), blocked(Point::OnStepStart));
    let mut asks = world.clone();
    asks.hook(Point::OnStepStart, person());
    assert_eq!((asks.run().status, asks.running()), (HOOK, vec![]));
    let mut denied = asks.clone();
    let reason = String::new();
    denied.answer("hook-1", Settlement::Deny { reason });
    assert!(matches!(denied.status(1), StepStatus::Failed { .. }));
    asks.answer("hook-1", Settlement::Approve);
    assert_eq!(
        (asks.run().status, asks.running()),
        (RunStatus::Running, vec![1])
    );
    let mut passes = world;
    passes.hook(Point::OnStepStart, Verdict::Proceed);
    assert_eq!(passes.running(), [1]);
    passes.complete(1, "done");
    assert_eq!(passes.run().status, RunStatus::Completed);
}

#[test]
fn an_attempt_is_told_nothing_before_its_turn_starts() {
    let world = world(&[Point::OnTurnStart]);
    let name = world.attempt(1);
    let system = |world: &World| {
        let attempt = world.session.attempt(name).unwrap();
        attempt.waiting_ops.len()
    };
    assert_eq!((world.running(), system(&world)), (vec![1], 0));
    let mut taken_over = world.clone();
    taken_over.decide(Input::TakenOver { holder_dead: true });
    assert_eq!((taken_over.gate(), system(&taken_over)), (world.gate(), 0));
    let mut blocks = world.clone();
    blocks.hook(Point::OnTurnStart, block());
    assert_eq!(failure(&blocks), blocked(Point::OnTurnStart));
    let mut passes = world;
    let events = passes.hook(Point::OnTurnStart, Verdict::Proceed);
    assert_eq!(events, ["HooksAnswered", "ContextChanged"]);
    assert!(system(&passes) > 0);
}
