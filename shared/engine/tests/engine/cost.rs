//! What a transition costs does not depend on how much was done before.

use crate::world::{World, chain, graph, model_step, tool_step};
use cairn_engine::command::LimitOverrides;
use cairn_engine::state::RunStatus;
use cairn_engine::views::log::Log;
use cairn_engine::views::tree::Tree;
use std::time::{Duration, Instant};

fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

/// The shortest of a few times, so that a busy machine does not count.
fn shortest(mut work: impl FnMut()) -> Duration {
    (0..3).map(|_| timed(&mut work)).min().unwrap()
}

/// Four times as much must take less than eight times as long.
fn check_growth(work: impl Fn(usize)) {
    let small = shortest(|| work(1_000));
    let large = shortest(|| work(4_000));
    assert!(large < small * 8, "{small:?} for 1,000, {large:?} for 4,000");
}

fn run_chain(steps: usize) -> World {
    let steps = (0..steps).map(|n| tool_step(&n.to_string(), "look")).collect();
    let mut world = World::with_plan(chain(steps));
    while let Some(&step) = world.running().first() {
        assert_eq!(world.outstanding().len(), 1);
        world.result(step, 0, "text");
    }
    assert_eq!(world.run().status, RunStatus::Completed);
    world
}

#[test]
fn a_chain_of_ten_thousand_steps_is_carried_out_in_seconds() {
    let took = timed(|| drop(run_chain(10_000)));
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn carrying_out_a_chain_costs_in_proportion_to_its_steps() {
    check_growth(|steps| drop(run_chain(steps)));
}

#[test]
fn starting_the_steps_of_a_graph_costs_in_proportion_to_them() {
    check_growth(|steps| {
        let mut world = World::new();
        let limits = LimitOverrides {
            max_parallel_steps: steps as u32,
            ..LimitOverrides::default()
        };
        let draft = (0..steps).map(|n| model_step(&n.to_string())).collect();
        world.start_with(graph(draft), limits);
        assert_eq!(world.running().len(), steps);
    });
}

#[test]
fn the_tool_turns_of_an_attempt_cost_in_proportion_to_them() {
    check_growth(|turns| {
        let mut world = World::new();
        let limits = LimitOverrides {
            max_tool_turns: turns as u32 + 1,
            max_turns: turns as u32 + 1,
            ..LimitOverrides::default()
        };
        world.start_with(chain(vec![model_step("long")]), limits);
        for _ in 0..turns {
            world.reply(1, "I look.", &[crate::world::look()]);
            world.result(1, 0, "text");
        }
    });
}

#[test]
fn folding_the_tree_and_the_log_costs_in_proportion_to_the_events() {
    let journals = [run_chain(1_000).journal, run_chain(4_000).journal];
    let [small, large] = journals.map(|journal| {
        shortest(|| {
            let (mut tree, mut log) = (Tree::default(), Log::default());
            for (event, seq) in journal.iter().zip(1..) {
                tree.apply(seq, event);
                log.apply(seq, event);
            }
        })
    });
    assert!(large < small * 8, "{small:?} for 1,000, {large:?} for 4,000");
}
