//! Switches of a context's agent: the model is told once, and only the system prompt is written anew.

use super::told::lines;
use super::{check, know, list, submit, switch, talk};
use crate::world::{World, look};
use cairn_engine::agent::AgentDefinition;
use cairn_engine::event::EventKind;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::pool::Grants;
use cairn_engine::session::MAIN;

const MODE: &str = "Your operational mode has changed from";

/// An agent that changes no file.
fn plan() -> AgentDefinition {
    AgentDefinition {
        prompt: "You plan.".to_owned(),
        denied: list(&["edit_file", "exec", "shell_exec", "write_file"]),
        ..AgentDefinition::named("plan")
    }
}

fn with_plan() -> World {
    let mut world = World::new();
    know(&mut world, plan());
    world
}

fn told(world: &World) -> usize {
    lines(world).join("\n").matches(MODE).count()
}

/// A turn with a call and its result. Returns its two requests.
fn looks(world: &mut World, text: &str) -> [Vec<String>; 2] {
    submit(world, text);
    let first = lines(world);
    world.reply(1, "I look.", &[look()]);
    world.result(1, 0, "seen");
    let second = lines(world);
    world.reply(1, "well", &[]);
    [first, second]
}

/// A provider keeps what the beginning of a conversation led to, as long as its bytes stay the same.
#[test]
fn each_request_begins_with_the_one_before_but_for_one_system_prompt() {
    let mut world = with_plan();
    let mut requests = Vec::new();
    requests.extend(looks(&mut world, "first"));
    requests.extend(looks(&mut world, "second"));
    let switched_at = requests.len();
    switch(&mut world, "plan");
    requests.extend(looks(&mut world, "third"));
    requests.extend(looks(&mut world, "fourth"));
    for (at, pair) in requests.windows(2).enumerate() {
        let [before, after] = pair else {
            panic!("two requests");
        };
        assert_eq!(before[0] != after[0], at + 1 == switched_at, "{at}");
        assert!(after[1..].starts_with(&before[1..]), "{at}: {after:#?}");
    }
    let system = &requests.last().unwrap()[0];
    assert!(system.contains("You plan."), "{system}");
    let first = requests[switched_at].last().unwrap();
    for part in [
        "from default to plan.",
        "You are in read-only mode.",
        "third",
    ] {
        assert!(first.contains(part), "{first}");
    }
    check(&world);
}

#[test]
fn a_switch_is_told_until_a_turn_that_was_told_completes() {
    let mut world = with_plan();
    talk(&mut world, "first");
    switch(&mut world, "plan");
    submit(&mut world, "second");
    assert_eq!(told(&world), 1);
    world.fail(
        1,
        Failure::new(FailureKind::Llm, "Server", "the model is gone"),
    );
    submit(&mut world, "second again");
    assert_eq!(told(&world), 1);
    check(&world);
    world.reply(1, "well", &[]);
    submit(&mut world, "third");
    assert_eq!(told(&world), 1, "it stands where it was told");
    assert!(!lines(&world).last().unwrap().contains(MODE));
    check(&world);
}

#[test]
fn a_switch_back_and_a_switch_before_anything_was_said_are_not_told() {
    let mut world = with_plan();
    switch(&mut world, "plan");
    submit(&mut world, "first");
    assert_eq!(told(&world), 0);
    assert!(lines(&world)[0].contains("You plan."));
    world.reply(1, "well", &[]);
    switch(&mut world, "default");
    switch(&mut world, "plan");
    submit(&mut world, "second");
    assert_eq!(world.session.context(MAIN).unwrap().switched, None);
    assert_eq!(told(&world), 0);
    check(&world);
}

fn fail(world: &mut World) {
    let failure = Failure::new(FailureKind::Llm, "Server", "the model is gone");
    world.fail(1, failure);
}

/// The model has had the system prompt of its turn, and the turn fails.
fn fail_late(world: &mut World) {
    world.reply(1, "I look.", &[look()]);
    world.result(1, 0, "seen");
    fail(world);
}

/// The system prompt that was written for a turn stays when the turn fails.
#[test]
fn a_switch_back_after_a_turn_that_failed_writes_the_layers_anew() {
    let mut world = with_plan();
    submit(&mut world, "first");
    let before = lines(&world);
    world.reply(1, "well", &[]);
    switch(&mut world, "plan");
    submit(&mut world, "second");
    fail_late(&mut world);
    switch(&mut world, "");
    for text in ["third", "fourth"] {
        submit(&mut world, text);
        let now = lines(&world);
        assert_eq!(now[0], before[0], "{text}");
        assert_eq!(told(&world), 0, "its model knows of no other agent");
        let last = now.last().unwrap();
        assert!(!last.contains("(empty)"), "{last}");
        assert!(!last.contains("system-reminder"), "{last}");
        check(&world);
        // Nothing of this turn stays either: its model gave no reply.
        fail(&mut world);
    }
    let context = world.session.context(MAIN).unwrap();
    assert_eq!(context.agent, None);
}

#[test]
fn a_switch_back_while_a_turn_works_that_fails_writes_the_layers_anew() {
    let mut world = with_plan();
    submit(&mut world, "first");
    let before = lines(&world);
    world.reply(1, "well", &[]);
    switch(&mut world, "plan");
    submit(&mut world, "second");
    switch(&mut world, "");
    fail_late(&mut world);
    submit(&mut world, "third");
    assert_eq!(lines(&world)[0], before[0]);
    assert_eq!(told(&world), 0);
    check(&world);
}

#[test]
fn a_way_back_to_the_default_agent_takes_its_prompt_out() {
    let mut world = with_plan();
    switch(&mut world, "plan");
    talk(&mut world, "first");
    let events = switch(&mut world, "");
    assert!(matches!(&events[0].kind, EventKind::AgentSwitched(it) if it.agent.is_none()));
    submit(&mut world, "second");
    let messages = lines(&world);
    assert!(!messages[0].contains("You plan."), "{}", messages[0]);
    let last = messages.last().unwrap();
    let expected = "You are no longer in read-only mode. You are permitted to make file changes";
    assert!(
        last.contains("from plan to default.") && last.contains(expected),
        "{last}"
    );
    check(&world);
}

/// What an older reminder says of a layer is read after the system prompt.
#[test]
fn an_older_reminder_does_not_outlive_a_switch() {
    let mut world = with_plan();
    switch(&mut world, "plan");
    talk(&mut world, "first");
    know(
        &mut world,
        AgentDefinition {
            prompt: "You plan in detail.".to_owned(),
            ..plan()
        },
    );
    talk(&mut world, "second");
    know(
        &mut world,
        AgentDefinition {
            prompt: "You write.".to_owned(),
            ..AgentDefinition::named("writer")
        },
    );
    switch(&mut world, "writer");
    submit(&mut world, "third");
    let messages = lines(&world);
    assert!(messages[0].contains("You write."), "{}", messages[0]);
    let last = messages.last().unwrap();
    assert!(last.contains("You write."), "{last}");
    world.reply(1, "I look.", &[look()]);
    world.result(1, 0, "seen");
    let after = lines(&world);
    assert_eq!(after[..messages.len()], messages[..]);
    assert!(!after.last().unwrap().contains("You write."));
    check(&world);
}

/// A turn goes on as it began.
#[test]
fn a_switch_while_a_turn_works_holds_from_the_next_one_on() {
    let mut world = with_plan();
    talk(&mut world, "first");
    submit(&mut world, "second");
    let attempt = world.attempt(1);
    switch(&mut world, "plan");
    let grants = Grants::none();
    assert!(world.session.offers(attempt, "exec", grants));
    assert_eq!(told(&world), 0);
    world.reply(1, "well", &[]);
    submit(&mut world, "third");
    assert!(!world.session.offers(world.attempt(1), "exec", grants));
    assert_eq!(told(&world), 1);
    check(&world);
}
