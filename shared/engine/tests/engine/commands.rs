//! Commands: each is answered once, by the event that accepts or refuses it.

use crate::world::{World, chain, graph, kinds, look, model_step, send, tool_step, with_goal};
use cairn_engine::command::{self, Command, LimitOverrides, Settlement, StartRun};
use cairn_engine::decide::Input;
use cairn_engine::event::Budget;
use cairn_engine::event::{self, Event, EventKind, WaitReason};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::limits::MAX_GOAL;
use cairn_engine::outstanding::Work;
use cairn_engine::session::{PerBudget, RunStatus, StepStatus};

fn refusal(events: &[Event]) -> (&str, &str) {
    match events.iter().map(|event| &event.kind).next_back() {
        Some(EventKind::CommandRefused(event::CommandRefused {
            reason, message, ..
        })) => (reason.name(), message),
        other => panic!("not refused: {other:?}"),
    }
}

fn cancel(world: &mut World, run: u32) -> Vec<Event> {
    let reason = "no longer needed".to_owned();
    world.command(Command::CancelRun(command::CancelRun { run, reason }))
}

#[test]
fn a_session_may_be_made_with_its_first_command() {
    let mut world = World::new();
    world.session = cairn_engine::session::Session::default();
    world.journal.clear();
    let command = Some(("request".to_owned(), with_goal("a goal")));
    let title = "a title".to_owned();
    let time_to_live_ms = 1000;
    let events = world.decide(Input::Create {
        title,
        time_to_live_ms,
        principal: None,
        command,
    });
    assert_eq!(
        kinds(&events),
        ["SessionCreated", "CommandReceived", "RunStarted"]
    );
    assert_eq!(world.session.title, "a title");
    assert_eq!(world.session.handled_through, 2);
    assert_eq!(
        world.outstanding(),
        [Work::Plan {
            run: 1,
            request: None,
        }]
    );
    assert!(
        world
            .try_decide(Input::Create {
                title: String::new(),
                time_to_live_ms: 0,
                principal: None,
                command: None
            })
            .is_err()
    );
}

#[test]
fn a_goal_is_planned_first() {
    let mut world = World::new();
    world.command(with_goal("a goal"));
    assert_eq!(world.run().status, RunStatus::Planning);
    world.planned(Ok(chain(vec![model_step("a")])));
    assert_eq!(world.run().status, RunStatus::Running);
    assert_eq!(world.run().spent.usage.input_tokens, 50);
    assert_eq!(world.running(), [1]);
    let before = world.session.clone();
    world.planned(Ok(chain(vec![model_step("late")])));
    assert_eq!(world.session, before, "a second plan comes too late");
}

#[test]
fn a_run_without_a_plan_fails_with_the_planners_reason() {
    let mut world = World::new();
    world.command(with_goal("a goal"));
    world.planned(Err(Failure::new(
        FailureKind::PlanParse,
        "BadJson",
        "no JSON",
    )));
    assert_eq!(world.run().status, RunStatus::Failed);
    assert_eq!(world.run().end.failure.as_ref().unwrap().reason, "BadJson");
    assert_eq!(
        world.run().spent.usage.input_tokens,
        50,
        "planning was paid for"
    );
}

#[test]
fn a_plan_that_cannot_be_carried_out_fails_the_run() {
    let mut world = World::new();
    world.command(with_goal("a goal"));
    world.planned(Ok(chain(vec![])));
    let failure = world.run().end.failure.as_ref().unwrap();
    assert_eq!(failure.kind, FailureKind::PlanParse);
    assert_eq!(failure.message, "a plan needs at least one step");
    assert_eq!(world.run().status, RunStatus::Failed);
    assert_eq!(
        world.run().spent.usage.input_tokens,
        50,
        "planning was paid for"
    );
}

#[test]
fn a_second_run_waits_for_the_end_of_the_first() {
    let mut world = World::with_plan(chain(vec![model_step("a")]));
    let events = world.command(with_goal("another"));
    let expected = (
        "RUN_ACTIVE",
        "run 1 is active; wait for its end or cancel it",
    );
    assert_eq!(refusal(&events), expected);
    world.complete(1, "done");
    world.command(with_goal("another"));
    assert_eq!(world.session.runs.len(), 2);
    assert_eq!(world.run().number, 2);
}

#[test]
fn a_run_that_makes_no_sense_is_refused() {
    let mut world = World::new();
    let bad_plan = Command::StartRun(StartRun {
        plan: Some(chain(vec![])),
        ..StartRun::default()
    });
    let events = world.command(bad_plan);
    assert_eq!(
        refusal(&events),
        ("BAD_PLAN", "a plan needs at least one step")
    );
    for goal in ["", " \n"] {
        let events = world.command(with_goal(goal));
        assert_eq!(
            refusal(&events),
            ("BAD_GOAL", "a run needs a goal or a plan")
        );
    }
    let events = world.command(with_goal(&"g".repeat(MAX_GOAL + 1)));
    let expected = "the goal has 65537 bytes; at most 65536 are allowed";
    assert_eq!(refusal(&events), ("BAD_GOAL", expected));
    assert!(world.session.runs.is_empty());
}

#[test]
fn limits_that_are_not_given_are_the_defaults() {
    let mut world = World::new();
    let limits = LimitOverrides {
        budgets: PerBudget::from([(Budget::Turns, 3)]),
        ..LimitOverrides::default()
    };
    world.start_with(chain(vec![model_step("a")]), limits);
    let limits = world.run().limits;
    assert_eq!(
        (
            limits.max_tool_turns,
            limits.budgets[Budget::Turns],
            limits.max_parallel_steps
        ),
        (10, 3, 8)
    );
}

#[test]
fn commands_are_answered_in_order() {
    let mut world = World::new();
    for (n, command) in [with_goal("a"), with_goal("b")].into_iter().enumerate() {
        world.foreign(EventKind::CommandReceived(event::CommandReceived {
            request_id: n.to_string(),
            command,
        }));
    }
    assert_eq!(world.outstanding(), [Work::HandleCommand]);
    let events = world.decide(Input::HandleCommand);
    assert_eq!(kinds(&events), ["RunStarted"]);
    assert_eq!(world.session.handled_through, 2);
    assert_eq!(world.outstanding()[0], Work::HandleCommand);
    let events = world.decide(Input::HandleCommand);
    assert_eq!(refusal(&events).0, "RUN_ACTIVE");
    assert_eq!(world.session.handled_through, 3);
    assert!(world.decide(Input::HandleCommand).is_empty());
}

#[test]
fn a_run_can_be_cancelled_while_it_is_planned() {
    let mut world = World::new();
    world.command(with_goal("a goal"));
    let events = cancel(&mut world, 1);
    assert_eq!(kinds(&events), ["RunCancelled"]);
    assert_eq!(world.run().end.cancel_reason, "no longer needed");
    assert!(world.outstanding().is_empty());
}

#[test]
fn cancelling_skips_what_runs_and_puts_what_may_have_happened_in_doubt() {
    let mut world = World::with_plan(graph(vec![
        model_step("a"),
        tool_step("b", "send"),
        tool_step("c", "look"),
    ]));
    world.reply(1, "", &[look(), send()]);
    let events = cancel(&mut world, 1);
    let expected = [
        "CallInDoubt",
        "StepSkipped",
        "CallInDoubt",
        "StepSkipped",
        "StepSkipped",
        "RunCancelled",
    ];
    assert_eq!(kinds(&events), expected);
    assert_eq!(world.run().status, RunStatus::Cancelled);
    assert_eq!(world.in_doubt(), 0);
    let StepStatus::Skipped { reason, .. } = world.status(1) else {
        panic!("{:?}", world.status(1));
    };
    let reported = "cancelled; a call had been sent, and its outcome is not known";
    assert_eq!(reason, reported);
    assert!(world.outstanding().is_empty());
}

#[test]
fn a_run_can_be_cancelled_while_it_waits() {
    let mut in_doubt = World::with_plan(chain(vec![tool_step("a", "send")]));
    in_doubt.decide(Input::TakenOver { holder_dead: false });
    let mut answered = in_doubt.clone();
    answered.answer("call-1.1.1.0.0", Settlement::Retry);
    let mut budget = World::new();
    let limits = LimitOverrides {
        budgets: PerBudget::from([(Budget::Turns, 1)]),
        ..LimitOverrides::default()
    };
    budget.start_with(chain(vec![model_step("a")]), limits);
    budget.reply(1, "hm", &[]);
    assert_eq!(budget.run().status, RunStatus::Waiting(WaitReason::Budget));
    for mut world in [in_doubt, answered, budget] {
        assert!(matches!(world.run().status, RunStatus::Waiting(_)));
        cancel(&mut world, 1);
        assert_eq!(world.run().status, RunStatus::Cancelled);
        assert_eq!(world.in_doubt(), 0);
        world.now += 1_000_000;
        assert!(world.decide(Input::Tick).is_empty());
        assert!(
            world
                .decide(Input::TakenOver { holder_dead: true })
                .is_empty()
        );
    }
}

#[test]
fn a_run_that_has_ended_cannot_be_cancelled() {
    let mut completed = World::with_plan(chain(vec![model_step("a")]));
    completed.complete(1, "done");
    let mut failed = World::with_plan(chain(vec![tool_step("a", "look")]));
    failed.error(1, 0, "ExecutionFailed");
    let mut cancelled = World::with_plan(chain(vec![model_step("a")]));
    cancel(&mut cancelled, 1);
    for (mut world, how) in [
        (completed, "completed"),
        (failed, "failed"),
        (cancelled, "cancelled"),
    ] {
        let events = cancel(&mut world, 1);
        assert_eq!(
            refusal(&events),
            ("RUN_ENDED", format!("run 1 has ended: {how}").as_str())
        );
        let events = cancel(&mut world, 2);
        assert_eq!(refusal(&events), ("NO_SUCH_RUN", "run 2 does not exist"));
    }
}

#[test]
fn at_most_so_many_steps_run_at_the_same_time() {
    let mut world = World::new();
    let limits = LimitOverrides {
        max_parallel_steps: 2,
        ..LimitOverrides::default()
    };
    let steps = ["a", "b", "c", "d"].map(model_step).to_vec();
    world.start_with(graph(steps), limits);
    assert_eq!(world.running(), [1, 2]);
    world.complete(2, "done");
    assert_eq!(world.running(), [1, 3]);
    world.complete(1, "done");
    assert_eq!(world.running(), [3, 4]);
}
