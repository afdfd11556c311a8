//! Requests to an orchestrator that does not own the session, over two memory processes and one server
//! of Redis: from the request to its event, as a watcher there sees it, and to the answer.

use crate::percentile;
use crate::world::{self, Command, World};
use cairn_testkit::TestStore;

/// Requests of each kind.
const TIMES: usize = 60;

pub(crate) async fn measure() {
    let site = world::site();
    let world = World::start(&site, TestStore::redis());
    println!(
        "{:<34} {:>10} {:>10} {:>10} {:>10}",
        "asked of who is not the owner, ms", "seen p50", "p99", "answer p50", "p99"
    );
    for change in Command::ALL {
        let (mut seen, mut answered) = (Vec::new(), Vec::new());
        for number in 0..TIMES {
            let times = world.ask(change, &format!("{change:?}-{number}")).await;
            seen.push(times.seen);
            answered.push(times.answered);
        }
        let [seen, answered] =
            [seen, answered].map(|times| [50, 99].map(|percent| percentile(&times, percent)));
        println!(
            "{:<34} {:>10.1} {:>10.1} {:>10.1} {:>10.1}",
            format!("{change:?}"),
            seen[0],
            seen[1],
            answered[0],
            answered[1]
        );
    }
}
