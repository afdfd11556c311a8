//! The crash loop: services and the store's server as real processes, killed and frozen at any
//! moment while clients start runs and watch them, pause and cancel them, change their plans and say
//! what may be done. What was acknowledged stays, nothing happens twice, and everything ends.
//!
//! This is its short form; `deploy/crash-loop` runs it for as long as one likes.

#![cfg(target_os = "linux")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot set up its world is over"
)]

mod support;

#[path = "crash/acts.rs"]
mod acts;
#[path = "crash/chaos.rs"]
mod chaos;
#[path = "crash/load.rs"]
mod load;
#[path = "crash/oracle.rs"]
mod oracle;
#[path = "crash/proxy.rs"]
mod proxy;
#[path = "crash/redis_stale.rs"]
mod redis_stale;
#[path = "crash/run.rs"]
mod run;
#[path = "crash/settings.rs"]
mod settings;
#[path = "crash/stores.rs"]
mod stores;
#[path = "crash/summary.rs"]
mod summary;
#[path = "crash/verdict.rs"]
mod verdict;
#[path = "crash/wanted.rs"]
mod wanted;
#[path = "crash/watched.rs"]
mod watched;
#[path = "crash/words.rs"]
mod words;
#[path = "crash/world.rs"]
mod world;

use cairn_boot::Environment;
use load::{Driven, Driver, Load};
use settings::Settings;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::task::JoinHandle;
use world::World;

const CAIRN: &str = env!("CARGO_BIN_EXE_cairn");
/// Longer than any client waits for a run that gets no further.
const LAST_RUNS: Duration = Duration::from_secs(240);
/// Between two looks at the clients at the end.
const LOOK: Duration = Duration::from_millis(50);

#[test]
fn whoever_is_killed_redis_too_nothing_is_lost_and_nothing_happens_twice() {
    let settings = Settings::of(&Environment::from_process());
    println!("{settings:?}: {}, redis", World::describe());
    let mut runtime = Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let site = world::site(&settings);
    let mut world = World::start(&site, &settings);
    let load = Arc::new(Load {
        orchestrators: world.orchestrators(),
        ledger: site.ledger(),
        seed: settings.seed,
        is_plain: false,
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
