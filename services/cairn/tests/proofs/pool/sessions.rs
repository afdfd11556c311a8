//! Sessions, one run after the other, and what their journals say of waits.

use super::record::Record;
use super::{CAPABILITIES, Options, REGISTERED, capability};
use crate::support::pool::{Waits, step_needing};
use crate::support::{Client, chain, link, start, watch_to_end};
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_rpc::Link;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

/// Steps of a run.
const STEPS: usize = 2;
/// Sessions of one connection, each with a stream.
const OF_CONNECTION: usize = 100;
/// All sessions end so soon after the last change.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// What came of all runs.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) runs: usize,
    pub(super) waits: Waits,
    pub(super) findings: Vec<String>,
}

/// Sessions at work.
pub(super) struct Load {
    runtime: Runtime,
    tasks: JoinSet<Tally>,
}

impl Load {
    /// Begins the sessions, in turn at each orchestrator. Each begins run after run until that time.
    pub(super) fn begin(
        addresses: &[String],
        record: &Arc<Record>,
        until: Instant,
        options: &Options,
    ) -> Self {
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let mut tasks = JoinSet::new();
        let mut links: Vec<Link> = Vec::new();
        for number in 0..options.sessions {
            let of_address = number / addresses.len();
            if of_address.is_multiple_of(OF_CONNECTION) {
                let address = &addresses[number % addresses.len()];
                links.push(runtime.block_on(async { link(address) }));
            }
            let place = of_address / OF_CONNECTION * addresses.len() + number % addresses.len();
            let client = Client::new(links[place].clone());
            let working = work(client, number, record.clone(), until);
            tasks.spawn_on(working, runtime.handle());
        }
        Self { runtime, tasks }
    }

    /// Waits until all sessions have ended.
    pub(super) fn end(self) -> Tally {
        let Self { runtime, mut tasks } = self;
        let mut all = Tally::default();
        runtime.block_on(async {
            let until = tokio::time::Instant::now() + ENDS_WITHIN;
            while let Ok(Some(ended)) = tokio::time::timeout_at(until, tasks.join_next()).await {
                match ended {
                    Ok(tally) => all.add(tally),
                    Err(error) => all.findings.push(format!("a session failed: {error}")),
                }
            }
        });
        if !tasks.is_empty() {
            let finding = format!("{} sessions do not end", tasks.len());
            all.findings.push(finding);
        }
        tasks.abort_all();
        all
    }
}

/// What the steps of a run need: nothing, one capability or two.
fn needs(record: &Record, number: usize, round: usize) -> Vec<BTreeSet<usize>> {
    let of_step = |step: usize| {
        let what = (number, round, step);
        let count = [0, 1, 1, 1, 1, 1, 1, 2][record.pick(&(what, "count"), 8)];
        let one = |place: usize| match record.pick(&(what, place, "registered"), 12) {
            0 => REGISTERED,
            _ => record.pick(&(what, place), CAPABILITIES),
        };
        (0..count).map(one).collect()
    };
    (0..STEPS).map(of_step).collect()
}

async fn work(mut client: Client, number: usize, record: Arc<Record>, until: Instant) -> Tally {
    let mut tally = Tally::default();
    for round in 0.. {
        let needs = needs(&record, number, round);
        let steps = needs.iter().map(|needs| {
            let names: Vec<String> = needs.iter().map(|it| capability(*it)).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            step_needing("work", &names)
        });
        let run = chain(steps.collect());
        let session = start(&mut client, &format!("run-{number}-{round}"), run).await;
        let events = watch_to_end(&mut client, &session, 0).await;
        tally.read(&session, &events, &needs, &record);
        if Instant::now() >= until {
            break;
        }
    }
    tally
}

impl Tally {
    fn read(
        &mut self,
        session: &str,
        events: &[(u64, wire::Event)],
        needs: &[BTreeSet<usize>],
        record: &Record,
    ) {
        self.runs += 1;
        let last = events.last().and_then(|(_, event)| event.kind.as_ref());
        if !matches!(last, Some(Kind::RunCompleted(_))) {
            self.findings.push(format!("{session} ends with {last:?}"));
        }
        match Waits::of(events) {
            Ok(waits) => self.waits.add(&waits),
            Err(finding) => self.findings.push(format!("{session}: {finding}")),
        }
        for (_, event) in events {
            if let Some(Kind::AttemptPlaced(placed)) = &event.kind {
                let step = placed.attempt.as_ref().map_or(0, |attempt| attempt.step);
                let step = usize::try_from(step).unwrap_or_default();
                let needs = step.checked_sub(1).and_then(|step| needs.get(step));
                let none = BTreeSet::new();
                let needs = needs.unwrap_or(&none);
                record.check_placed(&placed.resources, needs, event.at_unix_ms);
            }
        }
    }

    fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.waits.add(&other.waits);
        self.findings.extend(other.findings);
    }

    /// Prints the figures.
    pub(super) fn print(&mut self, took: Duration, used: Duration) {
        let waits = &mut self.waits;
        waits.waited_ms.sort_unstable();
        let of = |percent: usize| {
            let place =
                (waits.waited_ms.len() * percent / 100).min(waits.waited_ms.len().max(1) - 1);
            waits.waited_ms.get(place).copied().unwrap_or_default()
        };
        println!(
            "{} runs in {took:.1?}, {} attempts placed",
            self.runs, waits.placed
        );
        println!(
            "waited for a slot: p50 {} ms, p99 {} ms, at most {} ms",
            of(50),
            of(99),
            of(100)
        );
        let placed = u32::try_from(waits.placed.max(1)).unwrap_or(u32::MAX);
        println!(
            "processor time of the orchestrators for each: {:.1?}",
            used / placed
        );
        println!(
            "{} shortages were busy, {} had no resource, {} of these found one; {} bytes of the journals",
            waits.busy, waits.none, waits.found, waits.bytes
        );
        println!(
            "events written while all resources were busy: {}",
            waits.while_full
        );
        if waits.while_full > 0 {
            let finding = format!("{} events were written while full", waits.while_full);
            self.findings.push(finding);
        }
    }
}
