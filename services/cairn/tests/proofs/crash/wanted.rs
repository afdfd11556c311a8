//! What the runs under kills are asked for, and what people do to them meanwhile, as a pure function
//! of a seed.

use crate::support::chain;
use cairn_proto::event as wire;
use std::time::Duration;

const GOAL: &str = "Which files under docs mention Redis, and what do they say about it?";
/// Makes the planner look for something else as well.
pub(crate) const FEEDBACK: &str = "Look for SQLite.";
/// The tools that write into the ledger: one that may be called, and one that needs approval.
pub(crate) const RECORD: &str = "record";
pub(crate) const SPEND: &str = "spend";

/// The kinds of runs, which come one after the other.
const KINDS: usize = 10;
/// So many events of a run have been seen when its client does something to it.
const FIRST_ACT: u64 = 4;
const LAST_ACT: u64 = 17;
/// How long a run is paused: also for longer than a lease.
const HOLD_MS: u64 = 4000;

/// What a client does to its run on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Pause,
    Resume,
    Cancel,
    /// Puts the other plan into force.
    Apply,
    /// Tells the planner what is to be different.
    Feedback,
}

/// A run and what happens to it.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) request: wire::StartRun,
    /// What is done, in this order.
    pub(crate) acts: Vec<Act>,
    /// So many events have been seen then.
    pub(crate) acts_at: usize,
    /// How long it is paused.
    pub(crate) hold: Duration,
    /// The other plan.
    pub(crate) revised: wire::Plan,
    /// In the arguments of the call that is denied; others are approved.
    pub(crate) denied: Option<String>,
}

/// The run of this number of a client, and what is done to it.
pub(crate) fn wanted(name: &str, seed: u64, driver: usize, number: usize) -> Wanted {
    let chance = mixed(seed ^ mixed((driver * 1000 + number) as u64));
    let kind = (seed as usize).wrapping_add(driver + number) % KINDS;
    let (tool, acts): (Option<&str>, &[Act]) = match kind {
        0 => (None, &[]),
        1 => (Some(RECORD), &[Act::Pause, Act::Resume]),
        2 => (Some(RECORD), &[Act::Cancel]),
        3 => (Some(RECORD), &[Act::Apply]),
        4 | 5 => (Some(SPEND), &[]),
        6 => (Some(SPEND), &[Act::Pause, Act::Apply, Act::Resume]),
        7 => (None, &[Act::Feedback]),
        8 => (Some(RECORD), &[]),
        _ => (Some(SPEND), &[Act::Cancel]),
    };
    // A chain that waits for its client's word cannot end before its client has acted.
    let waits = tool == Some(SPEND) && !acts.is_empty();
    let is_graph = chance.is_multiple_of(2) && !waits;
    let planned = |tool| planned(name, tool, is_graph, ["0", "1", "2"]);
    let revised = tool.map(|tool| revised(name, tool, is_graph));
    Wanted {
        request: tool.map_or_else(goal, planned),
        acts: acts.to_vec(),
        acts_at: (FIRST_ACT + chance / 2 % (LAST_ACT - FIRST_ACT)) as usize,
        hold: Duration::from_millis(chance / 64 % HOLD_MS),
        revised: revised.unwrap_or_default(),
        denied: (kind == 5).then(|| format!(r#""{name} {}""#, chance / 4 % 3)),
    }
}

/// A run that is left to itself: every fourth has a goal, the others plans.
pub(crate) fn plain(name: &str, number: usize) -> Wanted {
    let request = match number % 4 {
        3 => goal(),
        _ => planned(name, RECORD, number.is_multiple_of(2), ["0", "1", "2"]),
    };
    Wanted {
        request,
        acts: Vec::new(),
        acts_at: 0,
        hold: Duration::ZERO,
        revised: wire::Plan::default(),
        denied: None,
    }
}

fn goal() -> wire::StartRun {
    wire::StartRun {
        goal: GOAL.to_owned(),
        ..wire::StartRun::default()
    }
}

/// A plan with tools of every effect, in a chain or side by side. What is written into the ledger is
/// written once in a run, so that it says what was done twice whatever its key.
fn planned(name: &str, tool: &str, is_graph: bool, rounds: [&str; 3]) -> wire::StartRun {
    let round = |number: &str| {
        let path = format!("cairn-out/{name}-{number}.md");
        [
            step(tool, format!(r#"{{"what":"{name} {number}"}}"#)),
            step("list_files", r#"{"path":"docs"}"#.to_owned()),
            step(
                "write_file",
                format!(r#"{{"content":"note","path":"{path}"}}"#),
            ),
        ]
    };
    let mut run = chain(rounds.into_iter().flat_map(round).collect());
    if let Some(plan) = run.plan.as_mut().filter(|_| is_graph) {
        plan.order = wire::Order::Graph.into();
    }
    run
}

/// The same plan with another third round, and a fourth.
fn revised(name: &str, tool: &str, is_graph: bool) -> wire::Plan {
    let run = planned(name, tool, is_graph, ["0", "1", "3"]);
    let mut plan = run.plan.unwrap_or_default();
    let last = step(RECORD, format!(r#"{{"what":"{name} 4"}}"#));
    plan.steps.push(last);
    plan
}

fn step(tool: &str, arguments: String) -> wire::PlanStep {
    wire::PlanStep {
        title: tool.to_owned(),
        tool: Some(wire::ToolInvocation {
            name: tool.to_owned(),
            arguments_json: arguments,
        }),
        ..wire::PlanStep::default()
    }
}

/// SplitMix64 of one number.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
