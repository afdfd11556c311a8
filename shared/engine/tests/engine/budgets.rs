//! Budgets of tokens, money, time and calls: what holds, who is asked, what a person may say.

use crate::world::{
    World, after, chain, complete, graph, kinds, look, model_step, send, tool_step, with_goal,
};
use cairn_engine::command::{Command, LimitOverrides, OnFailure, RevisePlan, Settlement, StartRun};
use cairn_engine::decide::Input;
use cairn_engine::event::{Budget, CallFinished, EventKind, WaitReason};
use cairn_engine::failure::FailureKind;
use cairn_engine::outstanding::Work;
use cairn_engine::pending::pending;
use cairn_engine::plan::PlanDraft;
use cairn_engine::state::{CallStatus, RunStatus, StepStatus};

const WAITING: RunStatus = RunStatus::Waiting(WaitReason::Budget);

fn world(plan: PlanDraft, limits: LimitOverrides) -> World {
    let mut world = World::new();
    world.start_with(plan, limits);
    world
}

fn tokens(max_tokens: u64) -> LimitOverrides {
    LimitOverrides {
        max_tokens,
        ..LimitOverrides::default()
    }
}

fn calls(max_calls: u32) -> LimitOverrides {
    LimitOverrides {
        max_calls,
        ..LimitOverrides::default()
    }
}

fn time(max_active_ms: u64) -> LimitOverrides {
    LimitOverrides {
        max_active_ms,
        ..LimitOverrides::default()
    }
}

fn asked_for(world: &World) -> Option<Budget> {
    pending(&world.session).into_iter().find_map(|it| it.budget)
}

fn fail() -> Settlement {
    Settlement::Fail {
        reason: "enough".to_owned(),
    }
}

/// A reply takes 110 tokens and costs 2.5 mills.
#[test]
fn no_model_is_asked_once_tokens_or_money_are_used_up() {
    let cost = LimitOverrides {
        max_cost_nano_usd: 5_000_000,
        ..LimitOverrides::default()
    };
    for (limits, budget) in [(tokens(220), Budget::Tokens), (cost, Budget::Cost)] {
        let plan = graph(vec![model_step("a"), tool_step("b", "look")]);
        let mut world = world(plan, limits);
        world.reply(1, "hm", &[]);
        assert_eq!(world.run().status, RunStatus::Running);
        let events = world.reply(1, "hm", &[]);
        let waits = ["ReplyReceived", "BudgetExhausted", "RunWaiting"];
        assert_eq!(kinds(&events), waits, "{budget:?}");
        assert_eq!(world.run().status, WAITING);
        assert_eq!(asked_for(&world), Some(budget));
        // What needs no model goes on.
        assert_eq!(world.outstanding(), [Work::RunStep(world.attempt(2))]);
        world.answer("budget-1", Settlement::Retry);
        world.reply(1, "hm", &[]);
        assert_eq!(world.run().status, RunStatus::Running, "as much again");
        world.reply(1, "hm", &[]);
        assert_eq!(world.run().status, WAITING, "{budget:?}");
    }
}

#[test]
fn planning_counts() {
    let mut world = World::new();
    let Command::StartRun(start) = with_goal("the goal") else {
        unreachable!("a start");
    };
    let limits = tokens(50);
    world.command(Command::StartRun(StartRun { limits, ..start }));
    // Planning takes 50 tokens.
    world.planned(Ok(chain(vec![model_step("a")])));
    assert_eq!(world.run().status, WAITING);
    assert!(world.outstanding().is_empty(), "no model is asked");
}

#[test]
fn what_was_used_beyond_the_budget_is_not_taken_from_the_next() {
    let mut world = world(chain(vec![model_step("a")]), tokens(100));
    world.reply(1, "hm", &[]);
    assert_eq!(world.run().status, WAITING, "110 of 100");
    world.answer("budget-1", Settlement::Retry);
    assert_eq!(world.run().allowance.tokens, Some(210));
}

#[test]
fn calls_beyond_the_budget_are_not_made() {
    let plan = chain(vec![model_step("a"), model_step("b")]);
    let mut world = world(plan, calls(3));
    world.reply(1, "", &[look(), send()]);
    world.result(1, 0, "text");
    world.result(1, 1, "sent");
    let events = world.reply(1, "", &[send(), send()]);
    let waits = ["ReplyReceived", "BudgetExhausted", "RunWaiting"];
    assert_eq!(kinds(&events), waits, "none of them is intended");
    assert_eq!(asked_for(&world), Some(Budget::Calls));
    assert!(world.outstanding().is_empty());
    let events = world.answer("budget-1", Settlement::Retry);
    let goes_on = ["BudgetRaised", "CallIntended", "CallIntended", "RunResumed"];
    assert_eq!(kinds(&events), goes_on);
    assert_eq!(world.outstanding(), [Work::RunStep(world.attempt(1))]);
}

#[test]
fn tool_steps_count_as_calls_and_wait_for_them() {
    let plan = chain(vec![tool_step("a", "look"), tool_step("b", "send")]);
    let mut world = world(plan, calls(1));
    let events = world.result(1, 0, "text");
    let waits = [
        "CallFinished",
        "StepCompleted",
        "StepStarted",
        "BudgetExhausted",
        "RunWaiting",
    ];
    assert_eq!(kinds(&events), waits, "it is not intended");
    assert!(world.outstanding().is_empty());
    let events = world.answer("budget-1", fail());
    assert_eq!(
        kinds(&events),
        ["BudgetRaised", "StepFailed", "RunResumed", "RunFailed"]
    );
    let failure = world.run().failure.clone().unwrap();
    assert_eq!(failure.kind, FailureKind::LimitExceeded);
    assert!(
        failure.message.contains("1 tool calls"),
        "{}",
        failure.message
    );
}

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
    world.command(Command::PauseRun { run, reason });
    world.now += 1_000_000;
    world.command(Command::ResumeRun { run });
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
fn the_last_turn_may_end_its_step_whatever_it_cost() {
    let mut world = world(chain(vec![model_step("a")]), tokens(10));
    let events = world.reply(1, "", &[complete("done")]);
    assert!(matches!(
        events.last().unwrap().kind,
        EventKind::RunCompleted { .. }
    ));
}

fn with_policy(limits: LimitOverrides, on_failure: OnFailure) -> LimitOverrides {
    LimitOverrides {
        on_failure: Some(on_failure),
        ..limits
    }
}

/// A person said that the run ends: nothing begins, whatever else failures are to lead to.
#[test]
fn a_run_that_may_use_no_more_begins_nothing_whatever_its_policy() {
    for on_failure in [OnFailure::GoOn, OnFailure::Revise, OnFailure::Stop] {
        let steps = vec![
            model_step("a"),
            tool_step("b", "send"),
            after(tool_step("c", "send"), &["2"]),
            after(model_step("d"), &["1"]),
        ];
        let mut world = world(graph(steps), with_policy(tokens(100), on_failure));
        world.reply(1, "hm", &[]);
        assert_eq!(world.run().status, WAITING, "110 of 100");
        let events = world.answer("budget-1", fail());
        // The call that is under way ends.
        let stops = ["BudgetRaised", "StepFailed", "RunResumed"];
        assert_eq!(kinds(&events), stops, "{on_failure:?}");
        assert_eq!(world.outstanding(), [Work::RunStep(world.attempt(2))]);
        assert!(pending(&world.session).is_empty(), "it is not asked again");
        let events = world.result(2, 0, "sent");
        let ends = ["CallFinished", "StepCompleted", "RunFailed"];
        assert_eq!(kinds(&events), ends, "{on_failure:?}");
        let failure = world.run().failure.clone().unwrap();
        assert_eq!(failure.message, "the run's 100 tokens are used up; enough");
    }
}

#[test]
fn a_run_that_is_to_end_ends_when_its_last_call_is_lost_or_the_run_goes_on() {
    let plan = || graph(vec![model_step("a"), tool_step("b", "send")]);
    let mut lost = world(plan(), tokens(100));
    lost.reply(1, "hm", &[]);
    lost.answer("budget-1", fail());
    let mut paused = lost.clone();
    let attempt = lost.attempt(2);
    lost.decide(Input::AttemptLost { attempt });
    assert_eq!(lost.run().status, RunStatus::Failed);

    let (run, reason) = (1, String::new());
    paused.command(Command::PauseRun { run, reason });
    paused.result(2, 0, "sent");
    assert_eq!(paused.run().status, RunStatus::Paused);
    paused.command(Command::ResumeRun { run });
    assert_eq!(paused.run().status, RunStatus::Failed);
}

#[test]
fn feedback_gives_a_run_that_was_to_end_another_plan() {
    let mut world = world(
        graph(vec![model_step("a"), tool_step("b", "send")]),
        tokens(100),
    );
    world.reply(1, "hm", &[]);
    world.answer("budget-1", fail());
    world.command(Command::RevisePlan(RevisePlan {
        run: 1,
        plan: Some(chain(vec![tool_step("c", "look")])),
        apply: true,
        ..RevisePlan::default()
    }));
    assert_eq!(world.run().ending, None);
    world.result(3, 0, "text");
    assert_eq!(world.run().status, RunStatus::Completed);
}

/// A person who allows more tokens has not been asked about money.
#[test]
fn each_budget_is_asked_about_by_itself() {
    let limits = LimitOverrides {
        max_cost_nano_usd: 2_000_000,
        ..tokens(100)
    };
    let mut world = world(chain(vec![model_step("a")]), limits);
    world.reply(1, "hm", &[]);
    assert_eq!(asked_for(&world), Some(Budget::Tokens));
    world.answer("budget-1", Settlement::Retry);
    assert_eq!(world.run().allowance.cost_nano_usd, Some(2_000_000));
    assert_eq!(asked_for(&world), Some(Budget::Cost));
    world.answer("budget-1-2", Settlement::Retry);
    assert_eq!(world.run().status, RunStatus::Running);
    assert_eq!(world.run().allowance.tokens, Some(210));
}

/// Replies that are under way are reckoned to take what replies took so far.
#[test]
fn parallel_steps_reserve_what_they_may_use() {
    let plan = graph(vec![
        model_step("a"),
        model_step("b"),
        model_step("c"),
        tool_step("d", "look"),
    ]);
    let asked = |world: &World| world.outstanding();
    let turns = LimitOverrides {
        max_turns: 2,
        ..LimitOverrides::default()
    };
    let world = world(plan.clone(), turns);
    let runs = [1, 2, 4].map(|step| Work::RunStep(world.attempt(step)));
    assert_eq!(asked(&world), runs, "two turns for two replies");

    // The first reply takes 110 tokens; three more might take 330.
    let mut world = self::world(plan, tokens(300));
    world.reply(1, "hm", &[]);
    let runs = [1, 2, 4].map(|step| Work::RunStep(world.attempt(step)));
    assert_eq!(asked(&world), runs, "110 + 110 < 300, 110 + 220 is not");
    assert_eq!(world.run().status, RunStatus::Running);
    // What was asked before is taken all the same, and paid.
    world.reply(3, "hm", &[]);
    assert!(world.session.asks_model(world.attempt(3)));
    let runs = [1, 4].map(|step| Work::RunStep(world.attempt(step)));
    assert_eq!(asked(&world), runs);
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
    let before = world.run().active_ms;
    world.now += 1_000_000;
    world.answer("approval-1.1.1.0.0", Settlement::Approve);
    assert_eq!(world.run().active_ms, before);
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
    world.foreign(EventKind::MemorySet {
        key: "key".to_owned(),
        value: "value".to_owned(),
    });
    world.session = world.folded();
    let events = world.decide(Input::TakenOver { holder_dead: true });
    assert_eq!(kinds(&events), ["RunResumed", "AttemptContinued"]);
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
    world.command(Command::PauseRun { run, reason });
    let events = world.error(1, 0, CallFinished::NOT_SENT);
    assert_eq!(kinds(&events), ["CallIntended"]);
    let call = world.session.call(world.call(1, 0)).unwrap();
    assert_eq!(call.status, CallStatus::Requested);
    assert!(world.outstanding().is_empty());
    world.decide(Input::TakenOver { holder_dead: false });
    assert_eq!(world.session, world.folded());
    let events = world.command(Command::ResumeRun { run });
    assert_eq!(kinds(&events), ["RunResumed", "CallIntended"]);
    world.result(1, 0, "sent");
    assert_eq!(world.run().status, RunStatus::Completed);
}
