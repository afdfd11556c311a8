//! The crash loop: services and the store's server as real processes, killed and frozen at any
//! moment while clients start runs and watch them, pause and cancel them, change their plans and say
//! what may be done. What was acknowledged stays, nothing happens twice, and everything ends.
//!
//! `deploy/prove crash` runs it for as long as you like; the suite runs a short form.
//!
//! Half of the kills and suspensions of the services and of Redis are aimed at commits. The
//! clients watch, pause, cancel, change plans, approve and deny.
//!
//! # Figures
//!
//! The long form made 1,050 kills and 250 suspensions, of these 300 kills over a cluster. They hit
//! 454 answers, 916 starts, 42,394 events and 2,177 effectful calls. Nothing was lost, nothing
//! happened twice, and nothing happened without approval.
//!
//! The proof finds real faults. With `appendfsync everysec` it reports losses. Without fencing, or
//! without the recognition of retries, it reports damage.

mod acts;
mod chaos;
mod load;
mod oracle;
mod proxy;
pub(crate) mod redis_stale;
mod run;
mod settings;
mod stores;
mod summary;
mod verdict;
mod wanted;
mod watched;
mod words;
mod world;

use crate::support::CAIRN;
use load::{Driven, Driver, Load};
pub(crate) use settings::Options;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::task::JoinHandle;
use world::World;

/// Longer than any client waits for a run that gets no further.
const LAST_RUNS: Duration = Duration::from_secs(240);
/// Between two looks at the clients at the end.
const LOOK: Duration = Duration::from_millis(50);

#[test]
fn kills_of_services_and_redis_lose_nothing_and_repeat_nothing() {
    prove(&Options::short());
}

/// Disturbs a world until it has seen the kills that `settings` asks for, and panics with what it
/// found.
pub(crate) fn prove(settings: &Options) {
    println!("{settings:?}: {}, redis", World::describe());
    let mut runtime = Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let site = world::site(settings);
    let mut world = World::start(&site, settings);
    let load = Arc::new(Load {
        orchestrators: world.orchestrators(),
        ledger: site.ledger(),
        seed: settings.seed,
        is_plain: false,
        meets_older: false,
        is_over: AtomicBool::new(false),
    });
    let drivers = (0..settings.drivers).map(|number| {
        let _inside = runtime.enter();
        runtime.spawn(Box::pin(Driver::new(load.clone(), number).drive()))
    });
    let drivers: Vec<_> = drivers.collect();

    let began = Instant::now();
    world.disturb(settings.seed, settings.kills);
    let disturbed = began.elapsed();
    load.is_over.store(true, Ordering::Relaxed);
    world.settle();
    wait_for(&mut world, &drivers);
    let driven = drivers.into_iter();
    let driven = driven.map(|it| runtime.block_on(it).expect("a client"));
    let driven: Vec<Driven> = driven.collect();

    let verdict = runtime.block_on(verdict::reach(&world, &site, &driven));
    println!("{:>8} writes of former owners refused", world.refused());
    summary::print(&world.done, &driven, &verdict, disturbed, began.elapsed());
    let is_red = !verdict.findings.is_empty();
    if is_red || settings.keep {
        let kept = verdict.keep(world.keep(settings.seed));
        println!("everything is kept in {}", kept.display());
    }
    if is_red {
        let findings = verdict.findings.join("\n");
        panic!("{}\nwhat was found:\n{findings}", world.logs());
    }
    assert!(world.done.kills >= settings.kills, "nothing was disturbed");
    let bad_moments = ["redis killed during a burst", "redis killed during a flush"];
    let is_hit = |moment: &&str| world.done.counts.contains_key(*moment);
    assert!(
        bad_moments.iter().any(is_hit),
        "redis was killed at no bad moment"
    );
    let missing = verdict.missing();
    assert!(missing.is_empty(), "this never happened: {missing:?}");
}

/// Waits until all clients have seen their last runs end.
fn wait_for(world: &mut World<'_>, drivers: &[JoinHandle<Driven>]) {
    let began = Instant::now();
    while !drivers.iter().all(JoinHandle::is_finished) {
        world.look_after();
        let hung = began.elapsed() > LAST_RUNS;
        assert!(
            !hung,
            "a client does not come to its end:\n{}",
            world.logs()
        );
        std::thread::sleep(LOOK);
    }
}
