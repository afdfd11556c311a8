//! Hooks are asked about errors and about the ends of turns, steps and runs.

use super::{block, blocked, failure, idle, is_planning, outcome, world};
use crate::turns::submit;
use crate::world::{hooked, kinds, with_goal};
use cairn_engine::command::{CancelRun, Command};
use cairn_engine::decide::Input;
use cairn_engine::event::{Event, EventKind};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::hooks::{EndStatus, Gate, Payload, Point, Verdict};
use cairn_engine::session::{RunStatus, StepStatus};

#[test]
fn hooks_hear_of_the_turn_before_the_step() {
    let mut world = world(&[Point::OnTurnEnd, Point::OnPlanStepComplete]);
    let events = world.complete(1, "done");
    assert_eq!(
        kinds(&events),
        ["ReplyReceived", "CallFinished", "StepCompleted"]
    );
    let payload = world.payload();
    assert!(matches!(&payload, Payload::TurnEnd { summary, .. } if summary == "done"));
    let mut blocks = world.clone();
    let events = blocks.hook(Point::OnTurnEnd, block());
    assert_eq!(events, ["HooksAnswered", "RunEnding"]);
    let events = blocks.hook(Point::OnPlanStepComplete, Verdict::Proceed);
    assert_eq!(events, ["HooksAnswered", "RunFailed"]);
    assert_eq!(failure(&blocks), blocked(Point::OnTurnEnd));
    assert!(
        matches!(blocks.status(1), StepStatus::Completed { .. }),
        "it stands"
    );
    world.hook(Point::OnTurnEnd, Verdict::Proceed);
    let payload = world.payload();
    let Payload::StepEnd { status, .. } = payload else {
        panic!("{payload:?}");
    };
    assert_eq!(status, EndStatus::Completed);
    let events = world.hook(Point::OnPlanStepComplete, Verdict::Proceed);
    assert_eq!(events, ["HooksAnswered", "RunCompleted"]);
}

#[test]
fn an_error_is_told_before_the_run_ends() {
    let wrong = || Failure::new(FailureKind::Llm, "Server", "it is down");
    let mut step = world(&[Point::OnError]);
    assert_eq!(kinds(&step.fail(1, wrong())), ["StepFailed"]);
    let mut plan = idle(&[Point::OnError]);
    plan.command(with_goal("count"));
    plan.planned(Err(wrong()));
    assert_eq!(plan.run().spent.usage.input_tokens, 50);
    for mut world in [step, plan] {
        assert_eq!(world.payload(), Payload::Error(wrong()));
        assert!(!is_planning(&world));
        let events = world.hook(Point::OnError, Verdict::Proceed);
        assert_eq!(events, ["HooksAnswered", "RunFailed"]);
        assert_eq!(world.run().end.failure, Some(wrong()));
    }
}

#[test]
fn the_end_of_a_run_holds_nothing_up() {
    let mut world = idle(&[Point::OnRunEnd]);
    submit(&mut world, "hello");
    world.reply(1, "hi", &[]);
    assert_eq!(world.run().status, RunStatus::Completed);
    let payload = world.payload();
    let Payload::RunEnd { status, usage, .. } = payload else {
        panic!("{payload:?}");
    };
    assert_eq!((status, usage.model_calls), (EndStatus::Completed, 1));
    submit(&mut world, "once more");
    assert_eq!(world.running(), [1]);
    assert_eq!(world.gate(), Gate::of_run(Point::OnRunEnd, 1));
    assert_eq!(
        world.hook(Point::OnRunEnd, Verdict::Proceed),
        ["HooksAnswered"]
    );
    let run = world.run().number;
    let reason = String::new();
    world.command(Command::CancelRun(CancelRun { run, reason }));
    let payload = world.payload();
    assert!(matches!(
        payload,
        Payload::RunEnd {
            status: EndStatus::Skipped,
            ..
        }
    ));
}

#[test]
fn a_limit_ends_a_run_that_waits_for_hooks() {
    let mut world = world(&[Point::PreRequest, Point::OnError, Point::OnRunEnd]);
    let failure = Failure::new(FailureKind::LimitExceeded, "journal_events", "it is full");
    world.decide(Input::LimitReached { failure });
    assert_eq!(world.run().status, RunStatus::Failed);
    let events = {
        let gate = world.gate();
        let outcomes = vec![outcome(Verdict::Proceed)];
        world.decide(hooked(gate, outcomes))
    };
    let [Event { kind, .. }] = &events[..] else {
        panic!("{events:?}");
    };
    assert!(matches!(kind, EventKind::HooksAnswered(_)) && kind.ends_only());
}
