//! What planning anew and scheduling cost: in proportion to the steps and to what joins them.

use crate::world::growth::{carry_out, check_growth, started, wide};
use crate::world::{World, after, graph, tool_step};
use cairn_engine::command::{Command, LimitOverrides, RevisePlan};
use cairn_engine::event::{self, EventKind};
use cairn_engine::plan::PlanDraft;
use cairn_engine::session::RunStatus;

fn revise(steps: u32, reworded: u32) -> Command {
    Command::RevisePlan(RevisePlan {
        run: 1,
        plan: Some(wide(steps, Some(reworded))),
        apply: true,
        ..RevisePlan::default()
    })
}

/// Every step begins once, and no sooner than the last of those that it waits for.
#[test]
fn a_graph_of_a_thousand_steps_and_eight_times_as_many_edges_is_carried_out_in_order() {
    let mut world = started(1_000);
    carry_out(&mut world);
    let mut done = [false; 1_000];
    let mut begun = [false; 1_000];
    for event in &world.journal {
        match &event.kind {
            EventKind::StepStarted(event::StepStarted { attempt, .. }) => {
                let number = attempt.step;
                let steps = &world.run().plan.as_ref().unwrap().steps;
                let before = &number.find_in(steps).unwrap().plan.depends_on;
                assert!(before.iter().all(|at| done[at.index()]), "{number}");
                let slot = number.slot().unwrap();
                assert!(!std::mem::replace(&mut begun[slot.index()], true));
            }
            EventKind::StepCompleted(event::StepCompleted { attempt, .. }) => {
                done[attempt.step.slot().unwrap().index()] = true
            }
            _ => {}
        }
    }
    assert_eq!(begun.iter().filter(|begun| **begun).count(), 1_000);
}

#[test]
fn scheduling_a_graph_costs_in_proportion_to_its_edges() {
    check_growth(|steps| steps, |&steps| carry_out(&mut started(steps)));
}

#[test]
fn revising_costs_in_proportion_to_the_steps() {
    let prepare = |steps| {
        let mut world = started(steps);
        carry_out(&mut world);
        (world, revise(steps, steps / 2))
    };
    check_growth(prepare, |(world, command)| {
        let mut world = world.clone();
        world.command(command.clone());
        assert_eq!(world.run().status, RunStatus::Running);
    });
}

/// A thousand steps, each of which waits for more or fewer of those before it.
fn joined(edges: u32) -> PlanDraft {
    const STEPS: u32 = 1_000;
    let each = edges / STEPS;
    let step = |n: u32| {
        let names: Vec<String> = (1..=each)
            .filter_map(|back| n.checked_sub(back))
            .map(|before| (before + 1).to_string())
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        after(tool_step(&format!("step {n}"), "look"), &names)
    };
    graph((0..STEPS).map(step).collect())
}

#[test]
fn a_graph_of_a_thousand_steps_costs_in_proportion_to_its_edges() {
    let carry_all_out = |draft: &PlanDraft| {
        let mut world = World::new();
        world.start_with(draft.clone(), LimitOverrides::default());
        carry_out(&mut world);
    };
    check_growth(joined, carry_all_out);
}
