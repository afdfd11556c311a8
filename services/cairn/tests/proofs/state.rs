//! Sessions with much state: how many one process owns, and what becomes of the others.
//!
//! Each session has state of about `kib`: session memory, or with `--messages` messages of a context. A run
//! is started in all of them, and its one step lasts until the proof ends it: a tool, or with
//! `--model-steps` a model, in whose prompt is session memory. A session counts with that prompt from its
//! claim on, also if its step is a tool. The process owns as many sessions as
//! `session.state_bytes` allows, and refuses further runs with the limit's name and a delay.
//! Each session either is owned, or its run was refused, or its start is queued. Then some of the refused
//! sessions get a command: they are due, and wait unclaimed. In the end all steps end, the commands are
//! answered, and every run completes. `deploy/prove state` is the long form.
//!
//! # Figures
//!
//! Runs in 2,000 sessions of 960 KiB, with `session.state_bytes` of 512 MiB: the process owns about 268
//! sessions, as each counts with the text of its session memory once more, and refuses the other starts
//! until there is room. All runs complete. With `--messages` it owns about twice as many.

mod metrics;
mod sessions;
mod work;

pub(crate) use self::sessions::{each, fill};

use self::metrics::{COMPLETED, Metrics, OWNED, Peak, QUEUED, Watch};
use self::sessions::{REQUESTS, Start, fill_contexts, has_open_command, rename, start};
use self::work::Work;
use crate::support::{CAIRN, connect};
use cairn_proto::event::StartRun;
use cairn_testkit::{PATIENCE, Site, eventually_async};
use clap::Args;
use serde_json::Value;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

const SERVE: [&str; 6] = [
    "serve",
    "--listen",
    "127.0.0.1:0",
    "--metrics",
    "127.0.0.1:0",
    "--json",
];
/// Leases that last on a busy machine: a session that is claimed again is not owned for a moment.
const LEASE: (&str, &str) = ("CAIRN_SESSION__LEASE", "10s");
/// Starts that may be neither refused nor owned: those that were asked for together before the process
/// had read one session and knew how large they are, and as many if the machine stalls.
const MOST_BETWEEN: usize = 2 * REQUESTS;
/// Nothing takes so long once all runs are started.
const ENDS_WITHIN: Duration = Duration::from_secs(300);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// How much state there is. The defaults are the long form.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Sessions
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub(crate) sessions: usize,
    /// State of each session in KiB, at most 960
    #[arg(long, value_name = "KIB", default_value_t = 960)]
    pub(crate) kib: usize,
    /// The bound (session.state_bytes) in MiB
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    pub(crate) bound: usize,
    /// Run a step for a model that does not answer, instead of a tool. Its prompt has session memory
    #[arg(long)]
    pub(crate) model_steps: bool,
    /// The state is messages of a context, instead of session memory
    #[arg(long)]
    pub(crate) messages: bool,
}

impl Options {
    /// State of a session whose step is under way.
    fn kib_at_work(&self) -> usize {
        match self.messages {
            true => self.kib,
            // The values, and their text once, however many conversations have it.
            false => 2 * self.kib,
        }
    }
}

/// Starts a run in each session, lets all of them end, and panics if the process took too much.
pub(crate) fn prove(options: &Options) {
    println!("{options:?}");
    let site = Site::new(CAIRN);
    let work = Work::set_up(&site, options.model_steps);
    let bound = (options.bound << 20).to_string();
    let mut variables = vec![("CAIRN_SESSION__STATE_BYTES", bound.as_str()), LEASE];
    variables.extend(work.variables());
    let mut process = site.begin(&SERVE, &variables, "serve.log");
    let line = process.first_line(PATIENCE).expect("it serves").to_owned();
    let line: Value = serde_json::from_str(&line).expect("JSON");
    let url = |name: &str| line[name].as_str().expect("an address").to_owned();
    let world = World {
        address: url("listen"),
        metrics: Metrics::at(url("metrics")),
        run: work.run(),
        options: options.clone(),
    };
    let id = process.id();
    let runtime = Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        world.fill().await;
        show_rss("with all sessions stored", id, "VmRSS");
        let watch = Watch::begin(&world.metrics);
        let started = world.start_all().await;
        started.check(options);
        let commands = world.make_due(&started).await;
        show_rss("at its peak by then", id, "VmHWM");
        let began = Instant::now();
        work.end(&site);
        world.complete_all().await;
        commands.join_all().await;
        println!("until all runs had completed: {:.1?}", began.elapsed());
        check_peak(watch.end(), options);
        show_rss("at its peak", id, "VmHWM");
    });
}

fn show_rss(when: &str, process: u32, name: &str) {
    println!("RSS {when}: {} MiB", super::kib(process, name) / 1024);
}

fn check_peak(peak: Peak, options: &Options) {
    let most = options.bound << 20;
    println!("state bytes, at most: {} of {most}", peak.state_bytes);
    println!(
        "at most: {} sessions owned, with those being read; {} sessions queued",
        peak.owned, peak.queued
    );
    assert!(peak.state_bytes <= most, "{peak:?}");
}

/// How the starts ended, and how many sessions the process owned then.
#[derive(Debug)]
struct Started {
    accepted: usize,
    /// The numbers of the sessions.
    refused: Vec<usize>,
    /// Without an answer so far: queued, or answered late.
    waiting: usize,
    owned: usize,
}

impl Started {
    /// How many sessions may be owned until steps end. A start without an answer may have an owner.
    fn owners(&self) -> RangeInclusive<usize> {
        self.accepted..=self.accepted + self.waiting
    }

    /// Prints what was counted, and panics if the process took too much or too little.
    fn check(&self, options: &Options) {
        let (refused, owned, sessions) = (self.refused.len(), self.owned, options.sessions);
        println!("sessions owned: {owned}");
        println!("starts refused: {refused}");
        println!("starts without an answer: {}", self.waiting);
        let owners = self.owners();
        assert!(owners.contains(&owned), "{owned} owned, not {owners:?}");
        let between = sessions - refused - owned;
        println!("starts neither refused nor owned: {between}");
        assert!(
            between <= MOST_BETWEEN.min(sessions / 2),
            "{owned} owned and {refused} refused of {sessions}"
        );
        let room = (options.bound << 10) / options.kib_at_work();
        let fits = room * 3 / 4..=room;
        assert!(fits.contains(&owned), "{owned} owned, not {fits:?}");
        assert!(refused > 0, "no start was refused");
    }
}

/// The process as its clients have it.
struct World {
    address: String,
    metrics: Metrics,
    /// The run of each session.
    run: StartRun,
    options: Options,
}

impl World {
    async fn fill(&self) {
        let Options { sessions, kib, .. } = self.options;
        match self.options.messages {
            true => fill_contexts(&self.address, sessions, kib).await,
            false => fill(&self.address, sessions, kib).await,
        }
    }

    /// Starts a run in each session once.
    async fn start_all(&self) -> Started {
        let starts = each(&self.address, self.options.sessions, |client, _, number| {
            let run = self.run.clone();
            async move { (number, start(client, number, run).await) }
        });
        let starts = starts.await;
        let of = |end: Start| -> Vec<usize> {
            let starts = starts.iter().filter(|(_, start)| *start == end);
            starts.map(|(number, _)| *number).collect()
        };
        Started {
            accepted: of(Start::Accepted).len(),
            refused: of(Start::Refused),
            waiting: of(Start::Waits).len(),
            owned: self.metrics.get().value(OWNED),
        }
    }

    /// Sends commands to sessions whose starts were refused. They are due then.
    ///
    /// # Panics
    /// If the process claims one of them, or another session.
    async fn make_due(&self, started: &Started) -> JoinSet<()> {
        let client = connect(&self.address);
        let due: Vec<_> = started.refused.iter().copied().take(REQUESTS).collect();
        let mut commands = JoinSet::new();
        for number in &due {
            commands.spawn(rename(client.clone(), *number));
        }
        for number in &due {
            let is_stored = async || {
                has_open_command(client.clone(), *number)
                    .await
                    .then_some(())
            };
            eventually_async(format!("the command to s-{number} is stored"), is_stored).await;
        }
        // The process counts the queue every 5 seconds.
        let shown = eventually_async("due sessions are queued", async || {
            let shown = self.metrics.get();
            (shown.value(QUEUED) >= due.len()).then_some(shown)
        });
        let shown = shown.await;
        let (queued, owned) = (shown.value(QUEUED), shown.value(OWNED));
        println!(
            "due sessions that wait unclaimed: {queued}, {} of them with a command",
            due.len()
        );
        assert!(
            commands.try_join_next().is_none(),
            "a session that was due has got an owner"
        );
        let owners = started.owners();
        assert!(owners.contains(&owned), "{owned} owned, not {owners:?}");
        commands
    }

    /// Starts what was refused as often as it takes, and waits until all runs have completed.
    async fn complete_all(&self) {
        let sessions = self.options.sessions;
        let starts = each(&self.address, sessions, |client, _, number| {
            let run = self.run.clone();
            async move {
                while start(client.clone(), number, run.clone()).await != Start::Accepted {
                    tokio::time::sleep(PAUSE).await;
                }
            }
        });
        starts.await;
        let began = Instant::now();
        while self.metrics.get().value(COMPLETED) < sessions {
            assert!(began.elapsed() < ENDS_WITHIN, "some runs do not end");
            tokio::time::sleep(PAUSE).await;
        }
    }
}
