//! What work costs as there is more of it.

use super::World;
use super::words::{after, chain, graph, tool_step};
use cairn_engine::command::LimitOverrides;
use cairn_engine::plan::PlanDraft;
use cairn_engine::session::RunStatus;
use std::time::{Duration, Instant};

/// How long that takes.
pub(crate) fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

/// Four times as much must take less than eight times as long. What grows with the square takes
/// sixteen times as long, every time; a busy machine only sometimes.
pub(crate) fn check_growth<T>(prepare: impl Fn(u32) -> T, work: impl Fn(&T)) {
    let (small, large) = (prepare(2_000), prepare(8_000));
    let mut seen = Vec::new();
    for _ in 0..20 {
        let times = (timed(|| work(&small)), timed(|| work(&large)));
        if times.1 < times.0 * 8 {
            return;
        }
        seen.push(times);
    }
    panic!("for 2,000 and 8,000: {seen:?}");
}

/// A chain of tool steps, carried out.
pub(crate) fn run_chain(steps: u32) -> World {
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

/// Each step waits for up to eight of those before it.
const EDGES: u32 = 8;

pub(crate) fn wide(steps: u32, reworded: Option<u32>) -> PlanDraft {
    let step = |n: u32| {
        let names: Vec<String> = (1..=EDGES)
            .filter_map(|back| n.checked_sub(back * back))
            .map(|before| (before + 1).to_string())
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let title = match reworded {
            Some(other) if other == n => "another".to_owned(),
            _ => format!("step {n}"),
        };
        after(tool_step(&title, "look"), &names)
    };
    graph((0..steps).map(step).collect())
}

pub(crate) fn started(steps: u32) -> World {
    let mut world = World::new();
    let limits = LimitOverrides {
        max_parallel_steps: 64,
        ..LimitOverrides::default()
    };
    world.start_with(wide(steps, None), limits);
    world
}

pub(crate) fn carry_out(world: &mut World) {
    while let Some(&step) = world.running().first() {
        world.result(step, 0, "text");
    }
    assert_eq!(world.run().status, RunStatus::Completed);
}
