//! Budgets of tokens, money, time and calls: what holds, who is asked, what a person may say.

use crate::world::{
    World, after, chain, complete, graph, kinds, look, model_step, send, tool_step, with_goal,
};
use cairn_engine::command::{
    self, Command, LimitOverrides, OnFailure, RevisePlan, Settlement, StartRun,
};
use cairn_engine::decide::Input;
use cairn_engine::event::{Budget, EventKind, WaitReason};
use cairn_engine::failure::FailureKind;
use cairn_engine::outstanding::Work;
use cairn_engine::pending::{Asked, pending};
use cairn_engine::plan::PlanDraft;
use cairn_engine::session::{PerBudget, RunStatus};

pub(crate) const WAITING: RunStatus = RunStatus::Waiting(WaitReason::Budget);

pub(crate) fn world(plan: PlanDraft, limits: LimitOverrides) -> World {
    let mut world = World::new();
    world.start_with(plan, limits);
    world
}

fn limits<const N: usize>(budgets: [(Budget, u64); N]) -> LimitOverrides {
    LimitOverrides {
        budgets: PerBudget::from(budgets),
        ..LimitOverrides::default()
    }
}

fn tokens(max_tokens: u64) -> LimitOverrides {
    limits([(Budget::Tokens, max_tokens)])
}

fn calls(max_calls: u32) -> LimitOverrides {
    limits([(Budget::Calls, max_calls.into())])
}

pub(crate) fn time(max_active_ms: u64) -> LimitOverrides {
    limits([(Budget::Time, max_active_ms)])
}

pub(crate) fn asked_for(world: &World) -> Option<Budget> {
    let mut open = pending(&world.session).into_iter();
    open.find_map(|open| match open.asked {
        Asked::Budget { budget, .. } => Some(budget),
        _ => None,
    })
}

pub(crate) fn fail() -> Settlement {
    Settlement::Fail {
        reason: "enough".to_owned(),
    }
}

/// A reply takes 110 tokens and costs 2.5 mills.
#[test]
fn no_model_is_asked_once_tokens_or_money_are_used_up() {
    let cost = limits([(Budget::Cost, 5_000_000)]);
    for (limits, budget) in [(tokens(220), Budget::Tokens), (cost, Budget::Cost)] {
        let plan = graph(vec![model_step("a"), tool_step("b", "look")]);
        let mut world = world(plan, limits);
        world.reply(1, "hm", &[]);
        assert_eq!(world.run().status, RunStatus::Running);
        let events = world.reply(1, "hm", &[]);
        let waits = [
            "ReplyReceived",
            "ContextChanged",
            "BudgetExhausted",
            "RunWaiting",
        ];
        assert_eq!(kinds(&events), waits, "{budget:?}");
        assert_eq!(world.run().status, WAITING);
        assert_eq!(asked_for(&world), Some(budget));
        // What needs no model continues.
        assert_eq!(world.outstanding(), [Work::RunStep(world.attempt(2))]);
        world.answer("budget-1", Settlement::Retry);
        world.reply(1, "hm", &[]);
        assert_eq!(world.run().status, RunStatus::Running, "as much again");
        world.reply(1, "hm", &[]);
        assert_eq!(world.run().status, WAITING, "{budget:?}");
    }
}

/// What a person reads when a run ends because of its budget.
#[test]
fn a_run_that_ends_by_its_budget_says_which_in_a_sentence() {
    let cost = limits([(Budget::Cost, 2_390_000)]);
    let turns = limits([(Budget::Turns, 1)]);
    for (limits, budget) in [
        (tokens(100), "100 tokens"),
        (cost, "$0.00239"),
        (turns, "1 tool turn"),
    ] {
        let mut world = world(chain(vec![model_step("a")]), limits);
        world.reply(1, "hm", &[]);
        world.answer("budget-1", fail());
        let failure = world.run().end.failure.clone().unwrap();
        let expected = format!("the run's budget of {budget} is used up; enough");
        assert_eq!(failure.message, expected);
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
    assert_eq!(world.run().spent.allowed[Budget::Tokens], Some(210));
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
    let made = pending(&world.session).remove(0).asked;
    let expected = Asked::Budget {
        run: 1,
        budget: Budget::Calls,
        used: 2,
        allowed: 3,
        waiting: 2,
    };
    assert_eq!(made, expected, "what was not made is not used");
    assert!(world.outstanding().is_empty());
    let events = world.answer("budget-1", Settlement::Retry);
    let continues = [
        "Decided",
        "BudgetRaised",
        "CallIntended",
        "CallIntended",
        "RunResumed",
    ];
    assert_eq!(kinds(&events), continues);
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
        [
            "Decided",
            "BudgetRefused",
            "StepFailed",
            "RunResumed",
            "RunFailed"
        ]
    );
    let failure = world.run().end.failure.clone().unwrap();
    assert_eq!(failure.kind, FailureKind::LimitExceeded);
    assert!(
        failure.message.contains("budget of 1 tool call is used up"),
        "{}",
        failure.message
    );
}

#[test]
fn the_last_turn_may_end_its_step_whatever_it_cost() {
    let mut world = world(chain(vec![model_step("a")]), tokens(10));
    let events = world.reply(1, "", &[complete("done")]);
    assert!(matches!(
        events.last().unwrap().kind,
        EventKind::RunCompleted(_)
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
        let stops = ["Decided", "BudgetRefused", "StepFailed", "RunResumed"];
        assert_eq!(kinds(&events), stops, "{on_failure:?}");
        assert_eq!(world.outstanding(), [Work::RunStep(world.attempt(2))]);
        assert!(pending(&world.session).is_empty(), "it is not asked again");
        let events = world.result(2, 0, "sent");
        let ends = ["CallFinished", "StepCompleted", "RunFailed"];
        assert_eq!(kinds(&events), ends, "{on_failure:?}");
        let failure = world.run().end.failure.clone().unwrap();
        assert_eq!(
            failure.message,
            "the run's budget of 100 tokens is used up; enough"
        );
    }
}

#[test]
fn a_run_that_is_to_end_ends_when_its_last_call_is_lost_or_the_run_continues() {
    let plan = || graph(vec![model_step("a"), tool_step("b", "send")]);
    let mut lost = world(plan(), tokens(100));
    lost.reply(1, "hm", &[]);
    lost.answer("budget-1", fail());
    let mut paused = lost.clone();
    let attempt = lost.attempt(2);
    lost.decide(Input::AttemptLost { attempt });
    assert_eq!(lost.run().status, RunStatus::Failed);

    let (run, reason) = (1, String::new());
    paused.command(Command::PauseRun(command::PauseRun { run, reason }));
    paused.result(2, 0, "sent");
    assert_eq!(paused.run().status, RunStatus::Paused);
    paused.command(Command::ResumeRun(command::ResumeRun { run }));
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
    let limits = limits([(Budget::Tokens, 100), (Budget::Cost, 2_000_000)]);
    let mut world = world(chain(vec![model_step("a")]), limits);
    world.reply(1, "hm", &[]);
    assert_eq!(asked_for(&world), Some(Budget::Tokens));
    world.answer("budget-1", Settlement::Retry);
    assert_eq!(world.run().spent.allowed[Budget::Cost], Some(2_000_000));
    assert_eq!(asked_for(&world), Some(Budget::Cost));
    world.answer("budget-1-2", Settlement::Retry);
    assert_eq!(world.run().status, RunStatus::Running);
    assert_eq!(world.run().spent.allowed[Budget::Tokens], Some(210));
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
    let turns = limits([(Budget::Turns, 2)]);
    let world = world(plan.clone(), turns);
    let runs = [1, 2, 4].map(|step| Work::RunStep(world.attempt(step)));
    assert_eq!(asked(&world), runs, "two turns for two replies");

    // The first reply takes 110 tokens; three more might take 330.
    let mut world = self::world(plan, tokens(300));
    world.reply(1, "hm", &[]);
    let runs = [1, 2, 4].map(|step| Work::RunStep(world.attempt(step)));
    assert_eq!(asked(&world), runs, "110 + 110 < 300, 110 + 220 is not");
    assert_eq!(world.run().status, RunStatus::Running);
    // Who has begun keeps what is reserved for it, and is to end also when nothing is left.
    let third = world.attempt(3);
    let beside = |world: &World| world.session.outstanding_beside(|name| name == third);
    let runs = [1, 3, 4].map(|step| Work::RunStep(world.attempt(step)));
    assert_eq!(beside(&world), runs);
    world.reply(1, "hm", &[]);
    world.reply(1, "hm", &[]);
    let runs = [3, 4].map(|step| Work::RunStep(world.attempt(step)));
    assert_eq!(beside(&world), runs);
    assert_eq!(asked(&world), runs[1..]);
}

/// A person said no: what somebody wished before does not give it another plan.
#[test]
fn an_older_change_does_not_let_a_run_live_that_is_to_end() {
    let mut world = world(
        graph(vec![model_step("a"), tool_step("b", "send")]),
        tokens(100),
    );
    world.command(Command::RevisePlan(RevisePlan {
        run: 1,
        feedback: "another way".to_owned(),
        apply: true,
        ..RevisePlan::default()
    }));
    world.reply(1, "hm", &[]);
    let events = world.answer("budget-1", fail());
    let ends = [
        "Decided",
        "BudgetRefused",
        "RevisionFailed",
        "StepFailed",
        "RunResumed",
    ];
    assert_eq!(kinds(&events), ends);
    assert_eq!(world.outstanding(), [Work::RunStep(world.attempt(2))]);
}

/// Tokens are asked about, and while nobody answers time is up: the yes to tokens is no yes to time.
#[test]
fn an_answer_is_for_the_budget_that_was_asked_about() {
    let limits = limits([(Budget::Tokens, 100), (Budget::Time, 60_000)]);
    let plan = graph(vec![model_step("a"), tool_step("b", "send")]);
    let mut world = world(plan, limits);
    world.reply(1, "hm", &[]);
    assert_eq!(asked_for(&world), Some(Budget::Tokens));
    world.now += 60_000;
    world.decide(Input::Tick);
    assert_eq!(asked_for(&world), Some(Budget::Time));
    let late = world.answer("budget-1", Settlement::Retry);
    assert_eq!(kinds(&late), ["CommandRefused"]);
    world.answer("budget-1-2", Settlement::Retry);
    assert_eq!(world.run().spent.allowed[Budget::Tokens], Some(100));
    assert_eq!(asked_for(&world), Some(Budget::Tokens));
    world.answer("budget-1-3", Settlement::Retry);
    assert_eq!(world.run().status, RunStatus::Running);
}

/// Nothing is known of what a reply takes before the first.
#[test]
fn the_first_reply_is_waited_for_before_others_are_asked_for() {
    let plan = graph(vec![model_step("a"), model_step("b")]);
    let mut world = world(plan, tokens(1_000));
    assert_eq!(world.outstanding(), [Work::RunStep(world.attempt(1))]);
    world.reply(1, "hm", &[]);
    let runs = [1, 2].map(|step| Work::RunStep(world.attempt(step)));
    assert_eq!(world.outstanding(), runs);
}
