//! A commit costs what it brings: neither the turns that have ended in a session nor the size of a context
//! make the next one slower.
//!
//! Memory, tools and the orchestrator run in this process, on one thread. The executor is played: in a
//! turn of the context, the model asks for a pure call again and again. Measured is the processor time of
//! that thread from the report of a reply to its acknowledgement, and from the report of a result, which
//! is any other commit. The journals are imported. The start of the turn copies the context, and comes
//! before what is measured.
//!
//! The cases take turns, a few commits each, and their lower quartiles are compared: so what else the machine
//! does meets all cases alike, and not the figure of one.

mod journal;
mod played;

use self::journal::{CONTEXT, journal, messages};
use self::played::{Attempt, executor};
use crate::support::{Client, parts};
use cairn_engine::command::RunLimits;
use cairn_engine::session::PerBudget;
use cairn_memory::StoreConfig;
use cairn_model::ModelRegistry;
use cairn_orchestrator::{Config, Links, Running};
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{Exposure, ServerBuilder};
use cairn_tools::{MemoryTime, Tools};
use clap::Args;
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tonic::Streaming;

/// Turns that have ended.
const TURNS: [usize; 3] = [10, 1_000, 12_000];
/// Bytes of the context. A quarter of a MiB is left of its limit for the turn.
const CONTEXTS: [(&str, u64); 2] = [("16 KiB", 16 << 10), ("16 MiB", (16 << 20) - (256 << 10))];
/// The first ones are left out: in them, caches are new.
const WARM_UP: u32 = 20;
/// Commits of one case before the next one has its turn.
const ROUND: usize = 10;
/// How much more the most expensive case may cost than the cheapest.
const MOST_RATIO: f64 = 1.2;
/// The same in µs.
const MOST_APART: f64 = 30.0;

/// How much is measured. The defaults are the long form.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Replies, and other commits, of each case
    #[arg(long, value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u32).range(50..=1000))]
    pub(crate) commits: u32,
}

/// Measures all cases, prints them, and panics if one costs more than another.
pub(crate) fn prove(options: &Options) {
    println!("{options:?}");
    let folder = tempfile::tempdir().expect("a folder");
    let runtime = Builder::new_current_thread().enable_all().build();
    let costs = runtime.expect("a runtime").block_on(async {
        let mut world = World::new(folder.path()).await;
        let cases = CONTEXTS.into_iter();
        let cases = cases.flat_map(|context| TURNS.map(|turns| (turns, context)));
        let cases: Vec<_> = cases.collect();
        // No owner holds a lease while journals are made.
        for (turns, (_, bytes)) in &cases {
            world.import(*turns, *bytes).await;
        }
        let mut begun = Vec::new();
        for (turns, (size, bytes)) in cases {
            begun.push(world.begin(turns, size, bytes).await);
        }
        measure(&mut begun, options.commits).await;
        begun.iter().map(Case::cost).collect::<Vec<_>>()
    });
    print(&costs);
    check("a reply", costs.iter().map(|cost| cost.reply));
    check("another commit", costs.iter().map(|cost| cost.other));
}

/// Lower quartiles of a case, in µs.
struct Cost {
    turns: usize,
    context: &'static str,
    reply: f64,
    other: f64,
}

/// A turn under way, and what its commits cost so far, in µs.
struct Case {
    turns: usize,
    context: &'static str,
    attempt: Attempt,
    /// Nothing reads it, so nothing is done for it.
    _stream: Streaming<pb::SubmitTurnResponse>,
    replies: Vec<f64>,
    others: Vec<f64>,
}

impl Case {
    /// A reply and the result of its call.
    async fn commit(&mut self, number: u32) {
        let began = processor_time();
        self.attempt.reply(number, &["pure"]).await;
        let replied = processor_time();
        self.attempt.result(number).await;
        let ended = processor_time();
        if number >= WARM_UP {
            self.replies.push(micros(replied - began));
            self.others.push(micros(ended - replied));
        }
    }

    fn cost(&self) -> Cost {
        Cost {
            turns: self.turns,
            context: self.context,
            reply: lower_quartile(&self.replies),
            other: lower_quartile(&self.others),
        }
    }
}

/// Lets the cases commit in turn, so many times each beside those of the beginning, and ends their turns.
async fn measure(cases: &mut [Case], commits: u32) {
    let end = WARM_UP + commits;
    let numbers: Vec<u32> = (0..end).collect();
    for round in numbers.chunks(ROUND) {
        for case in &mut *cases {
            for number in round {
                case.commit(*number).await;
            }
        }
    }
    for case in cases {
        case.attempt.reply(end, &[]).await;
    }
}

struct World {
    client: Client,
    attempts: mpsc::UnboundedReceiver<Attempt>,
    _tools: Tools,
    _running: Running,
}

impl World {
    async fn new(folder: &Path) -> Self {
        let parts = parts(folder, ModelRegistry::new());
        let internal = || ServerBuilder::new(Exposure::Internal);
        let config = cairn_memory::Config {
            store: StoreConfig::Memory,
            ..cairn_memory::Config::default()
        };
        let memory = cairn_memory::build(config, parts.memory_deps).expect("a store");
        let memory = memory.register_internal(internal()).build().await;
        let memory = memory.expect("a server").link();
        let deps = cairn_tools::Deps {
            tools: parts.more_tools,
            ..cairn_tools::Deps::new(Arc::new(MemoryTime::new(memory.clone())))
        };
        let tools = cairn_tools::build(parts.tools, deps).expect("tools");
        let listed = tools.register(internal()).build().await;
        let (executor, attempts) = executor().await;
        let links = Links {
            memory: memory.clone(),
            journals: memory.clone(),
            tools: listed.expect("a server").link(),
            executor,
            // No plan is made.
            planner: memory,
        };
        let config = Config {
            limits: RunLimits {
                max_tool_turns: u32::MAX,
                budgets: PerBudget::default(),
                ..RunLimits::default()
            },
            ..Config::default()
        };
        let built = cairn_orchestrator::build(config, links).await;
        let (services, running) = built.expect("an orchestrator");
        let server = services.register(ServerBuilder::new(Exposure::Public(None)));
        let server = server.build().await.expect("a server");
        Self {
            client: Client::new(server.link()),
            attempts,
            _tools: tools,
            _running: running,
        }
    }

    /// Imports a session with so many ended turns, and a context of so many bytes.
    async fn import(&mut self, turns: usize, bytes: u64) {
        let session = session(turns, bytes);
        let messages = messages(&session, journal(turns, bytes));
        let imported = self
            .client
            .import_session(futures::stream::iter(messages))
            .await;
        imported.expect("an import");
    }

    /// Begins a turn in the context of an imported session.
    async fn begin(&mut self, turns: usize, context: &'static str, bytes: u64) -> Case {
        let session = session(turns, bytes);
        let request = pb::SubmitTurnRequest {
            session: session.clone(),
            request_id: format!("turn-{session}"),
            turn: Some(wire::SubmitTurn {
                context: CONTEXT.to_owned(),
                ..wire::SubmitTurn::default()
            }),
            ..pb::SubmitTurnRequest::default()
        };
        let stream = self.client.submit_turn(request).await;
        Case {
            turns,
            context,
            _stream: stream.expect("a turn").into_inner(),
            attempt: self.attempts.recv().await.expect("an attempt"),
            replies: Vec::new(),
            others: Vec::new(),
        }
    }
}

/// The session of a case.
fn session(turns: usize, bytes: u64) -> String {
    format!("s-{turns}-{bytes}")
}

/// A quarter of the values are below it.
fn lower_quartile(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 4]
}

/// Of this thread, on which all tasks of the orchestrator run.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn print(costs: &[Cost]) {
    println!(
        "{:>12} {:>10} {:>12} {:>16}",
        "ended turns", "context", "reply, µs", "other commit, µs"
    );
    for cost in costs {
        println!(
            "{:>12} {:>10} {:>12.0} {:>16.0}",
            cost.turns, cost.context, cost.reply, cost.other
        );
    }
}

fn check(what: &str, costs: impl Iterator<Item = f64> + Clone) {
    let (least, most) = (
        costs.clone().fold(f64::INFINITY, f64::min),
        costs.fold(0.0, f64::max),
    );
    println!(
        "{what}: {least:.0} to {most:.0} µs, ratio {:.2}",
        most / least
    );
    assert!(
        most <= MOST_RATIO * least && most - least <= MOST_APART,
        "{what} costs {least:.0} to {most:.0} µs"
    );
}
