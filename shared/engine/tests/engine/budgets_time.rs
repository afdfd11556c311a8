//! The active time of a run: what counts, and what follows when it is up.

use crate::budgets::{WAITING, asked_for, fail, time, world};
use crate::world::{World, after, chain, graph, kinds, model_step, tool_step};
use cairn_engine::command::{self, Command, Settlement};
use cairn_engine::decide::Input;
use cairn_engine::event::{self, Budget, CallFinished, EventKind, WaitReason};
use cairn_engine::outstanding::Work;
use cairn_engine::session::{CallStatus, RunStatus, StepStatus};

#[test]
fn time_is_up_when_it_is_and_a_wake_says_when_to_look() {
    let mut world = world(chain(vec![model_step("a"), model_step("b")]), time(60_000));
    let deadline = world.now + 60_000;
    let work = world.outstanding();
    assert_eq!(work.last(), Some(&Work::Wake { at: deadline }));
    world.now = deadline - 1;
    assert!(world.decide(Input::Tick).is_empty());
    world.now = deadline;
    let events = world.decide(Input::Tick);
    assert_eq!(kinds(&events), ["BudgetExhausted", "RunWaiting"]);
    assert_eq!(asked_for(&world), Some(Budget::Time));
    assert!(
        world.outstanding().is_empty(),
        "the model is not waited for"
    );
    // A night's wait does not count.
    world.now += 10_000_000;
    world.answer("budget-1", Settlement::Retry);
    let deadline = world.now + 60_000;
    assert_eq!(
        world.outstanding().last(),
        Some(&Work::Wake { at: deadline })
    );
}

#[test]
fn time_that_a_run_waits_or_is_paused_does_not_count() {
    let mut world = world(chain(vec![model_step("a")]), time(60_000));
    world.now += 20_000;
    let (run, reason) = (1, String::new());
    world.command(Command::PauseRun(command::PauseRun { run, reason }));
    world.now += 1_000_000;
    world.command(Command::ResumeRun(command::ResumeRun { run }));
    let deadline = world.now + 40_000;
    assert_eq!(
        world.outstanding().last(),
        Some(&Work::Wake { at: deadline })
    );
    // Whoever takes the session over sees the same.
    world.session = world.folded();
    world.decide(Input::TakenOver { holder_dead: false });
    assert_eq!(
        world.outstanding().last(),
        Some(&Work::Wake { at: deadline })
    );
}

#[test]
fn a_call_under_way_ends_when_time_is_up_and_nothing_more_begins() {
    let plan = chain(vec![tool_step("a", "send"), tool_step("b", "send")]);
    let mut world = world(plan, time(60_000));
    world.now += 60_000;
    world.decide(Input::Tick);
    let runs = Work::RunStep(world.attempt(1));
    assert_eq!(world.outstanding(), [runs], "what has begun ends");
    let events = world.result(1, 0, "sent");
    let waits = ["CallFinished", "StepCompleted", "RunWaiting"];
    assert_eq!(kinds(&events), waits, "step 2 does not begin");
    let events = world.answer("budget-1", Settlement::Retry);
    assert!(
        kinds(&events).contains(&"StepStarted".to_owned()),
        "{events:?}"
    );
}

#[test]
fn a_run_without_time_ends_if_a_person_says_so() {
    let mut world = world(chain(vec![model_step("a"), model_step("b")]), time(60_000));
    world.now += 60_000;
    world.decide(Input::Tick);
    world.answer("budget-1", fail());
    assert_eq!(world.run().status, RunStatus::Failed);
    assert!(matches!(world.status(1), StepStatus::Failed { .. }));
    // Between two steps, too.
    let mut world = world_between_steps();
    world.answer("budget-1", fail());
    assert_eq!(world.run().status, RunStatus::Failed);
}

/// A run whose time is up after its first step and before its second.
fn world_between_steps() -> World {
    let plan = chain(vec![tool_step("a", "send"), model_step("b")]);
    let mut world = world(plan, time(60_000));
    world.now += 70_000;
    world.decide(Input::Tick);
    world.result(1, 0, "sent");
    assert_eq!(world.run().status, WAITING);
    world
}

#[test]
fn time_counts_while_one_step_waits_for_a_person_and_another_runs() {
    let mut world = world(
        graph(vec![
            tool_step("a", "pay"),
            tool_step("b", "send"),
            after(tool_step("c", "send"), &["2"]),
        ]),
        time(60_000),
    );
    assert_eq!(world.run().status, RunStatus::Waiting(WaitReason::Approval));
    let deadline = world.now + 60_000;
    assert_eq!(
        world.outstanding().last(),
        Some(&Work::Wake { at: deadline })
    );
    world.now = deadline;
    let events = world.decide(Input::Tick);
    assert_eq!(kinds(&events), ["BudgetExhausted"]);
    world.result(2, 0, "sent");
    assert_eq!(world.running(), [1], "nothing begins without time");
    // Alone, what waits for a person takes no time.
    let before = world.run().spent.active_ms;
    world.now += 1_000_000;
    world.answer("approval-1.1.1.0.0", Settlement::Approve);
    assert_eq!(world.run().spent.active_ms, before);
    assert_eq!(
        world.run().status,
        WAITING,
        "and now more time is asked for"
    );
}

#[test]
fn time_that_is_up_is_noted_before_anything_begins() {
    let plan = chain(vec![tool_step("a", "send"), tool_step("b", "send")]);
    let mut world = world(plan, time(60_000));
    world.now += 60_000;
    // Nobody was woken: the call ends at just that time.
    let events = world.result(1, 0, "sent");
    let noted = [
        "CallFinished",
        "StepCompleted",
        "BudgetExhausted",
        "RunWaiting",
    ];
    assert_eq!(kinds(&events), noted);
}

#[test]
fn time_without_an_owner_does_not_count() {
    let mut world = world(chain(vec![model_step("a")]), time(60_000));
    world.now += 20_000;
    world.reply(1, "hm", &[]);
    // The process dies, and what others write meanwhile is no work.
    world.now += 1_000_000;
    world.foreign(EventKind::MemorySet(event::MemorySet {
        key: "key".to_owned(),
        value: "value".to_owned(),
        writer: None,
        metadata: Default::default(),
    }));
    world.session = world.folded();
    let events = world.decide(Input::TakenOver { holder_dead: true });
    let reported = ["RunTakenOver", "AttemptContinued", "ContextChanged"];
    assert_eq!(kinds(&events), reported);
    let deadline = world.now + 40_000;
    assert_eq!(
        world.outstanding().last(),
        Some(&Work::Wake { at: deadline })
    );
    assert_eq!(world.session, world.folded());
}

/// It is known that it was not sent: it waits for the run to go on, and is not in doubt.
#[test]
fn a_call_that_was_not_sent_is_not_sent_while_the_run_is_held() {
    let mut world = world(chain(vec![tool_step("a", "send")]), time(60_000));
    let (run, reason) = (1, String::new());
    world.command(Command::PauseRun(command::PauseRun { run, reason }));
    let events = world.error(1, 0, CallFinished::NOT_SENT);
    assert_eq!(kinds(&events), ["CallHeld"]);
    let call = world.session.call(world.call(1, 0)).unwrap();
    assert_eq!(call.status, CallStatus::Requested);
    assert!(world.outstanding().is_empty());
    world.decide(Input::TakenOver { holder_dead: false });
    assert_eq!(world.session, world.folded());
    let events = world.command(Command::ResumeRun(command::ResumeRun { run }));
    assert_eq!(kinds(&events), ["RunResumed", "CallIntended"]);
    world.result(1, 0, "sent");
    assert_eq!(world.run().status, RunStatus::Completed);
}

/// While a call continues after time was up: what it took is not taken from what a person allows.
#[test]
fn more_time_is_more_than_what_was_used_when_a_person_says_so() {
    let mut world = world_with_a_call_under_way();
    world.now += 600_000;
    let events = world.answer("budget-1", Settlement::Retry);
    assert_eq!(kinds(&events)[..2], ["Decided", "BudgetRaised"]);
    let deadline = world.now + 60_000;
    assert_eq!(
        world.outstanding().last(),
        Some(&Work::Wake { at: deadline })
    );
}

/// Its time is up, one call continues, and a step waits for time.
fn world_with_a_call_under_way() -> World {
    let steps = vec![tool_step("a", "send"), model_step("b")];
    let mut world = world(graph(steps), time(60_000));
    world.now += 60_000;
    world.decide(Input::Tick);
    assert_eq!(world.run().status, WAITING);
    let runs = Work::RunStep(world.attempt(1));
    assert_eq!(world.outstanding(), [runs]);
    world
}
