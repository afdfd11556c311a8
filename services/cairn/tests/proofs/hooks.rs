//! What follows from the answers of hooks, and from their failures: at every point, for every kind of hook, after every
//! answer and every kind of failure, with every `on_error`. And kills between a question and its answer.
//!
//! Each case of the table is a run in a node of its own, with one hook. `deploy/prove hooks` has all of them, also hooks
//! that cannot be reached for 30 s, and kills at every commit, in a file and over Redis. The suite has samples.

mod cases;
mod checks;
mod follows;
mod hosts;
mod kills;
mod played;
mod runs;
mod seen;

use crate::support::commits::Sweep;
use cairn_engine::hooks::{Point, VerdictKind};
use cairn_testkit::TestStore;
use cases::{Behaviour, Case, all};
use clap::Args;
use follows::{End, ROWS, counted, row_of};
use futures::StreamExt as _;
use futures::stream;
use hosts::Host;
use kills::Kills;
use runs::Held;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::{Builder, Runtime};

/// Runs at the same time whose hooks are waited for.
const WAITING_AT_ONCE: usize = 64;
/// The suite kills at one of so many points around commits, which are about 40. An odd number has points before and
/// after commits.
const KILLS_IN_SUITE: usize = 11;
/// The same over Redis, where only the store differs.
const KILLS_OVER_REDIS: usize = 15;

/// Which cases are tried. The defaults are the long form.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Runs at the same time, besides those that mostly wait for their hooks
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) at_once: u16,
    /// Try one case of so many, and no hook that cannot be reached for 30 s
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) one_of: u16,
}

#[test]
fn what_hooks_answer_is_what_follows() {
    prove_table(&Options {
        at_once: 8,
        one_of: 19,
    });
}

#[test]
fn an_answer_that_counted_is_not_asked_for_again_after_a_kill() {
    prove_kills("a file", TestStore::file(), Sweep::sampled(KILLS_IN_SUITE));
}

/// Needs a server of Redis.
mod redis {
    use super::{KILLS_OVER_REDIS, Kills, Sweep, TestStore, prove_kills};

    #[test]
    fn an_answer_that_counted_is_not_asked_for_again_after_a_kill_over_redis() {
        let sweep = Sweep::sampled(KILLS_OVER_REDIS);
        prove_kills("Redis", TestStore::redis(), sweep);
    }

    pub(super) fn prove() -> Kills {
        prove_kills("Redis", TestStore::redis(), Sweep::Every)
    }
}

/// Tries all cases and all kills, prints a table, and panics with what is wrong.
pub(crate) fn prove(options: &Options) {
    let cases = prove_table(options);
    let file = prove_kills("a file", TestStore::file(), Sweep::Every);
    let redis = redis::prove();
    println!(
        "{cases} cases and {} kills hold; after the kills {} questions were asked once, and {} again with their keys",
        file.kills + redis.kills,
        file.once + redis.once,
        file.again + redis.again,
    );
}

/// A case, and what it came to.
type Tried = (Case, Result<Held, String>);

/// Returns how many cases hold, which are all.
fn prove_table(options: &Options) -> usize {
    let began = Instant::now();
    let every = usize::from(options.one_of);
    let is_tried = |case: &Case| every == 1 || case.behaviour != Behaviour::Unreachable;
    let cases: Vec<Case> = all().into_iter().filter(is_tried).collect();
    let cases: Vec<Case> = cases.into_iter().step_by(every).collect();
    let tried = runtime().block_on(try_all(cases, usize::from(options.at_once)));
    print(&tried);
    println!("{} cases in {:.0?}", tried.len(), began.elapsed());
    let wrong = tried.iter().filter_map(|(case, result)| {
        let fault = result.as_ref().err()?;
        Some(format!("{case:?}: {fault}"))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    tried.len()
}

/// Runs that mostly wait do not keep others from their turn.
async fn try_all(cases: Vec<Case>, at_once: usize) -> Vec<Tried> {
    let host = Arc::new(Host::start().await);
    let numbered = cases.into_iter().enumerate();
    let (waiting, others): (Vec<_>, Vec<_>) =
        numbered.partition(|(_, case)| case.behaviour.waits());
    let try_some = |cases: Vec<(usize, Case)>, at_once: usize| {
        let host = Arc::clone(&host);
        let tried = cases.into_iter().map(move |(number, case)| {
            let host = Arc::clone(&host);
            async move { (case, Box::pin(runs::check(number, case, &host)).await) }
        });
        stream::iter(tried)
            .buffer_unordered(at_once)
            .collect::<Vec<Tried>>()
    };
    let waiting = try_some(waiting, WAITING_AT_ONCE);
    let (mut tried, others) = futures::join!(waiting, try_some(others, at_once));
    tried.extend(others);
    tried
}

/// For each point, how many cases hold, by what the hook did. Then what followed, and how often hooks were asked.
fn print(tried: &[Tried]) {
    let mut table: BTreeMap<Point, BTreeMap<&str, (usize, usize)>> = BTreeMap::new();
    let mut ends: BTreeMap<End, usize> = BTreeMap::new();
    let (mut decisions, mut once, mut again) = (0, 0, 0);
    for (case, result) in tried {
        let row = table.entry(case.point).or_default();
        let (held, all) = row.entry(case.behaviour.name()).or_default();
        *all += 1;
        if let Ok(case) = result {
            *held += 1;
            *ends.entry(case.end).or_default() += 1;
            decisions += case.decisions;
            once += case.once;
            again += case.again;
        }
    }
    for (point, row) in table {
        let cells: Vec<String> = row
            .iter()
            .map(|(name, (held, all))| format!("{name} {held}/{all}"))
            .collect();
        println!("{:<20}{}", point.name(), cells.join("  "));
    }
    let ends: Vec<String> = ends
        .iter()
        .map(|(end, count)| format!("{end:?} {count}"))
        .collect();
    println!(
        "runs ended: {}; {decisions} decisions of a person; {once} questions asked once, {again} again",
        ends.join(", ")
    );
}

/// Kills around the commits of a run, and panics with what is wrong.
fn prove_kills(name: &str, store: TestStore, sweep: Sweep) -> Kills {
    let began = Instant::now();
    let kills = runtime().block_on(Box::pin(kills::prove(store, sweep)));
    println!(
        "{name}: {} kills in {:.0?}; {} questions asked once, {} again with their keys",
        kills.kills,
        began.elapsed(),
        kills.once,
        kills.again
    );
    kills
}

/// Kills block some threads while they wait for processes.
fn runtime() -> Runtime {
    let mut runtime = Builder::new_multi_thread();
    let runtime = runtime.worker_threads(6).enable_all().build();
    runtime.expect("a runtime")
}

/// The engine has the table of the contract, and the proof has all of it.
#[test]
fn the_table_is_that_of_the_engine_and_whole() {
    let points: Vec<Point> = ROWS.iter().map(|row| row.point).collect();
    assert_eq!(points, Point::ALL);
    for row in &ROWS {
        let taken = VerdictKind::ALL
            .into_iter()
            .filter(|kind| row.point.takes(*kind));
        assert_eq!(taken.collect::<Vec<_>>(), row.takes, "{row:?}");
        let blocks = row.after_failure == VerdictKind::Block;
        assert_eq!(row.point.blocks_on_error(), blocks, "{row:?}");
        // An answer that the engine took for a Proceed would be noticed.
        let passes = follows::follows(row.point, VerdictKind::Proceed);
        let others = row.takes.iter().filter(|it| **it != VerdictKind::Proceed);
        for kind in others {
            assert_ne!(
                follows::follows(row.point, *kind),
                passes,
                "{row:?} {kind:?}"
            );
        }
    }
    let all = all();
    for case in &all {
        let counted = counted(case);
        assert!(row_of(case.point).takes.contains(&counted), "{case:?}");
        // The table has a row for whatever counts.
        follows::follows(case.point, counted);
    }
    // Each answer, and five more behaviours; three kinds of hooks with three values of `on_error` each. No program comes
    // back.
    let answers: usize = ROWS.iter().map(|row| row.takes.len()).sum();
    assert_eq!(all.len(), (answers + 5 * ROWS.len()) * 9 - 3 * ROWS.len());
}
