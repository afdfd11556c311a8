//! How large transitions get, and how a run ends whose journal takes no more.

use crate::control::{pause, resume};
use crate::play::ops;
use crate::world::{LEASE, TIME_LIMIT, World, complete, graph, kinds, model_step, send, step_call};
use crate::world::{chain, tool_step, with_goal};
use cairn_engine::command::{self, Command, LimitOverrides, OnFailure, Settlement};
use cairn_engine::decide::Input;
use cairn_engine::event::{self, Budget, EventKind};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::limits::{
    FULL_TRANSITION, MAX_CALLS, MAX_CONVERSATIONS, MAX_EVENTS_OF_ATTEMPT, MAX_MEMORY_KEYS,
    MAX_SUB_GOALS, MAX_TRANSITION,
};
use cairn_engine::message::ToolCall;
use cairn_engine::pending::pending;
use cairn_engine::rules::Answer;
use cairn_engine::session::{PerBudget, RunStatus};
use proptest::prelude::*;
use serde_json::json;

const STEPS: u32 = 8;

/// What is about the run and its commands, and not about an attempt.
const BESIDE: usize = 16;

/// As many calls with side effects under way as replies may ask for.
fn sending() -> World {
    let steps = (0..2 * STEPS).map(|_| model_step("send")).collect();
    let mut world = World::with_plan(graph(steps));
    for step in 1..=STEPS {
        world.reply(step, "", &vec![send(); MAX_CALLS]);
    }
    world
}

fn check_size(events: usize, at_least: usize) {
    let most = STEPS as usize * MAX_EVENTS_OF_ATTEMPT + BESIDE;
    assert!((at_least..=most).contains(&events), "{events} of {most}");
}

fn taken_over(world: &mut World) -> usize {
    let input = Input::TakenOver { holder_dead: false };
    world.decide(input).len()
}

/// The same for all attempts that there may be at once is what the store takes by default.
#[test]
fn a_takeover_is_as_large_as_the_store_allows_for() {
    let calls = STEPS as usize * MAX_CALLS;
    for settlement in [
        Settlement::Retry,
        Settlement::Done {
            output: String::new(),
        },
        Settlement::Fail {
            reason: String::new(),
        },
    ] {
        let mut world = sending();
        check_size(taken_over(&mut world), calls);
        for open in pending(&world.session) {
            world.answer(&open.id().to_string(), settlement.clone());
        }
        world.now += LEASE + TIME_LIMIT;
        let at_least = match settlement {
            Settlement::Retry => 2 * calls,
            Settlement::Fail { .. } => 3 * STEPS as usize,
            _ => calls,
        };
        check_size(taken_over(&mut world), at_least);
    }
}

#[test]
fn a_cancelled_run_is_as_large_as_the_store_allows_for() {
    let mut world = sending();
    let reason = String::new();
    let events = world.command(Command::CancelRun(command::CancelRun { run: 1, reason }));
    check_size(events.len(), STEPS as usize * MAX_CALLS);
}

/// However it is filled: no more than one attempt may have.
#[test]
fn a_reply_is_not_larger_than_an_input_may_be() {
    let goals: Vec<_> = (0..MAX_SUB_GOALS).map(|goal| format!("g{goal}")).collect();
    let mut calls = vec![step_call(&json!({"plan": goals, "focus": "g0"}))];
    let next = |goal| json!({"complete": true, "summary": "", "focus": format!("g{goal}")});
    calls.extend((1..MAX_CALLS).map(|goal| step_call(&next(goal))));
    let mut world = World::with_plan(chain(vec![model_step("plan")]));
    let events = world.reply(1, "", &calls).len();
    let most = MAX_CONVERSATIONS as usize * MAX_EVENTS_OF_ATTEMPT;
    assert!((3 * MAX_CALLS..most).contains(&events), "{events}");
}

/// As many conversations as there may be, each with as many calls with side effects under way.
fn sending_in_all() -> World {
    let mut world = World::new();
    world.command(Command::CreateContext(command::CreateContext {
        name: "side".to_owned(),
        ..command::CreateContext::default()
    }));
    let limits = LimitOverrides {
        max_parallel_steps: MAX_CONVERSATIONS,
        budgets: PerBudget::from([(Budget::Turns, 1_000)]),
        ..LimitOverrides::default()
    };
    let steps = (0..MAX_CONVERSATIONS).map(|_| model_step("send"));
    world.start_with(graph(steps.collect()), limits);
    for step in 1..=MAX_CONVERSATIONS {
        world.reply(step, "", &vec![send(); MAX_CALLS]);
    }
    world
}

/// As many commands as are answered on the way, and the largest one as the last.
fn many_commands(world: &mut World) {
    let title = "another".to_owned();
    let rename = Command::RenameSession(command::RenameSession { title });
    let values = (0..MAX_MEMORY_KEYS).map(|key| (key.to_string(), String::new()));
    let bridge = Command::BridgeContext(command::BridgeContext {
        from: "side".to_owned(),
        values: values.collect(),
        ..command::BridgeContext::default()
    });
    let renames = std::iter::repeat_n(rename, FULL_TRANSITION - 1);
    for command in renames.chain([bridge]) {
        world.foreign(EventKind::CommandReceived(event::CommandReceived {
            request_id: "request".to_owned(),
            command,
        }));
    }
}

/// The owner has died with all calls under way. When their doubts are to be settled, it dies again.
#[test]
fn the_largest_transition_is_no_larger_than_the_store_takes() {
    let mut world = sending_in_all();
    let calls = MAX_CONVERSATIONS as usize * MAX_CALLS;
    let doubts = taken_over(&mut world);
    assert!((calls..=MAX_TRANSITION).contains(&doubts), "{doubts}");
    for open in pending(&world.session) {
        world.foreign(EventKind::Decided(event::Decided {
            pending: open.id(),
            settlement: Settlement::Retry,
            settle_after: 0,
            responses: String::new(),
        }));
    }
    many_commands(&mut world);
    world.now += LEASE + TIME_LIMIT;
    let events = taken_over(&mut world) + FULL_TRANSITION - 1;
    let at_least = 2 * calls + MAX_MEMORY_KEYS + FULL_TRANSITION;
    assert!((at_least..=MAX_TRANSITION).contains(&events), "{events}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    /// The others wait for their ends, and each starts in the order of the plan.
    #[test]
    fn a_session_has_a_limit_of_conversations_and_all_steps_run(
        steps in 1..400_u32,
        max_parallel_steps in 64..400_u32,
        ends in prop::collection::vec(any::<prop::sample::Index>(), 400),
    ) {
        let mut world = World::new();
        let limits = LimitOverrides { max_parallel_steps, ..LimitOverrides::default() };
        let plan = (0..steps).map(|n| tool_step(&n.to_string(), "look"));
        world.start_with(graph(plan.collect()), limits);
        let most = max_parallel_steps.min(MAX_CONVERSATIONS);
        for (ended, next) in (0..steps).zip(&ends) {
            let running = world.running();
            let expected = most.min(steps - ended);
            prop_assert_eq!(running.len(), expected as usize);
            if ended + most <= steps {
                prop_assert_eq!(running.iter().copied().max(), Some(ended + most));
            }
            world.end(running[next.index(running.len())]);
        }
        prop_assert_eq!(world.run().status, RunStatus::Completed);
    }
}

/// A pause, an owner that lets go, and another plan: each leaves steps that are ready behind.
#[test]
fn steps_that_wait_start_whatever_held_the_run_up() {
    let plan = |tool| (0..300).map(move |n| tool_step(&n.to_string(), tool));
    let limits = LimitOverrides {
        max_parallel_steps: MAX_CONVERSATIONS,
        ..LimitOverrides::default()
    };
    let mut world = World::new();
    world.start_with(graph(plan("look").collect()), limits);
    let most = MAX_CONVERSATIONS as usize;
    world.command(pause());
    (1..=10).for_each(|step| world.end(step));
    assert_eq!(world.running().len(), most - 10);
    world.command(resume());
    assert_eq!(world.running().len(), most);
    world.starts = false;
    (11..=20).for_each(|step| world.end(step));
    assert_eq!(world.running().len(), most - 10);
    world.starts = true;
    taken_over(&mut world);
    assert_eq!(world.running().len(), most);
    world.command(Command::RevisePlan(command::RevisePlan {
        run: 1,
        plan: Some(graph(plan("put").collect())),
        apply: true,
        ..command::RevisePlan::default()
    }));
    assert_eq!(world.running().len(), most);
    while let Some(&step) = world.running().first() {
        world.end(step);
    }
    assert_eq!(world.run().status, RunStatus::Completed);
}

/// A rule denies their calls. The owner starts the rest with the next transition.
#[test]
fn steps_that_end_as_they_start_do_not_fill_a_transition_without_end() {
    const DENIED: u32 = 1_000;
    let mut world = World::new();
    world.tools.get_mut("look").unwrap().default = Answer::Deny;
    let steps = (0..DENIED).map(|n| tool_step(&n.to_string(), "look"));
    let limits = LimitOverrides {
        on_failure: Some(OnFailure::GoOn),
        ..LimitOverrides::default()
    };
    world.start_with(graph(steps.collect()), limits);
    let most = FULL_TRANSITION + BESIDE;
    assert!(world.journal.len() < most, "{}", world.journal.len());
    while world.run().startable_step().is_some() {
        let events = world.decide(Input::Tick).len();
        assert!((1..most).contains(&events), "{events}");
    }
    let all = kinds(&world.journal);
    let failed = all.iter().filter(|kind| *kind == "StepFailed");
    assert_eq!(failed.count(), DENIED as usize);
    assert_eq!(world.run().status, RunStatus::Failed);
}

/// Each wish but the last is refused, without a deeper and deeper stack.
#[test]
fn a_reply_may_change_to_end_the_step_very_often() {
    let mut world = World::with_plan(chain(vec![model_step("end")]));
    let changes: Vec<ToolCall> = vec![complete("done"); 6000];
    let events = world.reply(1, "", &changes);
    assert_eq!(World::reported(&events).len(), 6000);
}

fn full() -> Failure {
    Failure::new(FailureKind::LimitExceeded, "journal_events", "it is full")
}

#[test]
fn at_a_limit_the_run_ends_and_commands_are_refused() {
    let mut world = World::with_plan(graph(vec![model_step("one"), model_step("two")]));
    world.reply(1, "", &[send()]);
    for command in [
        with_goal("another"),
        Command::CancelRun(command::CancelRun {
            run: 1,
            reason: String::new(),
        }),
    ] {
        let request_id = "late".to_owned();
        world.foreign(EventKind::CommandReceived(event::CommandReceived {
            request_id,
            command,
        }));
    }
    let events = world.decide(Input::LimitReached { failure: full() });
    let expected = [
        "CallInDoubt",
        "StepFailed",
        "StepFailed",
        "RunFailed",
        "CommandRefused",
        "CommandRefused",
    ];
    assert_eq!(kinds(&events), expected);
    assert_eq!(world.run().status, RunStatus::Failed);
    assert_eq!(world.run().end.failure, Some(full()));
    assert!(world.outstanding().is_empty());
}

/// More than a transition answers. What is left is refused by the store, and comes here again.
#[test]
fn at_a_limit_many_commands_are_answered_in_transitions_of_bounded_size() {
    const COMMANDS: usize = 2 * FULL_TRANSITION + 1;
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    for _ in 0..COMMANDS {
        world.foreign(EventKind::CommandReceived(event::CommandReceived {
            request_id: "request".to_owned(),
            command: with_goal("another"),
        }));
    }
    let mut answered = 0;
    while !world.session.commands.is_empty() {
        let events = world.decide(Input::LimitReached { failure: full() });
        let most = FULL_TRANSITION + BESIDE;
        assert!((1..=most).contains(&events.len()), "{}", events.len());
        assert!(events.iter().all(|event| event.kind.ends_only()));
        let all = kinds(&events);
        answered += all.iter().filter(|kind| *kind == "CommandRefused").count();
    }
    assert_eq!(answered, COMMANDS);
}

#[test]
fn at_a_limit_a_run_that_is_being_planned_ends_as_well() {
    let mut world = World::new();
    world.command(with_goal("plan this"));
    let events = world.decide(Input::LimitReached { failure: full() });
    assert_eq!(kinds(&events), ["RunFailed"]);
    let events = world.decide(Input::LimitReached { failure: full() });
    assert!(events.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_ends_a_run_at_a_limit_fits_into_the_reserve(ops in ops()) {
        let mut world = World::new();
        ops.iter().for_each(|op| world.play(op));
        let events = world.decide(Input::LimitReached { failure: full() });
        let fits = events.iter().all(|event| event.kind.ends_only());
        prop_assert!(fits, "{:?}", kinds(&events));
        prop_assert!(world.outstanding().is_empty());
    }
}
