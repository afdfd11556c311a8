//! What is asked of an orchestrator that does not own the session reaches the one that does by a hint,
//! through two memory processes, and the answer comes back in the same way. Nobody waits until a lease
//! is renewed, which is when owners look for commands by themselves, or until followers look by
//! themselves, each second.
//!
//! How long it takes is measured by `cargo bench -p cairn --bench feedback -- elsewhere`.

#![cfg(target_os = "linux")]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot set up its world is over"
)]

mod support;

#[path = "elsewhere/world.rs"]
mod world;

use std::time::Duration;
use world::{LEASE, Times, Wish, World};

const CAIRN: &str = env!("CARGO_BIN_EXE_cairn");
/// Requests of each kind.
const TIMES: usize = 5;
/// Less than the time after which an owner would have looked: its lease has just begun.
const TOLD: Duration = Duration::from_secs(LEASE.as_secs() / 3 - 5);
/// Half of what two followers that only look by themselves would take for most of the requests.
const SOON: Duration = Duration::from_millis(500);

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_does_not_own_a_session_tells_its_owner_at_once() {
    let site = world::site();
    let world = World::start(&site);
    let mut all = Vec::new();
    for wish in Wish::ALL {
        let mut times = Vec::new();
        for number in 0..TIMES {
            times.push(world.ask(wish, &format!("{wish:?}-{number}")).await);
        }
        let seen = median(times.iter().map(|times| times.seen).collect());
        let answered = median(times.iter().map(|times| times.answered).collect());
        println!("{wish:?}: medians: seen after {seen:.1?}, answered after {answered:.1?}");
        all.append(&mut times);
    }
    let longest = |times: &Times| times.seen.max(times.answered);
    let worst = all.iter().map(longest).max().expect("times");
    assert!(worst < TOLD, "only the renewal told the owner: {worst:?}");
    let usual = median(all.iter().map(longest).collect());
    assert!(usual < SOON, "followers look by themselves: {usual:?}");
}
