//! Limits on tool turns: of an attempt, and of a run.

use crate::world::{
    World, after, chain, finished, graph, kinds, look, model_step, send, tool_step,
};
use cairn_engine::command::{LimitOverrides, RunLimits, Settlement};
use cairn_engine::event::Budget;
use cairn_engine::event::{self, EventKind, WaitReason};
use cairn_engine::failure::FailureKind;
use cairn_engine::outstanding::Work;
use cairn_engine::plan::PlanDraft;
use cairn_engine::refusal::Refusal;
use cairn_engine::session::{PerBudget, RunStatus, StepStatus};

const WAITING: RunStatus = RunStatus::Waiting(WaitReason::Budget);

fn with_turns(plan: PlanDraft, max_turns: u32) -> World {
    let mut world = World::new();
    let limits = LimitOverrides {
        budgets: PerBudget::from([(Budget::Turns, max_turns.into())]),
        ..LimitOverrides::default()
    };
    world.start_with(plan, limits);
    world
}

fn fail() -> Settlement {
    Settlement::Fail {
        reason: "enough".to_owned(),
    }
}

#[test]
fn the_defaults_are_ten_and_fifty() {
    let world = World::with_plan(chain(vec![model_step("a")]));
    let limits = world.run().limits;
    assert_eq!(
        (limits.max_tool_turns, limits.budgets[Budget::Turns]),
        (10, 50)
    );
    assert_eq!(limits, RunLimits::default());
}

#[test]
fn one_tool_turn_too_many_fails_the_step_and_says_so() {
    let mut world = World::with_plan(chain(vec![model_step("a")]));
    for _ in 0..10 {
        world.reply(1, "hm", &[]);
    }
    assert_eq!(world.running(), [1]);
    world.reply(1, "hm", &[]);
    let StepStatus::Failed { failure } = world.status(1) else {
        panic!("{:?}", world.status(1));
    };
    assert_eq!(failure.kind, FailureKind::LimitExceeded);
    assert_eq!(failure.reason, "max_tool_turns");
    assert!(
        failure.message.contains("10 tool turns"),
        "{}",
        failure.message
    );
    assert_eq!(world.run().status, RunStatus::Failed);
}

#[test]
fn the_reply_over_the_limit_is_paid_for_too() {
    let mut world = World::with_plan(chain(vec![model_step("a")]));
    for _ in 0..11 {
        world.reply(1, "hm", &[]);
    }
    assert_eq!(world.run().spent.usage.model_calls, 11);
}

#[test]
fn a_run_without_tool_turns_left_waits_and_continues_when_it_gets_more() {
    let mut world = with_turns(chain(vec![model_step("a")]), 2);
    world.reply(1, "hm", &[]);
    assert_eq!(world.run().status, RunStatus::Running);
    let events = world.reply(1, "hm", &[]);
    assert_eq!(
        kinds(&events),
        [
            "ReplyReceived",
            "ContextChanged",
            "BudgetExhausted",
            "RunWaiting"
        ]
    );
    assert_eq!(world.run().status, WAITING);
    assert!(world.outstanding().is_empty());
    let events = world.answer("budget-1", Settlement::Retry);
    assert_eq!(kinds(&events), ["Decided", "BudgetRaised", "RunResumed"]);
    assert_eq!(world.outstanding(), [Work::RunStep(world.attempt(1))]);
    world.reply(1, "hm", &[]);
    world.reply(1, "hm", &[]);
    assert_eq!(world.run().status, WAITING);
    // Another question: an answer to the first that is sent again does not count for it.
    assert_eq!(
        kinds(&world.answer("budget-1", Settlement::Retry)),
        ["CommandRefused"]
    );
    let events = world.answer("budget-1-2", Settlement::Retry);
    assert_eq!(kinds(&events), ["Decided", "BudgetRaised", "RunResumed"]);
}

#[test]
fn a_step_that_ends_with_the_last_turn_is_done() {
    let mut world = with_turns(chain(vec![model_step("a"), model_step("b")]), 1);
    world.complete(1, "done");
    assert!(matches!(world.status(1), StepStatus::Completed { .. }));
    assert_eq!(world.run().status, WAITING, "step 2 needs a turn");
    world.answer("budget-1", Settlement::Retry);
    world.complete(2, "done");
    assert_eq!(world.run().status, RunStatus::Completed);
}

#[test]
fn the_calls_of_the_last_turn_are_still_made() {
    let mut world = with_turns(chain(vec![model_step("a")]), 1);
    world.reply(1, "", &[look(), send(), crate::world::complete("sent")]);
    assert_eq!(world.run().status, RunStatus::Running);
    assert_eq!(world.outstanding(), [Work::RunStep(world.attempt(1))]);
    world.result(1, 0, "text");
    world.result(1, 1, "sent");
    assert_eq!(world.run().status, RunStatus::Completed);
}

#[test]
fn only_what_needs_a_turn_waits_for_one() {
    let plan = graph(vec![
        model_step("a"),
        model_step("b"),
        tool_step("c", "look"),
        after(tool_step("d", "look"), &["3"]),
    ]);
    let mut world = with_turns(plan, 1);
    world.reply(1, "", &[send()]);
    assert_eq!(world.run().status, WAITING, "step 2 needs a turn");
    let runs = [1, 3].map(|step| Work::RunStep(world.attempt(step)));
    assert_eq!(world.outstanding(), runs);
    world.result(1, 0, "sent");
    world.result(3, 0, "text");
    assert_eq!(world.outstanding(), [Work::RunStep(world.attempt(4))]);
}

#[test]
fn no_turn_is_taken_while_the_run_waits_for_something_else() {
    let mut world = with_turns(graph(vec![model_step("a"), tool_step("b", "send")]), 1);
    world.decide(cairn_engine::decide::Input::AttemptLost {
        attempt: world.attempt(2),
    });
    world.reply(1, "hm", &[]);
    assert_eq!(world.run().status, RunStatus::Waiting(WaitReason::InDoubt));
    assert!(world.outstanding().is_empty(), "the budget is used up");
    world.now += 1_000_000;
    let done = Settlement::Done {
        output: "sent".to_owned(),
    };
    world.answer("call-1.2.1.0.0", done);
    assert_eq!(world.run().status, WAITING);
}

#[test]
fn a_person_may_end_the_run_instead() {
    let mut world = with_turns(chain(vec![model_step("a"), model_step("b")]), 1);
    world.reply(1, "hm", &[]);
    world.answer("budget-1", fail());
    let run = world.run();
    assert_eq!(run.status, RunStatus::Failed);
    let failure = run.end.failure.as_ref().unwrap();
    assert_eq!(
        (failure.kind, failure.reason.as_str()),
        (FailureKind::LimitExceeded, "max_turns")
    );
    assert!(failure.message.contains("enough"), "{}", failure.message);
    assert!(
        matches!(world.status(1), StepStatus::Failed { .. }),
        "no step runs on"
    );
    assert_eq!(*world.status(2), StepStatus::Pending);
}

#[test]
fn ending_the_run_hears_the_calls_that_are_under_way() {
    let mut world = with_turns(graph(vec![model_step("a"), tool_step("b", "send")]), 1);
    world.reply(1, "hm", &[]);
    world.answer("budget-1", fail());
    assert_eq!(
        world.run().status,
        RunStatus::Running,
        "the call of step 2 is under way"
    );
    assert_eq!(world.running(), [2]);
    world.result(2, 0, "sent");
    assert!(matches!(world.status(2), StepStatus::Completed { .. }));
    assert_eq!(world.run().status, RunStatus::Failed);
    assert_eq!(
        world.run().end.failure.as_ref().unwrap().reason,
        "max_turns"
    );
}

#[test]
fn other_answers_are_refused() {
    let mut world = with_turns(chain(vec![model_step("a")]), 1);
    world.reply(1, "hm", &[]);
    let done = Settlement::Done {
        output: String::new(),
    };
    let skip = Settlement::Skip {
        reason: String::new(),
    };
    for answer in [done, skip] {
        let events = world.answer("budget-1", answer);
        let EventKind::CommandRefused(event::CommandRefused { reason, .. }) = &events[0].kind
        else {
            panic!("{events:?}");
        };
        assert_eq!(*reason, Refusal::BadSettlement);
    }
    assert_eq!(world.run().status, WAITING);
    world.answer("budget-1", Settlement::Retry);
    let events = world.answer("budget-1", Settlement::Retry);
    let EventKind::CommandRefused(event::CommandRefused { reason, .. }) = &events[0].kind else {
        panic!("{events:?}");
    };
    assert_eq!(*reason, Refusal::NotPending);
}

#[test]
fn results_are_taken_while_the_run_waits() {
    let mut world = with_turns(graph(vec![model_step("a"), model_step("b")]), 1);
    world.reply(1, "", &[look()]);
    let result = finished(world.call(1, 0), "text", "");
    world.report(1, vec![result]);
    assert_eq!(world.run().status, WAITING);
    assert!(world.session.call(world.call(1, 0)).unwrap().is_finished());
}
