//! What a transition costs does not depend on how much was done before.

use crate::world::{World, chain, graph, look, model_step, tool_step};
use cairn_engine::command::LimitOverrides;
use cairn_engine::event::Budget;
use cairn_engine::event::Event;
use cairn_engine::limits::MAX_PARALLEL_STEPS;
use cairn_engine::session::{PerBudget, RunStatus};
use cairn_engine::views::report;
use cairn_engine::views::tree::Tree;
use std::time::{Duration, Instant};

fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

/// Four times as much must take less than eight times as long. What grows with the square takes
/// sixteen times as long, every time; a busy machine only sometimes.
pub(crate) fn check_growth<T>(prepare: impl Fn(u32) -> T, work: impl Fn(&T)) {
    let (small, large) = (prepare(2_000), prepare(8_000));
    let mut seen = Vec::new();
    for _ in 0..6 {
        let times = (timed(|| work(&small)), timed(|| work(&large)));
        if times.1 < times.0 * 8 {
            return;
        }
        seen.push(times);
    }
    panic!("for 2,000 and 8,000: {seen:?}");
}

fn run_chain(steps: u32) -> World {
    let steps = (0..steps)
        .map(|n| tool_step(&n.to_string(), "look"))
        .collect();
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
        assert_eq!(world.running().len(), MAX_PARALLEL_STEPS as usize);
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

#[test]
fn folding_the_views_costs_in_proportion_to_the_events() {
    let fold = |journal: &Vec<Event>| {
        let mut tree = Tree::default();
        for (event, seq) in journal.iter().zip(1..) {
            tree.apply(seq, event);
        }
        assert!(!tree.nodes().is_empty() && report::markdown(journal, 1).is_some());
    };
    check_growth(|steps| run_chain(steps).journal, fold);
}
