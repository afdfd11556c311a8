//! How long people wait: for steps that can be carried out at the same time, and for what they ask of
//! a run.
//!
//! ```text
//! cargo bench -p cairn --bench feedback               all
//! cargo bench -p cairn --bench feedback -- overlap    eight steps of 100 ms each
//! cargo bench -p cairn --bench feedback -- elsewhere  requests to who does not own the session
//! ```

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints, and is over when its world cannot be set up"
)]

mod elsewhere;
mod overlap;
#[path = "../../tests/support/mod.rs"]
mod support;
#[path = "../../tests/processes/elsewhere/world.rs"]
mod world;

use std::time::Duration;

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);
    let runtime = cairn::runtime::with_workers(2).expect("a runtime");
    if is_wanted("overlap") {
        runtime.block_on(overlap::measure());
    }
    if is_wanted("elsewhere") {
        runtime.block_on(elsewhere::measure());
    }
}

/// In milliseconds, the value that so many of a hundred do not exceed.
fn percentile(times: &[Duration], percent: usize) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    let rank = (times.len() * percent).div_ceil(100);
    times[rank.saturating_sub(1)].as_secs_f64() * 1e3
}
