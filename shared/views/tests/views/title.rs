//! What people call a session.

use crate::world::{World, chain, model_step, tool_step, with_goal};
use cairn_engine::command::{self, Command};
use cairn_engine::plan::StepDraft;
use cairn_views::title::{listed, of_session};

/// A run of these commands in a session without a title.
fn unnamed(commands: Vec<Command>) -> World {
    let mut world = World::new();
    for command in commands {
        world.command(command);
    }
    world.session.title.clear();
    world
}

fn planned(goal: &str, first: StepDraft) -> Command {
    Command::StartRun(command::StartRun {
        goal: goal.to_owned(),
        plan: Some(chain(vec![first, model_step("Second")])),
        ..command::StartRun::default()
    })
}

#[test]
fn a_session_without_a_title_is_called_after_its_first_run() {
    for (commands, title) in [
        (Vec::new(), ""),
        (vec![with_goal("a goal")], "a goal"),
        (vec![planned("a goal", model_step("Survey"))], "a goal"),
        (vec![planned("", model_step("Survey"))], "Survey"),
        (vec![planned("", tool_step("", "look"))], "look"),
    ] {
        let world = unnamed(commands);
        assert_eq!(of_session(&world.session), title);
        assert_eq!(listed(&world.session), title);
    }
}

#[test]
fn another_plan_leaves_the_title() {
    let revise = Command::RevisePlan(command::RevisePlan {
        run: 1,
        plan: Some(chain(vec![model_step("Rest")])),
        apply: true,
        ..command::RevisePlan::default()
    });
    let world = unnamed(vec![planned("", model_step("Survey")), revise]);
    assert_eq!(world.run().revision(), 2);
    assert_eq!(of_session(&world.session), "Survey");
}
