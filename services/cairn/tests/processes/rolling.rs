//! Every process is told to stop and started again, one after the other, while clients start runs and
//! watch them: nobody notices. No run is lost, nothing happens twice or is in doubt, and no watcher
//! has a gap.
//!
//! Clients, and what they check, are those of the crash loop.

#[path = "../proofs/crash/acts.rs"]
mod acts;
#[allow(dead_code, reason = "the crash loop uses all of it")]
#[path = "../proofs/crash/load.rs"]
mod load;
#[allow(dead_code, reason = "the crash loop uses all of it")]
#[path = "../proofs/crash/oracle.rs"]
mod oracle;
#[path = "../proofs/crash/run.rs"]
mod run;
#[allow(dead_code, reason = "the crash loop uses all of it")]
#[path = "../proofs/crash/verdict.rs"]
mod verdict;
#[path = "../proofs/crash/wanted.rs"]
mod wanted;
#[path = "../proofs/crash/watched.rs"]
mod watched;
#[allow(dead_code, reason = "the crash loop uses all of it")]
#[path = "../proofs/crash/words.rs"]
mod words;
mod world;

use crate::support::CAIRN;
use load::{Driven, Driver, Load};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::time::timeout;
use world::World;

/// Clients at the same time.
const DRIVERS: usize = 8;
/// How often each process is replaced.
const ROUNDS: usize = 2;
/// The last runs end within this.
const LAST_RUNS: Duration = Duration::from_secs(60);
/// As in the settings: whoever stops gives its sessions back before.
const LEASE: Duration = Duration::from_secs(5);

/// Each needs a server of Redis.
mod redis {
    use super::*;

    #[test]
    fn every_process_is_stopped_and_started_again_and_nobody_notices() {
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let site = world::site();
        let mut world = World::start(&site);
        let load = Arc::new(Load {
            orchestrators: world.orchestrators(),
            ledger: site.ledger(),
            seed: 1,
            is_plain: true,
            is_over: AtomicBool::new(false),
        });
        let drivers = (0..DRIVERS).map(|number| {
            let _inside = runtime.enter();
            runtime.spawn(Box::pin(Driver::new(load.clone(), number).drive()))
        });
        let drivers: Vec<_> = drivers.collect();

        let began = Instant::now();
        for _ in 0..ROUNDS {
            world.members().into_iter().for_each(|it| world.roll(it));
        }
        let rolled = began.elapsed();
        load.is_over.store(true, Ordering::Relaxed);
        let driven = drivers.into_iter().map(|driver| {
            let ended = runtime.block_on(async { timeout(LAST_RUNS, driver).await });
            let ended = ended.unwrap_or_else(|_| panic!("a client hangs:\n{}", world.logs()));
            ended.expect("a client")
        });
        let driven: Vec<Driven> = driven.collect();

        let verdict = runtime.block_on(verdict::reach(&world, &site, &driven));
        let runs: usize = driven.iter().map(|it| it.runs.len()).sum();
        let kinds = |kind: &str| verdict.kinds.get(kind).copied().unwrap_or(0);
        let mut findings = verdict.findings.clone();
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
        println!(
            "{runs} runs, {} calls with side effects, {} attempts taken over; rolled in {rolled:.1?}, \
             all over after {:.1?}; the longest without an event: {} ms",
            kinds("call_intended"),
            kinds("attempt_continued"),
            began.elapsed(),
            verdict.longest[0].ms,
        );
        if !findings.is_empty() {
            let kept = verdict.keep(world.keep());
            let (logs, kept, findings) = (world.logs(), kept.display(), findings.join("\n"));
            panic!("{logs}\nwhat was found (kept in {kept}):\n{findings}");
        }
        assert!(kinds("call_intended") > 0, "nothing was done");
        assert!(kinds("attempt_continued") > 0, "nothing was handed over");
        let longest = Duration::from_millis(verdict.longest[0].ms);
        assert!(longest < LEASE, "somebody waited for a lease: {longest:?}");
    }
}
