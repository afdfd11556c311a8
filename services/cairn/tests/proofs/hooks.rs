//! What follows from the answers of hooks, and from their failures: at every point, for every kind of hook, and after
//! every kind of failure. And kills between a question and its answer.
//!
//! Each case of the table is a run in a node of its own, with one hook. `deploy/prove hooks` has all of them, and hooks
//! that cannot be reached for 30 s. The suite has a sample.

mod cases;
mod hosts;
mod kills;
mod runs;

use cairn_engine::hooks::{Point, VerdictKind};
use cairn_hooks::OnError;
use cases::{Behaviour, Case, Kind, all};
use clap::Args;
use futures::StreamExt as _;
use futures::stream;
use hosts::Host;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::Builder;

/// Which cases are tried. The defaults are the long form.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Runs at the same time
    #[arg(long, value_name = "N", default_value_t = 32,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) at_once: u16,
    /// Try one case of so many, and none that cannot be reached
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) one_of: u16,
}

#[test]
fn what_hooks_answer_is_what_follows() {
    prove_table(&Options {
        at_once: 8,
        one_of: 7,
    });
}

#[test]
fn an_answer_that_counted_is_not_asked_for_again_after_a_kill() {
    kills::prove(kills::SAMPLE);
}

/// Tries all cases and all kills, prints a table, and panics with what is wrong.
pub(crate) fn prove(options: &Options) {
    prove_table(options);
    kills::prove(1);
}

fn prove_table(options: &Options) {
    let began = Instant::now();
    let every = usize::from(options.one_of);
    let is_tried = |case: &Case| every == 1 || case.behaviour != Behaviour::Unreachable;
    let cases: Vec<Case> = all().into_iter().filter(is_tried).collect();
    let cases: Vec<Case> = cases.into_iter().step_by(every).collect();
    let runtime = Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let results: Vec<(Case, Result<(), String>)> = runtime.block_on(async {
        let host = Arc::new(Host::start().await);
        let tried = cases.into_iter().enumerate().map(|(number, case)| {
            let host = Arc::clone(&host);
            async move { (case, runs::check(number, case, &host).await) }
        });
        let tried = stream::iter(tried).buffer_unordered(usize::from(options.at_once));
        tried.collect().await
    });
    print(&results);
    println!("{} cases in {:.0?}", results.len(), began.elapsed());
    let wrong = results.iter().filter_map(|(case, result)| {
        let fault = result.as_ref().err()?;
        Some(format!("{case:?}: {fault}"))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// One line for each point: how many cases hold, by what the hook did.
fn print(results: &[(Case, Result<(), String>)]) {
    let mut table: BTreeMap<Point, BTreeMap<&str, (usize, usize)>> = BTreeMap::new();
    for (case, result) in results {
        let row = table.entry(case.point).or_default();
        let (held, tried) = row.entry(case.behaviour.name()).or_default();
        *held += usize::from(result.is_ok());
        *tried += 1;
    }
    for (point, row) in table {
        let cells: Vec<String> = row
            .iter()
            .map(|(name, (held, tried))| format!("{name} {held}/{tried}"))
            .collect();
        println!("{:<20}{}", point.name(), cells.join("  "));
    }
}

/// What counts of what a hook did.
fn counted(case: &Case) -> VerdictKind {
    let blocks = match case.on_error {
        Some(OnError::Block) => true,
        Some(OnError::Proceed) => false,
        None => case.point.blocks_on_error(),
    };
    match case.behaviour {
        Behaviour::Answers(kind) => kind,
        _ if blocks && !case.point.observes() => VerdictKind::Block,
        _ => VerdictKind::Proceed,
    }
}

#[test]
fn the_table_has_every_answer_of_every_point() {
    let all = all();
    for point in Point::ALL {
        for kind in [Kind::InProcess, Kind::Program, Kind::Host] {
            let mine = all
                .iter()
                .filter(|it| it.point == *point && it.kind == kind);
            let answers = mine
                .clone()
                .filter(|it| matches!(it.behaviour, Behaviour::Answers(_)));
            let taken = VerdictKind::ALL.iter().filter(|kind| point.takes(**kind));
            assert_eq!(answers.count(), taken.count(), "{point:?}");
            // Late, wrong and unreachable, each with two answers in its place and without one.
            let failures = mine.filter(|it| !matches!(it.behaviour, Behaviour::Answers(_)));
            assert_eq!(failures.count(), 9, "{point:?}");
        }
    }
}
