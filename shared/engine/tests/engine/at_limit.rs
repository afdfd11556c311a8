//! Tool turns of an attempt that are used up, where a person is asked for more.

use crate::budgets::{WAITING, asked_for, fail};
use crate::turns::{said, turn};
use crate::world::{World, chain, graph, kinds, look, model_step, send};
use cairn_engine::command::{
    AtLimit, Command, Keep, LimitOverrides, Settlement, SubmitTurn, TurnOptions,
};
use cairn_engine::event::{Budget, Event};
use cairn_engine::outstanding::Work;
use cairn_engine::pending::{Asked, pending};
use cairn_engine::session::RunStatus;

fn has(events: &[Event], kind: &str) -> bool {
    kinds(events).iter().any(|name| name == kind)
}

/// A turn with one tool turn, whose calls beyond that are asked about.
fn asking_turn() -> World {
    let mut world = World::new();
    world.command(Command::from(SubmitTurn {
        options: TurnOptions {
            max_tool_turns: Some(1),
            at_limit: Some(AtLimit::Ask),
            keep: Some(Keep::Complete),
            ..TurnOptions::default()
        },
        ..turn("send it")
    }));
    world.reply(1, "I look.", &[look()]);
    world.result(1, 0, "seen");
    world
}

#[test]
fn a_turn_within_its_limit_ends_as_any_other() {
    let mut world = asking_turn();
    assert_eq!(world.run().status, RunStatus::Running);
    world.reply(1, "It is there.", &[]);
    assert_eq!(world.run().status, RunStatus::Completed);
}

#[test]
fn a_turn_beyond_its_limit_waits_and_makes_no_call_before_it_is_allowed() {
    let mut world = asking_turn();
    let events = world.reply(1, "I send.", &[send()]);
    assert!(!has(&events, "CallIntended"), "{:?}", kinds(&events));
    assert!(has(&events, "BudgetExhausted"), "{:?}", kinds(&events));
    assert_eq!(world.run().status, WAITING);
    assert_eq!(asked_for(&world), Some(Budget::ToolTurns));
    let open = pending(&world.session);
    let Asked::Budget { used, allowed, .. } = open[0].asked else {
        panic!("{open:?}");
    };
    assert_eq!((used, allowed), (1, 1));
    assert!(world.outstanding().is_empty(), "{:?}", world.outstanding());

    let events = world.answer("budget-1", Settlement::Retry);
    assert!(has(&events, "BudgetRaised") && has(&events, "CallIntended"));
    assert_eq!(world.run().status, RunStatus::Running);
    world.result(1, 0, "sent");
    world.reply(1, "", &[look()]);
    assert_eq!(world.run().status, WAITING, "as many again, and no more");
    assert_eq!(world.session, world.folded());
}

#[test]
fn a_turn_that_is_refused_more_ends_with_its_work() {
    let mut world = asking_turn();
    world.reply(1, "I send.", &[send()]);
    world.answer("budget-1", fail());
    assert_eq!(world.run().status, RunStatus::Failed);
    let failure = world.run().end.failure.clone().unwrap();
    assert_eq!(failure.reason, "max_tool_turns");
    assert!(failure.message.ends_with("; enough"), "{failure:?}");
    let said = said(&world);
    assert_eq!(said.len(), 5, "{said:?}");
    assert!(said[4].starts_with("tool: interrupted"), "{said:?}");
    assert_eq!(world.session, world.folded());
}

#[test]
fn a_turn_has_as_many_replies_as_it_names() {
    let mut world = World::new();
    world.command(Command::from(SubmitTurn {
        options: TurnOptions {
            max_turns: Some(2),
            ..TurnOptions::default()
        },
        ..turn("look")
    }));
    for _ in 0..2 {
        assert_eq!(world.run().status, RunStatus::Running);
        world.reply(1, "", &[look()]);
        world.result(1, 0, "seen");
    }
    assert_eq!(world.run().status, WAITING);
    assert_eq!(asked_for(&world), Some(Budget::Turns));
}

/// The other step continues meanwhile.
#[test]
fn a_step_at_its_limit_waits_alone() {
    let limits = LimitOverrides {
        max_tool_turns: 2,
        at_limit: Some(AtLimit::Ask),
        ..LimitOverrides::default()
    };
    let mut world = World::new();
    world.start_with(graph(vec![model_step("a"), model_step("b")]), limits);
    world.reply(1, "hm", &[]);
    world.reply(2, "hm", &[]);
    assert_eq!(world.run().status, RunStatus::Running);
    world.reply(1, "hm", &[]);
    assert_eq!(world.run().status, WAITING);
    assert_eq!(asked_for(&world), Some(Budget::ToolTurns));
    assert_eq!(world.outstanding(), [Work::RunStep(world.attempt(2))]);
    world.complete(2, "done");
    assert_eq!(world.run().status, WAITING);
    world.answer("budget-1", Settlement::Retry);
    assert_eq!(world.run().status, RunStatus::Running);
    world.complete(1, "done");
    assert_eq!(world.run().status, RunStatus::Completed);
    assert_eq!(world.session, world.folded());
}

#[test]
fn a_step_fails_at_its_limit_unless_a_person_is_asked() {
    let limits = LimitOverrides {
        max_tool_turns: 1,
        ..LimitOverrides::default()
    };
    let mut world = World::new();
    world.start_with(chain(vec![model_step("a")]), limits);
    world.reply(1, "hm", &[]);
    world.reply(1, "hm", &[]);
    let failure = world.run().end.failure.clone().unwrap();
    assert_eq!(failure.reason, "max_tool_turns");
}
