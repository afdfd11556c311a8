//! Knowledge, with real processes: pages are found by words at every server, a page that a model saves stands once, and
//! earlier messages of a conversation are found again.
//!
//! - The pages and queries of the set of `shared/knowledge`, among generated pages, through two orchestrators over a
//!   file and over Redis. Every search has the same hits and scores at all of them.
//! - A page that one orchestrator stored, replaced or deleted is found so by the next search at the other one.
//! - `cairn serve` is killed before and after the commits of a run whose model saves a page. Then there is one page.
//! - Messages before a window, and messages that gave way to a summary, are found by words of them. Those that the
//!   request has are not. The same after `kill -9`.
//!
//! `deploy/prove knowledge` has 5,000 generated pages and kills at every commit; the suite runs short forms.

mod earlier;
mod pages;
mod saved;
mod searched;

use crate::support::commits::Sweep;
use cairn_testkit::TestStore;
use clap::Args;
use std::time::Instant;
use tokio::runtime::{Builder, Runtime};

/// The suite kills at one of so many points around commits. An odd number has points before and after commits.
const KILLS_IN_SUITE: usize = 5;
/// The same over Redis, where only the store differs.
const KILLS_OVER_REDIS: usize = 7;

/// How much there is. The defaults are the long form.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Generated pages beside those of the set
    #[arg(long, value_name = "N", default_value_t = 5000,
          value_parser = clap::value_parser!(u16).range(1..=40_000))]
    pub(crate) pages: u16,
    /// Pages that are stored, replaced and deleted at one orchestrator and looked for at the other
    #[arg(long, value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u16).range(1..=900))]
    pub(crate) rounds: u16,
    /// Turns of the conversation with a window
    #[arg(long, value_name = "N", default_value_t = 30,
          value_parser = clap::value_parser!(u16).range(10..=500))]
    pub(crate) turns: u16,
}

const SHORT: Options = Options {
    pages: 200,
    rounds: 20,
    turns: 12,
};

#[test]
fn a_page_that_a_model_saved_stands_once_after_a_kill() {
    let sweep = Sweep::sampled(KILLS_IN_SUITE);
    prove_saved("a file", TestStore::file(), sweep);
}

#[test]
fn earlier_messages_are_found_again_also_after_a_kill() {
    prove_earlier("a file", TestStore::file(), &SHORT);
}

/// Each needs a server of Redis.
mod redis {
    use super::{
        KILLS_OVER_REDIS, Options, SHORT, Sweep, TestStore, prove_earlier, prove_saved,
        prove_searched,
    };

    #[test]
    fn two_servers_find_the_same_pages_at_once_over_both_stores() {
        prove_searched(&TestStore::file(), &TestStore::redis(), &SHORT);
    }

    #[test]
    fn a_page_that_a_model_saved_stands_once_after_a_kill_over_redis() {
        let sweep = Sweep::sampled(KILLS_OVER_REDIS);
        prove_saved("Redis", TestStore::redis(), sweep);
    }

    pub(super) fn prove(options: &Options) -> usize {
        prove_searched(&TestStore::file(), &TestStore::redis(), options);
        prove_earlier("Redis", TestStore::redis(), options);
        prove_saved("Redis", TestStore::redis(), Sweep::Every)
    }
}

/// Proves all of it, prints what was counted, and panics with what is wrong.
pub(crate) fn prove(options: &Options) {
    println!("{options:?}");
    prove_earlier("a file", TestStore::file(), options);
    let kills = prove_saved("a file", TestStore::file(), Sweep::Every);
    let kills = kills + redis::prove(options);
    println!(
        "{} pages are found alike at both servers over both stores, and changes at once; a page stands once after \
         each of {kills} kills, and earlier messages are found",
        usize::from(options.pages) + pages::OF_SET
    );
}

/// Searches over both stores.
fn prove_searched(file: &TestStore, redis: &TestStore, options: &Options) {
    let over_file = searched::prove("a file", file, options);
    let over_redis = searched::prove("Redis", redis, options);
    searched::check_same(&over_file, &over_redis);
}

/// Kills around the commits of a run that saves a page. Returns the number of kills.
fn prove_saved(name: &str, store: TestStore, sweep: Sweep) -> usize {
    let began = Instant::now();
    let saved = runtime().block_on(Box::pin(saved::prove(store, sweep)));
    println!(
        "{name}: {} kills in {:.0?}; each time there is one page, and {} times it was saved before the kill and its \
         call was made again",
        saved.kills,
        began.elapsed(),
        match saved.again {
            Some(again) => again.to_string(),
            None => "an unknown number of".to_owned(),
        }
    );
    saved.kills
}

/// Has two conversations that requests do not have whole.
fn prove_earlier(name: &str, store: TestStore, options: &Options) {
    let turns = usize::from(options.turns);
    runtime().block_on(Box::pin(earlier::prove(name, store, turns)));
}

/// Some threads wait for processes.
fn runtime() -> Runtime {
    let mut runtime = Builder::new_multi_thread();
    let runtime = runtime.worker_threads(6).enable_all().build();
    runtime.expect("a runtime")
}
