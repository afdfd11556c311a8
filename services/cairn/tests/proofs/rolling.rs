//! Every process is replaced while clients start runs and watch them: stopped and started again, one after
//! the other, or followed by one of a newer release. No client notices. No run is lost, nothing happens twice
//! or is in doubt, and no watcher has a gap.
//!
//! Clients, and what they check, are those of the crash loop. `deploy/prove upgrade` replaces the processes of
//! an older release under 200 clients; the suite runs a short form.

#[path = "crash/acts.rs"]
mod acts;
#[allow(dead_code, reason = "the crash loop uses all of it")]
#[path = "crash/load.rs"]
mod load;
#[allow(dead_code, reason = "the crash loop uses all of it")]
#[path = "crash/oracle.rs"]
mod oracle;
#[path = "crash/run.rs"]
mod run;
#[allow(dead_code, reason = "the crash loop uses all of it")]
#[path = "crash/verdict.rs"]
mod verdict;
#[path = "crash/wanted.rs"]
mod wanted;
#[path = "crash/watched.rs"]
mod watched;
#[allow(dead_code, reason = "the crash loop uses all of it")]
#[path = "crash/words.rs"]
mod words;
mod world;

use crate::support::CAIRN;
use cairn_testkit::Site;
use cairn_testkit::cluster::SERVICES;
use clap::Args;
use load::{Driven, Driver, Load};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::time::timeout;
use verdict::Verdict;
use world::World;

/// Clients at the same time.
const DRIVERS: usize = 8;
/// The last runs end within this, and this more for each client.
const LAST_RUNS: Duration = Duration::from_secs(60);
const LAST_RUN: Duration = Duration::from_millis(500);
/// As in the settings: a process that stops gives its sessions back before.
const LEASE: Duration = Duration::from_secs(5);

/// How much an upgrade is put under load. The defaults are the long form.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Clients at the same time, each with a session that it watches
    #[arg(long, default_value_t = 200)]
    sessions: usize,
    /// Seconds between the readiness of a new process and the stop of an old one, as in the preStop of the
    /// manifests
    #[arg(long, default_value_t = 5)]
    pause: u64,
}

/// Replaces the processes of an older release by those of a newer one, in the order that the guide for
/// operators names, and panics with what clients noticed.
pub(crate) fn prove(options: &Options) {
    let site = world::site();
    let mut world = World::start_old(&site);
    let pause = Duration::from_secs(options.pause);
    let (driven, verdict) = play(&site, &mut world, options.sessions, true, |world| {
        // As SERVICES has them: memory, tools, executors, planners, orchestrators.
        for service in SERVICES {
            world.upgrade(service, pause);
        }
    });
    let quarantined = |it: &Driven| it.counts.get("sessions quarantined and released").copied();
    let quarantined: usize = driven.iter().filter_map(quarantined).sum();
    let mut findings = world.stalled();
    if quarantined > 0 {
        findings.push(format!("{quarantined} sessions were quarantined"));
    }
    judge(&world, &verdict, findings);
}

/// Has clients start runs and watch them while processes are replaced, and reads what is there then.
fn play(
    site: &Site,
    world: &mut World<'_>,
    clients: usize,
    meets_older: bool,
    replace: impl FnOnce(&mut World<'_>),
) -> (Vec<Driven>, Verdict) {
    let mut runtime = Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let load = Arc::new(Load {
        orchestrators: world.orchestrators(),
        ledger: site.ledger(),
        seed: 1,
        is_plain: true,
        meets_older,
        is_over: AtomicBool::new(false),
    });
    let drivers = (0..clients).map(|number| {
        let _inside = runtime.enter();
        runtime.spawn(Box::pin(Driver::new(load.clone(), number).drive()))
    });
    let drivers: Vec<_> = drivers.collect();

    let began = Instant::now();
    replace(world);
    let rolled = began.elapsed();
    load.is_over.store(true, Ordering::Relaxed);
    let patience = LAST_RUNS + LAST_RUN * u32::try_from(clients).unwrap_or(u32::MAX);
    let driven = drivers.into_iter().map(|driver| {
        let ended = runtime.block_on(async { timeout(patience, driver).await });
        let ended = ended.unwrap_or_else(|_| panic!("a client hangs:\n{}", world.logs()));
        ended.expect("a client")
    });
    let driven: Vec<Driven> = driven.collect();

    let verdict = runtime.block_on(verdict::reach(world, site, &driven));
    let runs: usize = driven.iter().map(|it| it.runs.len()).sum();
    let kinds = |kind: &str| verdict.kinds.get(kind).copied().unwrap_or(0);
    println!(
        "{runs} runs, {} calls with side effects, {} attempts taken over; replaced in {rolled:.1?}, \
         all over after {:.1?}; the longest without an event: {} ms",
        kinds("call_intended"),
        kinds("attempt_continued"),
        began.elapsed(),
        verdict.longest[0].ms,
    );
    (driven, verdict)
}

/// Panics with what was found, of these and of what should not have happened in journals.
fn judge(world: &World<'_>, verdict: &Verdict, mut findings: Vec<String>) {
    let kinds = |kind: &str| verdict.kinds.get(kind).copied().unwrap_or(0);
    findings.extend(verdict.findings.iter().cloned());
    for (kind, what) in [
        ("call_in_doubt", "calls in doubt after clean stops"),
        ("step_failed", "steps failed"),
        ("run_waiting", "runs had to wait for a person"),
    ] {
        let times = kinds(kind);
        if times > 0 {
            findings.push(format!("{times} {what}"));
        }
    }
    if !findings.is_empty() {
        let kept = verdict.keep(world.keep());
        let (logs, kept, findings) = (world.logs(), kept.display(), findings.join("\n"));
        panic!("{logs}\nwhat was found (kept in {kept}):\n{findings}");
    }
    assert!(kinds("call_intended") > 0, "nothing was done");
    assert!(kinds("attempt_continued") > 0, "nothing was handed over");
}

/// Each needs a server of Redis.
mod redis {
    use super::*;

    #[test]
    fn every_process_is_stopped_and_started_again_and_nobody_notices() {
        let site = world::site();
        let mut world = World::start(&site);
        let (_, verdict) = play(&site, &mut world, DRIVERS, false, |world| {
            world.members().into_iter().for_each(|it| world.roll(it));
        });
        judge(&world, &verdict, Vec::new());
        let longest = Duration::from_millis(verdict.longest[0].ms);
        assert!(longest < LEASE, "a session waited for a lease: {longest:?}");
    }

    #[test]
    fn every_process_is_replaced_by_one_of_the_next_release_and_nobody_notices() {
        prove(&Options {
            sessions: DRIVERS,
            pause: 0,
        });
    }
}
