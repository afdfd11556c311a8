//! What a transition costs does not depend on how much was done before.

use crate::world::growth::{check_growth, run_chain, timed};
use crate::world::{World, chain, graph, look, model_step, tool_step};
use cairn_engine::command::LimitOverrides;
use cairn_engine::event::Budget;
use cairn_engine::limits::MAX_CONVERSATIONS;
use cairn_engine::session::{PerBudget, RunStatus};
use std::time::Duration;

#[test]
fn a_chain_of_ten_thousand_steps_is_carried_out_in_seconds() {
    let took = timed(|| drop(run_chain(10_000)));
    assert!(took < Duration::from_secs(60), "{took:?}");
}

#[test]
fn carrying_out_a_chain_costs_in_proportion_to_its_steps() {
    check_growth(|steps| steps, |&steps| drop(run_chain(steps)));
}

#[test]
fn carrying_out_a_graph_costs_in_proportion_to_its_steps() {
    let carry_out = |&steps: &u32| {
        let mut world = World::new();
        let limits = LimitOverrides {
            max_parallel_steps: steps,
            ..LimitOverrides::default()
        };
        let draft = (0..steps).map(|n| tool_step(&n.to_string(), "look"));
        world.start_with(graph(draft.collect()), limits);
        assert_eq!(world.running().len(), MAX_CONVERSATIONS as usize);
        for step in 1..=steps {
            world.result(step, 0, "text");
        }
        assert_eq!(world.run().status, RunStatus::Completed);
    };
    check_growth(|steps| steps, carry_out);
}

#[test]
fn the_tool_turns_of_an_attempt_cost_in_proportion_to_them() {
    let take_turns = |&turns: &u32| {
        let mut world = World::new();
        let limits = LimitOverrides {
            max_tool_turns: turns + 1,
            budgets: PerBudget::from([(Budget::Turns, u64::from(turns) + 1)]),
            ..LimitOverrides::default()
        };
        world.start_with(chain(vec![model_step("long")]), limits);
        for _ in 0..turns {
            world.reply(1, "I look.", &[look()]);
            world.result(1, 0, "text");
        }
    };
    check_growth(|turns| turns, take_turns);
}
