//! What is asked of an orchestrator that does not own the session reaches the one that does by a hint,
//! through two memory processes, and the answer comes back in the same way. Nobody waits until a lease
//! is renewed, which is when owners look for commands by themselves, or until followers look by
//! themselves, each second.
//!
//! How long it takes is measured by `cargo bench -p cairn --bench feedback -- elsewhere`.

mod world;

use cairn_testkit::TestStore;
use std::time::Duration;
use world::{Command, LEASE, Times, World};

/// Requests of each kind.
const TIMES: usize = 5;
/// Less than the time after which an owner would have looked: its lease has just begun.
const REPORTED: Duration = Duration::from_secs(LEASE.as_secs() / 3 - 5);
/// Followers that only look by themselves take longer for many of the requests: for all whose session
/// is worked on through the other memory process. A pause of the machine makes few of them late.
const SOON: Duration = Duration::from_millis(500);

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_does_not_own_a_session_on_redis_wakes_its_owner_at_once() {
    the_owner_is_reported_at_once(TestStore::redis()).await;
}

/// On a cluster hints are sharded: each server has those of its own partitions.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_does_not_own_a_session_on_a_redis_cluster_wakes_its_owner_at_once() {
    the_owner_is_reported_at_once(TestStore::cluster()).await;
}

async fn the_owner_is_reported_at_once(store: TestStore) {
    let site = world::site();
    let world = World::start(&site, store);
    let mut all = Vec::new();
    for change in Command::ALL {
        let mut times = Vec::new();
        for number in 0..TIMES {
            let took = world.ask(change, &format!("{change:?}-{number}")).await;
            let longest = took.seen.max(took.answered);
            assert!(
                longest < REPORTED,
                "only a renewal told the owner: {longest:?}"
            );
            times.push(took);
        }
        let seen = median(times.iter().map(|times| times.seen).collect());
        let answered = median(times.iter().map(|times| times.answered).collect());
        println!("{change:?}: medians: seen after {seen:.1?}, answered after {answered:.1?}");
        all.append(&mut times);
    }
    let longest = |times: &Times| times.seen.max(times.answered);
    let late = all.iter().filter(|times| longest(times) >= SOON).count();
    println!("{late} of {} requests took {SOON:?} or longer", all.len());
    assert!(late <= all.len() / 10, "followers look by themselves");
}
